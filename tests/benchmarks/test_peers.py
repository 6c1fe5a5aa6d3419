"""The benchmark beside other models runs, its rows are what its runs say, and README has its table."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from streamsvm.points import Points
from tests.benchmarks.peers import Answer, Row, Run, main, markdown, row_of, run_of

FIGURES = {"auc": 0.9, "average_precision": 0.5, "log_loss": 0.2, "balanced_accuracy": 0.7, "skill": True}


@pytest.mark.long
def test_each_contender_at_hand_has_its_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On the set that is at hand; what is not said is left out with its reason."""
    names = "streamsvm,streamsvm_balanced,svm_all,liblinear,sgd_hinge,hist_gb,river,lightgbm"
    file = tmp_path / "rows.json"
    main(["--only", f"htru2,a9a,{names}", "--rounds", "1", "--peers", sys.executable, "--json", str(file)])
    rows = {row["contender"]: row for row in json.loads(file.read_text())["rows"]}
    absent = {name for name in ("river", "lightgbm") if find_spec(name) is None}
    assert list(rows) == [name for name in names.split(",") if name not in absent]
    assert all(row["data"] == "htru2" and row["skill"] is True for row in rows.values())
    assert all(0.95 < row["auc"] < 1.0 and 0.85 < row["average_precision"] < 1.0 for row in rows.values())
    assert all(0.0 < row["log_loss"] < 0.12 and row["seconds"] > 0.0 for row in rows.values())
    assert rows["streamsvm"]["auc"] == pytest.approx(rows["svm_all"]["auc"], abs=0.005)
    assert rows["liblinear"]["auc"] == pytest.approx(rows["svm_all"]["auc"], abs=1e-3)
    assert rows["streamsvm_balanced"]["balanced_accuracy"] > rows["streamsvm"]["balanced_accuracy"]
    assert (rows["sgd_hinge"]["points"], rows["hist_gb"]["points"]) == (0, 14_318)
    assert rows["streamsvm"]["bytes"] == rows["streamsvm"]["points"] * (4 * 8 + 9)
    said = capsys.readouterr().out
    assert "a9a left out: --data is not given" in said
    assert all(f"{name} is left out: No module named '{name}'" in said for name in absent)


def test_unknown_names_are_refused() -> None:
    """A set or contender that is misspelled is not an empty table."""
    with pytest.raises(SystemExit, match="--only skyn is unknown"):
        main(["--only", "skyn"])


def test_rows_are_medians_and_the_worst_verdict() -> None:
    """One round of three without skill makes a row without; ratios are of the same round."""
    runs = [
        Run(**(FIGURES | {"auc": auc, "skill": auc > 0.6}), seconds=seconds, choosing_s=0.0, points=points)
        for auc, seconds, points in ((0.5, 3.0, 10), (0.9, 1.0, 12), (0.8, 2.0, 11))
    ]
    ours = [Run(**FIGURES, seconds=seconds, choosing_s=0.0, points=5) for seconds in (3.0, 4.0, 1.0)]
    row = row_of("made", "one", 3, runs, ours)
    assert (row.auc, row.auc_least, row.auc_greatest, row.skill) == (0.8, 0.5, 0.9, False)
    assert (row.seconds, row.cpu_ratio, row.points, row.bytes) == (2.0, 1.0, 12, 12 * (4 * 3 + 9))
    assert row_of("made", "one", 3, runs, []).cpu_ratio is None


def test_one_answer_to_everything_is_no_skill() -> None:
    """However right it is."""
    y = np.where(np.arange(1_000) < 50, 1, -1).astype(np.int8)
    test = Points(np.zeros((1_000, 1)), y, np.ones(1_000))
    run = run_of(Answer(np.full(1_000, -1.0), np.full(1_000, 0.05), 1.0, 0.0, 0), test)
    assert (run.skill, run.auc, run.balanced_accuracy) == (False, 0.5, 0.5)
    assert run.log_loss == pytest.approx(-0.05 * np.log(0.05) - 0.95 * np.log(0.95))


def _row(data: str, contender: str, auc: float, ratio: float, points: int) -> Row:
    figures = FIGURES | {"auc": auc, "auc_least": auc, "auc_greatest": auc, "skill": auc > 0.6}
    times = {"seconds": 1.0, "choosing_s": 0.0, "cpu_ratio": ratio}
    return Row(data=data, contender=contender, rounds=1, points=points, bytes=41 * points, **figures, **times)


def test_the_table_marks_the_best_and_those_without_skill() -> None:
    """A contender that wins is in bold, whoever it is; one that a set lacks has a dash."""
    rows = [_row("a", "streamsvm", 0.55, 1.0, 100), _row("a", "lightgbm", 0.9, 2.0, 1_000)]
    rows += [_row("b", "streamsvm", 0.7, 1.0, 200)]
    assert list(markdown(rows))[2:] == [
        "| `a` | 0.550 0.500 0.200, no skill | **0.900** 0.500 0.200 |",
        "| `b` | **0.700** 0.500 0.200 | - |",
        "| CPU time, to streamsvm's | 1 | 2 |",
        "| points kept, kB | 4 to 8 | 41 |",
    ]
