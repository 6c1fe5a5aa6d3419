"""`streamsvm features`: a proposal of `[features]` from a file of raw events."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from consumers.host.untrusted_text import printable
from streamsvm.errors import ConfigurationError

if TYPE_CHECKING:
    from streamsvm.features.inference import Proposal

app = typer.Typer(no_args_is_help=True, help="Declare what the fields of raw events become.")


@app.callback()
def _group() -> None:
    """Let `infer` be a command of its own, though it is the only one."""


@app.command()
def infer(
    file: Annotated[Path, typer.Argument(help="CSV, JSON lines or Parquet file of events.")],
    label: Annotated[
        str | None, typer.Option(help="Field of the label. Default: the one called y, label, class or target.")
    ] = None,
    format_: Annotated[
        Literal["csv", "jsonl", "parquet"] | None,
        typer.Option("--format", help="Format of the file; default: by its file extension."),
    ] = None,
    delimiter: Annotated[str | None, typer.Option(help="Character between the cells of a CSV.")] = None,
    rows: Annotated[int, typer.Option(min=2, help="Most events to look at.")] = 20_000,
) -> None:
    """Print a proposal of [features] and [events], as TOML, with a comment on each field.

    Only the first rows are looked at. Read the proposal before you use it: a field that is not known yet when an event
    happens must be removed.
    """
    from streamsvm.features.inference import proposal
    from streamsvm.features.paths import path_of
    from streamsvm.ingest.files.event_files import events_in
    from streamsvm.ingest.files.opening import format_of

    events = list(islice(events_in(file, format_of(file, format_), None, delimiter), rows))
    if not events:
        raise ConfigurationError(f"{file} holds no events", "The file must have at least one row.")
    try:
        made = proposal(events, path_of(label) if label else None)
    except ValueError as error:
        raise ConfigurationError(str(error), "Give the field of a label with two values: --label FIELD.") from None
    for line in _lines(made, file):
        typer.echo(line)


def _lines(made: Proposal, file: Path) -> Iterator[str]:
    from streamsvm.config import toml_key, toml_value
    from streamsvm.features.declaring import written

    name = shlex.quote(str(file))
    yield f"# Proposed from the first {made.events:,} events of {printable(file.name)}. Read it before you use it."
    yield "# Try it:  streamsvm evaluate " + name + " --config THIS_FILE"
    yield "# Send it: streamsvm replay " + name + " --events --topic events --create 1 --config THIS_FILE"
    yield "# Train:   streamsvm train --config THIS_FILE --input-topic events"
    yield ""
    yield "[events]"
    if made.label is None:
        yield "# No field is called y, label, class or target: give --label FIELD, or write"
        yield '# label = {field = "...", negative = [false], positive = [true]}'
    else:
        path, negative, positive = made.label
        sides = {"negative": [negative], "positive": [positive]}
        yield f"label = {toml_value({'field': written(path), **sides})}"
    if made.id is not None:
        yield f"id = {toml_value(written(made.id))}"
    yield ""
    yield "[features]"
    for field in made.fields:
        why, key = printable(field.why), "_".join(map(str, field.path))
        if field.options is None:
            yield f"# {printable(key)}: {why}"
            continue
        options = field.options if written(field.path) == key else {"field": written(field.path), **field.options}
        yield f"{toml_key(key)} = {toml_value(dict(options))}  # {why}"
