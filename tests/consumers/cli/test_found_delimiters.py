"""The delimiter of a CSV, which commands find, or ask for."""

from __future__ import annotations

import csv
import tomllib
from pathlib import Path

import pytest

from streamsvm.branches.events import events_in
from tests.consumers.command import error_of, run


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_another_delimiter_is_found(delimiter: str, tmp_path: Path) -> None:
    """It is said; commas inside cells are no delimiters, and a decimal comma is a notation of numbers."""
    path = tmp_path / "a.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file, delimiter=delimiter)
        rows.writerows(
            [["amount, EUR", "x", "y"], ["7", 0.5, 1], *([f"{row},125", row / 8, row % 2] for row in range(60))]
        )
    done = run("features", "infer", str(path))
    assert done.stderr == f"delimiter {delimiter!r} found\n"
    assert tomllib.loads(done.stdout)["features"]["amount, EUR"]["decimal"] == ","
    config = tmp_path / "config.toml"
    config.write_text(done.stdout)
    assert run("evaluate", str(path), "--config", str(config), "--no-optimum").returncode == 0
    points = run("evaluate", str(path), "--no-optimum", "--columns", "x", "--label", "y")
    assert (points.returncode, points.stderr.startswith("delimiter ")) == (0, True)
    asked = run("features", "infer", str(path), "--delimiter", delimiter)
    assert (asked.returncode, asked.stderr) == (0, "")
    assert f"evaluate {path} --delimiter" in asked.stdout


@pytest.mark.parametrize(
    "text",
    ["a;b;y\n1;2;0\n1;2\n", "a;b|c;y\n1;2|3;1\n", "a b y\n1 2 0\n3 4 1\n", "1,5;2,5;0\n3,5;4,5;1\n"],
    ids=["ragged", "ambiguous", "blanks", "decimal commas"],
)
@pytest.mark.parametrize("command", [["features", "infer"], ["evaluate"]], ids=["infer", "evaluate"])
def test_a_delimiter_that_is_unclear_is_asked_for(command: list[str], text: str, tmp_path: Path) -> None:
    """Instead of a proposal for one column, whose name is the whole first line."""
    path = tmp_path / "a.csv"
    path.write_text(text)
    done = run(*command, str(path))
    assert (done.returncode, "is unclear" in error_of(done), "--delimiter" in error_of(done)) == (78, True, True)


@pytest.mark.parametrize("text", ["x|y\n1\n2\n", "x\n1\n2\n", "a,b;c\n1,2\n3,4\n", 'a,"b;c"\n1,"2;3"\n'])
def test_commas_stay_where_the_rows_have_no_other_delimiter(text: str, tmp_path: Path) -> None:
    """Also in a table of one column, and where a name has one."""
    path = tmp_path / "a.csv"
    path.write_text(text)
    assert list(next(events_in(path, "csv", None))) == next(csv.reader([text.split("\n")[0]]))
