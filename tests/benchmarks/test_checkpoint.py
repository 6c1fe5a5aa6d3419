"""The benchmark of checkpoints runs, and measures what it says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.benchmarks.checkpoint import STEPS, main


def test_every_step_of_every_size_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two small sizes: bytes grow with the points, each step takes time, the table has a line for each."""
    file = tmp_path / "figures.json"
    main(["--points", "1000", "2000", "--dimension", "3", "--rounds", "1", "--json", str(file)])
    small, large = json.loads(file.read_text())
    assert large["bytes"] - small["bytes"] == pytest.approx(1000 * (3 * 4 + 1 + 8), rel=0.05)
    assert all(row[f"{step}_s"] > 0 for row in (small, large) for step in (*STEPS, "save", "load"))
    assert "2,000" in capsys.readouterr().out
