"""Warns where the stream is not what the coreset is made for: the model may then be no better than a plain sample's.

What each condition means, what follows and what to do is said with its first count, then again each time the count has
grown tenfold, so that the log stays short however long the condition lasts. The metric has every count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import structlog

log = structlog.get_logger("streamsvm.trainer")

AGAIN_AT: Final = 10
"""Growth of a count after which it is worth another line."""
SORTED: Final = (
    "shuffle the rows at the producer if possible, or raise coreset.memory_points; coreset.structure = chain suffers "
    "less from sorted streams"
)
LIVE: Final = (
    "raise coreset.memory_points, or take coreset.structure = chain, which suffers less; either begins a new "
    "incarnation. Where the old rows no longer hold, begin anew with --reset and a later input.start. Rows of a file "
    "can be shuffled: streamsvm replay --shuffle 1"
)
"""The rows of a live stream come as they come."""
SMALL: Final = "raise coreset.memory_points (or bucket_points), or lower coreset.max_partitions; see METHOD.md, Limits"
CONDITIONS: Final[Mapping[str, tuple[str, str]]] = {
    "by_weight": (
        "a coreset was made of points of one label only, and which of them will matter is not known yet: the coreset "
        "is a plain sample, and the model can be worse than one trained on a reservoir sample of the same memory",
        SORTED,
    ),
    "shifted": (
        "a leaf differs from everything its partition held before: the stream is sorted or drifts, older buckets "
        "kept the points that mattered at their time, and the model can be worse than one trained on a reservoir "
        "sample of the same memory",
        LIVE,
    ),
    "uncalibrated": (
        "a coreset has too few points for so many features to keep totals exact: expect the error of a plain sample",
        SMALL,
    ),
    "strained": (
        (
            "keeping totals exact pushes weights of a coreset to their bounds: a few points stand for many, and the "
            "model is less accurate"
        ),
        SMALL,
    ),
}
"""By the outcome it has in `streamsvm_coreset_reductions`: what it is and what follows, and what to do."""


class Conditions:
    """Says which conditions were met, seldom."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def tell(self, counts: Mapping[str, int]) -> None:
        """Warn of each condition whose count calls for it.

        Parameters
        ----------
        counts : mapping of outcome to int
            As `streamsvm.coreset.reducers.calibrated.Observed.counts` gives them.
        """
        for condition, (what, remedy) in CONDITIONS.items():
            count = counts[condition]
            if count and count >= self._next.get(condition, 1):
                self._next[condition] = AGAIN_AT * count
                log.warning("coreset_degraded", condition=condition, count=count, what=what, remedy=remedy)
