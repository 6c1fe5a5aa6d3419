"""The comparison of uses of a memory for several classes."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from streamsvm.points import Points
from tests.benchmarks.classes import DataSet, data_sets, main, rows


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::streamsvm.estimators.stream.CoresetWarning")
def test_every_method_has_its_row() -> None:
    """A set's header, then each method at each memory, but for structures that would be too small."""
    random = np.random.default_rng(0)
    y = random.integers(0, 3, 1_500)
    X = random.normal(size=(3, 4))[y] * 1.5 + random.normal(size=(1_500, 4))
    shown = list(rows(DataSet("three", Points(X, y.astype(np.int8), np.ones(len(y))), (45, 300)), seeds=1))
    assert shown[0].startswith("three: 1,200 points, 4 features, 3 classes; optimum: accuracy 0.")
    assert [line.split()[3] for line in shown[1:]] == ["shared", "reservoir", "shared", "divided", "reservoir"]
    gaps = {line.split()[3]: float(re.findall(r"gap +([0-9.]+)", line)[0]) for line in shown[3:]}
    assert gaps["shared"] < min(gaps["divided"], gaps["reservoir"])


def test_the_sets_are_of_several_classes() -> None:
    """Ten, five and seven, of which the rarest is present."""
    assert [(one.name, one.classes) for one in data_sets()] == [("digits", 10), ("overlapping", 5), ("unequal", 7)]


def test_a_trainer_stands_beside_its_peers(capsys: pytest.CaptureFixture[str]) -> None:
    """A row of JSON for each method, with every field; pairs are better than machines against the rest on digits."""
    main(["--json", "--seeds", "1", "--sets", "digits", "--methods", "pairs,rest,SVC"])
    rows = {row["method"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert list(rows) == ["pairs", "rest", "SVC"]
    assert rows["pairs"]["classes"] == 10
    assert rows["pairs"]["accuracy"] > rows["rest"]["accuracy"]
    assert abs(rows["pairs"]["accuracy"] - rows["SVC"]["accuracy"]) < 0.05
    assert rows["pairs"]["us_a_row"] > 0.0
    assert rows["SVC"]["late_us_a_row"] is None
