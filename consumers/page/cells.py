"""What the parts of the live page are made of: the verdict, tables, and how numbers, times and names are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from consumers.page import drawings
from consumers.page.markup import MINUS, Child, Markup, element, join
from consumers.page.status import LettersStatus, Looks, Status

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


def figure_of(name: Child, value: Child, note: Child) -> Markup:
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


def letters_of(
    reasons: Mapping[str, int], path: str, letters: LettersStatus | None, letters_path: str, now: datetime
) -> Markup:
    """Return what was rejected: counts by reason since this start, and the newest one, whenever that was.

    Parameters
    ----------
    reasons : mapping of str to int
    path, letters_path : str
        Where they stand in the status.
    letters : LettersStatus or None
    now : datetime
    """
    rows = [
        [element("bdi", reason), number_of(f"{path}.{reason}", count)] for reason, count in reasons.items() if count
    ]
    newest = None if letters is None else letters.newest
    parts = [
        table_of("Rows rejected since this start, by reason", ["Reason", "Rows"], rows, numbers=1)
        if rows
        else element("p", "No row was rejected since this start.", class_="empty")
    ]
    if newest is not None:
        when = None if newest.time is None else join(", ", age_of(newest.time, now), " ago")
        parts += [
            element("h3", "The newest one"),
            element(
                "p",
                element("code", f"{newest.topic}[{newest.partition}]@{newest.offset}"),
                when,
                ": ",
                element("bdi", newest.reason),
                ". ",
                element("bdi", newest.message),
                class_="letter",
            ),
        ]
    if letters is not None and letters.before:
        parts.append(
            element(
                "p",
                "At this start, ",
                name_of(letters.topic),
                " held at most ",
                number_of(f"{letters_path}.before", letters.before),
                "; ",
                element("code", "streamsvm dead-letters"),
                " shows them.",
                class_="note",
            )
        )
    return element("section", element("h2", "Dead letters"), *parts)


def looks_of(looks: Looks | None, labels: tuple[str, ...] | None) -> Markup:
    """Return what the newest version looks at, as bars by feature."""
    heading = element("h2", "What it looks at")
    if looks is None or looks.why:
        return element(
            "section", heading, element("p", looks.why if looks else "There is no version yet.", class_="empty")
        )
    signed = looks.by == "coefficients"
    names = labels or ("the first label", "the second label")
    rows: list[list[Child]] = []
    for place, feature in enumerate(looks.features):
        positive = not signed or feature.value > 0.0
        share = number_of(f"looks.features.{place}.share", feature.share, ".1%")
        side = ("positive" if positive else "negative") if signed else "plain"
        bar = drawings.bar(feature.share / looks.features[0].share, side)
        speaks: list[Child] = [name_of(names[1 if positive else 0])] if signed else []
        rows.append([name_of(feature.name), bar, share, *speaks])
    caption = {
        "coefficients": f"Shares of the coefficients of version {looks.number} over standardised features; a greater "
        "value of the feature speaks for the label named",
        "machines": f"Shares of the mean size of the coefficients of version {looks.number}, over all labels' machines "
        "and standardised features",
    }[looks.by]
    headings = ["Feature", "", "Share", *(["Speaks for"] if signed else [])]
    note = f"{looks.others:,} more features have smaller shares, or none." if looks.others else ""
    return element(
        "section",
        heading,
        table_of(caption, headings, rows, numbers=1, first=2),
        element("p", note, class_="note") if note else None,
        class_="looks",
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
