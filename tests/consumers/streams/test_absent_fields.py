"""A field that events have no more is said once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import structlog

from consumers.metrics import SCORER, Metrics
from consumers.streams.absent_fields import LEAST_EVENTS, AbsentWatch
from streamsvm.ingest import Absences


class Clock:
    """A time of day that a test sets forward."""

    def __init__(self) -> None:
        self.time = datetime(2026, 1, 31, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.time += timedelta(minutes=1)
        return self.time


def test_a_renamed_field_is_said_once_and_since_when() -> None:
    """Not of a few events, not of a field that some events have, and again when it is back."""
    metrics, clock = Metrics(SCORER), Clock()
    with structlog.testing.capture_logs() as logs:
        watch = AbsentWatch("events", metrics, clock)
        watch.note(Absences(50, {"amount": 50, "risk": 20}))
        watch.note(Absences())
        assert not logs
        watch.note(Absences(LEAST_EVENTS, {"amount": LEAST_EVENTS, "risk": LEAST_EVENTS - 1}))
        watch.note(Absences(LEAST_EVENTS, {"amount": LEAST_EVENTS}))
        assert metrics.registry.get_sample_value("streamsvm_absent_fields") == 1
        watch.note(Absences(10, {"amount": 9}))
    assert metrics.registry.get_sample_value("streamsvm_absent_fields") == 0
    absent, back = logs
    assert (absent["event"], absent["field"], absent["events"]) == ("field_absent", "amount", 150)
    assert absent["since"] == "2026-01-31T12:01:00+00:00"
    assert (back["event"], back["absent_since"], back["events"]) == ("field_back", absent["since"], 250)
