"""The benchmarks of kernel machines run, and their rows are what was asked for."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.benchmarks import kernels
from tests.streams import ring


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with one set, which a plane does not divide."""
    points = ring(4_000)
    np.savez(tmp_path / "rings.npz", X=points.X, y=points.y)
    return tmp_path


def test_each_contender_has_its_row(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All figures are there; nobody holds more bytes than were given, but for those that hold all rows."""
    names = ["ours", "reservoir", "rbf_sampler", "hist_gb"]
    budget = 600 * (4 * 3 + 9)
    given = ["--data", str(folder), "--memory-bytes", str(budget), "--noise", "0.1", "--contenders", *names, "--json"]
    kernels.main(given)
    rows = {row["contender"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert list(rows) == names
    for name, row in rows.items():
        assert {"set", "accuracy", "balanced_accuracy", "auc", "log_loss", "seconds", "bytes", "support"} <= set(row)
        assert row["set"] == "rings"
        assert row["accuracy"] > 0.85, name
        assert 0.0 < row["log_loss"] < 0.7
        assert row["bytes"] <= budget or name in ("hist_gb", "rbf_sampler")
    assert rows["ours"]["support"] <= 600


def test_a_set_may_be_coded_as_it_likes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names or 1 and 2 as labels, one feature beside one of a millionth of its scale, rows that no number is in."""
    points = ring(1_501)
    X = points.X.astype(np.float64) * [1e6, 1e-6, 1.0]
    X[3, 1], X[8, 0] = np.nan, 1e300
    for name, labels in (("named", ("no", "yes")), ("counted", (1, 2))):
        np.savez(tmp_path / f"{name}.npz", X=X, y=np.where(points.y > 0, labels[1], labels[0]))
    options = tmp_path / "untuned.toml"
    options.write_text('[svm]\ntune = "none"\nalpha = 1e-4\n')
    given = ["--data", str(tmp_path), "--contenders", "ours", "reservoir", "--options", str(options), "--json"]
    kernels.main(given)
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert len(rows) == 4
    assert {row["rows"] for row in rows} == {1_199}
    assert min(row["accuracy"] for row in rows) > 0.9
    first, second = ([(row["contender"], row["accuracy"]) for row in rows[start : start + 2]] for start in (0, 2))
    assert first == second


@pytest.mark.parametrize(
    ("arrays", "told"),
    [
        ({"X": np.zeros((40, 2))}, "odd.npz has no array y"),
        ({"X": np.zeros((40, 2)), "y": np.arange(40) % 3}, "y the length 40 and 3 different values"),
        ({"X": np.zeros((40, 2)), "y": np.arange(40) > 35}, "fewer than 10 rows of a label"),
        ({"X": np.zeros((40, 2)), "y": np.arange(40) % 2}, "100 bytes of memory are room for fewer than 16 points"),
    ],
)
def test_a_set_that_cannot_be_measured_is_refused(tmp_path: Path, arrays: dict[str, Any], told: str) -> None:
    """In a line that names it and says what is missing."""
    np.savez(tmp_path / "odd.npz", **arrays)
    with pytest.raises(SystemExit, match=re.escape(told)):
        kernels.main(["--data", str(tmp_path), "--memory-bytes", "100", "--contenders", "ours"])


def test_what_is_unknown_is_refused(folder: Path) -> None:
    """A set or a contender that is misspelled is no empty table."""
    with pytest.raises(SystemExit, match=r"there is no skyn\.npz"):
        kernels.main(["--data", str(folder), "--sets", "skyn", "--contenders", "hist_gb"])
    with pytest.raises(SystemExit, match="--contenders our is unknown"):
        kernels.main(["--data", str(folder), "--contenders", "our"])


def test_the_board_has_its_share_of_turned_labels() -> None:
    """By fields a tree of depth enough would be right on 85 %."""
    points = kernels.checkerboard()
    field = np.floor(points.X * 10).sum(axis=1) % 2 > 0
    assert np.mean(field == (points.y > 0)) == pytest.approx(0.85, abs=0.005)
