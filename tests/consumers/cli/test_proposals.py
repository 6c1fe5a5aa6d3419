"""Tables of any kind by the commands: what `infer` proposes is what `evaluate` reads, or the table is refused."""

from __future__ import annotations

import csv
import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from streamsvm.branches.events import events_in, recipe_from
from tests.consumers.command import error_of, run

ROWS: Final = 120
WORDS: Final = ("u", "v", "w")


def write(path: Path, cells: Sequence[object], name: str = "f", delimiter: str = ",", label: str = "y") -> Path:
    """Write a table of a column, a number and a label."""
    chance = Random(1)
    with path.open("w", newline="") as file:
        table = csv.writer(file, delimiter=delimiter)
        table.writerow([name, "x", label])
        for row in range(ROWS):
            table.writerow([cells[row % len(cells)], round(chance.random(), 3), chance.randrange(2)])
    return path


def tried(path: Path, *options: str) -> tuple[dict[str, Any], str]:
    """Return the tables that are proposed for a file, which `evaluate` takes, and the text."""
    done = run("features", "infer", str(path), *options)
    assert done.returncode == 0, done.stderr
    config = path.with_name("config.toml")
    config.write_text(done.stdout)
    evaluated = run("evaluate", str(path), "--config", str(config), "--no-optimum")
    assert evaluated.returncode == 0, evaluated.stderr
    return tomllib.loads(done.stdout), done.stdout


HEX: Final = [f"{Random(row).randrange(16**8):08x}" for row in range(60)]
CODES: Final[dict[str, tuple[Sequence[object], Any]]] = {
    "postal codes": (["02134", "94110", "10001"], ["02134", "10001", "94110"]),
    "padded": (["007", "7", "12"], ["007", "12", "7"]),
    "padded, one of them late": ([*["94110"] * 119, "02134"], ["02134", "94110"]),
    "many": ([f"{7 * row:03d}" for row in range(60)], None),
    "grades": (["1", "2", "R"], ["1", "2", "R"]),
    "versions": (["1.0", "1", "1.0b"], ["1", "1.0", "1.0b"]),
    "booleans among words": (["true", "false", "maybe"], ["false", "maybe", "true"]),
    "a marker": (["NA", "DE", "FR"], ["DE", "FR", "NA"]),
    "markers in three ways": (["NaN", "null", "nan", "x"], ["NaN", "nan", "null", "x"]),
    "markers that are texts": (["None", "?", "x"], ["?", "None", "x"]),
    "padded, with a marker": (["01", "02", "NA"], ["01", "02", "NA"]),
    "an exponent that is none": (["700e783649920720", *HEX], None),
    "reserved": (["(other)", "(missing)", "x", "z"], ["x", "z"]),
    "beyond 16 bits": (["\U0001f44d", "\U0001f600"], ["\U0001f44d", "\U0001f600"]),
    "quotes": (['"', "'", 'a"b', "\\n", "#", "]"], ['"', "#", "'", "\\n", "]", 'a"b']),
}
"""Cells of a column, and the values of the category that is proposed; None where it may be a hash."""


@pytest.mark.parametrize("kind", CODES)
def test_a_column_of_codes_is_text_in_all_its_rows(kind: str, tmp_path: Path) -> None:
    """As it is proposed, as it is evaluated, and as it is sent by the recipe."""
    cells, wanted = CODES[kind]
    path = write(tmp_path / "a.csv", cells)
    proposed = tried(path)[0]
    options = proposed["features"]["f"]
    assert "missing" not in options
    assert options["as"] in ("category", "hash")
    assert wanted is None or sorted(options["values"]) == wanted
    sent = [event["f"] for event in events_in(path, "csv", recipe_from(proposed["features"], proposed["events"]))]
    assert sent == [cells[row % len(cells)] for row in range(ROWS)]


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (["1", "2.5", "NA", "7"], 'f = {as = "number", missing = {constant = 3.5}}'),
        (["true", "false", "NA"], 'f = {as = "flag", missing = "indicator"}'),
        (["2026-01-01", "2026-01-02", "NA"], 'f = {as = "time", missing = "indicator"}'),
        ([f"{row},5" for row in range(20)], 'f = {as = "number", parse = "text", decimal = ","}'),
        ([*range(99), "1e400"], "# f: mixed types (number, str)"),
        (["(other)", "(missing)"], "# f: 2 values; a category cannot have them"),
        ([*["x"] * 119, "NA"], 'f = {as = "category", values = ["x"], missing = "indicator"}'),
    ],
)
def test_other_columns_are_no_codes(cells: Sequence[object], said: str, tmp_path: Path) -> None:
    """Numbers, flags and times of which some are missing; a marker of a tiny share is one."""
    lines = tried(write(tmp_path / "a.csv", cells))[1].splitlines()
    assert next(line for line in lines if line.removeprefix("# ").startswith("f")).startswith(said)


NAMES: Final = (
    *("a b", 'q"q', "a'b", "a.b", "x[0]", "[a]", "a=b", "#a", "\\", "a\nb", "n" * 300, "\u65e5\u672c", "\U0001f44d"),
    *("true", "features", "events", "id", "svm", "field", "__proto__", "(other)"),
)


@pytest.mark.parametrize("name", NAMES)
def test_a_column_may_have_any_name(name: str, tmp_path: Path) -> None:
    """The feature reads the column of that name, whatever it is called itself."""
    proposed = tried(write(tmp_path / "a.csv", WORDS, name))[0]["features"]
    (feature,) = (key for key in proposed if key != "x")
    assert proposed[feature].get("field", feature) in (name, [name])


def test_fields_that_would_share_a_name_get_two(tmp_path: Path) -> None:
    """A field inside another one, and one that is called as the path of it."""
    path = tmp_path / "a.jsonl"
    events = [{"a": {"b": WORDS[row % 3]}, "a_b": row % 7, "x": row / 7, "y": row % 2} for row in range(ROWS)]
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    assert set(tried(path)[0]["features"]) == {"a_b", "a_b_2", "x"}


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_another_delimiter_is_found(delimiter: str, tmp_path: Path) -> None:
    """It is said; commas inside cells are no delimiters, and a decimal comma is a notation of numbers."""
    path = write(
        tmp_path / "a.csv", ["1,5", "2,25", "7", *(f"{row},125" for row in range(20))], "amount, EUR", delimiter
    )
    done = run("features", "infer", str(path))
    assert done.stderr == f"delimiter {delimiter!r} found\n"
    assert tried(path)[0]["features"]["amount, EUR"]["decimal"] == ","
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
