"""Warns where the stream is not what the coreset is made for: the model may then be no better than a plain sample's.

What each condition means, what follows and what to do is logged, seldom: see `streamsvm.learning.conditions`. The
metric has every count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import structlog

from streamsvm.choices import MemoryName
from streamsvm.config import PointsConfig
from streamsvm.coreset.drift import Drift
from streamsvm.learning.conditions import DRIFTS, MEANINGS, Seldom, moved

log = structlog.get_logger("streamsvm.trainer")

SMALL: Final = "raise coreset.points; see METHOD.md, Limits"
REMEDIES: Final[Mapping[str, str]] = {
    "by_weight": "shuffle the rows at the producer if possible, or raise coreset.points; coreset.structure = "
    "chain suffers less from sorted streams",
    "crowded": "raise coreset.points: every point more helps here",
    "uncalibrated": SMALL,
    "strained": SMALL,
}
"""What to do about each; the rows of a live stream come as they come."""


OF_AGE: Final[Mapping[str, str]] = {
    **REMEDIES,
    "by_weight": "shuffle the rows at the producer if possible, or raise coreset.points",
}
"""The same where old rows are forgotten by their age: `coreset.memory` = window or decay."""
MOST: Final = 0.5
"""Share of the weight above which short horizons count as having taken over."""
CHANGED: Final = "the stream has changed: horizons shorter than a tenth of it did best on rows not learned yet"
FIND_OUT: Final = "find out what changed at the producer; the next models are of the newest rows"
FOLLOW: Final = "coreset.memory = adaptive with --reset, or find out what changed at the producer"


class Conditions:
    """Says which conditions were met, seldom.

    Parameters
    ----------
    memory : str
        The option `coreset.memory`.
    """

    def __init__(self, memory: MemoryName = "all") -> None:
        self._seldom = Seldom()
        self._follow = FIND_OUT if memory == "adaptive" else FOLLOW
        self._remedies = OF_AGE if memory in {"window", "decay"} else REMEDIES
        self._is_short = False

    def warn_of_horizons(self, short: float | None) -> None:
        """Warn once when short horizons take over, and say once when they have given way.

        Parameters
        ----------
        short : float or None
            As `Learner.short_share` gives it.
        """
        if short is None or (short > MOST) == self._is_short:
            return
        self._is_short = short > MOST
        if self._is_short:
            log.warning("short_horizons_took_over", share=round(short, 3), what=CHANGED, remedy=FIND_OUT)
        else:
            log.info("long_horizons_took_over", share=round(1.0 - short, 3))

    def warn_of_drift(self, drifts: Mapping[int, Drift], points: PointsConfig) -> None:
        """Warn of each partition when it begins to drift; `drifts` is as `Learner.drift` gives it."""
        for partition, found in self._seldom.begun(drifts).items():
            log.warning(
                "stream_drifts",
                partition=partition,
                moved=moved(found, points.feature_names, points.labels),
                mean_before=found.before,
                mean_now=found.now,
                standard_deviations=round(found.deviations, 3),
                what=DRIFTS,
                remedy=self._follow,
            )

    def report(self, counts: Mapping[str, int]) -> None:
        """Warn of each condition whose count calls for it.

        Parameters
        ----------
        counts : mapping of outcome to int
            As `streamsvm.coreset.reduce.Observed.counts` gives them.
        """
        for condition, count in self._seldom.due(counts):
            what, remedy = MEANINGS[condition], self._remedies[condition]
            log.warning("coreset_degraded", condition=condition, count=count, what=what, remedy=remedy)
