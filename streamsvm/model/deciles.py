"""How the scores of a sample lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

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
