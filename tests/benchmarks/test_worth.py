"""The benchmark of what streamsvm is worth goes on where it stopped, and names what is missing."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from streamsvm.config import PointsConfig
from tests.benchmarks import worth
from tests.benchmarks.changing import sea
from tests.benchmarks.contenders import MOST_ROWS, OURS, bytes_of, coreset_of
from tests.benchmarks.others import PACKAGES
from tests.benchmarks.worth import COST, SHUFFLED, STREAMS, Cell, cost, differences, jobs, lines, main

ROOT = Path(__file__).parents[2]


@pytest.fixture
def data(tmp_path: Path) -> list[str]:
    """Return the options that name a folder with two small sets, and a file for the cells."""
    X, y, _ = sea(1_500)
    for name in ("htru2", "elec2"):
        np.savez(tmp_path / f"{name}.npz", X=np.hstack((X, X)).astype(np.float32)[:, :6], y=y)
    return ["--data", str(tmp_path), "--json", str(tmp_path / "cells.json")]


def cell(contender: str, auc: float, trial: int = 0) -> Cell:
    """Return a cell of some figures."""
    figures = {"accuracy": 0.9, "balanced_accuracy": 0.8, "average_precision": 0.7, "log_loss": 0.3}
    sizes = {"rows": 100, "dimension": 3, "cpu_s": 1.0, "bytes": 2_000, "load": 0.5}
    return Cell(part="streams", set="SEA", contender=contender, trial=trial, auc=auc, **figures, **sizes)


def test_a_second_command_measures_only_what_is_missing(
    data: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of both parts; contenders without their interpreter are named."""
    wanted = [*data, "--sets", "htru2,elec2,RTG", "--contenders", "streamsvm,sgd,no_change,adaptive,adaptive_rbf"]
    found = main(wanted)
    assert [one.contender for one in found if one.set == "htru2"] == ["streamsvm", "sgd"]
    assert {one.contender for one in found if one.part == "streams"} == {"sgd", "no_change", "adaptive", "adaptive_rbf"}
    assert all(one.auc is not None and one.auc > 0.8 for one in found if one.contender != "no_change")
    assert all(one.bytes > 0 and one.cpu_s >= 0.0 for one in found)
    assert "missing: streams, adaptive, trial 0: RTG" in capsys.readouterr().out
    monkeypatch.setattr(worth, "shuffled", None)
    monkeypatch.setattr(worth, "streamed", None)
    assert main(wanted) == found
    assert "RTG, adaptive: not measured, --peers PYTHON is not given" in capsys.readouterr().out


@pytest.mark.long
def test_each_contender_of_rows_at_hand_is_as_good_as_it_should_be(tmp_path: Path) -> None:
    """The coreset is near all rows, which hold more."""
    X, y, _ = worth.sea(6_000)
    np.savez(tmp_path / "htru2.npz", X=X.astype(np.float32), y=y)
    given = ["--data", str(tmp_path), "--json", str(tmp_path / "cells.json"), "--sets", "htru2", "--only", "shuffled"]
    found = {one.contender: one for one in main([*given, "--contenders", ",".join(OURS)])}
    assert found.keys() == OURS.keys()
    assert all(0.8 < one.auc <= 1.0 for one in found.values() if one.auc is not None)
    assert found["streamsvm"].auc == pytest.approx(found["svm_all"].auc, abs=0.01)
    assert found["sgd"].bytes < found["svm_all"].bytes


def test_a_library_that_is_missing_is_said(data: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """By the interpreter that lacks it."""
    options = ["--only", "streams", "--sets", "elec2", "--contenders", "moa_forest", "--peers", sys.executable]
    assert main([*data, *options]) == []
    assert "elec2, moa_forest: not measured, No module named 'capymoa'" in capsys.readouterr().out


def test_cells_come_cheapest_first() -> None:
    """All of a trial before those of the next, each once."""
    found = jobs(["shuffled", "streams"], [], [], 2)
    assert len(set(found)) == len(found)
    assert len(found) == 2 * (len(COST["shuffled"]) * len(SHUFFLED) + len(COST["streams"]) * len(STREAMS))
    assert [job.trial for job in found] == sorted(job.trial for job in found)
    costs = [cost(job) for job in found if job.trial == 0]
    assert costs == sorted(costs)


def test_the_table_has_means_and_what_is_missing() -> None:
    """The best first; a loss of ours stays where it belongs."""
    cells = [cell("adaptive", auc, trial) for trial, auc in enumerate((0.8, 0.9))] + [cell("moa_sgbt", 0.95)]
    found = list(lines(cells, jobs(["streams"], ["SEA"], ["adaptive", "moa_sgbt"], 2)))
    assert [line.split()[2] for line in found[1:3]] == ["moa_sgbt", "adaptive"]
    assert found[2].split()[3:7] == ["2", "0.9000", "0.8000", "0.8500"]
    assert found[3:] == ["missing: streams, moa_sgbt, trial 1: SEA"]


def test_all_rows_are_kept_where_that_is_asked_for(data: list[str]) -> None:
    """Of any size; fewer points are fewer bytes."""
    given = [*data, "--sets", "htru2", "--only", "shuffled", "--contenders", "streamsvm", "--points", "200,all"]
    held = {one.contender: one.bytes for one in main(given)}
    assert held["streamsvm@all"] > bytes_of(1_200, 6)
    assert held["streamsvm@200"] <= bytes_of(200, 6) < held["streamsvm"]
    assert coreset_of("all", 1_200).settled(PointsConfig(dimension=6), "additive").leaf_rows > 1_200
    assert coreset_of("all", MOST_ROWS + 1) == coreset_of(str(MOST_ROWS), MOST_ROWS + 1)


def test_additive_machines_are_compared_over_rounds_that_both_have() -> None:
    """And how many sets are near."""
    cells = [
        replace(cell(name, auc, trial), part="shuffled", set=data, cpu_s=seconds)
        for name, data, trial, auc, seconds in (
            ("additive", "htru2", 0, 0.9, 1.0),
            ("additive", "htru2", 1, 0.7, 1.0),
            ("additive", "elec2", 0, 0.8, 1.0),
            ("ebm", "htru2", 0, 0.898, 50.0),
            ("ebm", "elec2", 0, 0.9, 10.0),
        )
    ]
    _, _, htru2, elec2, whole = differences(cells)
    assert htru2.split() == ["additive", "htru2", "-", "-", "-", "1", "+0.0020", "0.02"]
    assert elec2.split() == ["additive", "elec2", "-", "-", "-", "1", "-0.1000", "0.1"]
    assert whole == "additive - ebm: mean AUC -0.0490; of 2 sets 1 are within 0.005, 0 above, 1 below"


def test_the_environment_is_pinned_with_hashes() -> None:
    """Every package, so that the same one is measured again."""
    text = PACKAGES.read_text()
    pins = re.findall(r"^([a-z0-9_-]+)==[\w.]+ \\\n    --hash=sha256:[0-9a-f]{64}$", text, re.MULTILINE)
    assert {"capymoa", "interpret-core", "lightgbm", "scikit-learn"} <= set(pins)
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
