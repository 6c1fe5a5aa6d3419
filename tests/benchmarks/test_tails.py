"""The benchmark of heavy tails runs, and no tail and no stranger makes a bounded stream worse than a reservoir."""

from __future__ import annotations

import json

import pytest

from tests.benchmarks import tails


def test_small_streams_are_nearer_than_a_reservoir(capsys: pytest.CaptureFixture[str]) -> None:
    """Tails and strangers, with a reservoir of equal points."""
    streams = ["cauchy", "rare-spikes", "one-far", "ten-equal-first"]
    small = ["--rows", "8000", "--memory", "2000", "--trials", "2"]
    tails.main(["--streams", *streams, *small, "--json"])
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["stream"] for row in rows] == streams
    assert all(row["ratio"] > 1.0 for row in rows)
    assert all(row["bounded"] < row["unbounded"] / 100.0 for row in rows if row["strangers"])
    tails.main(["--streams", "clean", *small])
    assert "| clean | 0 |" in capsys.readouterr().out


def test_elec2_without_a_folder_is_refused() -> None:
    """It is no generated stream."""
    with pytest.raises(SystemExit):
        tails.main(["--streams", "elec2"])
