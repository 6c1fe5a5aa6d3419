"""Hostile HTTP connections: probes are answered, nothing ends or grows, and points are learned beside them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from consumers.host.web.connections import MOST_CONNECTIONS
from tests.faults.hostile_http import KINDS, Count, attacked
from tests.live.stage import Stage

MOST_GROWTH_MB = 60
"""Heads and answers of all connections, and the trainer's own stream; a leak of a kilobyte a connection is more."""
OWN_DESCRIPTORS = 60


def check(count: Count, note: Callable[[str, object], None]) -> None:
    note("http", f"{count.connections} connections, {count.probes} probes, slowest {count.slowest_probe_s} s")
    assert (count.failed, count.restarts, count.escapes) == (0, 0, [])
    assert count.probes >= 10
    assert count.by_kind.keys() == {kind.__name__ for kind in KINDS}
    assert count.good_learned == count.good_sent > 0
    assert count.descriptors_most <= MOST_CONNECTIONS + OWN_DESCRIPTORS
    assert count.threads_most <= 60
    assert count.rss_mb_most - count.rss_mb_at_start < MOST_GROWTH_MB


def test_probes_are_answered_among_hostile_connections(
    stage: Stage, record_property: Callable[[str, object], None]
) -> None:
    """Silent, slow, cut off, malformed, endless, nameless: every probe is answered, and every good point learned."""
    stage.create()
    check(attacked(stage, Count(), 2_000), record_property)


@pytest.mark.faults_long
def test_probes_are_answered_among_many_more(stage: Stage, record_property: Callable[[str, object], None]) -> None:
    """The same a hundred thousand times: memory that grew with connections would show."""
    stage.create()
    check(attacked(stage, Count(), 100_000), record_property)


@pytest.mark.faults_long
def test_a_server_that_turns_newcomers_away_is_found(stage: Stage) -> None:
    """Planted: whoever came first keeps his place, as slow clients wish; probes fail."""
    stage.create()
    assert attacked(stage, Count(), 2_000, planted="turns-away-newcomers").failed > 0
