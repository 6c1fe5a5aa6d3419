"""The benchmark of paper B runs, resumes and reports; never how fast."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.papers import paper_b
from tests.streams import gaussian


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    points = gaussian(150, dimension=4)
    for name in ("ijcnn1", "w8a"):
        np.savez(tmp_path / f"{name}.npz", X=points.X, y=points.y)
    return tmp_path


@pytest.mark.long
def test_it_measures_reports_and_draws(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every cell of both sets, the paper's figures beside them, and the figure."""
    file = directory / "out" / "b.json"
    paper_b.main(
        ["--data", str(directory), "--sets", "ijcnn1", "w3a", "--rows", "100", "--trials", "2", "--json", str(file)]
    )
    held = json.loads(file.read_text())
    cells = paper_b.cells_of(held)
    assert len(cells) == 2 * 3 * 3
    assert all(len(cell.seconds) == 2 and cell.converged for cell in cells.values())
    assert max(cell.kkt_gap for key, cell in cells.items() if key[2] != "LIBSVM") <= paper_b.TOLERANCE
    for key in {key[:2] for key in cells}:
        duals = [cells[*key, contender].dual for contender in paper_b.CONTENDERS]
        assert max(duals) == pytest.approx(min(duals), rel=1e-4)
    ends = [points[-1][1] for points in held["curves"]["ijcnn1 C=20"].values()]
    assert max(ends) == pytest.approx(min(ends), rel=1e-4)
    text = file.with_suffix(".md").read_text()
    assert text in capsys.readouterr().out
    assert "| ijcnn1 | 10 | SVMLight |" in text
    assert "16,145 | 28,138 | 5,193.83" in text
    assert file.with_suffix(".png").stat().st_size > 1_000


@pytest.mark.long
def test_a_stopped_run_goes_on(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands in the file is not measured again."""
    options = ["--data", str(directory), "--sets", "w3a", "--rows", "60", "--trials", "1"]
    options += ["--json", str(directory / "b.json")]
    paper_b.main(options)
    before = (directory / "b.json").read_text()
    monkeypatch.setattr(paper_b, "measure", None)
    paper_b.main(options)
    assert (directory / "b.json").read_text() == before


@pytest.mark.long
def test_another_number_of_rows_is_another_run(directory: Path) -> None:
    """Figures of different sizes or caches are never mixed in one file."""
    options = ["--data", str(directory), "--sets", "w3a", "--trials", "1", "--json", str(directory / "b.json")]
    paper_b.main([*options, "--rows", "60"])
    with pytest.raises(SystemExit, match="--rows 60"):
        paper_b.main([*options, "--rows", "50"])
    with pytest.raises(SystemExit, match="--cache-mib 200"):
        paper_b.main([*options, "--rows", "60", "--cache-mib", "1"])
