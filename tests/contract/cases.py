"""The cases of `cases.json`: bytes, how they are read, and what every reader must make of them.

The file has three parts, an entry a line. A *configuration* says how records are read: the options of `[points]`, how
many rows a record may have, and the recipe of raw events. A *schema* is what the registry answers. A *case* names one
of each, its bytes (`text`, or `base64`, or neither where a record has no value), headers and key, and what is expected:

- `rows` of points, events and labels: an object for a row that is accepted, the reason of one that is refused, and
  `{"passed over": ...}` for one that holds nothing; `scored` says it for readers that need no label, where they differ
  in more than the label;
- `refused` of a message: words of the refusal, by all readers or those in `by`; without it the message is read. A case
  of a model is a golden message with `edits` (`set`, `remove` or `insert` at a path, which may begin with the name of a
  part), and `says` has further words of Python's refusal; `valid` marks one that the JSON Schema takes all the same. Of
  other messages `says` is what the record holds.

A field that is left out of a row has its default: the weight 1, no id, and the time of the record.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from streamsvm.branches.events import Recipe, points_of
from streamsvm.config import PointsConfig
from tests.golden.model import path_of
from tests.ingest.rows import Raw, Shelf, few_rows

FILE: Final = Path(__file__).parent / "cases.json"
TIME_MS: Final = 1_000
"""The time of every record."""


@dataclass(frozen=True)
class Case:
    """One line of the file."""

    name: str
    read: str
    by: Any = ""
    value: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    key: bytes | None = None
    schemas: Mapping[str, str] = field(default_factory=dict)
    rows: Sequence[Any] = ()
    scored: Sequence[Any] = ()
    said: Mapping[str, Any] = field(default_factory=dict)

    @property
    def record(self) -> Raw:
        """The record, at the offset 0."""
        headers = tuple((name, text.encode()) for name, text in self.headers.items())
        return Raw(self.value, timestamp_ms=TIME_MS, headers=headers, key=self.key)

    @property
    def config(self) -> PointsConfig:
        """How its points are read."""
        return configured(self.by)[0]

    @property
    def recipe(self) -> Recipe | None:
        """What its events become; None of points."""
        return configured(self.by)[1]

    @property
    def shelf(self) -> Shelf:
        """The registry."""
        return shelf_of(tuple(self.schemas.items()))


@cache
def document() -> Any:
    """Return the file."""
    return json.loads(FILE.read_text("utf-8"))


@cache
def configured(name: str) -> tuple[PointsConfig, Recipe | None]:
    """Return the configuration of a name."""
    said = document()["configurations"][name]
    recipe = msgspec.convert(said["recipe"], Recipe) if "recipe" in said else None
    options = said["points"] if recipe is None else {**points_of(recipe), **said["points"]}
    return few_rows(said.get("rows", PointsConfig.ROWS_PER_RECORD))(**options), recipe


@cache
def shelf_of(schemas: tuple[tuple[str, str], ...]) -> Shelf:
    """Return a registry that answers for these ids."""
    texts = {int(at): document()["schemas"][name] for at, name in schemas}
    files = {at: text for at, text in texts.items() if not isinstance(text, str)}
    return Shelf({at: text for at, text in texts.items() if isinstance(text, str)}, files)


def edited(message: Any, edits: Sequence[Mapping[str, Any]]) -> Any:
    """Return a message with edits; the message itself is changed."""
    for edit in edits:
        verb, path = next((verb, edit[verb]) for verb in ("set", "remove", "insert") if verb in edit)
        *steps, last = path or [None]
        if path and path[0] not in message and isinstance(message.get("parts"), list):
            names = [part["part"] if isinstance(part, dict) else None for part in message["parts"]]
            if path[0] in names:
                *steps, last = "parts", names.index(path[0]), *path[1:]
        holder = message
        for step in steps:
            holder = holder[step]
        if last is None:
            message = edit["to"]
        elif verb == "set":
            holder[last] = edit["to"]
        elif verb == "remove":
            del holder[last]
        else:
            holder.insert(last, edit["to"])
    return message


def case_of(line: Mapping[str, Any]) -> Case:
    """Return what a line says."""
    said = dict(line)
    text, coded, key = said.pop("text", None), said.pop("base64", None), said.pop("key", None)
    value = base64.b64decode(coded) if coded is not None else None if text is None else text.encode()
    if said["read"] == "model":
        value = path_of(said["of"]).read_bytes()
        value = json.dumps(edited(json.loads(value), said["edits"])).encode() if "edits" in said else value
    rows = said.pop("rows", ())
    named = {name: said.pop(name) for name in ("by", "headers", "schemas") if name in said}
    scored = said.pop("scored", None)
    return Case(
        said.pop("case"), said.pop("read"), value=value, key=None if key is None else key.encode(), rows=rows,
        scored=unlabeled(rows) if scored is None else scored, said=said, **named,
    )  # fmt: skip


def unlabeled(rows: Sequence[Any]) -> list[Any]:
    """Return rows without their labels."""
    return [
        {name: one for name, one in row.items() if name != "label"} if isinstance(row, dict) else row for row in rows
    ]


@cache
def cases(*read: str) -> tuple[Case, ...]:
    """Return the cases of some kinds."""
    return tuple(case_of(line) for line in document()["cases"] if line["read"] in read)


def written(content: Any) -> str:
    """Return the file's text: an entry a line."""
    parts = []
    for name, entries in content.items():
        if isinstance(entries, dict):
            lines = [f"{json.dumps(key, ensure_ascii=False)}: {_line(one)}" for key, one in entries.items()]
        else:
            lines = [_line(one) for one in entries]
        opening, closing = "{}" if isinstance(entries, dict) else "[]"
        parts.append(f'"{name}": {opening}\n' + ",\n".join(lines) + f"\n{closing}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _line(entry: Any) -> str:
    return json.dumps(entry, ensure_ascii=False)
