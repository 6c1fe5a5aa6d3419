"""Looks through a history for anomalies: by the invariants of `tests.promise`, and by what clients were told.

It shares no code with what it judges, and needs no broker.

It believes three things only: that what a client was told, it was told; that what a reader got, it got; and that the
last readers, who begin when everything is over, see what the logs hold.
"""

from __future__ import annotations

from collections.abc import Iterable

from tests.live.checker import origins, progress, reads, scores, versions
from tests.live.checker.evidence import Evidence
from tests.live.history import Entry
from tests.promise.anomalies import Anomaly

CHECKS = (versions.check, origins.check, scores.check, reads.check, progress.check)


def check(entries: Iterable[Entry]) -> list[Anomaly]:
    """Return every anomaly of a history."""
    evidence = Evidence(entries)
    return [anomaly for look in CHECKS for anomaly in look(evidence)]
