"""The benchmark of outliers runs, and says what the bound costs and what it saves."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks import outliers


@pytest.fixture
def sets(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    X = random.normal(size=(6_000, 3)).astype(np.float32)
    y = np.where(X[:, 0] + 0.3 * random.normal(size=6_000) > 0.5, 1, -1).astype(np.int8)
    np.savez(tmp_path / "plane.npz", X=X, y=y)
    return tmp_path


def test_a_small_run_says_both_sides(sets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Clean points are worth the same to the bit; one far row ends learning without the bound, and is named."""
    arguments = ["--data", str(sets), "--cases", "clean", "far", "--rows", "4500", "--seeds", "1"]
    outliers.main([*arguments, "--json"])
    clean, far = json.loads(capsys.readouterr().out)["rows"]
    assert clean["gains"] == {"balanced": [0.0], "objective": [0.0], "usual": [0.0]}
    (cell,) = far["seeds"]
    assert cell["with"]["place"][0] == int(outliers.AT * 4_500)
    assert cell["with"]["drawn_in"] == 1
    assert cell["without"]["balanced"] == pytest.approx(50.0)
    assert cell["with"]["balanced"] > 80.0
    outliers.main(arguments)
    assert "| plane | far |" in capsys.readouterr().out
