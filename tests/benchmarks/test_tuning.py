"""The tuning benchmark runs, compares what it says it compares, and goes on where it stopped."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks import tuning


@pytest.fixture
def sets(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    X = random.normal(size=(1_500, 2)).astype(np.float32)
    y = np.where((X**2).sum(axis=1) + 0.3 * random.normal(size=1_500) > 1.5, 1, -1).astype(np.int8)
    np.savez(tmp_path / "ring.npz", X=X, y=y)
    return tmp_path


# So few points of an rbf machine are a plain sample, which it says.
@pytest.mark.long
@pytest.mark.filterwarnings("ignore::streamsvm.estimators.stream.CoresetWarning")
def test_a_small_run_says_both_sides(sets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each case has the grid search's accuracy and time, ours, and what was lost; a second run measures nothing."""
    arguments = ["--data", str(sets), "--cases", "ring/rbf", "--rows", "1000", "--memory", "400", "--seeds", "3"]
    arguments += ["--into", str(sets / "kept.json"), "--json"]
    tuning.main(arguments)
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["full"]["rows"] == 1_000
    assert len(row["ours"]) == 3
    assert row["lost"][0] == pytest.approx(100 * (row["full"]["accuracy"] - row["accuracy"][0]))
    assert row["share"] == row["seconds"][0] / row["full"]["seconds"]
    assert row["full"]["score"] > 0.8
    tuning.main(arguments)
    assert json.loads(capsys.readouterr().out)["rows"] == [row]
    tuning.main(arguments[:-1])
    assert "lost, tuned" in capsys.readouterr().out
