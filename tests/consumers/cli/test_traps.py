"""Traps that are planted in a file of events: none is learned without a word.

What is seen in each kind of field is tested beside `streamsvm.branches.events`; here are the commands, from cells of a
CSV to a configuration and its evaluation.
"""

from __future__ import annotations

import csv
import json
import random
import re
import tomllib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from tests.consumers.command import run

ROWS: Final = 2_000
POSITIVE: Final = 0.2
BEGIN: Final = datetime(2026, 1, 1, tzinfo=UTC)
SUSPECTED: Final = "leak suspected: "
SEPARATES: Final = SUSPECTED + "alone it separates the labels (AUC 1.000)"

Cell = Callable[[random.Random, int, bool], object]
"""Returns the cell of an event from its place in the file and its label; None is an empty cell."""

LEAKS: Final[dict[str, tuple[Cell, str]]] = {
    "present": (
        lambda chance, _, label: chance.choice("ab") if label else None,
        SUSPECTED + "it is present for 'yes' only",
    ),
    "absent": (
        lambda chance, _, label: chance.random() if not label or chance.random() < 0.5 else None,
        SUSPECTED + "it is missing for 'yes' only",
    ),
    "number": (lambda chance, _, label: chance.random() - label, SEPARATES),
    "category": (lambda chance, _, label: chance.choice("ab" if label else "cd"), SEPARATES),
    "desk_of_one_label": (lambda chance, _, label: f"desk {2 * chance.randrange(100) + label}", SEPARATES),
    "closed_at": (lambda _, row, label: (BEGIN + timedelta(hours=row + label * ROWS)).isoformat(), SEPARATES),
    "identifier": (lambda _, row, label: 7 * row + label * 10 * ROWS, SEPARATES),
}
"""Fields that know the label, and what is said of each."""
TRAPS: Final[dict[str, tuple[Cell, str]]] = {
    "thousands": (
        lambda chance, *_: f"{chance.uniform(1_000, 90_000):,.2f}",
        "numbers as text with thousands separators; ",
    ),
    "unique": (
        lambda _, row, __: f"case {row if row % 1_000 else 1:06d}",
        "nearly an identifier: 99.9% of its values differ",
    ),
    "vocabulary": (
        lambda chance, *_: "NA" if chance.random() < 0.005 else chance.choice(["DE", "FR"]),
        "taken as missing; what is a value must be among the values of a category",
    ),
}
"""Fields whose cells look like something else, and what is said of each."""


def write(directory: Path, cells: Mapping[str, Cell]) -> Path:
    """Write events with two honest fields beside what is planted."""
    chance = random.Random(7)
    path = directory / "events.csv"
    with path.open("w", newline="") as out:
        table = csv.writer(out)
        table.writerow(["amount", "card", *cells, "y"])
        for row in range(ROWS):
            label = chance.random() < POSITIVE
            honest = [round(chance.gauss(50.0 + 10.0 * label, 20.0), 2), chance.choice("xyz")]
            planted = [cell(chance, row, label) for cell in cells.values()]
            table.writerow([*honest, *planted, "yes" if label else "no"])
    return path


def inferred(path: Path, *options: str) -> str:
    """Return the configuration that is proposed for a file, having written it beside the file."""
    done = run("features", "infer", str(path), *options)
    assert done.returncode == 0, done.stderr
    path.with_name("config.toml").write_text(done.stdout)
    return done.stdout


def line_of(field: str, text: str) -> str:
    """Return the line on a field; one that is left out is a comment."""
    (line,) = (line for line in text.splitlines() if re.match(rf"(# )?{field}\b", line))
    return line


def evaluated(path: Path) -> Any:
    """Return the report of `evaluate` by the configuration beside a file."""
    config = str(path.with_name("config.toml"))
    done = run("evaluate", str(path), "--config", config, "--no-optimum", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_planted_leaks_are_left_out(tmp_path: Path) -> None:
    """Commented out, with what was seen; the honest fields are proposed."""
    text = inferred(write(tmp_path, {name: cell for name, (cell, _) in LEAKS.items()}))
    assert set(tomllib.loads(text)["features"]) == {"amount", "card"}
    for name, (_, said) in LEAKS.items():
        assert line_of(name, text).startswith(f"# {name}: ")
        assert said in line_of(name, text)


def test_what_only_two_fields_know_is_named_by_evaluate(tmp_path: Path) -> None:
    """A leak that no field is by itself: its two fields are proposed, and nearly all rows are right by them."""
    path = tmp_path / "events.csv"
    chance = random.Random(7)
    with path.open("w", newline="") as out:
        table = csv.writer(out)
        table.writerow(["due", "paid", "y"])
        for _ in range(ROWS):
            label, due = chance.random() < POSITIVE, chance.uniform(100.0, 900.0)
            paid = due - label * 300.0 - chance.uniform(0.0, 100.0)
            table.writerow([round(due, 2), round(paid, 2), "yes" if label else "no"])
    assert SUSPECTED not in inferred(path)
    (ours,) = (row for row in evaluated(path)["rows"] if row["contender"] == "streamsvm")
    said = ours["note"].split("all rows right: is a field known too late? ")[1]
    assert said.startswith(("due decides: ", "paid decides: "))


def test_planted_traps_are_not_learned_without_a_word(tmp_path: Path) -> None:
    """Read as what they are, or left out; what is proposed can be evaluated, also with `NA` as one more value."""
    path = write(tmp_path, {name: cell for name, (cell, _) in TRAPS.items()})
    text = inferred(path)
    for name, (_, said) in TRAPS.items():
        assert said in line_of(name, text)
    features = tomllib.loads(text)["features"]
    assert features["thousands"] == {"as": "number", "parse": "text", "thousands": ","}
    assert set(features["vocabulary"]["values"]) == {"DE", "FR"}
    assert "unique" not in features
    evaluated(path)
    assert text.count('missing = "indicator"') == 1
    wider = re.sub(r'\["(DE|FR)", "(DE|FR)"\]', '["DE", "FR", "NA"]', text).replace(', missing = "indicator"', "")
    path.with_name("config.toml").write_text(wider)
    found = evaluated(path)
    assert found["training_points"] + found["test_points"] == ROWS, "nothing is missing in the file any more"


def test_a_file_in_an_order_is_seen_as_a_whole(tmp_path: Path) -> None:
    """Of most files the first rows are the oldest: a field that comes into use later is not constant."""
    path = tmp_path / "events.csv"
    late = [row >= ROWS // 2 for row in range(ROWS)]
    cells = [f"{row + 5},{'new' if one else 'old'},{row % (3 if one else 50) == 0}\n" for row, one in enumerate(late)]
    path.write_text("number,channel,y\n" + "".join(cells))
    text = inferred(path, "--rows", "200")
    assert text.startswith("# Proposed from 200 of the 2,000 events of events.csv.")
    assert {*tomllib.loads(text)["features"]["channel"]["values"]} == {"new", "old"}
    assert "# number: identifier: it counts the events" in text
    assert 'class_weight = "balanced"  # 16.5% are True' in text
    assert inferred(path, "--rows", "200") == text
