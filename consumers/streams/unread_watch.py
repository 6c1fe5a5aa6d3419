"""Says of each field that nobody reads, once, that nobody reads it, and counts the rows that have it."""

from __future__ import annotations

from typing import Final

import structlog

from consumers.host.untrusted_text import printable
from consumers.metrics import Metrics
from streamsvm.ingest.unread_fields import MOST_FIELDS, Unread

log = structlog.get_logger("streamsvm")

MEANT: Final = {
    **dict.fromkeys(("weight", "weights", "sample_weight", "sampleweight"), "w"),
    **dict.fromkeys(("label", "labels", "target", "class", "outcome"), "y"),
    **dict.fromkeys(("features", "feature", "values", "inputs", "data"), "x"),
    **dict.fromkeys(("key", "uuid", "identifier", "event_id"), "id"),
}
"""Fields as others call them, and how they are called here."""


class UnreadWatch:
    """Counts, and says each field once.

    Parameters
    ----------
    topic : str
        What is read, for the log.
    metrics : Metrics
        It has `streamsvm_unread_fields`.
    """

    def __init__(self, topic: str, metrics: Metrics) -> None:
        self._topic = topic
        self._metrics = metrics
        self._said: set[str] = set()
        metrics.increase("streamsvm_unread_fields", 0.0)

    def note(self, unread: Unread) -> None:
        """Take what a batch had."""
        for name, rows in unread.rows.items():
            self._metrics.increase("streamsvm_unread_fields", rows)
            if name not in self._said and len(self._said) < MOST_FIELDS:
                self._said.add(name)
                log.warning("field_not_read", topic=self._topic, field=printable(name), remedy=_remedy(name))


def _remedy(name: str) -> str:
    meant = MEANT.get(name.lower()) or (name.lower() if name.lower() in ("x", "y", "w", "id") else "")
    if meant:
        return (
            f"did the producer mean {meant}? A point's fields are x, y, w and id; without {meant} the point has "
            "none, or the default"
        )
    return "a point's fields are x, y, w and id; remove this field, or rename it if it is one of these"
