"""Names the farthest outlier that was drawn in: in the log, seldom.

A line comes with the first value that lies ten times farther than permitted, then each time the farthest is ten times
as far as the last one told, or ten times as many rows lie beyond as were told: a handful of lines, whatever comes.
The metrics count every row.
"""

from __future__ import annotations

from typing import Final

import structlog

from streamsvm.coreset.outliers import TELLING, Tally

log = structlog.get_logger("streamsvm.trainer")

AGAIN_AT: Final = 10
"""Growth of the number of rows, or of the farthest distance, after which there is another line."""


class OutlierLog:
    """Says where outliers stand.

    Parameters
    ----------
    topic : str
        The input.
    """

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._count = 0
        self._excess = 0.0

    def report(self, found: Tally) -> None:
        """Warn if there is something new to say."""
        worst, count = found.worst, found.rows + found.weights
        if worst is None or worst.excess < TELLING:
            return
        if self._count and count < AGAIN_AT * self._count and worst.excess < AGAIN_AT * self._excess:
            return
        self._count, self._excess = count, worst.excess
        log.warning(
            "outlier_drawn_in",
            rows=found.rows,
            weights=found.weights,
            place=f"{self._topic}[{worst.partition}]@{worst.place.offset} row {worst.place.row}",
            what="weight" if worst.feature is None else f"feature {worst.feature}",
            value=worst.value,
            counts_as=worst.bound,
            times_too_far=worst.excess,
            remedy="find out who wrote this record. A scale that has really changed is followed by itself",
        )
