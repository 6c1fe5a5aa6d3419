"""How the scores of a sample lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from streamsvm.model.kernels import Float

TENTHS: Final = 10
LEAST_REFERENCE: Final = 100
"""A smaller sample has no deciles worth the name."""


@dataclass(frozen=True, slots=True)
class Deciles:
    """How the scores of a reference sample lie.

    Attributes
    ----------
    cuts : tuple of float
        Upper bounds of all bins but the last, ascending, at most nine; a score that equals a cut is below it.
    shares : tuple of float
        Share of the reference in each bin, one more than cuts.
    n : float
        Size of an unweighted sample that tells as much as the reference does.
    """

    cuts: tuple[float, ...]
    shares: tuple[float, ...]
    n: float


def deciles_of(scores: Float, weight: Float) -> Deciles | None:
    """Cut a weighted sample into tenths; None where it is too small, or all scores are the same.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        Finite.
    weight : ndarray of shape (n,)
        How much each one stands for, not negative.

    Notes
    -----
    The size is Kish's effective one, (sum w)^2 / sum w^2.
    """
    total = float(weight.sum())
    if len(scores) < LEAST_REFERENCE or not total > 0.0 or not np.isfinite(scores).all():
        return None
    n = total**2 / float((weight**2).sum())
    if n < LEAST_REFERENCE:
        return None
    order = np.argsort(scores, kind="stable")
    below = np.cumsum(weight[order]) / total
    places = np.searchsorted(below, np.arange(1, TENTHS) / TENTHS)
    highest = scores[order[-1]]
    cuts = np.unique(scores[order][np.minimum(places, len(scores) - 1)])
    cuts = cuts[cuts < highest]
    if not len(cuts):
        return None
    shares = np.bincount(np.searchsorted(cuts, scores, side="left"), weights=weight, minlength=len(cuts) + 1) / total
    return Deciles(tuple(cuts.tolist()), tuple(shares.tolist()), n)
