"""The configuration reference, deploy/CONFIGURATION.md, made from the typed settings.

python -m consumers.cli.reference > deploy/CONFIGURATION.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from consumers.options import fields, flag, section_class, sections, shown_default, shown_type, variable
from streamsvm.config import ModelConfig

HEAD = """\
# Configuration

Made from the settings' own declarations: `python -m consumers.cli.reference > deploy/CONFIGURATION.md`.

Every option can stand in a TOML file (`--config FILE` or `STREAMSVM_CONFIG`) as `name` under its `[section]`, in the
environment as `STREAMSVM_SECTION__NAME`, or on the command line as `--section-name`; of several the last of these
counts. `streamsvm config --effective` shows what is in force, secrets masked. Options of the Kafka client stand under
`[kafka]` with librdkafka's own names (`"bootstrap.servers"`, `STREAMSVM_KAFKA__BOOTSTRAP_SERVERS`). Secrets come from
files (`--secrets DIRECTORY`, one file each) or the environment, never from the command line.

Sections marked *decides the model* are hashed into every version's lineage: a trainer refuses to go on under another
value and prints the way out. All others may change between two starts.
"""


FEATURES = """\
## [features] (decides the model)

What the fields of raw events become; without this section records are points. A line for each feature, in the order of
its columns: `name = {as = "number"}`, or `name = "number"` for short. `dimension`, `labels` and `feature_names` of
`[points]` then follow from the features, at most 2,000 columns, and records are JSON or Avro. In the environment the
section is a JSON object, `STREAMSVM_FEATURES`.
"""


OPTIONS_OF_FEATURES = (
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
"""Of `[features]`, whose lines are no options of the command line: kind, option, default, meaning."""


def markdown() -> str:
    """Return the text of the reference."""
    lines = [line for section in sections() for line in (*_before(section), *_section(section))]
    return "\n".join([HEAD, *lines]).rstrip() + "\n"


def _before(section: str) -> Iterator[str]:
    if section == "events":
        yield FEATURES
        yield "| as | option | default | meaning |"
        yield "|---|---|---|---|"
        yield from (f"| {' | '.join(cells)} |" for cells in OPTIONS_OF_FEATURES)
        yield "\nAn example is in [Events as they are](FORMATS.md#events-as-they-are).\n"


def _section(section: str) -> Iterator[str]:
    decides = " (decides the model)" if section in (*ModelConfig.model_fields, "events") else ""
    yield f"## {f'[{section}]' if section else 'Without a section'}{decides}\n"
    if section:
        yield f"{section_class(section).__doc__ or ''}".split("\n\n")[0].strip() + "\n"
    yield "| option | type | default | meaning |"
    yield "|---|---|---|---|"
    for name, info in fields(section).items():
        cells = (f"`{name}`", shown_type(info), shown_default(info) or "-", info.description or "")
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
    first = next(iter(fields(section)))
    yield f"\nFor example `{flag(section, first)}`, `{variable(section, first)}`.\n"


if __name__ == "__main__":
    sys.stdout.write(markdown())
