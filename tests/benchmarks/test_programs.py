"""STDASVC in SVC's place: every program gives the same scores."""

from __future__ import annotations

import json

import pytest
from sklearn.svm import SVC

from streamsvm import STDASVC
from tests.benchmarks.programs import PROGRAMS, greatest_difference, main

SAME = 1e-9
"""Scores that count points are equal, up to the order of a sum."""
CLOSE = 1e-3
"""Probabilities, ranks and predictions follow decision values, which differ by what tolerances of 1e-3 leave."""
CONTINUOUS = ("calibration", "one class", "regression")


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_scores_are_svcs(name) -> None:
    """The same program text gives the scores of SVC, and grid search the same choice."""
    ours, theirs = PROGRAMS[name](STDASVC), PROGRAMS[name](SVC)
    assert greatest_difference(ours, theirs) <= (CLOSE if name in CONTINUOUS else SAME)


def test_a_row_holds_scores_and_times(capsys: pytest.CaptureFixture[str]) -> None:
    """A row has the scores of both, and the ratio is that of the medians."""
    main(["--programs", "class weights", "--rounds", "5", "--json"])
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["ours"].keys() == row["theirs"].keys()
    assert row["ratio"] == pytest.approx(row["time_s"]["median"] / row["peer_time_s"]["median"])
    with pytest.raises(SystemExit):
        main(["--rounds", "4"])
