"""The page of `[features]` in the configuration's reference, whose lines are no options of the command line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from consumers.settings_sockets import SectionPage

_HEAD: Final = """\
## [features] (decides the model)

What the fields of raw events become; without this section records are points. A line for each feature, in the order of
its columns: `name = {as = "number"}`, or `name = "number"` for short. `dimension`, `labels` and `feature_names` of
`[points]` then follow from the features, at most 2,000 columns, and records are JSON or Avro. In the environment the
section is a JSON object, `STREAMSVM_FEATURES`.
"""


_OPTIONS: Final = (
    (
        "any but cross",
        "`field`",
        "the name",
        "Where the field stands in an event: `card.country`, `items[0].price`, or a list of keys.",
    ),
    (
        "any but cross",
        "`missing`",
        "`reject`",
        "An event without the field, or with null there, becomes a dead letter. `indicator`: a column of its own is 1, "
        "and the feature's others are 0. `{constant = 3}`: it counts as this value; not for times.",
    ),
    (
        "number",
        "`parse`",
        "-",
        "What the field may hold beside a number of JSON: `text` that writes one, such as 1,234.50 or 12 %, or a "
        "connector's `decimal`, base64 ([the rules](FORMATS.md#numbers-as-text-and-decimals)). Default: neither.",
    ),
    ("number", "`decimal`", "`.`", "Of `text`: the separator before the decimals, `.` or `,`."),
    (
        "number",
        "`thousands`",
        "-",
        "Of `text`: the separator between groups of three figures: `,` `.` `'` `_` or a space. Default: none.",
    ),
    ("number", "`currency`", "-", "Of `text`: what may stand before or behind the number, such as EUR or $."),
    ("number", "`scale`", "-", "Of `decimal`: how many decimals it has. Default: an object of scale and value."),
    ("number", "`clip`", "-", "Least and largest value: `[0, 1000]`."),
    ("number", "`unit`", "1", "Divide by this number, after clipping."),
    ("number", "`log1p`", "false", "Take sign(v) log(1 + abs(v))."),
    ("number", "`buckets`", "-", "Ascending borders: a column for each interval, instead of the number."),
    (
        "category",
        "`values`",
        "required",
        "The vocabulary: a column for each value, and one for all others. Integers and booleans count by their text.",
    ),
    (
        "hash",
        "`bits`",
        "required",
        "For more values than a vocabulary can list: 2^bits columns, 1 to 10 bits. A value's hash chooses one of them, "
        "as 1 or -1. Values in one column are mistaken for each other.",
    ),
    ("hash", "`seed`", "0", "Chooses another hash."),
    (
        "time",
        "`parts`",
        "hour, weekday",
        "Of `hour`, `weekday`, `month` (sine and cosine each) and `age` (days since the field in `since`).",
    ),
    (
        "time",
        "`zone`",
        "UTC",
        "Name of the time zone whose clocks count. Its rules are copied into the recipe when an incarnation begins.",
    ),
    (
        "time",
        "`format`",
        "`iso8601`",
        "Text such as 2026-01-31T12:00:00Z; or a number of seconds (`s`), milliseconds (`ms`) or microseconds (`us`) "
        "since the epoch.",
    ),
    ("time", "`since`", "-", "Field from which the age counts."),
    ("flag", "", "", "1 for `true` or 1, 0 for `false` or 0."),
    (
        "cross",
        "`of`",
        "required",
        "Names of two features before it, not crosses; the products of their columns.",
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
    yield "\nAn example: [Events as they are](FORMATS.md#events-as-they-are).\n"


def _row(option: str, default: str, meaning: str) -> str:
    return f"{option}{f' ({default})' if default not in ('', '-') else ''}: {meaning}" if option else meaning


PAGE: Final = SectionPage(section="events", before="\n".join(_lines()), decides=True)
