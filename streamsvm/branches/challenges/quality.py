"""How good the answers were that were served, by version: figures of scores that met their labels.

Every label counts once. AUC and its interval are those of `streamsvm.quality.skill`, at a confidence of 95 %, for one
version by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.branches.challenges.served import Served
from streamsvm.model.correctness import accuracy, balanced_accuracy
from streamsvm.quality.skill import Ranked

DEVIATE: Final = 1.959963984540054
"""Normal deviate of 95 %, on both sides."""
LEAST_PROBABILITY: Final = float(np.finfo(np.float64).eps)
"""No probability is taken nearer to 0 or 1, as in scikit-learn: else one wrong answer made the loss infinite."""

Float = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedQuality:
    """What one version's answers came to.

    Attributes
    ----------
    labels, positives : int
    accuracy : float
    balanced_accuracy : float or None
        None while a label is missing, as AUC.
    auc, auc_low, auc_high : float or None
    log_loss : float or None
        Mean of -log of the true label's probability, in nats; None where a score has no probability.
    cost : float or None
        Mean cost of an answer; None where no costs are given.
    """

    labels: int
    positives: int
    accuracy: float
    balanced_accuracy: float | None
    auc: float | None
    auc_low: float | None
    auc_high: float | None
    log_loss: float | None
    cost: float | None


def by_version(
    found: Served, costs: tuple[float, float] | None = None, *, shadow: bool = False
) -> Mapping[int, ServedQuality]:
    """Return the quality of each version that served, or that was scored in the shadow.

    Parameters
    ----------
    found : Served
    costs : tuple of two float, optional
        Of a missed positive and of a false alarm.
    shadow : bool
        Of the versions in the shadow.
    """
    before = "shadow_" if shadow else ""
    versions = found.column(f"{before}version")
    return {
        int(version): quality_of(found.where(versions == version), costs, before)
        for version in np.unique(versions)
        if version
    }


def quality_of(found: Served, costs: tuple[float, float] | None = None, before: str = "") -> ServedQuality:
    """Return the quality of some scores, at least one; `before` is "shadow_" for what the shadow said of them."""
    positive = np.asarray(found.y > 0, np.bool_)
    said = np.asarray(found.column(f"{before}answer") > 0, np.bool_)
    ones, both = np.ones(len(found)), bool(positive.any() and not positive.all())
    area = Ranked.of(positive, ones, found.column(f"{before}score")).auc(DEVIATE) if both else None
    cost = None
    if costs is not None:
        cost = float((costs[0] * (positive & ~said) + costs[1] * (said & ~positive)).mean())
    losses = log_losses(positive, found.column(f"{before}probability"))
    return ServedQuality(
        labels=len(found),
        positives=int(positive.sum()),
        accuracy=accuracy(said, positive, ones),
        balanced_accuracy=balanced_accuracy(said, positive, ones) if both else None,
        auc=None if area is None else area.value,
        auc_low=None if area is None else area.low,
        auc_high=None if area is None else area.high,
        log_loss=None if np.isnan(losses).any() else float(losses.mean()),
        cost=cost,
    )


def log_losses(positive: NDArray[np.bool_], probability: Float) -> Float:
    """Return the log loss of each point, in nats; NaN where it has no probability."""
    of_truth = np.where(positive, probability, 1.0 - probability)
    return np.asarray(-np.log(np.clip(of_truth, LEAST_PROBABILITY, 1.0 - LEAST_PROBABILITY)))
