"""What the parts of the live page are made of: the verdict, tables, and how numbers, times and names are written."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from consumers.page.markup import MINUS, Child, Markup, element
from consumers.page.status import (
    Status,
)

NONE = "\N{EN DASH}"

MARKS = {"good": "●", "fair": "●", "bad": "▲", "waiting": "◌", "stopped": "■"}

UNITS = (("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000), ("bytes", 1))


def verdict_of(status: Status, now: datetime) -> Markup:
    """Return the part that says in words how the daemon does, and since when."""
    verdict = status.verdict
    since = verdict.since
    return element(
        "section",
        element("h2", "Status", class_="unseen"),
        element(
            "div",
            element("p", _mark(verdict.level), element("span", verdict.headline), role="status"),
            None if since is None else element("p", "for ", age_of(since, now), class_="since"),
            class_="headline",
        ),
        element("p", element("bdi", verdict.detail), class_="detail"),
        class_=f"verdict {verdict.level}",
    )


def _mark(level: str) -> Markup:
    return element("span", MARKS[level], class_="mark", aria_hidden="true")


def figure_of(name: str, value: Child, note: Child) -> Markup:
    """Return one figure with what it means under it."""
    return element("div", element("dt", name), element("dd", value, element("small", note) if note else None))


def table_of(
    caption: str, headings: Sequence[str], rows: Sequence[Sequence[Child]], *, numbers: int, first: int = 1
) -> Markup:
    """Return a table in a region that scrolls by itself; `numbers` columns from `first` on are numbers."""
    kinds = ["number" if first <= column < first + numbers else None for column in range(len(headings))]
    head = [
        element("th", heading, scope="col", class_=kind) if heading else element("td", class_=kind)
        for heading, kind in zip(headings, kinds, strict=True)
    ]
    lines = [
        element(
            "tr",
            element("th", row[0], scope="row"),
            *[element("td", cell, class_=kind) for cell, kind in zip(row[1:], kinds[1:], strict=True)],
        )
        for row in rows
    ]
    return element(
        "div",
        element(
            "table",
            element("caption", element("span", caption)),
            element("thead", element("tr", *head)) if any(headings) else None,
            element("tbody", *lines),
        ),
        class_="scroll",
        role="region",
        aria_label=caption,
        tabindex=0,
    )


def number_of(field: str, value: float | None, form: str = ",") -> Markup:
    """Return a number for people, with the exact one beside it; a dash for none."""
    if value is None:
        return element("data", NONE, value="", data_field=field)
    shown = f"{value:{form}}".replace("-", MINUS)
    return element("data", shown, value=repr(value), data_field=field)


def bytes_of(field: str, value: int | None) -> Markup:
    """Return a number of bytes in the unit that suits it, with the exact one beside it."""
    if value is None:
        return number_of(field, None)
    unit, size = next(((unit, size) for unit, size in UNITS if value >= size), UNITS[-1])
    return element("data", f"{value / size:.4g} {unit}", value=repr(value), data_field=field)


def name_of(text: str) -> Markup:
    """Return a name from outside, whatever its direction of writing."""
    return element("bdi", text)


def short_hash(digest: str | None) -> Markup:
    """Return the first digits of a version's hash, with all of it beside them."""
    if digest is None:
        return element("span", "none", title="the first version")
    return element("code", digest[:8], title=digest)


def range_of(start: tuple[int, int], end: tuple[int, int]) -> str:
    """Return a range of offsets, the end exclusive; the row inside of a record where it is not its first."""
    return " to ".join(f"{offset:,}" + (f"+{row}" if row else "") for offset, row in (start, end))


def time_of(time: datetime) -> Markup:
    """Return a time of UTC to the second, with the exact one beside it."""
    return element("time", f"{time:%Y-%m-%d %H:%M:%S} UTC", datetime=time.isoformat())


def age_of(time: datetime, now: datetime) -> Markup:
    """Return how long ago something was; the script keeps it up to date."""
    return element("time", age((now - time).total_seconds()), datetime=time.isoformat(), data_age=True)


def age(seconds: float) -> str:
    """Return a length of time in its largest unit of which it has two, else in seconds; `script.js` does the same."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{int(seconds // length)} {unit}"
    return f"{max(0, int(seconds))} s"
