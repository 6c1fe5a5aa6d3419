"""`streamsvm features`: a proposal of `[features]` from a file of raw events, or from a topic."""

from __future__ import annotations

import shlex
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, cast, get_args

import typer

from consumers.help_texts import Command, Commands, PositiveLabel
from consumers.host.untrusted_text import printable
from consumers.on_demand import CLIENT, OptionsOnDemand, with_settings
from streamsvm.errors import ConfigurationError
from streamsvm.supports import require

if TYPE_CHECKING:
    from consumers.settings import Settings
    from streamsvm.branches.events.features.inference import Proposal
    from streamsvm.branches.events.features.recipe import Envelope
    from streamsvm.choices import KernelName

FileFormat = Literal["csv", "jsonl", "parquet"]
TopicFormat = Literal["auto", "json", "arrow", "avro", "json-schema", "protobuf"]
Asked = tuple[str | None, str | None]
"""The label's field, and which of its values is positive, where a person says so."""
MOST_READ: Final = 1_000_000
"""Events of a file among which those are drawn that are looked at: some 20 seconds."""

app = Commands(help="Declare what the fields of raw events become.")


@app.command(cls=OptionsOnDemand)
@with_settings("registry", common=CLIENT)
def infer(
    settings: Settings,
    file: Annotated[Path | None, typer.Argument(help="CSV, JSON lines or Parquet file of events.")] = None,
    topic: Annotated[
        str | None,
        typer.Option(help="Instead of a file: topic whose newest events are read, without joining a consumer group."),
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="Field of the label. Default: the one called y, label, class or target.")
    ] = None,
    positive: PositiveLabel = None,
    format_: Annotated[
        Literal[FileFormat, TopicFormat] | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="Of a file: csv, jsonl or parquet; default: by its extension. Of a topic's records: json, arrow, "
            "avro, json-schema, protobuf or auto; default: auto, by their header content-type, else JSON.",
        ),
    ] = None,
    delimiter: Annotated[str | None, typer.Option(help="Character between the cells of a CSV.")] = None,
    envelope: Annotated[
        Literal["none", "connect", "debezium"],
        typer.Option(metavar="NAME", help="With --topic: what is around an event: connect, debezium or none."),
    ] = "none",
    rows: Annotated[
        int, typer.Option(min=2, help="Most events to look at; of a file, drawn from its first million.")
    ] = 20_000,
) -> None:
    """Print a proposal of [features], [events] and [svm], as TOML, with a comment on each field.

    Of a long file a sample is looked at; of a Protobuf array only the first entry, and no map. Read the proposal before
    you use it: a field that is not known yet when an event happens must be removed.
    """
    if (file is None) == (topic is None):
        raise ConfigurationError("infer reads a file or a topic", "Give either FILE or --topic TOPIC.")
    if topic is not None:
        _require_of("a topic", format_, get_args(TopicFormat), {"--delimiter": delimiter})
        _infer_topic(settings, topic, (label, positive), cast("TopicFormat", format_ or "auto"), envelope, rows)
    elif file is not None:
        _require_of("a file", format_, get_args(FileFormat), {"--envelope": envelope != "none"})
        _infer_file(file, (label, positive), cast("FileFormat | None", format_), delimiter, rows)


def _require_of(what: str, format_: str | None, formats: Sequence[str], others: Mapping[str, object]) -> None:
    """Refuse a format, or another option, that is not one of a file, or of a topic."""
    if format_ is not None and format_ not in formats:
        raise ConfigurationError(
            f"--format {format_} is not a format of {what}", f"Choose one of {', '.join(formats)}."
        )
    if given := [name for name, value in others.items() if value]:
        raise ConfigurationError(f"{given[0]} has no meaning with {what}", f"Leave out {given[0]}.")


def _infer_file(file: Path, label: Asked, format_: FileFormat | None, delimiter: str | None, rows: int) -> None:
    from consumers.delimiters import found_delimiter
    from streamsvm.branches.events.csv_columns import typed
    from streamsvm.branches.events.event_files import untyped_in
    from streamsvm.branches.events.features.inference import drawn
    from streamsvm.ingest.files.opening import format_of

    known, said = format_of(file, format_), ""
    if delimiter is not None:
        said = f" --delimiter {shlex.quote(delimiter)}"
    delimiter = found_delimiter(file, known, delimiter)
    sample = drawn(islice(_counted(untyped_in(file, known, delimiter)), max(rows, MOST_READ)), rows)
    if not sample.of:
        raise ConfigurationError(f"{file} holds no events", "The file must have at least one row.")
    events: Sequence[Mapping[str, Any]] = sample.events
    markers: Mapping[str, Counter[str]] = {}
    if known == "csv":
        events, markers = typed(events, _label_columns(events[0], label))
    name, seen = shlex.quote(str(file)), f"{len(sample.events):,}"
    if sample.of > len(sample.events):
        seen = f"{seen} of the {'first ' if sample.of == max(rows, MOST_READ) else ''}{sample.of:,}"
    _propose(
        events,
        label,
        f"# Proposed from {seen} events of {printable(file.name)}. Read it before you use it.",
        f"# Try it:  streamsvm evaluate {name}{said} --config THIS_FILE",
        f"# Send it: streamsvm replay {name}{said} --events --topic events --create 1 --config THIS_FILE",
        "# Train:   streamsvm train --config THIS_FILE --input-topic events",
        markers=markers,
        places=sample.places,
        cells=sample.events if known == "csv" else None,
    )


def _label_columns(event: Mapping[str, Any], label: Asked) -> set[str]:
    """Return which columns may be the label."""
    from streamsvm.branches.events.features.inference import LABEL_NAMES

    field, _ = label
    return {field} if field else {name for name in event if name.lower() in LABEL_NAMES}


def _infer_topic(
    settings: Settings, topic: str, label: Asked, format_: TopicFormat, envelope: Envelope, rows: int
) -> None:
    from consumers.branches.events.sampling import newest_events

    require({"--format": format_, "--envelope": envelope})
    events, unreadable = newest_events(settings, topic, format_, envelope, rows)
    if not events:
        why = ", ".join(f"{reason}: {count}" for reason, count in unreadable.most_common(3)) or "it is empty"
        raise ConfigurationError(
            f"the newest records of {topic} hold no events ({why})", "Give --format or --envelope, or another topic."
        )
    _propose(
        events,
        label,
        f"# Proposed from {len(events):,} of the newest events of {printable(topic)}. Read it before you use it.",
        f"# Train: streamsvm train --config THIS_FILE --input-topic {shlex.quote(topic)}",
        envelope=envelope,
        points={} if format_ == "auto" else {"format": format_},
    )


def _counted(events: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield events; a terminal is shown how many they were so far."""
    if not sys.stderr.isatty():
        yield from events
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.completed:,.0f} events read"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        for event in events:
            bar.advance(task)
            yield event


def _propose(
    events: Sequence[Mapping[str, Any]],
    label: Asked,
    *head: str,
    envelope: str = "none",
    markers: Mapping[str, Mapping[str, int]] | None = None,
    places: Sequence[int] | None = None,
    points: Mapping[str, str] | None = None,
    cells: Sequence[Mapping[str, str]] | None = None,
) -> None:
    from streamsvm.branches.events.csv_columns import CsvColumns
    from streamsvm.branches.events.features.inference import proposal
    from streamsvm.branches.events.kernel_choice import chosen_kernel
    from streamsvm.branches.events.options import recipe_from
    from streamsvm.field_paths import path_of

    try:
        field, positive = label
        path = path_of(field) if field else None
        made = proposal(events, path, markers, places, positive, of_cells=cells is not None)
    except ValueError as error:
        raise ConfigurationError(
            str(error),
            "Give the label's field, --label FIELD, and of two values the positive one, --positive LABEL.",
        ) from None
    chosen: tuple[KernelName | None, str, str] = (None, "", "")
    plain = tomllib.loads("\n".join(_lines(made, envelope, points or {})))
    if made.label is not None and plain["features"]:
        recipe = recipe_from(plain["features"], plain["events"])
        if cells is not None:
            events = CsvColumns.of(recipe).events(cells)
        weight: Literal["none", "balanced"] = "balanced" if made.rare else "none"
        dtype: Literal["float32", "float64"] = "float64" if any(one.wide for one in made.fields) else "float32"
        chosen = chosen_kernel(events, recipe, dtype, weight)
    for line in (*head, *_lines(made, envelope, points or {}, chosen)):
        typer.echo(line)


def _alike(labels: Sequence[Any]) -> str:
    """Return the first labels that differ in blanks and upper case only; nothing where none do."""
    spelled: dict[str, list[str]] = {}
    for label in labels:
        if isinstance(label, str):
            spelled.setdefault(label.strip().casefold(), []).append(repr(label))
    return next((", ".join(names) for names in spelled.values() if len(names) > 1), "")


_OF_BOTH: Final = ("missing", "parse", "decimal", "thousands", "currency")
"""Options of a field's feature that its second one needs, too."""


def _lines(
    made: Proposal,
    envelope: str,
    points: Mapping[str, str],
    chosen: tuple[KernelName | None, str, str] = (None, "", ""),
) -> Iterator[str]:
    from streamsvm.branches.events.features.declaring import allowed, name_for, written
    from streamsvm.branches.events.features.inference import LABEL_NAMES
    from streamsvm.field_paths import shown
    from streamsvm.model.described import RARE
    from streamsvm.toml_text import toml_key, toml_value

    wide = [shown(field.path) for field in made.fields if field.wide]
    if points or wide:
        yield ""
        yield "[points]"
    yield from (f"{option} = {toml_value(value)}" for option, value in points.items())
    if wide:
        yield f'dtype = "float64"  # float32 makes different values of {printable(", ".join(wide))} the same'
    yield ""
    yield "[events]"
    if envelope != "none":
        yield f"envelope = {toml_value(envelope)}"
    if made.label is None:
        named = [str(field.path[0]) for field in made.fields if str(field.path[0]).lower() in LABEL_NAMES]
        why = "No field is called y, label, class or target"
        if len(named) > 1:
            why = f"Each of {printable(', '.join(named))} may be the label"
        yield f"# {why}: give --label FIELD, or write"
        yield '# label = {field = "...", negative = [false], positive = [true]}'
    else:
        path, labels = made.label
        if isinstance(labels, tuple):
            sides: dict[str, Any] = {"labels": list(labels)}
        else:
            sides = {"negative": [labels.negative], "positive": [labels.positive]}
            yield f"# {printable(labels.said)}; --positive LABEL"
        if made.unlabeled:
            yield f"# {made.unlabeled:,} of {made.events:,} have no label: evaluate with --skip-incomplete"
        if alike := _alike([name for side in sides.values() for name in side]):
            yield f"# {printable(alike)}: labels that differ in spelling only; spell them alike"
        yield f"label = {toml_value({'field': written(path), **sides})}"
    if made.id is not None:
        yield f"id = {toml_value(written(made.id))}"
    kernel, figures, why = chosen
    if made.rare is not None or why:
        yield ""
        yield "[svm]"
    if figures:
        yield f"# {figures}"
    if why:
        yield f"kernel = {toml_value(kernel)}  # {why}" if kernel else f"# no kernel is proposed: {printable(why)}"
    if made.rare is not None:
        value, share = made.rare
        why = f"{share:.1%} are {printable(repr(value))}, which a model may never answer otherwise"
        yield f'class_weight = "balanced"  # {why}'
        shows = " evaluate shows both." if share < RARE else ""
        yield f"# Its cost: more false alarms; average precision fell on six of eight public sets.{shows}"
    yield ""
    yield "[features]"
    names: set[str] = set()
    for field in made.fields:
        why, options = printable(field.why), allowed(field.options or {})
        if not options:
            unfit = "; a category cannot have them" if field.options else ""
            yield f"# {printable('_'.join(map(str, field.path)))}: {why}{unfit}"
            continue
        if left := [one for one in (field.options or {}).get("values", ()) if one not in options.get("values", [one])]:
            why += f"; a category has a column {printable(', '.join(left))} of its own"
        names.add(name := name_for(field.path, names))
        own = {} if written(field.path) == name else {"field": written(field.path)}
        yield f"{toml_key(name)} = {toml_value({**own, **options})}  # {why}"
        if field.borders:
            names.add(side := name_for((f"{name}_missing",), names))
            other: dict[str, Any] = {"field": written(field.path), "as": "number", "buckets": field.borders}
            other |= {option: value for option, value in options.items() if option in _OF_BOTH}
            yield f"{toml_key(side)} = {toml_value(other)}  # on which side of the border it lies"
    if not names:
        yield "# No feature is proposed: declare at least one"


FEATURES: Final = Command(name="features", run=app, after="score")
