"""The benchmark of starts runs, and says what it promises; nothing here is about speed."""

from __future__ import annotations

import pytest

from tests.benchmarks.start import KINDS, measure
from tests.brokers.fixtures import TestBroker


@pytest.mark.long
def test_every_daemon_starts_and_is_compared(real_broker: TestBroker) -> None:
    """A row each, with modules of its own; only the scorer loads no kernels."""
    rows = measure(real_broker.connection, KINDS, 1)
    assert [row["daemon"] for row in rows] == list(KINDS)
    for row in rows:
        assert 0.0 < row["bare_cpu_s"] < row["started_cpu_s"] < row["started_wall_s"]
        assert row["modules"] > 100
        assert (row["kernels_cpu_s"] > 0.0) == (row["daemon"] != "scorer")
