"""`streamsvm scale worker`, `scale backfill`, and the flag of `streamsvm train` that adopts what they learn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from consumers import constants
from consumers.help_texts import Command
from consumers.on_demand import OptionsOnDemand, SettingsFlag, with_settings

if TYPE_CHECKING:
    from consumers.settings import Settings

SECTIONS: Final = ("input", "events", "points", "registry", "coreset", "svm", "training", "worker")


@with_settings(*SECTIONS)
def worker_command(settings: Settings) -> None:
    """Learn partitions of a topic for a trainer with --from-coresets, as one of several processes, until stopped."""
    from consumers.host.runtime import (
        Health,
        configure_logging,
        connect,
        log_start,
        spare_the_collector,
        stop_on_signals,
    )

    stop = stop_on_signals()  # before the imports that take seconds
    from consumers.branches.workers.group_worker import GroupWorker
    from consumers.branches.workers.metrics import WORKER as METRICS
    from consumers.host.supervision import Supervision
    from consumers.host.web.server import HttpServer
    from consumers.metrics import Metrics
    from streamsvm.kafka import Cluster

    configure_logging(settings.log)
    settings.models()
    connection = connect(settings, "worker")
    metrics, health = Metrics(METRICS).with_process(), Health(stuck_after_s=constants.STUCK_AFTER_S)
    spare_the_collector()
    with HttpServer(settings.http, health, metrics.registry) as http, Supervision(health, stop), health.failing():
        log_start(settings, http.url)
        GroupWorker(settings, Cluster(connection), metrics, health, stop).run()


@with_settings(*SECTIONS)
def backfill_command(
    settings: Settings,
    *,
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Parquet, Arrow (IPC) or CSV files, or folders of them, that go before the topic. Default: what the "
            "topic holds now."
        ),
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1024,
            help="Workers, or tasks of Spark, each with partitions of its own. Default: one a processor, on a cluster "
            "of Spark one a partition.",
        ),
    ] = None,
    engine: Annotated[
        Literal["process", "spark"],
        typer.Option(help="Of files: processes of this machine, or tasks of Spark."),
    ] = "process",
    master: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Of Spark, as spark://host:7077 or local[2]."),
    ] = None,
    label: Annotated[
        str, typer.Option(help="Column of labels. Default: the one named y, label, class or target.")
    ] = "",
    features: Annotated[
        str,
        typer.Option(help="Columns of features in order, separated by commas, or one of vectors. Default: all others."),
    ] = "",
    weight: Annotated[str, typer.Option(help="Column of weights.")] = "",
    key: Annotated[
        str,
        typer.Option(help="Column of the records' keys: text, bytes, or whole numbers, whose decimal digits count."),
    ] = "",
    partitioner: Annotated[
        Literal["murmur2", "crc32"],
        typer.Option(
            help="How the producer chooses a partition: murmur2 of Java clients, or crc32, librdkafka's own default."
        ),
    ] = "murmur2",
    partition_column: Annotated[str, typer.Option(help="Column with the partition itself, in place of a key.")] = "",
    time: Annotated[str, typer.Option(help="Column of the records' times: milliseconds, or a timestamp.")] = "",
    in_topic: Annotated[
        bool,
        typer.Option(
            "--in-topic",
            help="The topic holds the rows of the files from its first record on, one a record; the stream goes on "
            "behind them. Default: they go before its first record.",
        ),
    ] = False,
    dead_letters: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where rejected rows are listed. Default: NAME.dead-letters.")
    ] = None,
) -> None:
    """Learn files, or what the input holds now, for a trainer with --from-coresets, and end."""
    from consumers.host.runtime import configure_logging, connect, stop_on_signals
    from streamsvm.kafka import Cluster

    configure_logging(settings.log)
    settings.models()
    columns = {"label": label, "features": features, "weight": weight, "key": key, "time": time}
    columns |= {"partition": partition_column}
    _refuse_foreign(paths, {**columns, "--in-topic": in_topic, "--dead-letters": dead_letters}, engine, master)
    cluster, stop = Cluster(connect(settings, "backfill")), stop_on_signals()
    if not paths:
        from consumers.branches.workers.backfill import backfill, processors

        status = backfill(settings, cluster, processes or processors(), stop)
    else:
        from consumers.branches.workers.files.backfill import Files, backfill_files

        given = Files(
            paths=paths,
            columns={**columns, "partitioner": partitioner},
            in_topic=in_topic,
            dead_letters=dead_letters or Path(f"{settings.name}.dead-letters"),
        )
        status = backfill_files(settings, cluster, given, stop, engine=engine, master=master, processes=processes)
    if status:
        raise typer.Exit(status)


def _refuse_foreign(paths: list[Path] | None, of_files: dict[str, object], engine: str, master: str | None) -> None:
    """Refuse options that what is learned, or the engine, has no use for.

    Raises
    ------
    ConfigurationError
    """
    from streamsvm.errors import ConfigurationError

    given = [name if name.startswith("--") else f"--{name}" for name, value in of_files.items() if value]
    if engine == "spark":
        given.append("--engine spark")
    if not paths and given:
        raise ConfigurationError(f"{', '.join(given)} is for files", "Give the paths of files, or leave it out.")
    if engine == "process" and master is not None:
        raise ConfigurationError("--master is for Spark", "Give --engine spark, or leave it out.")


def _from_coresets(settings: Settings) -> Settings:
    from consumers.branches.workers.settings import from_coresets

    return from_coresets(settings)


WORKER: Final = Command(name="worker", run=worker_command, cls=OptionsOnDemand, group="scale")
BACKFILL: Final = Command(name="backfill", run=backfill_command, cls=OptionsOnDemand, group="scale")
FROM_CORESETS: Final = SettingsFlag(
    name="from_coresets",
    help="Train on what `streamsvm scale worker` learned: training.from_coresets.",
    settle=_from_coresets,
)
