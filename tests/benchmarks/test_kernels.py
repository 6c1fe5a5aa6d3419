"""The benchmarks of kernel machines run, and their rows are what was asked for."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks import grid, kernels
from tests.coreset.test_landmarks import ring


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with one set, which a plane does not divide."""
    points = ring(4_000)
    np.savez(tmp_path / "rings.npz", X=points.X, y=points.y)
    return tmp_path


def test_each_contender_has_its_row(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All figures are there; nobody holds more bytes than were given, but for those that hold all rows."""
    names = ["ours", "ours_before", "reservoir", "rbf_sampler", "hist_gb"]
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


def test_a_grid_is_measured(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Beside all of its separate fits and LIBSVM's; the chosen cell is about as good as the best of all."""
    given = [
        "--data",
        str(folder),
        "--sets",
        "rings",
        "--rows",
        "2500",
        "--gammas",
        "4",
        "--boxes",
        "4",
        "--folds",
        "2",
    ]
    grid.main([*given, "--exhaustive", "--libsvm", "--json"])
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["separate_fits"] == 32
    assert row["judged"][0] == 16
    assert row["accuracy"] > row["exhaustive_accuracy"] - 0.01
    assert row["ratio"] > 0.0
    assert row["solves"] > 0.0
