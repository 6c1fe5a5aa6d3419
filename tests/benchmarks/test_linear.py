"""The benchmark of small fits: a line for each case, and no objective above LIBLINEAR's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks.linear import DIGITS, main


@pytest.mark.long
def test_every_case_has_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Wide boxes are solved further than LIBLINEAR's thousand passes do."""
    random = np.random.default_rng(0)
    X = random.normal(size=(1_200, 4))
    np.savez(tmp_path / "small.npz", X=X, y=np.where(X[:, 0] + random.normal(size=len(X)) > 0, 1, -1))
    main(["--data", str(tmp_path), "--rows", "1200", "--C", "100", "--digits", "150", "--rounds", "1"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + len(DIGITS)
    assert float(lines[0].rpartition("excess")[2]) < 0.0
