"""What `/status.json` says of late labels."""

from __future__ import annotations

from typing import Final

import msgspec

from consumers.metrics import Metrics
from consumers.page.blocks import INPUT, Block, count_of, counts_of
from consumers.settings import Settings


class JoinedLabels(msgspec.Struct, frozen=True, kw_only=True):
    """How labels of a topic of their own are joined.

    Attributes
    ----------
    topic : str
    outcomes : dict of str to int
        Rows and labels decided since the start, by outcome.
    open_rows, held_rows : int
        Rows that wait for a label, and rows within the horizon.
    bytes : int
        Memory of the join.
    oldest_row_s, waiting_s : float
        Age of the oldest row within the horizon, in the time of the logs; how long one log has waited for the other.
    """

    topic: str
    outcomes: dict[str, int]
    open_rows: int
    held_rows: int
    bytes: int
    oldest_row_s: float
    waiting_s: float


def collect(settings: Settings, metrics: Metrics) -> JoinedLabels:
    """Return how the labels are joined."""
    return JoinedLabels(
        topic=settings.labels_topic,
        outcomes=counts_of(metrics, "streamsvm_labels"),
        open_rows=count_of(metrics, "streamsvm_join_open_rows"),
        held_rows=count_of(metrics, "streamsvm_join_held_rows"),
        bytes=count_of(metrics, "streamsvm_join_bytes"),
        oldest_row_s=metrics.values("streamsvm_join_oldest_row_seconds").get((), 0.0),
        waiting_s=metrics.values("streamsvm_join_waiting_seconds").get((), 0.0),
    )


BLOCK: Final = Block(
    part=INPUT,
    name="labels",
    shape=JoinedLabels,
    wanted=lambda settings: bool(settings.labels_topic),
    collect=collect,
    draw="consumers.branches.late_labels.page:drawn",
)
