"""The benchmark of the way from topic to model runs, and says what it promises; nothing here is about speed."""

from __future__ import annotations

import pytest

from tests.benchmarks import ingest
from tests.brokers.fixtures import TestBroker

DIMENSION = 3


def test_every_format_comes_from_topic_to_model(
    real_broker: TestBroker, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As few points as end with a leaf: each format has all of them in its last version, and a line of the table."""
    monkeypatch.setattr(ingest, "LENGTH", {})
    n = ingest.whole_points(tuple(ingest.FORMATS), (1,))
    ingest.fill(real_broker.connection, n, DIMENSION, tuple(ingest.FORMATS), 1)
    laps = {
        format_: ingest.train(real_broker.connection, format_, n, DIMENSION, 1, run)
        for run, format_ in enumerate(ingest.FORMATS)
    }
    assert {format_: lap["seen"] for format_, lap in laps.items()} == dict.fromkeys(ingest.FORMATS, n)
    assert all(lap["versions"] >= 1 for lap in laps.values())
    rows = [ingest.row(format_, DIMENSION, 1, [lap | {"points": n}]) for format_, lap in laps.items()]
    told = list(ingest.lines(rows, (), {DIMENSION: ingest.decoding(DIMENSION, 1)}, 0.0))
    assert sorted(line.split()[0] for line in told[-len(rows) :]) == sorted(ingest.FORMATS)
    assert f"{n:,} points" in told[1]
    assert "Traceback" not in capfd.readouterr().err


def test_ratios_are_to_the_same_dimension() -> None:
    """Speeds, and processor times, are compared with the SGD loop's of as many features."""
    lap = {"points": 100_000, "learned_s": 1.0, "loop_s": 1.0, "versions": 8, "longest_turn_s": 0.1}
    rows = [
        ingest.row("json", 8, 1, [lap | {"wall_s": 1.0, "cpu_s": 0.5}]),
        ingest.row("sgd", 8, 1, [lap | {"wall_s": 3.0, "cpu_s": 2.0}]),
        ingest.row("sgd", 24, 1, [lap | {"wall_s": 9.0, "cpu_s": 9.0}]),
    ]
    ours = next(line for line in ingest.lines(rows, (), {8: {}, 24: {}}, 0.0) if line.startswith("json "))
    assert " 3.00 " in ours
    assert " 4.00 " in ours
