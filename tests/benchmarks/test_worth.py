"""The benchmark of what streamsvm is worth goes on where it stopped, and names what is missing."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks import worth
from tests.benchmarks.changing import sea
from tests.benchmarks.worth import COST, SHUFFLED, STREAMS, Cell, jobs, lines, main, markdown, read_cells, write_cells
from tests.benchmarks.worth_environment import PACKAGES

ROOT = Path(__file__).parents[2]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with two small sets."""
    X, y, _ = sea(1_500)
    for name in ("htru2", "elec2"):
        np.savez(tmp_path / f"{name}.npz", X=np.hstack((X, X)).astype(np.float32)[:, :6], y=y)
    return tmp_path


def cell(part: worth.Part, name: str, contender: str, auc: float, trial: int = 0) -> Cell:
    """Return a cell of some figures."""
    figures = {"accuracy": 0.9, "balanced_accuracy": 0.8, "average_precision": 0.7, "log_loss": 0.3}
    sizes = {"rows": 100, "dimension": 3, "cpu_s": 1.0, "bytes": 2_000, "load": 0.5}
    return Cell(part=part, set=name, contender=contender, trial=trial, auc=auc, **figures, **sizes)


def test_a_second_command_measures_only_what_is_missing(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of both parts; contenders without their interpreter are named."""
    file, ours = data / "cells.json", ["streamsvm", "infer", "sgd", "no_change", "adaptive", "adaptive_rbf"]
    wanted = ["--data", str(data), "--sets", "htru2", "elec2", "RTG", "--json", str(file), "--contenders", *ours]
    main(wanted)
    found = read_cells(file)
    assert [one.contender for one in found if one.set == "htru2"] == ["streamsvm", "sgd", "infer"]
    assert {one.contender for one in found if one.part == "streams"} == {"sgd", "no_change", "adaptive", "adaptive_rbf"}
    assert all(one.auc is not None and one.auc > 0.8 for one in found if one.contender != "no_change")
    assert all(one.bytes > 0 and one.cpu_s >= 0.0 for one in found)
    assert "missing: streams, adaptive, trial 0: RTG" in capsys.readouterr().out
    before = file.stat().st_mtime_ns
    monkeypatch.setattr(worth, "shuffled", None)
    monkeypatch.setattr(worth, "streamed", None)
    main(wanted)
    assert file.stat().st_mtime_ns == before
    assert "without --peers PYTHON there are no RTG" in capsys.readouterr().out


def test_a_library_that_is_missing_is_said(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the interpreter that lacks it."""
    options = ["--only", "shuffled", "--sets", "htru2", "--contenders", "river", "--peers", sys.executable]
    main(["--data", str(data), "--json", str(data / "cells.json"), *options])
    assert "htru2, river: not measured, No module named 'river'" in capsys.readouterr().out
    assert not (data / "cells.json").exists()


def test_unknown_names_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A set that is misspelled is not an empty table."""
    with pytest.raises(SystemExit):
        main(["--data", str(tmp_path), "--json", str(tmp_path / "x.json"), "--sets", "elec3"])
    assert "--sets elec3: unknown" in capsys.readouterr().err


def test_cells_come_cheapest_first() -> None:
    """All of a trial before those of the next, each once."""
    found = jobs(["shuffled", "streams"], [], [], 2)
    assert len({job.key for job in found}) == len(found)
    assert len(found) == 2 * (len(COST["shuffled"]) * len(SHUFFLED) + len(COST["streams"]) * len(STREAMS))
    assert [job.trial for job in found] == sorted(job.trial for job in found)
    costs = [COST[job.part][job.contender] for job in found if job.trial == 0]
    assert costs == sorted(costs)


def test_the_file_has_all_cells_or_those_before(tmp_path: Path) -> None:
    """What is written is what is read."""
    cells = [cell("streams", "SEA", "sgd", 0.8), cell("shuffled", "skin", "infer", 0.9)]
    write_cells(tmp_path / "cells.json", cells)
    assert read_cells(tmp_path / "cells.json") == cells
    assert read_cells(tmp_path / "none.json") == []
    assert [path.name for path in tmp_path.iterdir()] == ["cells.json"]
    assert len(json.loads((tmp_path / "cells.json").read_text())["cells"]) == 2


def test_the_table_has_means_and_what_is_missing() -> None:
    """The best first; a loss of ours stays where it belongs."""
    cells = [cell("streams", "SEA", "adaptive", auc, trial) for trial, auc in enumerate((0.8, 0.9))]
    cells.append(cell("streams", "SEA", "moa_sgbt", 0.95))
    found = list(lines(cells, jobs(["streams"], ["SEA"], ["adaptive", "moa_sgbt"], 2)))
    assert [line.split()[2] for line in found[1:3]] == ["moa_sgbt", "adaptive"]
    assert found[2].split()[3:7] == ["2", "0.9000", "0.8000", "0.8500"]
    assert found[3:] == ["missing: streams, moa_sgbt, trial 1: SEA"]
    table = list(markdown(cells, "streams", {"adaptive": "ours", "moa_sgbt": "SGBT"}))
    assert table[2] == "| `elec2` | - | - |"
    assert "| `SEA` | 0.850 | **0.950** |" in table


def test_the_environment_is_pinned_with_hashes() -> None:
    """Every package, so that the same one is measured again."""
    text = PACKAGES.read_text()
    pins = re.findall(r"^([a-z0-9_-]+)==[\w.]+ \\\n    --hash=sha256:[0-9a-f]{64}$", text, re.MULTILINE)
    assert {"capymoa", "lightgbm", "river"} <= set(pins)
    assert len(pins) == text.count("==")


def test_readme_has_the_figures_that_were_measured() -> None:
    """Cell by cell, so that no figure is changed by hand; README shows some sets and contenders of the whole table."""
    lines = (ROOT / "tests" / "benchmarks" / "results" / "worth.txt").read_text().splitlines()
    figures = {tuple(line.split()[:3]): line.split() for line in lines if line.startswith(("shuffled", "streams"))}
    readme = (ROOT / "README.md").read_text()
    for figure, part, at, rows in (("AUC", "shuffled", 6, 4), ("accuracy", "streams", 4, 6)):
        heading, _, *shown = readme.split(f"\n| {figure} |")[1].split("\n\n")[0].splitlines()
        contenders = heading.replace("|", " ").split()
        assert len(shown) == rows
        for name, *cells in (line.replace("|", " ").replace("`", "").split() for line in shown):
            measured = [figures[part, name, contender][at] for contender in contenders]
            assert cells == [f"{float(value):.3f}" for value in measured]
