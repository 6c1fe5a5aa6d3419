"""The page of `[features]` in the configuration's reference, whose lines are no options of the command line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from consumers.settings_sockets import SectionPage

_HEAD: Final = """\
## [features] (decides the model)

What the fields of raw events become ([example](FORMATS.md#events-as-they-are)); without this section records are
points. A line for each feature, in the order of its columns, at most 2,000: `name = {as = "number"}`, or `name =
"number"` for short. `dimension`, `labels` and `feature_names` of `[points]` then follow. In the environment it is a
JSON object, `STREAMSVM_FEATURES`.
"""


_OPTIONS: Final = (
    (
        "any but cross",
        "`field`",
        "the name",
        "Where the field stands: `card.country`, `items[0].price`, or a list of keys.",
    ),
    (
        "any but cross",
        "`missing`",
        "`reject`",
        "An event without the field becomes a dead letter. `indicator`: a column of its own is 1, the others 0. "
        "`{constant = 3}`: it counts as this value; not for times.",
    ),
    (
        "number",
        "`parse`",
        "-",
        "What the field may hold beside a number: `text`, such as 12 % ([rules](FORMATS.md#numbers-as-text)).",
    ),
    ("number", "`decimal`", "`.`", "Of `text`: the separator before the decimals, `.` or `,`."),
    (
        "number",
        "`thousands`",
        "-",
        "Of `text`: the separator between groups of three figures: `,` `.` `'` `_` or a space.",
    ),
    ("number", "`currency`", "-", "Of `text`: what may stand before or behind the number, such as EUR or $."),
    ("number", "`clip`", "-", "Least and largest value: `[0, 1000]`."),
    ("number", "`unit`", "1", "Divide by this number, after clipping."),
    ("number", "`log1p`", "false", "Take sign(v) log(1 + abs(v))."),
    ("number", "`buckets`", "-", "Ascending borders: a column for each interval, instead of the number."),
    (
        "category",
        "`values`",
        "required",
        "The vocabulary: a column for each value, and one for all others.",
    ),
    (
        "hash",
        "`bits`",
        "required",
        "2^bits columns, 1 to 10 bits, of which a value's hash chooses one.",
    ),
    ("hash", "`seed`", "0", "Chooses another hash."),
    (
        "time",
        "`parts`",
        "hour, weekday",
        "Of `hour`, `weekday`, `month` (sine and cosine each), `age` (days since `since`).",
    ),
    (
        "time",
        "`zone`",
        "UTC",
        "Time zone whose clocks count.",
    ),
    (
        "time",
        "`format`",
        "`iso8601`",
        "Text such as 2026-01-31T12:00:00Z; or a number since the epoch: `s`, `ms`, `us`.",
    ),
    ("time", "`since`", "-", "Field from which the age counts."),
    ("flag", "", "", "1 for `true` or 1, 0 for `false` or 0."),
    (
        "cross",
        "`of`",
        "required",
        "Names of two features before it; the products of their columns.",
    ),
)
"""Kind, option, default, meaning."""


def _lines() -> Iterator[str]:
    yield _HEAD
    for kind in dict.fromkeys(row[0] for row in _OPTIONS):
        rows = [row for row in _OPTIONS if row[0] == kind]
        if len(rows) == 1:
            yield f"- {kind}: {_row(*rows[0][1:])}"
        else:
            yield f"- {kind}:"
            yield from (f"  - {_row(*row[1:])}" for row in rows)
    yield ""


def _row(option: str, default: str, meaning: str) -> str:
    return f"{option}{f' ({default})' if default not in ('', '-') else ''}: {meaning}" if option else meaning


PAGE: Final = SectionPage(section="events", before="\n".join(_lines()), decides=True)
