"""Says which declared field of raw events has stopped coming, and since when."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final

import structlog

from consumers.metrics import Metrics
from streamsvm.ingest.decoding import Absences

log = structlog.get_logger("streamsvm")

LEAST_EVENTS: Final = 100
"""Events in a row, all of which lack a field, before that is said; fewer may do so by chance."""


class AbsentWatch:
    """Counts events in a row, in batches, that lack a field; a batch with one event that has it begins anew.

    Parameters
    ----------
    topic : str
        What is read, for the log.
    metrics : Metrics
        It has `streamsvm_absent_fields`.
    clock : callable
        Returns the time of day.
    """

    def __init__(self, topic: str, metrics: Metrics, clock: Callable[[], datetime]) -> None:
        self._topic = topic
        self._metrics = metrics
        self._clock = clock
        self._lacking: dict[str, tuple[datetime, int]] = {}
        """Since when a field is absent, and in how many events."""
        metrics.put("streamsvm_absent_fields", 0)

    def note(self, absences: Absences) -> None:
        """Take what a batch lacked."""
        if not absences.events:
            return
        for name in [name for name in self._lacking if absences.by_field.get(name, 0) < absences.events]:
            since, events = self._lacking.pop(name)
            if events >= LEAST_EVENTS:
                log.info("field_back", topic=self._topic, field=name, absent_since=_time(since), events=events)
        for name, count in absences.by_field.items():
            if count == absences.events:
                self._lack(name, count)
        absent = sum(events >= LEAST_EVENTS for _, events in self._lacking.values())
        self._metrics.put("streamsvm_absent_fields", absent)

    def _lack(self, name: str, count: int) -> None:
        since, before = self._lacking.get(name, (self._clock(), 0))
        self._lacking[name] = (since, before + count)
        if before < LEAST_EVENTS <= before + count:
            log.warning(
                "field_absent",
                topic=self._topic,
                field=name,
                since=_time(since),
                events=before + count,
                remedy="no event has the field that the features declare: find out whether the producer renamed it. "
                "Events that may lack it are scored and learned as the feature's option missing says; the others are "
                "dead letters",
            )


def _time(time: datetime) -> str:
    return time.isoformat(timespec="seconds")
