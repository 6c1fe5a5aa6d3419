"""The benchmark of the way from topic to model runs, and says what it promises; nothing here is about speed."""

from __future__ import annotations

import pytest

from tests.benchmarks import ingest
from tests.brokers.fixtures import TestBroker

DIMENSION = 3


@pytest.mark.long
def test_every_format_comes_from_topic_to_model(
    real_broker: TestBroker, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As few points as end with a leaf: each format has all of them in its last version, and a line of the table."""
    monkeypatch.setattr(ingest, "LENGTH", {})
    n = ingest.whole_points(tuple(ingest.FORMATS), (1,))
    cases = ingest.cases_of(tuple(ingest.FORMATS), (DIMENSION,), (1,))
    ingest.fill(real_broker.connection, n, cases)
    laps = {
        format_: ingest.train(real_broker.connection, format_, n, dimension, 1, run)
        for run, (format_, dimension, _) in enumerate(cases)
    }
    assert {format_: lap["seen"] for format_, lap in laps.items()} == dict.fromkeys(ingest.FORMATS, n)
    assert all(lap["versions"] >= 1 for lap in laps.values())
    more = {"points": n, **ingest.Probes(0).found}
    rows = [ingest.row("streamsvm", format_, DIMENSION, 1, [lap | more]) for format_, lap in laps.items()]
    told = list(ingest.lines(rows, (), {DIMENSION: ingest.decoding(DIMENSION, 1)}, 0.0))
    assert [line.split()[1] for line in told[-len(rows) :]] == list(ingest.FORMATS)
    assert f"{n:,} points" in told[1]
    assert "Traceback" not in capfd.readouterr().err


def test_ratios_are_to_the_same_topic() -> None:
    """Speeds, and processor times, are compared with the SGD loop's of the same format, features and partitions."""
    lap = {"points": 100_000, "learned_s": 1.0, "loop_s": 1.0, "versions": 8, "turns_s": [0.1, 0.3]}
    lap |= ingest.Probes(0).found
    rows = [
        ingest.row("streamsvm", "json", 8, 16, [lap | {"wall_s": 1.0, "cpu_s": 0.5}]),
        ingest.row("sgd", "json", 8, 16, [lap | {"wall_s": 3.0, "cpu_s": 2.0}]),
        ingest.row("sgd", "json", 24, 16, [lap | {"wall_s": 9.0, "cpu_s": 9.0}]),
        ingest.row("sgd", "json", 8, 1, [lap | {"wall_s": 9.0, "cpu_s": 9.0}]),
        ingest.row("sgd", "avro", 8, 16, [lap | {"wall_s": 9.0, "cpu_s": 9.0}]),
    ]
    assert rows[0]["longest_turn_s"] == 0.3
    ours = next(line for line in ingest.lines(rows, (), {8: {}, 24: {}}, 0.0) if line.startswith("streamsvm "))
    assert " 3.00 " in ours
    assert " 4.00 " in ours
