"""Warns where the stream is not what the coreset is made for: the model may then be no better than a plain sample's.

What each condition means, what follows and what to do is logged, seldom: see `streamsvm.coreset.conditions`. The metric
has every count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import structlog

from streamsvm.coreset.conditions import MEANINGS, Seldom

log = structlog.get_logger("streamsvm.trainer")

SMALL: Final = "raise coreset.memory_points (or bucket_points), or lower coreset.max_partitions; see METHOD.md, Limits"
REMEDIES: Final[Mapping[str, str]] = {
    "by_weight": "shuffle the rows at the producer if possible, or raise coreset.memory_points; coreset.structure = "
    "chain suffers less from sorted streams",
    "shifted": "raise coreset.memory_points, or take coreset.structure = chain, which suffers less; either begins a "
    "new incarnation. Where the old rows no longer hold, begin anew with --reset and a later input.start. Rows of a "
    "file can be shuffled: streamsvm replay --shuffle 1",
    "uncalibrated": SMALL,
    "strained": SMALL,
}
"""What to do about each; the rows of a live stream come as they come."""


class Conditions:
    """Says which conditions were met, seldom."""

    def __init__(self) -> None:
        self._seldom = Seldom()

    def tell(self, counts: Mapping[str, int]) -> None:
        """Warn of each condition whose count calls for it.

        Parameters
        ----------
        counts : mapping of outcome to int
            As `streamsvm.coreset.reducers.base.Observed.counts` gives them.
        """
        for condition, count in self._seldom.due(counts):
            what, remedy = MEANINGS[condition], REMEDIES[condition]
            log.warning("coreset_degraded", condition=condition, count=count, what=what, remedy=remedy)
