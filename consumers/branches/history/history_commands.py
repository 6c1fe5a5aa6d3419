"""`streamsvm history ...`: models of the past, what they are made of, and rows taken out of it."""

from __future__ import annotations

import csv
import json
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from consumers.help_texts import AllCommands, Command, Commands
from consumers.host.untrusted_text import moment, printable
from consumers.on_demand import CLIENT, TRAINER_SECTIONS, OptionsOnDemand, RareOnDemand, with_settings
from streamsvm.errors import ConfigurationError
from streamsvm.supports import require

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from consumers.branches.history.building import Builder, RangeRequest
    from consumers.branches.history.erasing import Cost
    from consumers.branches.history.forgetting import ForgettingReport
    from consumers.settings import Settings
    from streamsvm.branches.history.forgotten import Forgotten
    from streamsvm.config import ModelConfig
    from streamsvm.kafka import Cluster, Connection, SchemaRegistry
    from streamsvm.model.version import Version
    from streamsvm.points import Position

app = Commands(help="Build models of the past from the archive, look at it and repair it, and forget rows.")
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
STEPS: Final = {"hour": 3_600.0, "day": 86_400.0, "week": 604_800.0}
MOST_STEPS: Final = 100_000


@app.callback()
def _group(help_all: AllCommands = False) -> None:
    pass


@app.command("build", cls=OptionsOnDemand)
@with_settings("output", "registry", "archive", common=CLIENT)
def build_command(
    settings: Settings,
    from_: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="From the first record of this time on. Default: the beginning."),
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Before the first record of this time. Default: the end.")
    ] = None,
    except_: Annotated[
        list[str] | None,
        typer.Option(
            "--except", metavar="FROM/TO", help="Leave out the rows from one time to another; may be repeated."
        ),
    ] = None,
    where: Annotated[
        str | None, typer.Option(metavar="partition=0,3", help="Only these partitions of the input. Default: all.")
    ] = None,
    as_: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="Name of the model to publish the result under.")
    ] = None,
    every: Annotated[
        str | None,
        typer.Option(
            metavar="hour|day|week",
            help="Publish nothing; print a table, CSV or JSON, of the coefficients for each hour, day or week.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Build a model of any stretch of the past from the archive, and publish it under a new name.

    Times are ISO 8601 with a zone, such as 2026-01-31T12:00:00Z, or a day of UTC. Exit status: 0, the version is of
    exactly what was asked for; 1, rows at a border are left out, because neither archive nor log holds them alone.
    """
    from consumers.branches.history.building import publish_built
    from consumers.host.runtime import connect

    request = _stretch(from_, to, except_ or [], where)
    require({"--as": as_, "--every": every})
    if every is not None and every not in STEPS:
        raise ConfigurationError(f"--every {every} is unknown", f"Choose one of {', '.join(STEPS)}.")
    if as_ is not None:
        _require_name(as_, settings)
    connection = connect(settings, "build")
    begun = time.monotonic()
    with _builder(connection, settings) as builder:
        if every is not None:
            _print_series(builder, request, STEPS[every], as_json)
            return
        assert as_ is not None
        found = builder.take(request)
        made = builder.made(found)
        target = settings.model_copy(update={"name": as_})
        sent = publish_built(connection, target, builder, request, found, made, _user_at_host())
    output = {
        "version": sent.version.key,
        "sha256": sent.digest,
        "points": sent.version.stream.points,
        "rows": sent.version.stream.rows,
        "parts": len(found.parts),
        "bytes_of_buckets": found.bytes_read,
        "rows_read_again": found.rows_read,
        "exact": found.exact,
        "seconds": round(time.monotonic() - begun, 3),
    }
    if as_json:
        typer.echo(json.dumps(output))
    else:
        not_all = "" if found.exact else ", which are not all that was asked for"
        typer.echo(
            printable(
                f"{output['version']}: of {output['points']:,} points in {output['rows']:,} rows{not_all}; "
                f"{output['parts']} parts, {output['bytes_of_buckets']:,} bytes of buckets, "
                f"{output['rows_read_again']:,} rows read again, {output['seconds']:.2f} s"
            )
        )
    raise typer.Exit(0 if found.exact else 1)


@app.command("show", cls=OptionsOnDemand)
@with_settings("archive", common=CLIENT)
def show_command(settings: Settings, as_json: AsJson = False) -> None:
    """Say what is archived of each partition: from where to where, how many buckets and bytes, what is missing."""
    from consumers.branches.history.rebuilding import summaries

    rows = summaries(_directory(settings))
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    for row in rows:
        missing = f", {row['missing_buckets']:,} buckets are missing" if row["missing_buckets"] else ""
        typer.echo(
            f"partition {row['partition']}: offsets {row['start']:,}-{row['end']:,}, {moment(row['first_time_ms'])} to "
            f"{moment(row['last_time_ms'])}; {row['buckets']:,} buckets, {row['bytes']:,} bytes, "
            f"{row['bytes'] / max(1, row['rows']):.2f} a row{missing}"
        )


@app.command("rebuild", cls=RareOnDemand)
@with_settings("input", "output", "registry", "archive", common=CLIENT)
def rebuild_command(settings: Settings, as_json: AsJson = False) -> None:
    """Read every archived bucket, and make again what is missing or damaged from the log; its trainer must be stopped.

    Exit status: 0, the archive is whole up to the newest span that the log completes; 1, the log no longer holds some
    of the rows.
    """
    from consumers.branches.history.erased_rows import ErasedRows
    from consumers.branches.history.rebuilding import rebuild
    from consumers.host.runtime import connect, schemas_of
    from consumers.streams.topics import READ_TIMEOUT_S
    from streamsvm.kafka import Cluster

    with schemas_of(settings) as schemas:
        cluster = Cluster(connect(settings, "rebuild"))
        erased = ErasedRows(cluster, settings.output.aliases_topic, READ_TIMEOUT_S)
        done = rebuild(cluster, _directory(settings), _say, erased, schemas)
    output: dict[str, Any] = {
        "sound": done.sound,
        "damaged": done.damaged,
        "made": done.made,
        "rows_read": done.rows_read,
        "lost": done.lost,
    }
    typer.echo(
        json.dumps(output)
        if as_json
        else f"{done.sound:,} buckets are sound, {done.damaged:,} were damaged, {done.made:,} were made again from "
        f"{done.rows_read:,} rows, {done.lost:,} stretches are lost"
    )
    raise typer.Exit(1 if done.lost else 0)


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
    yes: Annotated[
        bool,
        typer.Option("--yes", help="Forget the rows. Without --yes: only say what would be done, and what it costs."),
    ] = False,
    archive_only: Annotated[
        bool,
        typer.Option(
            "--archive-only", help="Forget rows in the archive only, not in what the trainer learned; at once."
        ),
    ] = False,
    retire: Annotated[
        bool,
        typer.Option(
            "--retire",
            help="Retire the versions of these rows that no alias or pin names; the trainer retires the newest one "
            "once a version without the rows is out.",
        ),
    ] = False,
    pinned: Annotated[
        int | None,
        typer.Option(
            "--pinned",
            metavar="VERSION",
            help="Go on although readers are pinned to this version, which is of the rows: they keep it.",
        ),
    ] = None,
    report_file: Annotated[
        Path | None,
        typer.Option(
            "--report",
            metavar="FILE",
            help="Write the report to this file: JSON if its name ends with .json, else Markdown.",
        ),
    ] = None,
    reason: Annotated[str, typer.Option("--reason", help="Why, for the audit trail.")] = "",
    as_json: AsJson = False,
) -> None:
    """Take rows out of what a trainer learned and of its archive, and report what was done and what remains where.

    The trainer must be stopped; give its options. It reads the log again at its next start, and these rows count as
    rejected when they came. Without --yes nothing is changed. Exit status: 0, done; 1, not done, for want of --yes, or
    some of the rows could not be looked at, or were never learned.
    """
    from consumers.branches.history.erased_rows import ErasedRows
    from consumers.branches.history.erasing import erase
    from consumers.branches.history.forgetting import opened, report_of
    from consumers.host.runtime import connect, schemas_of
    from consumers.streams.topics import READ_TIMEOUT_S
    from streamsvm.kafka import Cluster

    positions = _positions(position or [])
    if not (position or id_ or key):
        raise ConfigurationError(
            "nothing is to be forgotten", "Give --position, --id or --key, each as often as needed."
        )
    if report_file is not None and report_file.exists():
        raise ConfigurationError(f"the file {report_file} exists", "Give another --report: none is overwritten.")
    if report_file is not None and not report_file.parent.is_dir():
        raise ConfigurationError(f"there is no folder {report_file.parent}", "Give another --report: nothing was done.")
    connection = connect(settings, "forget")
    cluster, aliases = Cluster(connection), settings.output.aliases_topic
    with schemas_of(settings) as schemas, cluster.keeping():
        unmet: list[str] = []
        if id_ or key:
            positions, unmet = _found(settings, cluster, positions, id_ or [], key or [], schemas, archive_only)
        report = report_of(positions, _user_at_host())
        report.asked += [*(f"id {one}" for one in id_ or ()), *(f"key {one}" for one in key or ())]
        report.absent += [f"{one}: the log holds no such row" for one in unmet]
        with ExitStack() as stack:
            work = None
            if archive_only or _has_archive(settings, report):
                work = stack.enter_context(opened(cluster, _directory(settings), report, schemas))
                positions = _with_begun(positions, work.begun)
            of_them = _versions_of(report, settings, cluster, positions)
            if archive_only:
                assert work is not None
                work.require_recorded(work.record_of(ErasedRows(cluster, aliases, READ_TIMEOUT_S)))
                work.look(positions)
            else:
                report.model = settings.name
                if work is not None:
                    work.require_log(positions)
                own = [version.number for version in of_them if version.name == settings.name]
                report.pin = _pin(settings, cluster, own, pinned, refuses=yes)
                report.done = erase(
                    connection,
                    settings,
                    positions,
                    report,
                    reason=reason,
                    agree=lambda cost: _agreed(cost, yes=yes),
                    marking=lambda: None if work is None else work.mark(positions),
                    retire=own if retire else (),
                    schemas=schemas,
                )
            if work is not None and report.done:
                work.run(positions, work.record_of(ErasedRows(cluster, aliases, READ_TIMEOUT_S)))
        if retire and report.done:
            _retire(settings, cluster, of_them, report, reason)
    report.note_stores(settings)
    text = json.dumps(report.plain(), indent=2)
    if report_file is not None:
        report_file.write_text(f"{text}\n" if report_file.suffix == ".json" else report.text(), encoding="utf-8")
    typer.echo(text if as_json else printable_lines(report.text()))
    raise typer.Exit(1 if report.absent or not report.done else 0)


@app.command("search", cls=RareOnDemand)
@with_settings(*TRAINER_SECTIONS, "output", "scoring", common=CLIENT)
def search_command(
    settings: Settings,
    position: Annotated[
        list[str] | None,
        typer.Option("--position", metavar="PARTITION:OFFSET[.ROW]", help="Of a row to look for; may be repeated."),
    ] = None,
    id_: Annotated[
        list[str] | None,
        typer.Option("--id", help="Look for all rows with this id; may be repeated. The whole log is read for it."),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option("--key", help="Look for all rows of records with this key; may be repeated. As --id."),
    ] = None,
    records: Annotated[
        Path | None,
        typer.Option("--records", metavar="FILE", help="Values of records that the log has lost, one a line."),
    ] = None,
    also: Annotated[
        list[str] | None,
        typer.Option(
            "--also", metavar="STORE=PATH", help="Files of a store, such as logs=/var/log/streamsvm; may be repeated."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Look for what is left of rows in every store that may carry them: values, half precision, text, ids and hashes.

    Rows are read from the log, or from --records; the trainer may run. Exit status: 0, nothing was found; 1, something
    was, or some of the rows, or of the stores that the options name, could not be read.
    """
    from consumers.branches.history.erasing import model_configuration
    from consumers.branches.history.searching import contents_in_file, contents_in_log, search
    from consumers.host.runtime import connect, schemas_of
    from consumers.streams.topics import READ_TIMEOUT_S
    from streamsvm.kafka import Cluster

    positions = _positions(position or [])
    if not (position or id_ or key or records):
        raise ConfigurationError(
            "nothing is to be looked for", "Give --position, --id, --key or --records, each as often as needed."
        )
    given = _given(also or [])
    cluster = Cluster(connect(settings, "search"))
    with schemas_of(settings) as schemas, cluster.keeping():
        config = model_configuration(settings, cluster)
        unmet: list[str] = []
        if id_ or key:
            positions, unmet = _found_in(settings, cluster, config, positions, id_ or [], key or [], schemas)
        contents, missing = contents_in_log(cluster, settings.input.topic, config, positions, schemas, READ_TIMEOUT_S)
        if records is not None:
            contents += contents_in_file(records, settings.input.topic, config, schemas)
        found = search(cluster, settings, contents, given, READ_TIMEOUT_S)
    if as_json:
        typer.echo(json.dumps({"missing": [*unmet, *missing], **asdict(found)}, indent=2))
    else:
        typer.echo(printable_lines("\n".join(found.lines([*unmet, *missing]))))
    raise typer.Exit(1 if found.left or found.unread or missing or unmet else 0)


def _given(also: list[str]) -> dict[str, list[Path]]:
    """Return files and directories by the store that they are of."""
    from consumers.streams.row_stores import every_store

    names = {store.name.replace(" ", "-"): store.name for store in every_store() if not store.part_of}
    found: dict[str, list[Path]] = {}
    for text in also:
        name, equals, path = text.partition("=")
        if not equals or name not in names:
            raise ConfigurationError(
                f"--also {text} does not name a store and a path", f"The stores are {', '.join(sorted(names))}."
            )
        if not Path(path).exists():
            raise ConfigurationError(f"--also {text}: {path} does not exist")
        found.setdefault(names[name], []).append(Path(path))
    return found


def _versions_of(
    report: ForgettingReport, settings: Settings, cluster: Cluster, positions: dict[int, list[Position]]
) -> list[Version]:
    """Return the versions of any model that are of some rows, which the report names."""
    from consumers.branches.history.forgetting import note_versions
    from streamsvm.errors import TopicMissing

    try:
        return note_versions(report, cluster, settings.output.models_topic, settings.input.topic, positions)
    except TopicMissing as missing:
        report.remains.append(f"versions were not looked at: {missing.what}")
        return []


def _pin(settings: Settings, cluster: Cluster, own: list[int], confirmed: int | None, *, refuses: bool) -> str:
    """Return at which version of the rows readers are held; empty if at none.

    Raises
    ------
    ConfigurationError
        If that was not confirmed.
    """
    from consumers.streams.topics import READ_TIMEOUT_S
    from streamsvm.model.pointers import pin_key
    from streamsvm.registry.aliases import read_aliases

    names = read_aliases(cluster, settings.name, settings.output.aliases_topic, READ_TIMEOUT_S)
    held = names.named.get(pin_key(settings.name))
    if held is None or held.number not in own:
        return ""
    version = f"{settings.name}@{held.number}"
    if refuses and confirmed != held.number:
        raise ConfigurationError(
            f"readers of {settings.name}@current are pinned to {version}, which is of rows that are to be erased: they "
            "would go on with it",
            "Nothing was changed. Take the pin away with streamsvm model pin --remove; or confirm with --pinned "
            f"{held.number} that they keep it for now.",
        )
    return version


def _has_archive(settings: Settings, report: ForgettingReport) -> bool:
    """Return whether there is an archive to take rows out of; where not, the report says so."""
    from consumers.branches.history.building import archive_store
    from consumers.branches.history.settings import ArchiveConfig
    from streamsvm.sections import section

    directory = section(settings, ArchiveConfig).directory
    if directory is None:
        why = "no archive was looked at, because archive.directory is not given"
    elif archive_store(directory).identity() is None:
        why = f"no archive was looked at, because nothing is archived in {directory}"
    else:
        return True
    report.remains.insert(
        0,
        f"{why}: if this trainer has one, give the same command again with its --archive-directory; until then the "
        "trainer, streamsvm history build and streamsvm history rebuild refuse an archive that holds such a row",
    )
    return False


def _with_begun(positions: dict[int, list[Position]], begun: Forgotten) -> dict[int, list[Position]]:
    """Return the positions with those of a command that was ended."""
    partitions = sorted({*positions, *begun})
    return {p: sorted({*positions.get(p, ()), *begun.get(p, ())}) for p in partitions}


def _found(
    settings: Settings,
    cluster: Cluster,
    positions: dict[int, list[Position]],
    ids: list[str],
    keys: list[str],
    schemas: SchemaRegistry | None,
    archive_only: bool,
) -> tuple[dict[int, list[Position]], list[str]]:
    """Return the positions with those of all rows that have such an id or key, and what no row has."""
    from consumers.branches.history.building import archive_store
    from consumers.branches.history.erasing import configuration_of
    from consumers.branches.history.rebuilding import identity_of

    archived = identity_of(archive_store(_directory(settings))) if archive_only else None
    config = configuration_of(settings) if archived is None else archived.config
    topic_id = "" if archived is None else archived.topic_id
    return _found_in(settings, cluster, config, positions, ids, keys, schemas, topic_id)


def _found_in(
    settings: Settings,
    cluster: Cluster,
    config: ModelConfig,
    positions: dict[int, list[Position]],
    ids: list[str],
    keys: list[str],
    schemas: SchemaRegistry | None,
    topic_id: str = "",
) -> tuple[dict[int, list[Position]], list[str]]:
    """Return the positions with those of all rows that have such an id or key, and what no row has."""
    from consumers.branches.history.finding import found_by
    from consumers.streams.topics import READ_TIMEOUT_S

    more, missing = found_by(
        cluster,
        settings.input.topic,
        config,
        ids,
        keys,
        topic_id=topic_id,
        schemas=schemas,
        timeout_s=READ_TIMEOUT_S,
    )
    return _with_begun(positions, more), missing


def _agreed(cost: Cost, *, yes: bool) -> bool:
    of = f" of {cost.learned:,}, from a checkpoint of before these," if cost.rows < cost.learned else ""
    _say(f"the trainer's next start reads {cost.rows:,} rows{of} again, which takes about {cost.seconds:,.0f} s")
    if not yes:
        _say("nothing was changed: give --yes to do it")
    return yes


def _retire(
    settings: Settings, cluster: Cluster, of_them: list[Version], report: ForgettingReport, reason: str
) -> None:
    """Retire those of some versions that nothing names, and say which stay."""
    from consumers.models.moving import Records, perform, retire
    from consumers.streams.topics import READ_TIMEOUT_S
    from streamsvm.registry.aliases import read_aliases

    named: dict[str, set[int]] = {}
    for version in of_them:
        if version.name not in named:
            aliases = read_aliases(cluster, version.name, settings.output.aliases_topic, READ_TIMEOUT_S)
            named[version.name] = aliases.numbers
    for name, kept in sorted(named.items()):
        numbers = [version.number for version in of_them if version.name == name]
        later = (
            "the trainer retires it as soon as nothing names it any more, after its next start"
            if name == settings.name
            else "retire it with streamsvm model retire once nothing names it any more"
        )
        report.remains += [
            f"{name}@{number} was not retired, because it is the newest, or an alias or a pin names it: {later}"
            for number in numbers
            if number in kept
        ]
        going = [number for number in numbers if number not in kept]
        if going:
            target = settings.model_copy(update={"name": name})
            records = Records(cluster, target, report.by, reason or "rows were erased", datetime.now(UTC))
            perform(cluster, target, retire(records, going))
            report.retired += [f"{name}@{number}" for number in going]


def printable_lines(text: str) -> str:
    """Return lines without anything that a terminal would obey."""
    return "\n".join(map(printable, text.splitlines()))


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


def _print_series(builder: Builder, request: RangeRequest, every: float, as_json: bool) -> None:
    """Print a row for each stretch; one without a point has no coefficients."""
    from consumers.branches.history.building import RangeRequest, as_plain, steps_of
    from streamsvm.places import time_of

    since = request.since or time_of(builder.first_time_ms / 1e3 // every * every)
    until = request.until or time_of((builder.last_time_ms + 1) / 1e3)
    if (
        builder.first_time_ms < 0
        or since is None
        or until is None
        or (until - since).total_seconds() / every > MOST_STEPS
    ):
        raise ConfigurationError(
            f"--every has no more than {MOST_STEPS:,} steps, of an archive whose records have times",
            "Give --from and --to.",
        )
    rows, names = [], builder.config.points.feature_names
    writer = csv.writer(sys.stdout)
    for first, last in steps_of(since, until, every):
        found = builder.take(RangeRequest(since=first, until=last, holes=request.holes, partitions=request.partitions))
        row: dict[str, Any] = {"from": _iso(first), "to": _iso(last), "points": found.points, "exact": found.exact}
        if found.points:
            made = builder.made(found)
            row["objective"] = made.trained.fit.objective
            row |= as_plain(made, names)
        if as_json:
            rows.append(row)
            continue
        if not rows:
            dimension = builder.config.points.dimension
            features = list(names) or [f"x[{index}]" for index in range(dimension)]
            rows.append({})
            header = ["from", "to", "points", "exact", "objective", "intercept", *features]
            writer.writerow(header)
        writer.writerow([row.get(name, "") for name in header])
    if as_json:
        typer.echo(json.dumps(rows, indent=2))


def _stretch(from_: str | None, to: str | None, holes: list[str], where: str | None) -> RangeRequest:
    from consumers.branches.history.building import RangeRequest

    since, until = (None if text is None else _time(text, option) for text, option in ((from_, "--from"), (to, "--to")))
    apart = []
    for hole in holes:
        first, slash, last = hole.partition("/")
        if not slash:
            raise ConfigurationError(f"--except {hole} has no slash between two times", "Write --except FROM/TO.")
        apart.append((_time(first, "--except"), _time(last, "--except")))
    for option, pairs in (("--from and --to", [(since, until)]), ("--except", apart)):
        for first_time, last_time in pairs:
            if first_time is not None and last_time is not None and first_time >= last_time:
                raise ConfigurationError(f"{option}: {_iso(first_time)} does not come before {_iso(last_time)}")
    return RangeRequest(since=since, until=until, holes=apart, partitions=_partitions(where))


def _partitions(where: str | None) -> frozenset[int] | None:
    if where is None:
        return None
    name, _, listed = where.partition("=")
    parts = [part.strip() for part in listed.split(",")]
    if name.strip() != "partition" or not all(part.isascii() and part.isdigit() for part in parts):
        raise ConfigurationError(f"--where {where} is not understood", "Write --where partition=0,3.")
    return frozenset(map(int, parts))


def _time(text: str, option: str) -> datetime:
    """Read a time with its zone, or a day of UTC."""
    try:
        if len(text) == 10:
            day = date.fromisoformat(text)
            return datetime(day.year, day.month, day.day, tzinfo=UTC)
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigurationError(
            f"{option} {text} cannot be parsed as a time",
            "Write a time such as 2026-01-31T12:00:00Z, or a day such as 2026-01-31.",
        ) from None
    if found.tzinfo is None:
        raise ConfigurationError(f"{option} {text} has no time zone", "Add Z for UTC.")
    return found


def _iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _require_name(as_: str, settings: Settings) -> None:
    from pydantic import TypeAdapter, ValidationError

    from consumers.settings import ModelName

    try:
        TypeAdapter(ModelName).validate_python(as_)
    except ValidationError:
        raise ConfigurationError(
            f"--as {as_} cannot be a model's name", "Take letters, digits, dots, dashes and underscores, at most 100."
        ) from None
    if as_ == settings.name:
        raise ConfigurationError(
            f"--as {as_} is the trainer's own model: only the trainer publishes under its name",
            f"Choose another name, for example --as {settings.name}-past.",
        )


def _builder(connection: Connection, settings: Settings) -> AbstractContextManager[Builder]:
    from contextlib import contextmanager

    from consumers.branches.history.building import Builder, archive_store
    from consumers.branches.history.erased_rows import ErasedRows
    from consumers.host.runtime import schemas_of
    from consumers.models.commands import load
    from consumers.streams.topics import READ_TIMEOUT_S
    from streamsvm.kafka import Cluster

    @contextmanager
    def opened() -> Any:
        store = archive_store(_directory(settings))
        loaded, _ = load(settings, None, None)
        cluster = Cluster(connection)
        with schemas_of(settings) as schemas, cluster.keeping():
            erased = ErasedRows(cluster, settings.output.aliases_topic, READ_TIMEOUT_S)
            yield Builder(cluster, store, loaded, _say, erased, schemas)

    return opened()


def _directory(settings: Settings) -> Any:
    from consumers.branches.history.settings import ArchiveConfig
    from streamsvm.sections import section

    directory = section(settings, ArchiveConfig).directory
    if directory is None:
        raise ConfigurationError(
            "archive.directory is not given", "Give the trainer's, with --archive-directory or --config."
        )
    return directory


def _say(line: str) -> None:
    typer.echo(printable(line), err=True)


def _user_at_host() -> str:
    from consumers.models.moving import user_at_host

    return user_at_host()


HISTORY: Final = Command(name="history", run=app, after="model")
