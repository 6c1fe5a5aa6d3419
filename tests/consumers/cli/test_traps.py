"""Traps that are planted in files: none is learned without a word. `pytest -v` of this file prints them as a table.

Five kinds of leaks, each told by `features infer` or, where it takes two fields to know the label, by `evaluate`; and
cells that look like something else.
"""

from __future__ import annotations

import csv
import json
import random
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
    kind: str = "csv"


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
    "present for one label only": Plant(
        lambda chance, _, label: {"planted": chance.choice("ab") if label else None},
        SUSPECTED + "it is present for 'yes' only",
    ),
    "missing for one label only": Plant(
        lambda chance, _, label: {"planted": chance.random() if not label or chance.random() < 0.5 else None},
        SUSPECTED + "it is missing for 'yes' only",
    ),
    "a number that alone tells all": Plant(
        lambda chance, _, label: {"planted": chance.random() - label},
        SUSPECTED + "alone it separates the labels (AUC 1.000)",
    ),
    "a category that alone tells all": Plant(
        lambda chance, _, label: {"planted": chance.choice("ab" if label else "cd")},
        SUSPECTED + "alone it separates the labels (AUC 1.000)",
    ),
    "a text of many values that alone tells all": Plant(_pure, SUSPECTED + "alone it separates the labels (AUC 1.000)"),
    "a time that orders the labels": Plant(_ordered, SUSPECTED + "alone it separates the labels (AUC 1.000)"),
    "an identifier that orders the labels": Plant(
        lambda _, row, label: {"planted": 7 * row + label * 10 * ROWS},
        SUSPECTED + "alone it separates the labels (AUC 1.000)",
    ),
}
TRAPS: Final = {
    "thousands separators": Plant(_with_thousands, "numbers as text with thousands separators; "),
    "99.9 % unique text": Plant(_nearly_unique, "nearly an identifier: 99.9% of its values differ"),
    "NA in a vocabulary": Plant(_namibia, "taken as missing; what is a value must be among the values of a category"),
}


def write(directory: Path, plant: Plant) -> Path:
    """Write events with two honest fields beside what is planted."""
    chance, path = random.Random(7), directory / f"events.{plant.kind}"
    events = []
    for row in range(ROWS):
        label = chance.random() < POSITIVE
        honest = {"amount": round(chance.gauss(50.0 + 10.0 * label, 20.0), 2), "card": chance.choice("xyz")}
        events.append({**honest, **plant.cells(chance, row, label), "y": "yes" if label else "no"})
    with path.open("w", newline="") as out:
        if plant.kind == "csv":
            table = csv.DictWriter(out, events[0])
            table.writeheader()
            table.writerows(events)
        else:
            out.writelines(
                json.dumps({name: v for name, v in event.items() if v is not None}) + "\n" for event in events
            )
    return path


def inferred(path: Path) -> tuple[dict[str, Any], str]:
    """Return the features that are proposed, and the line on the planted field."""
    done = run("features", "infer", str(path))
    assert done.returncode == 0, done.stderr
    (line,) = (line for line in done.stdout.splitlines() if line.removeprefix("# ").startswith("planted"))
    path.with_name("config.toml").write_text(done.stdout)
    return tomllib.loads(done.stdout)["features"], line


def evaluated(path: Path, *options: str) -> Any:
    """Return the report of `evaluate` by the configuration beside a file."""
    config = str(path.with_name("config.toml"))
    done = run("evaluate", str(path), "--config", config, "--no-optimum", "--json", *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("kind", LEAKS)
def test_a_planted_leak_is_left_out(kind: str, tmp_path: Path) -> None:
    """Commented out, with what was seen; the honest fields are proposed."""
    features, line = inferred(write(tmp_path, LEAKS[kind]))
    assert set(features) == {"amount", "card"}
    assert line.startswith("# planted: ")
    assert LEAKS[kind].said in line


def test_what_only_two_fields_know_is_named_by_evaluate(tmp_path: Path) -> None:
    """A leak that no field is by itself: its two fields are proposed, and nearly all rows are right by them."""
    path = write(tmp_path, Plant(_too_late, ""))
    done = run("features", "infer", str(path))
    assert SUSPECTED not in done.stdout
    path.with_name("config.toml").write_text(done.stdout)
    (ours,) = (row for row in evaluated(path)["rows"] if row["contender"] == "streamsvm")
    said = ours["note"].split("all rows right: is a field known too late? ")[1]
    assert said.startswith(("due decides: ", "paid decides: "))


@pytest.mark.parametrize("kind", TRAPS)
def test_a_planted_trap_is_not_learned_without_a_word(kind: str, tmp_path: Path) -> None:
    """Read as what it is, or left out; what is proposed can be evaluated."""
    path = write(tmp_path, TRAPS[kind])
    features, line = inferred(path)
    assert TRAPS[kind].said in line
    proposed = features.get("planted")
    if kind == "thousands separators":
        assert proposed == {"as": "number", "parse": "text", "thousands": ","}
    elif kind == "NA in a vocabulary":
        assert set(proposed["values"]) == {"DE", "FR"}
        _check_that_a_listed_value_is_that_value(path)
    else:
        assert proposed is None
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
