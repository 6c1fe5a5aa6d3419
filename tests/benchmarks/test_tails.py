"""The benchmark of heavy tails runs, and no stranger makes a bounded stream worse than a reservoir."""

from __future__ import annotations

import json

import pytest

from tests.benchmarks import tails


def test_small_streams_withstand_strangers(capsys: pytest.CaptureFixture[str]) -> None:
    """Tails and strangers, with a reservoir of as many points."""
    streams = ["cauchy", "one-far", "ten-equal-first"]
    small = ["--rows", "8000", "--test-rows", "20000", "--memory", "2000", "--trials", "2"]
    tails.main(["--streams", *streams, *small, "--json"])
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["stream"] for row in rows] == streams
    for row in rows:
        assert tails.mean(row, "bounded", "accuracy") > tails.mean(row, "reservoir", "accuracy") - 0.002
        if row["strangers"]:
            assert tails.mean(row, "bounded", "auc") > tails.mean(row, "unbounded", "auc") + 0.1
    tails.main(["--streams", "clean", *small])
    assert "| clean | 0 |" in capsys.readouterr().out


def test_elec2_without_a_folder_is_refused() -> None:
    """It is no generated stream."""
    with pytest.raises(SystemExit):
        tails.main(["--streams", "elec2"])
