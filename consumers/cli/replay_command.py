"""`streamsvm replay`: a file to a topic, as points or as raw events."""

from __future__ import annotations

import shlex
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from consumers.cli.file_flags import (
    Dataset,
    Delimiter,
    FeatureColumns,
    Format,
    Header,
    IdColumn,
    LabelColumn,
    PointsFile,
    SkipIncomplete,
    WeightColumn,
    event_file,
)
from consumers.help_texts import PositiveLabel
from consumers.host.untrusted_text import printable
from consumers.on_demand import CLIENT, with_settings
from streamsvm.errors import ConfigurationError

if TYPE_CHECKING:
    from consumers.settings import Settings
    from streamsvm.kafka import Cluster

RecordFormat = Literal["json", "json-array", "arrow", "avro"]


@with_settings("registry", common=CLIENT)
def replay_command(
    settings: Settings,
    context: typer.Context,
    *,
    topic: Annotated[str, typer.Option(help="Topic to write to.")],
    file: PointsFile = None,
    dataset: Dataset = None,
    format_: Format = None,
    label: LabelColumn = None,
    positive: PositiveLabel = None,
    weight: WeightColumn = None,
    id_: IdColumn = None,
    columns: FeatureColumns = None,
    header: Header = None,
    delimiter: Delimiter = None,
    no_label_column: Annotated[
        bool, typer.Option("--no-label-column", help="The file has no labels; every column is a feature.")
    ] = False,
    events: Annotated[
        bool,
        typer.Option(
            "--events",
            help="Send each row of a CSV, JSON lines or Parquet file as a JSON object of its columns, for a trainer "
            "with [features]. With --config, columns that its features take for text stay text.",
        ),
    ] = False,
    unlabeled: Annotated[bool, typer.Option("--unlabeled", help="Send the records without labels.")] = False,
    rate: Annotated[float | None, typer.Option(help="Points per second; default: as fast as possible.")] = None,
    record_format: Annotated[
        RecordFormat,
        typer.Option(
            metavar="FORMAT",
            help="Format of the records: json, json-array, arrow or avro. avro needs registry.url and registers its "
            "schema there.",
        ),
    ] = "json",
    rows_per_record: Annotated[int, typer.Option(help="Points per record; more than 1 writes arrays.")] = 1,
    skip_incomplete: SkipIncomplete = False,
    limit: Annotated[int | None, typer.Option(help="Stop after this many points.")] = None,
    shuffle: Annotated[int | None, typer.Option(help="Shuffle in memory with this seed; for sorted files.")] = None,
    partition: Annotated[int | None, typer.Option(help="Write to this partition only.")] = None,
    create: Annotated[
        int | None, typer.Option(help="If the topic is missing, create it with this many partitions.")
    ] = None,
    repeat: Annotated[
        bool, typer.Option("--repeat", help="Start over at the end of the file, until interrupted.")
    ] = False,
) -> None:
    """Write the points of a file, or of the bundled pulsar survey, to a topic."""
    from consumers.cli.file_options import Labels, SkippedRowCounter, first_look, in_flags, source_of
    from consumers.delimiters import found_delimiter
    from consumers.host.runtime import connect, schemas_of, stop_on_signals
    from consumers.replay.replay import expected_points, prepare_topic, progress_bar, replay
    from streamsvm.kafka import Cluster

    if (file is None) == (dataset is None):
        raise ConfigurationError(
            "replay needs either a file or --dataset", "For example: streamsvm replay points.csv --topic labeled"
        )
    cluster, stop, labels = Cluster(connect(settings, "replay")), stop_on_signals(), Labels()
    foreign: dict[str, object] = {"label": label, "positive": positive, "weight": weight, "id": id_, "columns": columns}
    foreign["header"] = header
    with in_flags():
        delimiter = found_delimiter(file, format_, delimiter)
    if events:
        _replay_events(
            settings,
            cluster,
            topic,
            event_file("--events", file, foreign),
            config=context.params.get("config"),
            format_=format_,
            delimiter=delimiter,
            unlabeled=unlabeled,
            create=create,
            sending={
                "rate_per_s": rate,
                "rows_per_record": rows_per_record,
                "limit": limit,
                "shuffle_seed": shuffle,
                "partition": partition,
                "stop": stop,
            },
        )
        return
    left_out = SkippedRowCounter(limit if shuffle is None else None)
    with in_flags(sys.argv[1:]), schemas_of(settings) as schemas:
        source = source_of(
            file,
            dataset,
            columns,
            format=format_,
            labeled=not no_label_column,
            label_column=label,
            weight_column=weight,
            id_column=id_,
            header=header,
            delimiter=delimiter,
            on_incomplete=left_out if skip_incomplete else None,
        )
        for note in first_look(source):
            typer.echo(printable(note), err=True)
        left_out.forget()
        source = left_out.noting(source)
        labeled = source.labeled and not unlabeled
        partitions = len(prepare_topic(cluster, topic, create_partitions=create, partition=partition))
        with closing(cluster.outbox()) as outbox:
            while True:
                with progress_bar(expected_points(source, limit), topic) as progress:
                    sent = replay(
                        labels.noting(source) if labeled else source,
                        outbox,
                        topic,
                        rate_per_s=rate,
                        labeled=labeled,
                        partition=partition,
                        partitions=partitions,
                        format=record_format,
                        register=None if schemas is None else schemas.register,
                        rows_per_record=rows_per_record,
                        limit=limit,
                        shuffle_seed=shuffle,
                        progress=progress,
                        stop=stop,
                    )
                typer.echo(
                    f"{sent.points:,} points in {sent.records:,} records to {topic}: {sent.bytes / 1e6:,.2f} MB "
                    f"in {sent.seconds:,.2f} s ({sent.points / max(sent.seconds, 1e-9):,.0f} points/s), "
                    f"all acknowledged{left_out}"
                )
                left_out.forget()
                if stop.is_set() or not repeat:
                    break
    if labeled:
        for line in labels.next_step(topic, source, positive):
            typer.echo(printable(line))


def _replay_events(
    settings: Settings,
    cluster: Cluster,
    topic: str,
    file: Path,
    *,
    format_: Any,
    delimiter: str | None,
    config: str | None,
    unlabeled: bool,
    create: int | None,
    sending: dict[str, Any],
) -> None:
    from consumers.cli.file_options import events_step, in_flags, taken_as_missing
    from consumers.replay.replay import prepare_topic, progress_bar, replay_events
    from streamsvm.ingest.decoding import Markers, decoding_of
    from streamsvm.ingest.files.opening import format_of

    recipe = settings.recipe
    with in_flags(sys.argv[1:]):
        markers: Markers = {}
        rows = decoding_of(recipe).rows_in(
            file, format_of(file, format_), recipe, delimiter, markers, unlabeled=unlabeled
        )
        known = prepare_topic(cluster, topic, create_partitions=create, partition=sending["partition"])
        with closing(cluster.outbox()) as outbox, progress_bar(sending["limit"], topic) as progress:
            sent = replay_events(rows, outbox, topic, progress=progress, partitions=len(known), **sending)
    typer.echo(
        f"{sent.points:,} events in {sent.records:,} records to {topic}: {sent.bytes / 1e6:,.2f} MB "
        f"in {sent.seconds:,.2f} s ({sent.points / max(sent.seconds, 1e-9):,.0f} events/s), all acknowledged"
    )
    for line in taken_as_missing(markers):
        typer.echo(printable(line))
    if unlabeled:
        return
    if recipe is None:
        typer.echo(f"to propose [features] for them: streamsvm features infer {shlex.quote(str(file))}")
    else:
        typer.echo(f"to train on them: {events_step(topic, config)}")
