"""The benchmark of readers runs and counts right; nothing here is about speed."""

from __future__ import annotations

import pytest

from tests.benchmarks.reader_start import measure, report
from tests.brokers.fixtures import TestBroker


@pytest.mark.long
def test_a_tiny_run_measures_every_move(real_broker: TestBroker) -> None:
    """Each pin, rollback and unpin arrives, or the run fails; the lines name what was measured."""
    figures = measure(real_broker.connection, 40, 6)
    assert (figures["versions"], figures["moves"]) == (40, 6)
    assert figures["models_offsets"] >= 40
    assert 0.0 <= figures["from_commit_s"]["p50"] <= figures["from_asking_s"]["greatest"]
    assert "6 moves reach a running subscriber" in report(figures)
