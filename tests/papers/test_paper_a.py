"""The paper's benchmark runs, resumes and certifies its optima; nothing here is about speed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from tests.papers import paper_a
from tests.streams import gaussian


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    points = gaussian(400)
    np.savez(tmp_path / "htru2.npz", X=points.X, y=points.y)
    return tmp_path


def arguments(directory: Path, trials: int) -> list[str]:
    """Return a tiny run: two sets, three sizes."""
    options = {
        "--data": directory,
        "--trials": trials,
        "--sizes": 3,
        "--json": directory / "r.json",
        "--out": directory,
    }
    return [*(str(part) for pair in options.items() for part in pair), "--sets", "htru2", "pathological"]


@pytest.mark.long
def test_a_tiny_run_has_the_table_and_every_figure(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each cell holds its trials, the table the paper's t beside ours, and the four figures are drawn."""
    paper_a.main(arguments(directory, 2))
    held = json.loads((directory / "r.json").read_text())
    assert set(held["table"]) == {"htru2", "pathological"}
    for row in held["table"].values():
        assert 0 < row["t_ours"] < row["t_lemma"]
        assert row["optimum_gap"] <= paper_a.GAP
    assert len(held["cells"]) == 2 * 2 * 2 * 3
    assert all(len(cell["error"]) == len(cell["seconds"]) == 2 for cell in held["cells"].values())
    assert {file.name for file in directory.glob("*.png")} == {f"paper_a_figure_{n}.png" for n in (1, 2, 3, 5)}
    shown = capsys.readouterr().out
    assert "475.8" in shown
    assert "Why t differs" in shown


@pytest.mark.long
def test_a_stopped_run_goes_on(directory: Path) -> None:
    """What stands in the file is not measured again; what is missing is added."""
    file = directory / "r.json"
    paper_a.main(arguments(directory, 1))
    before = json.loads(file.read_text())
    before["cells"].pop("htru2/offline/uniform/6")
    file.write_text(json.dumps(before))
    paper_a.main(arguments(directory, 2))
    after = json.loads(file.read_text())
    assert len(after["cells"]) == len(before["cells"]) + 1
    for key, cell in before["cells"].items():
        assert after["cells"][key]["seconds"][:1] == cell["seconds"]
    assert all(len(cell["error"]) == 2 for cell in after["cells"].values())


@pytest.mark.parametrize("scale", [1e-3, 1.0, 10.0])
@pytest.mark.parametrize("spread", [0, 2])
def test_the_benchmarks_optimum_is_certified(scale: float, spread: int) -> None:
    """The solver's own dual bound is within the gap of its objective, over weights as wide as a coreset's."""
    points = gaussian(300)
    upper = scale * 10.0 ** (spread * np.random.default_rng(0).random(300))
    made = paper_a.fit(points.X.astype(np.float64), points.y, upper)
    assert 0 <= made.gap <= paper_a.GAP


def test_sizes_run_from_the_logarithm_to_four_fifths() -> None:
    """15 of them on a large set, each once, in order."""
    made = paper_a.sizes(17_898, 15)
    assert (made[0], made[-1], len(made)) == (10, 2525, 15)
    assert made == sorted(set(made))


def test_kept_results_hold_the_sets_they_name() -> None:
    """The table in the repository has a row for each of the paper's sets; its optima are certified to four digits."""
    kept = (Path(__file__).parent / "results" / "paper_a.txt").read_text()
    rows, curves = kept.split("\n\n")
    assert set(re.findall(r"(?m)^(\w+) +[\d,]+ ", rows)) == set(paper_a.PAPER)
    (gap,) = re.findall(r"a relative gap of (\S+) or less", rows)
    assert float(gap) <= 1e-4
    assert {line.split()[0] for line in curves.splitlines()[1:]} == set(paper_a.PAPER)
