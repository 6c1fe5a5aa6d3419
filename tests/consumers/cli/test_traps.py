"""Traps that are planted in files: none is learned without a word. `pytest -v` of this file prints them as a table.

Five kinds of leaks, each told by `features infer` or, where it takes two fields to know the label, by `evaluate`; and
cells that look like something else.
"""

from __future__ import annotations

import csv
import json
import random
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from tests.consumers.command import run

ROWS: Final = 2_000
POSITIVE: Final = 0.2
BEGIN: Final = datetime(2026, 1, 1, tzinfo=UTC)
SUSPECTED: Final = "leak suspected: "

Cells = Mapping[str, Any]
"""What is planted in an event, by field; None is left out, or an empty cell."""
Planted = Callable[[random.Random, int, bool], Cells]
"""Returns the cells of an event, of its place in the file and its label."""


@dataclass(frozen=True, slots=True)
class Plant:
    """A trap, and what is said of its field."""

    cells: Planted
    said: str


def _too_late(chance: random.Random, _: int, label: bool) -> Cells:
    """Return two amounts of which neither knows the label, and whose difference does."""
    due = chance.uniform(100.0, 900.0)
    return {"due": round(due, 2), "paid": round(due - (label * 300.0 + chance.uniform(0.0, 100.0)), 2)}


def _ordered(_: random.Random, row: int, label: bool) -> Cells:
    """Return when an event was closed: those of the positive label were, long after the others."""
    return {"planted": (BEGIN + timedelta(hours=row + label * ROWS)).isoformat()}


def _pure(chance: random.Random, _: int, label: bool) -> Cells:
    """Return one of 200 desks, each of which works on events of one label only."""
    return {"planted": f"desk {2 * chance.randrange(100) + label}"}


def _with_thousands(chance: random.Random, _: int, __: bool) -> Cells:
    return {"planted": f"{chance.uniform(1_000, 90_000):,.2f}"}


def _nearly_unique(chance: random.Random, row: int, _: bool) -> Cells:
    """Return a text that is another one in 99.9 % of the events."""
    return {"planted": f"case {row if row % 1_000 else 1:06d}"}


def _namibia(chance: random.Random, _: int, __: bool) -> Cells:
    return {"planted": chance.choice(["DE", "FR", "NA"])}


LEAKS: Final = {
    "present": Plant(
        lambda chance, _, label: {"planted": chance.choice("ab") if label else None},
        SUSPECTED + "it is present for 'yes' only",
    ),
    "absent": Plant(
        lambda chance, _, label: {"planted": chance.random() if not label or chance.random() < 0.5 else None},
        SUSPECTED + "it is missing for 'yes' only",
    ),
    "number": Plant(
        lambda chance, _, label: {"planted": chance.random() - label},
        SUSPECTED + "alone it separates the labels (AUC 1.000)",
    ),
    "category": Plant(
        lambda chance, _, label: {"planted": chance.choice("ab" if label else "cd")},
        SUSPECTED + "alone it separates the labels (AUC 1.000)",
    ),
    "pure": Plant(_pure, SUSPECTED + "alone it separates the labels (AUC 1.000)"),
    "ordered": Plant(_ordered, SUSPECTED + "alone it separates the labels (AUC 1.000)"),
    "identifier": Plant(
        lambda _, row, label: {"planted": 7 * row + label * 10 * ROWS},
        SUSPECTED + "alone it separates the labels (AUC 1.000)",
    ),
}
TRAPS: Final = {
    "thousands": Plant(_with_thousands, "numbers as text with thousands separators; "),
    "unique": Plant(_nearly_unique, "nearly an identifier: 99.9% of its values differ"),
    "vocabulary": Plant(_namibia, "taken as missing; what is a value must be among the values of a category"),
}


def write(directory: Path, plants: Mapping[str, Plant]) -> Path:
    """Write events with two honest fields beside what is planted; one plant's fields bear its name."""
    chances = {name: random.Random(7) for name in ("", *plants)}
    path, events = directory / "events.csv", []
    for row in range(ROWS):
        label = chances[""].random() < POSITIVE
        event = {"amount": round(chances[""].gauss(50.0 + 10.0 * label, 20.0), 2), "card": chances[""].choice("xyz")}
        for name, plant in plants.items():
            for field, value in plant.cells(chances[name], row, label).items():
                event[field.replace("planted", name)] = value
        events.append({**event, "y": "yes" if label else "no"})
    with path.open("w", newline="") as out:
        table = csv.DictWriter(out, events[0])
        table.writeheader()
        table.writerows(events)
    return path


def inferred(path: Path, *fields: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the features that are proposed, and the line on each planted field."""
    done = run("features", "infer", str(path))
    assert done.returncode == 0, done.stderr
    path.with_name("config.toml").write_text(done.stdout)
    lines = {field: line for line in done.stdout.splitlines() for field in fields if re.match(rf"(# )?{field}\b", line)}
    return tomllib.loads(done.stdout)["features"], lines


def evaluated(path: Path, *options: str) -> Any:
    """Return the report of `evaluate` by the configuration beside a file."""
    config = str(path.with_name("config.toml"))
    done = run("evaluate", str(path), "--config", config, "--no-optimum", "--json", *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", LEAKS)
def test_a_planted_leak_is_left_out(name: str, tmp_path: Path) -> None:
    """Commented out, with what was seen; the honest fields are proposed."""
    features, lines = inferred(write(tmp_path, {name: LEAKS[name]}), name)
    assert set(features) == {"amount", "card"}
    assert lines[name].startswith(f"# {name}: ")
    assert LEAKS[name].said in lines[name]


def test_what_only_two_fields_know_is_named_by_evaluate(tmp_path: Path) -> None:
    """A leak that no field is by itself: its two fields are proposed, and nearly all rows are right by them."""
    path = write(tmp_path, {"": Plant(_too_late, "")})
    done = run("features", "infer", str(path))
    assert SUSPECTED not in done.stdout
    path.with_name("config.toml").write_text(done.stdout)
    (ours,) = (row for row in evaluated(path)["rows"] if row["contender"] == "streamsvm")
    said = ours["note"].split("all rows right: is a field known too late? ")[1]
    assert said.startswith(("due decides: ", "paid decides: "))


def test_planted_traps_are_not_learned_without_a_word(tmp_path: Path) -> None:
    """Read as what they are, or left out; what is proposed can be evaluated."""
    path = write(tmp_path, TRAPS)
    features, lines = inferred(path, *TRAPS)
    for name, trap in TRAPS.items():
        assert trap.said in lines[name]
    assert features["thousands"] == {"as": "number", "parse": "text", "thousands": ","}
    assert set(features["vocabulary"]["values"]) == {"DE", "FR"}
    assert "unique" not in features
    _check_that_a_listed_value_is_that_value(path)
    evaluated(path)


def _check_that_a_listed_value_is_that_value(path: Path) -> None:
    """Whoever adds `NA` to the vocabulary has a column for it: nothing is missing in the file any more."""
    config = path.with_name("config.toml")
    said = config.read_text()
    assert said.count('missing = "indicator"') == 1
    config.write_text(
        said.replace('["DE", "FR"]', '["DE", "FR", "NA"]')
        .replace('["FR", "DE"]', '["DE", "FR", "NA"]')
        .replace(', missing = "indicator"', "")
    )
    found = evaluated(path)
    assert found["training_points"] + found["test_points"] == ROWS


def test_a_file_in_an_order_is_seen_as_a_whole(tmp_path: Path) -> None:
    """Of most files the first rows are the oldest: a field that comes into use later is not constant."""
    path = tmp_path / "events.csv"
    late = [row >= ROWS // 2 for row in range(ROWS)]
    rows = [f"{row + 5},{'new' if one else 'old'},{row % (3 if one else 50) == 0}\n" for row, one in enumerate(late)]
    path.write_text("number,channel,y\n" + "".join(rows))
    done = run("features", "infer", str(path), "--rows", "200")
    assert done.stdout.startswith("# Proposed from 200 of the 2,000 events of events.csv.")
    assert {*tomllib.loads(done.stdout)["features"]["channel"]["values"]} == {"new", "old"}
    assert "# number: identifier: it counts the events" in done.stdout
    assert "class_weight" not in done.stdout
    assert run("features", "infer", str(path), "--rows", "200").stdout == done.stdout
