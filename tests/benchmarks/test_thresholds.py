"""The benchmark of thresholds runs, and its rows are what its runs say."""

from __future__ import annotations

import json

import pytest

from streamsvm.model.threshold import Judged
from tests.benchmarks.thresholds import GOALS, Outcome, main, row_of


def test_every_goal_has_its_row(capsys: pytest.CaptureFixture[str]) -> None:
    """On the set that is at hand: recall is found, and the best cost is never beaten."""
    main(["--seeds", "2", "--json"])
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["figure"] for row in rows] == [figure for figure, _ in GOALS]
    assert all((row["runs"], row["chosen"]) == (2, 2) for row in rows)
    assert 0.8 < rows[0]["held_out"] < 1.0
    assert all(1.0 <= row["cost_ratio"] < 2.0 for row in rows if row["figure"] == "cost")


def test_an_interval_that_misses_is_counted() -> None:
    """Of two runs one lies outside; one that was not chosen does not count."""
    expected, near, far = Judged(0.9, 0.88, 0.92), Judged(0.91, 0.9, 0.92), Judged(0.8, 0.79, 0.81)
    runs = [
        Outcome(True, True, expected, near, None),
        Outcome(True, True, expected, far, None),
        Outcome(False, False, expected, far, None),
    ]
    row = row_of("made", "recall", 0.9, runs)
    assert (row.runs, row.chosen, row.agreed) == (3, 2, 0.5)
    assert row.held_out == pytest.approx(0.855)
