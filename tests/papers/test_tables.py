"""The papers' tables are measured again on small sets, and a stopped run goes on; nothing here is about speed."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks.optimum import fit
from tests.papers import paper_a, paper_b
from tests.streams import gaussian


@pytest.fixture
def given(tmp_path: Path) -> list[str]:
    """Return the options that name a folder of small sets, and a file."""
    points = gaussian(150, dimension=4)
    for name in ("htru2", "ijcnn1", "w8a"):
        np.savez(tmp_path / f"{name}.npz", X=points.X, y=points.y)
    return ["--data", str(tmp_path), "--json", str(tmp_path / "kept.json")]


@pytest.mark.long
def test_the_paper_on_coresets(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Each size and method has its error, the table the paper's t beside ours; what is kept is not measured again."""
    options = [*given, "--rounds", "2", "--sizes", "3", "--sets", "htru2,pathological"]
    found = paper_a.main(options)
    for name in ("htru2", "pathological"):
        row = found[name]
        assert 0 < row["t_ours"] < row["t_lemma"]
        assert row["optimum_gap"] <= paper_a.GAP
        assert row["draws"] > row["n"]
    cells = [cell for name, cell in found.items() if "/" in name]
    assert len(cells) == 2 * 2 * 2 * 3
    assert all(cell["error"] >= 0 for cell in cells)
    assert "475.8" in capsys.readouterr().out
    assert paper_a.main(options) == found


@pytest.mark.long
def test_the_paper_on_stda(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """All contenders reach one optimum, the paper's figures stand beside ours; what is kept is not measured again."""
    options = [*given, "--sets", "ijcnn1,w3a", "--rows", "100", "--rounds", "2"]
    found = paper_b.main(options)
    assert len(found) == 2 * 3
    for problem in found.values():
        cells = problem["cells"]
        assert all(len(cell["seconds"]) == 2 and cell["converged"] for cell in cells.values())
        assert max(cell["kkt_gap"] for name, cell in cells.items() if name != "LIBSVM") <= paper_b.TOLERANCE
        duals = [cell["dual"] for cell in cells.values()]
        assert max(duals) == pytest.approx(min(duals), rel=1e-4)
    assert "16,145 | 28,138 | 5,193.83" in capsys.readouterr().out
    assert paper_b.main(options) == found


@pytest.mark.parametrize(("scale", "spread"), [(1e-3, 0), (1.0, 2), (10.0, 2)])
def test_the_optimum_is_certified(scale: float, spread: int) -> None:
    """The solver's own dual bound is within the gap of its objective, over weights as wide as a coreset's."""
    points = gaussian(300)
    upper = scale * 10.0 ** (spread * np.random.default_rng(0).random(300))
    assert 0 <= fit(points.X.astype(np.float64), points.y, upper).gap <= paper_a.GAP


def test_sizes_run_from_the_logarithm_to_four_fifths() -> None:
    """15 of them on a large set, each once, in order."""
    made = paper_a.sizes(17_898, 15)
    assert (made[0], made[-1], len(made)) == (10, 2525, 15)
    assert made == sorted(set(made))


def test_kept_results_hold_the_sets_they_name() -> None:
    """The table in the repository has a row for each of the paper's sets; its optima are certified to four digits."""
    rows, curves = (Path(__file__).parent / "results" / "paper_a.txt").read_text().split("\n\n")
    assert set(re.findall(r"(?m)^(\w+) +[\d,]+ ", rows)) == set(paper_a.PAPER)
    (gap,) = re.findall(r"a relative gap of (\S+) or less", rows)
    assert float(gap) <= 1e-4
    assert {line.split()[0] for line in curves.splitlines()[1:]} == set(paper_a.PAPER)
