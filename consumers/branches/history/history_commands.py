"""`streamsvm history forget`: rows of the input taken out of what a trainer learned, and will learn."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Final

import typer

from consumers.help_texts import AllCommands, Command, Commands
from consumers.host.untrusted_text import printable
from consumers.on_demand import CLIENT, TRAINER_SECTIONS, OptionsOnDemand, with_settings
from streamsvm.errors import ConfigurationError

if TYPE_CHECKING:
    from consumers.branches.history.deletes import Named
    from consumers.branches.history.forgetting import VersionOfRows
    from consumers.settings import Settings
    from streamsvm.kafka import Cluster, SchemaRegistry
    from streamsvm.points import Position

app = Commands(help="Forget rows of the past.")


@app.callback()
def _group(help_all: AllCommands = False) -> None:
    pass


@app.command("forget", cls=OptionsOnDemand)
@with_settings(*TRAINER_SECTIONS, "output", common=CLIENT)
def forget_command(
    settings: Settings,
    position: Annotated[
        list[str] | None,
        typer.Option(
            "--position", metavar="PARTITION:OFFSET[.ROW]", help="Forget the row at this position; may be repeated."
        ),
    ] = None,
    id_: Annotated[
        list[str] | None,
        typer.Option("--id", help="Forget all rows with this id; may be repeated. The whole log is read for it."),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key", help="Forget all rows of records with this key; may be repeated. The whole log is read for it."
        ),
    ] = None,
    deletes: Annotated[
        str | None,
        typer.Option(
            "--deletes",
            metavar="TOPIC",
            help='Forget all rows that the records of this topic name, and that are not younger: {"op": "delete", '
            '"id": ...} names an id, a tombstone the key of records. Both logs are read once.',
        ),
    ] = None,
    yes: Annotated[
        bool,
        typer.Option("--yes", help="Forget the rows. Without --yes: only say what would be done."),
    ] = False,
    reason: Annotated[str, typer.Option("--reason", help="Why, for the audit trail.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Take rows out of what a trainer learned, and report what was done and which versions are of the rows.

    The trainer must be stopped; give its options. It reads the log again at its next start, and these rows count as
    rejected when they came. Without --yes nothing is changed. Exit status: 0, done; 1, not done, for want of --yes, or
    some of the rows could not be looked at, or were never learned.
    """
    from consumers.branches.history.deletes import Named, read_deletes
    from consumers.branches.history.erased_rows import ErasedRows
    from consumers.branches.history.erasing import erase
    from consumers.branches.history.forgetting import report_of, versions_of
    from consumers.host.runtime import connect, schemas_of
    from consumers.models.moving import user_at_host
    from consumers.streams.topics import READ_TIMEOUT_S
    from streamsvm.errors import TopicMissing
    from streamsvm.kafka import Cluster

    positions, unmet = _positions(position or []), list[str]()
    if not (position or id_ or key or deletes):
        raise ConfigurationError(
            "nothing is to be forgotten", "Give --position, --id, --key or --deletes, each as often as needed."
        )
    connection = connect(settings, "forget")
    cluster = Cluster(connection)
    with schemas_of(settings) as schemas, cluster.keeping():
        named = Named(dict.fromkeys(id_ or ()), dict.fromkeys(key or ()))
        if deletes:
            read_deletes(cluster, deletes, named, READ_TIMEOUT_S)
            if named.unreadable:
                _say(f"{named.unreadable:,} records of {deletes} are not deletes, and were passed over")
        if named.ids or named.keys:
            positions, unmet = _found(settings, cluster, positions, named, schemas)
        report = report_of(settings.name, positions, user_at_host())
        report.asked += [*(f"id {one}" for one in named.ids), *(f"key {one}" for one in named.keys)]
        report.absent += [f"{one}: the log holds no such row" for one in unmet]
        try:
            erased = ErasedRows(cluster, settings.output.aliases_topic, READ_TIMEOUT_S)
            output, source = settings.output, settings.input
            report.versions = versions_of(cluster, output.models_topic, source.topic, positions, erased)
        except TopicMissing as missing:
            _say(f"versions were not looked at: {missing.what}")
        report.pin = _pin(settings, cluster, report.versions)
        report.done = erase(connection, settings, positions, report, reason=reason, agree=lambda: yes, schemas=schemas)
    if as_json:
        typer.echo(json.dumps(report.plain(), indent=2))
    else:
        from rich.console import Console
        from rich.table import Table

        title = printable(f"Rows to be forgotten by {report.model}: asked by {report.by}, {report.time}")
        table = Table(title=title, show_header=False)
        for name, entry in report.lines():
            table.add_row(name, printable(entry))
        Console().print(table)
    if not report.done:
        _say("nothing was changed: give --yes to do it")
    raise typer.Exit(1 if report.absent or not report.done else 0)


def _pin(settings: Settings, cluster: Cluster, versions: list[VersionOfRows]) -> str:
    """Return at which version of the rows readers are held; empty if at none."""
    from consumers.streams.topics import READ_TIMEOUT_S
    from streamsvm.model.pointers import pin_key
    from streamsvm.model.version import version_key
    from streamsvm.registry.aliases import read_aliases

    names = read_aliases(cluster, settings.name, settings.output.aliases_topic, READ_TIMEOUT_S)
    held = names.named.get(pin_key(settings.name))
    version = "" if held is None else version_key(settings.name, held.number)
    return version if version in {one.key for one in versions} else ""


def _found(
    settings: Settings,
    cluster: Cluster,
    positions: dict[int, list[Position]],
    named: Named,
    schemas: SchemaRegistry | None,
) -> tuple[dict[int, list[Position]], list[str]]:
    """Return the positions with those of all rows that have such an id or key, and what no row has."""
    from consumers.branches.history.erasing import configuration_of
    from consumers.branches.history.finding import rows_named
    from consumers.streams.topics import READ_TIMEOUT_S

    config = configuration_of(settings)
    found = rows_named(cluster, settings.input.topic, config, named, schemas=schemas, timeout_s=READ_TIMEOUT_S)
    missing = [f"id {one}" for one in named.ids if one not in found.met_ids]
    missing += [f"key {one}" for one in named.keys if one not in found.met_keys]
    partitions = sorted({*positions, *found.places})
    return {p: sorted({*positions.get(p, ()), *found.places.get(p, ())}) for p in partitions}, missing


def _positions(given: list[str]) -> dict[int, list[Position]]:
    from streamsvm.points import Position

    found: dict[int, set[Position]] = {}
    for text in given:
        partition, colon, place = text.partition(":")
        offset, _, row = place.partition(".")
        numbers = [partition, offset, row or "0"]
        if not colon or not all(number.isascii() and number.isdigit() and len(number) < 19 for number in numbers):
            raise ConfigurationError(
                f"--position {text} cannot be parsed",
                "Write PARTITION:OFFSET, such as 0:1234, or 0:1234.5 for the sixth row.",
            )
        found.setdefault(int(partition), set()).add(Position(int(offset), int(row or 0)))
    return {partition: sorted(own) for partition, own in sorted(found.items())}


def _say(line: str) -> None:
    typer.echo(printable(line), err=True)


HISTORY: Final = Command(name="history", run=app, after="model")
