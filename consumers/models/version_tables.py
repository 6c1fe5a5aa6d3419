"""Lists and comparisons of versions, as tables for people and as plain JSON values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from consumers.host.untrusted_text import cell
from consumers.models.catalogue import Catalogue, CatalogueEntry
from consumers.models.shapes import bars
from streamsvm.model.comparison import CHANGES_SHOWN, Change, Comparison
from streamsvm.model.pointers import current_key, pin_key
from streamsvm.model.shapes import ShapeChange
from streamsvm.model.version import version_key
from streamsvm.places import time_of
from streamsvm.registry.aliases import Aliases

WIDE: Final = 120
"""Characters of a line from which on the list of versions has all its columns."""


def listed(entries: Iterable[CatalogueEntry], names: Aliases, name: str) -> list[dict[str, Any]]:
    """Return the versions as plain JSON values, each with what names it."""
    naming: dict[int, list[str]] = {}
    for key, alias in sorted(names.named.items()):
        naming.setdefault(alias.number, []).append(key.removeprefix(f"{name}@"))
    return [_plain(entry, naming.get(entry.number, [])) for entry in entries]


def _plain(entry: CatalogueEntry, aliases: list[str]) -> dict[str, Any]:
    figures = entry.figures
    return {
        "version": entry.number,
        "time": _time(entry.time_ms),
        "points": figures.points if figures else None,
        "objective": figures.objective if figures else None,
        "duality_gap": figures.duality_gap if figures else None,
        "aliases": aliases,
        "gate": entry.gate or None,
        "balanced_accuracy": entry.accuracy,
        "balanced_accuracy_before": entry.before,
        "skill": None if entry.skill is None else msgspec.to_builtins(entry.skill),
        "bytes": entry.value_bytes,
        "sha256": entry.sha256,
        "offset": entry.offset,
    }


def doubts(catalogue: Catalogue) -> Iterator[str]:
    """Name what stands under a version's number and is not it, or may be a forgery."""
    for number, values in catalogue.doubtful.items():
        key, there = version_key(catalogue.name, number), ", ".join(entry.said for entry in values)
        if number in catalogue.entries:
            yield f"not {key} (its hash is {catalogue.entries[number].sha256}), but written under its number: {there}"
        else:
            yield f"{key} is left out, because no later version names its hash: {there}"


def list_table(name: str, rows: Iterable[Mapping[str, Any]], width: int = WIDE) -> Table:
    """Return versions as a table of at most so many characters, in the order given.

    What names a version, `current` among others, stands beside its number. Below `WIDE` characters the figures of the
    fit are left out, and the caption says so.
    """
    caption = "balanced, before: balanced accuracy of a version and of the one it was to follow, on the same points"
    columns = ["version", "named by", "time, UTC", "points", "balanced", "before"]
    if width >= WIDE:
        columns += ["objective", "duality gap"]
    else:
        caption += f"\nobjective, duality gap: in {WIDE} columns, or with --json"
    table = Table(
        title=cell(name), title_style="bold", caption=caption, caption_justify="left", box=SIMPLE_HEAD, padding=(0, 1)
    )
    for column in columns:
        if column == "named by":
            table.add_column(column, overflow="fold", min_width=10)
        else:
            table.add_column(column, justify="left" if column.startswith("time") else "right", no_wrap=True)
    for row in rows:
        remarks = ["refused by the gate"] if row["gate"] == "refused" else []
        remarks += _skill(row["skill"])
        readable = row["points"] is not None
        cells = [
            str(row["version"]),
            cell(", ".join([*row["aliases"], *remarks])),
            row["time"][:19].replace("T", " ") if row["time"] else "unknown",
            f"{row['points']:,}" if readable else "unreadable",
            _number(row["balanced_accuracy"], ".4f"),
            _number(row["balanced_accuracy_before"], ".4f"),
            f"{row['objective']:.8g}" if readable else "",
            "" if row["duality_gap"] is None else f"{row['duality_gap']:.2g}",
        ]
        table.add_row(*cells[: len(columns)])
    return table


def _skill(skill: Mapping[str, Any] | None) -> list[str]:
    """Remark on a version that gives one answer, or knows nothing."""
    if skill is None:
        return []
    if "answers" not in skill:  # of more than two labels
        return ["knows nothing"] if skill["state"] == "none" else []
    one = {"negative": "answers the first label to every point", "positive": "answers the second label to every point"}
    if skill["answers"] in one:
        return [one[skill["answers"]]]
    return ["knows nothing"] if skill["state"] == "none" else []


def diff_table(found: Comparison) -> Table:
    """Return a comparison as a table."""
    table = Table(title=cell(f"{found.before} and {found.after}"), title_style="bold")
    for column in ("", found.before, found.after, "change"):
        table.add_column(cell(column), style="cyan" if not column else "", overflow="fold")
    for name, change in found.figures.items():
        table.add_row(name, *_shown(change))
    table.add_section()
    for name, value in found.lineage.items():
        table.add_row(name, "", "", cell(_said(value)))
    table.add_section()
    for line in found.configuration or ["the same configuration"]:
        table.add_row("configuration", "", "", cell(line))
    table.add_section()
    for row in _machine_rows(found):
        table.add_row(*row)
    return table


def _machine_rows(found: Comparison) -> Iterator[tuple[str | Text, str, str, str]]:
    if (coefficients := found.coefficients) is not None:
        yield "cosine of coefficients", "", "", _number(coefficients.cosine, ".9f")
        yield "norm, in norms of the first", "", "", _number(coefficients.norm_ratio, ".6g")
        for name, change in coefficients.largest.items():
            yield (cell(name), *_shown(change))
        yield ("intercept", *_shown(coefficients.intercept))
    elif (answers := found.answers) is not None:
        yield "same answer", "", "", f"{answers.same_label:.2%} of {answers.points:,} support vectors"
        yield "decision values", "", "", f"differ by at most {answers.largest:.6g}"
    else:
        yield "machine", "", "", "different features: not compared"
    for place, shape in enumerate(found.shapes or ()):
        if place < CHANGES_SHOWN or not (shape.before and shape.after):
            yield cell(shape.title), *_drawn(shape)


def _drawn(change: ShapeChange) -> tuple[str, str, str]:
    """Return a shape before and after, without its level, at the same knots and to one scale; and its change."""
    newest = change.after or change.before
    assert newest is not None
    axes = [np.array(knots) for knots in newest.knots]
    values = [one.on(axes) if one else np.empty(0) for one in (change.before, change.after)]
    lines = [np.atleast_2d(one - one.mean()) if one.size else one for one in values]
    levels = np.concatenate([one.ravel() for one in lines])
    low, high = float(levels.min()), float(levels.max())
    before, after = ("\n".join(bars(row, low, high) for row in one.tolist()) or "none" for one in lines)
    where = " and ".join(f"{first:.6g} to {last:.6g}" for first, last in change.where)
    return before, after, f"{change.change:+.4g} at {where}"


def _said(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(f"[{key}] {count:+,}" for key, count in value.items()) if isinstance(value, dict) else str(value)


def _shown(change: Change) -> tuple[str, str, str]:
    before, after = change.before, change.after
    moved = None if before is None or after is None else after - before
    return _number(before, ".8g"), _number(after, ".8g"), _number(moved, "+.4g")


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _time(milliseconds: int) -> str | None:
    if milliseconds < 0:
        return None
    time = time_of(milliseconds / 1000)
    return None if time is None else time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def head_line(names: Aliases, name: str) -> str:
    """Return what readers have, in one line."""
    pin, current = names.named.get(pin_key(name)), names.named.get(current_key(name))
    if pin is not None:
        behind = f"; current is {current.number}" if current and current.number != pin.number else ""
        return f"readers are pinned to {version_key(name, pin.number)}{behind}"
    return f"readers have {version_key(name, current.number)}" if current else "readers have no version yet"
