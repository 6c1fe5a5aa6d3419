"""The drop-in's benchmark: rows for every kernel and variant, equal answers, and who is too slow is stopped."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks.drop_in import Contender, main


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A set of 900 rows."""
    random = np.random.default_rng(0)
    X = random.normal(size=(900, 5))
    np.savez(tmp_path / "small.npz", X=X, y=np.where(X[:, 0] + 0.5 * random.normal(size=900) > 0, 1, -1))
    return tmp_path


@pytest.mark.long
def test_every_case_has_its_rows(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Our objective is not above SVC's by 1e-6, and two threads give one thread's bits with the RBF kernel."""
    said = ["--data", str(folder), "--sets", "small", "--rows", "900", "--kernels", "rbf,precomputed"]
    said += ["--variants", "plain,rare", "--contenders", "ours-1,ours-2,svc", "--rounds", "1", "--json"]
    main(said)
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(rows) == 2 * 2 * 2
    for row in rows:
        assert row["excess"] < 1e-6
        assert row["ratio"] > 0.0
        assert row["peak_mb"] >= 0.0
        if row["contender"] == "ours-2" and row["kernel"] == "rbf":
            assert row["same_bits"]


@pytest.mark.long
def test_who_does_not_answer_in_time_is_stopped(tmp_path: Path) -> None:
    """A contender that takes too long gives no answer, and is there again for the next question."""
    X = np.random.default_rng(0).normal(size=(6_000, 4))
    np.savez(tmp_path / "case.npz", X=X, y=np.where(X[:, 0] > 0, 1, -1))
    options = {"kernel": "rbf", "C": 1e4, "gamma": 1.0, "tol": 1e-3}
    asked = {"file": str(tmp_path / "case.npz"), "answer": str(tmp_path / "a.npz"), "sparse": False}
    contender = Contender("svc", sys.executable)
    assert contender.train(asked | {"options": options}, 0.001) is None
    assert 0.0 <= contender.spent_s < 60.0
    told = contender.train(asked | {"options": options | {"C": 0.01}}, 60.0)
    contender.stop()
    assert told is not None
    assert told["cpu_s"] > 0.0
