"""The benchmark of the scorer runs, and measures what it says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.benchmarks.scorer import main
from tests.brokers.choice import RealBroker
from tests.brokers.fixtures import TestBroker


@pytest.mark.long
def test_rates_and_pins_are_measured(
    real_broker: TestBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One size of batches and two pins: a rate, a time for each pin, and a line for each."""
    monkeypatch.setattr(
        "tests.benchmarks.scorer.start_real_broker",
        lambda: RealBroker(real_broker.connection.servers, "the one of the tests", lambda: None),
    )
    file = tmp_path / "figures.json"
    main(["--batches", "200", "--points", "1000", "--moves", "2", "--json", str(file)])
    found = json.loads(file.read_text())
    assert [row["batch_records"] for row in found["rates"]] == [200]
    assert found["rates"][0]["points_per_s"] > 0
    assert len(found["pins_s"]) == 2
    assert "2 pins reach a running scorer" in capsys.readouterr().out
