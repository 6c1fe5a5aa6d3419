"""The benchmark of certificates runs, and finds no bound violated; nothing here is about speed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks import certificate
from tests.streams import gaussian


@pytest.mark.long
def test_it_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    points = gaussian(900)
    np.savez(tmp_path / "small.npz", X=points.X, y=points.y)
    given = ["--data", str(tmp_path), "--memory", "80", "--partitions", "1,3", "--order", "shuffled,by-class"]
    certificate.main([*given, "--trials", "2", "--hostile", "5", "--json"])
    made = json.loads(capsys.readouterr().out)
    assert made["hostile"]["violated"] == 0
    assert [(row["partitions"], row["order"]) for row in made["rows"]] == [
        (1, "shuffled"),
        (3, "shuffled"),
        (1, "by-class"),
        (3, "by-class"),
    ]
    for row in made["rows"]:
        assert row["violated"] == 0
        assert row["lower"] <= row["upper"]
        # What is proven cannot be less than what is true.
        assert row["certified_gap"] >= row["gap"] - 1e-8
