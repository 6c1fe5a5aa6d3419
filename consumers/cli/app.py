"""The command line: every command is a few lines that join parts of the library."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from consumers.help_texts import Command, Commands
from consumers.host import last_words
from consumers.host.exit_codes import EXIT_UNFORESEEN, exit_code
from consumers.host.untrusted_text import printable
from consumers.models import commands as models
from consumers.on_demand import CLIENT, TRAINER_SECTIONS, OptionsOnDemand, with_settings
from streamsvm import __version__
from streamsvm.algorithms import ReducerName, StructureName
from streamsvm.crashpoints import arm
from streamsvm.errors import ConfigurationError, StreamsvmError, TopicMissing
from streamsvm.secrecy import is_secret
from streamsvm.sockets import DAEMONS, plugged
from streamsvm.supports import FOREIGN_COLUMNS, require

if TYPE_CHECKING:
    from datetime import datetime

    from consumers.dead_letters.listing import Chosen
    from consumers.settings import Settings
    from streamsvm.kafka import Cluster

app = Commands(
    name="streamsvm",
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="An always current margin classifier: labeled points in from a Kafka topic, model versions out.",
)
topics_app = Commands(help="Create and check the topics.")
app.add_typer(models.app, name="model")
app.add_typer(topics_app, name="topics")
for plugged_in in plugged("commands", Command, DAEMONS):
    plugged_in.register({"": app, "model": models.app, "topics": topics_app})

RecordFormat = Literal["json", "json-array", "arrow", "avro"]
PointsFile = Annotated[Path | None, typer.Argument(help="CSV, LIBSVM, JSON lines, Parquet or npz (X, y) file.")]
Dataset = Annotated[str | None, typer.Option(help="A bundled data set instead of a file: htru2.")]
Format = Annotated[
    Literal["csv", "svm", "jsonl", "parquet", "npz"] | None,
    typer.Option("--format", help="Format of the file; default: by its file extension."),
]
LabelColumn = Annotated[str | None, typer.Option(help="Name or index of the label column.")]
WeightColumn = Annotated[str | None, typer.Option(help="Name or index of the weight column.")]
IdColumn = Annotated[str | None, typer.Option("--id", help="Name or index of a column that is not a feature.")]
FeatureColumns = Annotated[str | None, typer.Option(help="Feature columns in order, separated by commas.")]
Dimension = Annotated[int | None, typer.Option(help="Number of features of a LIBSVM file.")]
Header = Annotated[
    bool | None, typer.Option("--header/--no-header", help="Whether the first line of a CSV names its columns.")
]
Delimiter = Annotated[str | None, typer.Option(help="Character between the cells of a CSV.")]
SkipIncomplete = Annotated[
    bool, typer.Option("--skip-incomplete", help="Skip rows of a CSV or Parquet file that lack a value.")
]


def main() -> None:
    """Run the command line. Errors become one line and a documented exit status; a defect says its traceback, too."""
    try:
        if crash_at := os.environ.get("STREAMSVM_TEST_CRASH_AT"):
            arm(crash_at)
        app()
    except StreamsvmError as error:
        last_words.say(printable(str(error)), exit_code(error))
        sys.exit(exit_code(error))
    except Exception as error:  # noqa: BLE001
        what = printable(" ".join(str(error).split()))
        last_words.say(
            f"unexpected {type(error).__name__}: {what}. This is a defect: report it with the traceback.",
            EXIT_UNFORESEEN,
            traceback.format_exc(),
        )
        sys.exit(EXIT_UNFORESEEN)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"streamsvm {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


@app.command(cls=OptionsOnDemand)
@with_settings(*TRAINER_SECTIONS, flags="train_flags")
def train(
    settings: Settings,
    reset: Annotated[
        str,
        typer.Option(
            help="End the named incarnation and begin anew. A refusal to start prints the value to give here."
        ),
    ] = "",
) -> None:
    """Learn from a topic of labeled points and publish model versions, until stopped."""
    from consumers.host.runtime import (
        Health,
        configure_logging,
        connect,
        log_start,
        spare_the_collector,
        stop_on_signals,
    )

    stop = stop_on_signals()  # before the imports that take seconds
    from consumers.host.supervision import Supervision
    from consumers.host.web.server import HttpServer
    from consumers.metrics import TRAINER, Metrics
    from consumers.page.board import TrainerBoard
    from consumers.page.site import site_of
    from consumers.trainer.components import Components
    from consumers.trainer.trainer import Trainer
    from streamsvm.kafka import Cluster

    configure_logging(settings.log)
    settings.models()
    connection = connect(settings, "trainer")
    metrics, health = Metrics(TRAINER.of(settings)).with_process(), Health(stuck_after_s=settings.http.stuck_after_s)
    board = TrainerBoard(settings, metrics)
    site = site_of(settings, board, metrics, health)
    spare_the_collector()
    with HttpServer(settings.http, health, metrics.registry, site) as http, Supervision(health, stop), health.failing():
        log_start(settings, http.url)
        components = Components(cluster=Cluster(connection), metrics=metrics, health=health, stop=stop, board=board)
        Trainer(settings, components, reset=reset).run()


@app.command(name="compile", cls=OptionsOnDemand)
@with_settings(*TRAINER_SECTIONS)
def compile_command(
    settings: Settings,
    check: Annotated[
        bool, typer.Option("--check", help="End with status 1 if anything had to be compiled: nothing was prepared.")
    ] = False,
) -> None:
    """Compile what `train` with the same options runs, so that its first start does not wait; asks no broker."""
    from consumers.host.runtime import configure_logging
    from consumers.trainer import kernels
    from streamsvm.build import build
    from streamsvm.compiling import CACHE

    configure_logging(settings.log)
    config, began = settings.models(), time.perf_counter()
    with kernels.counting() as compiled:
        kernels.prepare(
            config,
            lambda part: typer.echo(f"{compiled.functions:>4} functions compiled; {part}", err=True),
            registry=bool(settings.registry.url),
        )
    place = CACHE or "__pycache__ beside the sources"
    typer.echo(
        f"{compiled.functions} functions compiled into {place} for the CPU {build()['cpu']} "
        f"in {time.perf_counter() - began:,.1f} s; all others were there"
    )
    if check and compiled.functions:
        raise typer.Exit(1)


@app.command(cls=OptionsOnDemand)
@with_settings("scoring", "registry")
def score(settings: Settings) -> None:
    """Score a topic of unlabeled points with the current model, following every new version."""
    from consumers.host.runtime import (
        Health,
        configure_logging,
        connect,
        log_start,
        spare_the_collector,
        stop_on_signals,
    )

    stop = stop_on_signals()  # before the imports that take seconds
    from consumers.host.supervision import Supervision
    from consumers.host.web.server import HttpServer
    from consumers.metrics import SCORER, Metrics
    from consumers.page.board import ScorerBoard
    from consumers.page.site import site_of
    from consumers.scorer.components import ScorerComponents
    from consumers.scorer.scorer import Scorer

    configure_logging(settings.log)
    connection = connect(settings, "scorer")
    metrics, health = Metrics(SCORER.of(settings)).with_process(), Health(stuck_after_s=settings.http.stuck_after_s)
    board = ScorerBoard()
    site = site_of(settings, board, metrics, health)
    spare_the_collector()
    with HttpServer(settings.http, health, metrics.registry, site) as http, Supervision(health, stop), health.failing():
        log_start(settings, http.url)
        components = ScorerComponents(connection=connection, metrics=metrics, health=health, stop=stop, board=board)
        Scorer(settings, components).run()


@app.command(name="replay", cls=OptionsOnDemand)
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
    weight: WeightColumn = None,
    id_: IdColumn = None,
    columns: FeatureColumns = None,
    dimension: Dimension = None,
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
        typer.Option(help="Format of the records; avro needs registry.url and registers its schema there."),
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
    from consumers.cli.file_options import Labels, SkippedRowCounter, first_look, in_flags, next_step, source_of
    from consumers.host.runtime import connect, schemas_of, stop_on_signals
    from consumers.replay.replay import expected_points, prepare_topic, progress_bar, replay
    from streamsvm.kafka import Cluster

    if (file is None) == (dataset is None):
        raise ConfigurationError(
            "replay needs either a file or --dataset", "For example: streamsvm replay points.csv --topic labeled"
        )
    cluster, stop, labels = Cluster(connect(settings, "replay")), stop_on_signals(), Labels()
    foreign: dict[str, object] = {"label": label, "weight": weight, "id": id_, "columns": columns}
    foreign |= {"dimension": dimension, "header": header}
    if events:
        _replay_events(
            settings,
            cluster,
            topic,
            _event_file("--events", file, foreign),
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
            dimension=dimension,
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
        typer.echo(next_step(topic, source, labels.seen()))


@app.command(name="evaluate")
def evaluate_command(
    file: PointsFile = None,
    *,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Configuration file of a trainer: learn as train --config FILE does, by its features and events, its "
            "points, coreset, svm and seed; options here override them.",
        ),
    ] = None,
    dataset: Dataset = None,
    format_: Format = None,
    label: LabelColumn = None,
    weight: WeightColumn = None,
    id_: IdColumn = None,
    columns: FeatureColumns = None,
    dimension: Dimension = None,
    header: Header = None,
    delimiter: Delimiter = None,
    skip_incomplete: SkipIncomplete = False,
    partitions: Annotated[
        int | None,
        typer.Option(
            help="With --config: deal the rows to so many partitions in turn, as replay does. Default: as many as the "
            "configured input.topic has, else 1."
        ),
    ] = None,
    memory_points: Annotated[
        int | None,
        typer.Option(
            help="Largest number of points held at once: coreset.memory_points. Default without --config: 10000."
        ),
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(help="Trade-off of margin against average loss, C = 1 / (alpha n); default 1e-4.")
    ] = None,
    penalty: Annotated[
        float | None, typer.Option("--C", help="Penalty C of scikit-learn's SVC, instead of alpha.")
    ] = None,
    kernel: Annotated[
        Literal["linear", "rbf"] | None, typer.Option(help="Kernel of the machine. Default: linear.")
    ] = None,
    gamma: Annotated[str | None, typer.Option(help="RBF width: scale, auto or a number. Default: scale.")] = None,
    structure: Annotated[
        StructureName | None,
        typer.Option(help="How buckets merge: coreset.structure. Default without --config: chain."),
    ] = None,
    reducer: Annotated[
        ReducerName | None,
        typer.Option(help="How many points are reduced to few: coreset.reducer. Default: calibrated."),
    ] = None,
    probability: Annotated[
        Literal["sigmoid", "isotonic"] | None,
        typer.Option(help="Also judge probabilities, by Brier score and log loss: svm.probability."),
    ] = None,
    class_weight: Annotated[
        str | None,
        typer.Option(
            help="Factors for the weights of the first and the second label: two numbers, such as 1,10; or balanced. "
            "For every method alike: svm.class_weight."
        ),
    ] = None,
    cost: Annotated[
        str | None,
        typer.Option(
            metavar="FN,FP",
            help="Costs of a missed point of the second label and of a false alarm, such as 50,1: choose the threshold "
            "of the least mean cost, and show what it comes to on held-out rows: svm.cost.",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="FIGURE=SHARE",
            help="Choose the threshold for precision=0.9, recall=0.9 or alarm_rate=0.01 instead: svm.target.",
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the split, the order and every method. Default: 0.")] = None,
    test_share: Annotated[float, typer.Option(help="Share of the points that is held out for testing.")] = 0.2,
    optimum: Annotated[
        bool | None,
        typer.Option(
            "--optimum/--no-optimum",
            help="Also train on all points, which the gaps are measured against: most of the time that it all takes. "
            "Default: only if points times features are at most 67 million.",
        ),
    ] = None,
    prequential: Annotated[
        bool,
        typer.Option(
            "--prequential",
            help="Instead: keep the file's order, predict each row before it is learned, and compare every "
            "coreset.memory with others. For a stream that changes.",
        ),
    ] = False,
    lag: Annotated[
        int | None,
        typer.Option(help="With --prequential: labels come so many rows at a time. Default: those of a leaf."),
    ] = None,
    leaf_rows: Annotated[
        int | None, typer.Option(help="With --prequential: rows of a leaf, and between two versions. Default: 2000.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Learn a file's points in one shuffled pass with a chosen memory, and compare; needs no broker.

    Compared with: a uniform sample of the same size (reservoir), SGD in one pass, and the optimum on all training
    points. A gap is (F - F*) / F*, where F is the SVM's objective on the training part; with more than two labels, the
    sum over the problems of a trainer's machines: of the pairs up to 32 labels.
    """
    from rich.console import Console

    from consumers.cli.file_options import SkippedRowCounter, events_of, in_flags, source_of
    from consumers.evaluate import (
        Plan,
        PrequentialPlan,
        describe,
        describe_prequential,
        describe_thresholds,
        evaluate,
        evaluate_prequentially,
        headline,
        not_followed,
        notes,
        of_points,
        partitions_of,
        progress_bar,
        settings_of,
    )

    if (file is None) == (dataset is None):
        raise ConfigurationError(
            "evaluate needs either a file or --dataset", "For example: streamsvm evaluate --dataset htru2"
        )
    require({"--prequential": prequential, "--lag": lag, "--leaf-rows": leaf_rows})
    require({"--config": config is not None, "--partitions": partitions})
    learning = {
        "memory_points": memory_points,
        "structure": structure,
        "reducer": reducer,
        "alpha": alpha,
        "C": penalty,
        "kernel": kernel,
        "gamma": gamma,
        "probability": probability,
        "class_weight": class_weight,
        "cost": cost,
        "target": target,
        "seed": seed,
    }
    given = {name: value for name, value in learning.items() if value is not None}
    plan = Plan(test_share=test_share, find_optimum=optimum)
    settings, options = None, _overriding(given)
    if config is not None:
        settings = settings_of(config, options)
    else:
        read: dict[str, Callable[[Any], Any]] = {"gamma": _gamma, "class_weight": _class_weight}
        own = {name: read[name](value) if name in read else value for name, value in given.items()}
        plan = replace(plan, **{**own, **_goal(cost, target)})
    left_out = SkippedRowCounter()
    foreign: dict[str, object] = {"label": label, "weight": weight, "id": id_, "columns": columns}
    foreign |= {"dimension": dimension, "header": header}
    with in_flags(sys.argv[1:]), progress_bar() as step:
        on_incomplete = left_out if skip_incomplete else None
        of_events = settings is not None and settings.features is not None
        if settings is not None and of_events:
            source = events_of(_event_file("--config", file, foreign), settings, format_, delimiter, on_incomplete)
        else:
            source = source_of(
                file,
                dataset,
                columns,
                format=format_,
                label_column=label,
                weight_column=weight,
                id_column=id_,
                header=header,
                delimiter=delimiter,
                dimension=dimension,
                on_incomplete=on_incomplete,
            )
        said = []
        if config is not None and settings is not None:
            settings = of_points(config, options, settings, source)
            left_out.forget()
            why = "--partitions"
            if partitions is None and not prequential:
                partitions, why = partitions_of(settings)
            plan = plan.of_config(settings.models(), partitions or 1, settings.training.every_leaves)
            said.append(f"learned as train --config {config} does, from {_counted(plan.partitions)} ({why})")
            if settings.svm.tune is not None:
                said.append("no hash of a version: with svm.tune it depends on which of the cuts before were trained")
            if ignored := not_followed(settings):
                said.append(f"not followed here: {', '.join(ignored)}")
        if prequential:
            order = PrequentialPlan(
                leaf_rows=leaf_rows or 2_000, lag=lag, kernel=plan.kernel, alpha=plan.alpha, seed=plan.seed
            )
            found = evaluate_prequentially(source, order, step)
        else:
            rejected = (lambda: left_out.rows) if of_events else (lambda: 0)
            report = evaluate(source, plan, step=step, rejected=rejected)
    if prequential:
        if as_json:
            typer.echo(json.dumps(found.plain(), indent=2))
        else:
            Console().print(describe_prequential(found))
        return
    if as_json:
        typer.echo(json.dumps(report.plain(), indent=2))
        return
    typer.echo(f"{headline(report)}{left_out}")
    Console().print(describe(report))
    if (thresholds := describe_thresholds(report)) is not None:
        Console().print(thresholds)
    for line in (*said, *notes(report)):
        typer.echo(printable(line))


def _counted(partitions: int) -> str:
    return f"{partitions} partition{'' if partitions == 1 else 's'}"


def _overriding(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of `evaluate` as those of a configuration file that they override."""
    sections = {"memory_points": "coreset", "structure": "coreset", "reducer": "coreset"}
    options: dict[str, Any] = {"seed": given["seed"]} if "seed" in given else {}
    for name, value in given.items():
        if name != "seed":
            options.setdefault(sections.get(name, "svm"), {})[name] = value
    return options


def _event_file(asked: str, file: Path | None, foreign: Mapping[str, object]) -> Path:
    """Return the file of raw events; options that choose columns are for points."""
    if file is None:
        raise ConfigurationError(
            "--events needs a file", "For example: streamsvm replay payments.csv --events --topic t"
        )
    given = [f"--{name}" for name, value in foreign.items() if value is not None]
    require({"--events": True, FOREIGN_COLUMNS: ", ".join(given)}, {"--events": asked})
    return file


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
    from consumers.cli.file_options import events_step, in_flags
    from consumers.replay.replay import prepare_topic, progress_bar, replay_events
    from streamsvm.ingest.decoding import Markers, decoding_of
    from streamsvm.ingest.files.opening import format_of

    recipe = settings.features
    require({"--unlabeled": unlabeled, "events.label": None if recipe is None else recipe.label})
    require({"--events": True, "events.envelope": None if recipe is None else recipe.envelope})
    with in_flags(sys.argv[1:]):
        markers: Markers = {}
        events = decoding_of(recipe).rows_in(file, format_of(file, format_), recipe, delimiter, markers)
        if unlabeled and recipe is not None and recipe.label is not None:
            hidden = recipe.label.field[0]
            events = ({name: value for name, value in event.items() if name != hidden} for event in events)
        known = prepare_topic(cluster, topic, create_partitions=create, partition=sending["partition"])
        with closing(cluster.outbox()) as outbox, progress_bar(sending["limit"], topic) as progress:
            sent = replay_events(events, outbox, topic, progress=progress, partitions=len(known), **sending)
    typer.echo(
        f"{sent.points:,} events in {sent.records:,} records to {topic}: {sent.bytes / 1e6:,.2f} MB "
        f"in {sent.seconds:,.2f} s ({sent.points / max(sent.seconds, 1e-9):,.0f} events/s), all acknowledged"
    )
    for column, found in sorted(markers.items()):
        told = ", ".join(f"{count:,} {marker!r}" for marker, count in sorted(found.items()))
        typer.echo(printable(f"{column}: {told} taken as missing"))
    if unlabeled:
        return
    if recipe is None:
        typer.echo(f"to propose [features] for them: streamsvm features infer {shlex.quote(str(file))}")
    else:
        typer.echo(f"to train on them: {events_step(topic, config)}")


def _goal(cost: str | None, target: str | None) -> dict[str, Any]:
    """Return what a threshold is chosen for, as `CoresetSVC` takes it."""
    from consumers.evaluate.plan import FLAGS
    from streamsvm.config import one_target, split_at_commas, target_in_words, two_costs

    require({"svm.cost": cost, "svm.target": target}, FLAGS)
    option = ""
    try:
        if cost is not None:
            option = "--cost"
            return {"cost": two_costs(split_at_commas(cost))}
        if target is not None:
            option = "--target"
            return {"target": one_target(target_in_words(target))}
    except ValueError as error:
        raise ConfigurationError(f"{option}: {error}", "See streamsvm evaluate --help.") from None
    return {}


def _class_weight(text: str | None) -> Literal["balanced"] | tuple[float, float] | None:
    if text is None or text == "balanced":
        return text  # type: ignore[return-value]
    try:
        first, second = map(float, text.split(","))
    except ValueError:
        raise ConfigurationError(
            f"--class-weight is {text!r}, which is neither balanced nor two numbers", "Give balanced, or 1,10."
        ) from None
    return first, second


def _gamma(text: str) -> Literal["scale", "auto"] | float:
    if text in ("scale", "auto"):
        return text  # type: ignore[return-value]
    try:
        return float(text)
    except ValueError:
        raise ConfigurationError(
            f"--gamma is {text!r}, which is not scale, auto or a positive number", "Give scale, auto or a number."
        ) from None


@topics_app.command("create", cls=OptionsOnDemand)
@with_settings(*TRAINER_SECTIONS, "output", common=CLIENT)
def topics_create(settings: Settings) -> None:
    """Create the output topics of a trainer, with the settings they need.

    Existing topics are not changed, but checked, the input topic too. Status 78: a topic would lose records that it
    must keep.
    """
    from consumers.host.runtime import connect
    from consumers.streams.topics import OwnTopics, check_names, output_topics, unfit, unfit_input
    from streamsvm.kafka import Cluster

    check_names(settings)
    cluster, specs = Cluster(connect(settings, "admin")), output_topics(settings)
    for own in plugged("topics", OwnTopics, DAEMONS):
        specs += own.specs(settings, cluster)
    made = set(cluster.create(specs))
    faults = {spec.name: unfit(spec, cluster.describe(spec.name)) for spec in specs}
    for name in faults:
        typer.echo(f"{'created' if name in made else 'exists '}  {name}")
    try:
        faults[settings.input.topic] = unfit_input(cluster.describe(settings.input.topic))
    except TopicMissing:
        typer.echo(f"missing  {settings.input.topic}: the producers of the input must create it")
    found = [f"{name}: {fault}" for name, several in faults.items() for fault in several]
    for line in found:
        typer.echo(f"unfit    {line}")
    if found:
        raise ConfigurationError(
            f"{found[0]}" + (f" (and {len(found) - 1} more)" if len(found) > 1 else ""),
            "Change the topic's settings (kafka-configs --alter --entity-type topics), or use another topic.",
        )


@app.command()
def config(
    file: Annotated[Path | None, typer.Option("--config", help="Show the values in force with this TOML file.")] = None,
    effective: Annotated[bool, typer.Option(help="Show the values in force, secrets masked, as JSON.")] = False,
) -> None:
    """List every option: its flag, environment variable, type, default and meaning."""
    from consumers.options import fields, flag, sections, shown_default, shown_type, variable

    if effective or file:
        from consumers.loader import load

        typer.echo(json.dumps(load(file=file).masked(), indent=2))
        return
    for section in sections():
        typer.echo(f"\n[{section}]" if section else "# options, by TOML section")
        for name, info in fields(section).items():
            typer.echo(f"{name} = {shown_default(info) or '-'}   ({shown_type(info)})")
            typer.echo(f"    {info.description}")
            shown = "--secrets" if is_secret(name) else flag(section, name)
            typer.echo(f"    {shown}   {variable(section, name)}")


@app.command(name="verify", cls=OptionsOnDemand)
@with_settings("output", "registry", common=CLIENT)
def verify_command(
    settings: Settings,
    *,
    version: Annotated[int | None, typer.Option(help="Recompute this version only.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="Recompute every version; the default.")] = False,
    certificate: Annotated[
        bool,
        typer.Option(
            "--certificate",
            help="Prove how far one version, --version or the newest, can be from the best model over all its rows.",
        ),
    ] = False,
    keep: Annotated[
        int | None, typer.Option(min=64, metavar="ROWS", help="Rows that a certificate keeps whole; 10000 by default.")
    ] = None,
    reads: Annotated[
        int | None,
        typer.Option(min=1, help="How often a certificate reads the input at most, 1 by default; more can prove more."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole report as JSON.")] = False,
) -> None:
    """Recompute published versions from the input's log, and compare them byte for byte.

    Needs only the broker and the model's name: everything else is in the versions. Exit status: 0, all versions were
    checked and are correct; 1, something differs; 3, nothing differs, but not all could be checked (removed from the
    log, or made by another build or CPU and different here).
    """
    from consumers.host.runtime import connect
    from consumers.verify.verify import progress_bar, summary_line, verify
    from streamsvm.certificate.certifying import KEEP
    from streamsvm.kafka import Cluster

    which = {"--version": version, "--all": all_}
    require({**which, "--certificate": certificate, "--keep": keep, "--reads": reads})
    rows_to_keep = 0
    if certificate:
        rows_to_keep = KEEP if keep is None else keep
    with progress_bar(settings.name) as progress:
        cluster = Cluster(connect(settings, "verify"))
        with cluster.keeping():
            report = verify(cluster, settings, number=version, keep=rows_to_keep, reads=reads or 1, progress=progress)
    if as_json:
        typer.echo(json.dumps(report.plain(), indent=2))
    else:
        for line in (*report.lines(), summary_line(report)):
            typer.echo(printable(line))
    raise typer.Exit(report.exit_status)


@app.command(name="dead-letters", cls=OptionsOnDemand)
@with_settings("input", common=CLIENT)
def dead_letters_command(
    settings: Settings,
    topic: Annotated[str | None, typer.Argument(help="The dead-letter topic; default: the one of input.topic.")] = None,
    *,
    last: Annotated[int, typer.Option(min=1, help="How many of the newest letters to show.")] = 20,
    reason: Annotated[list[str] | None, typer.Option(help="Only letters with this reason; may be repeated.")] = None,
    since: Annotated[str, typer.Option(help="Only letters since a time, 2026-01-31T12:00:00Z, or 30min, 2h, 7d.")] = "",
    all_models: Annotated[
        bool, typer.Option("--all-models", help="Letters of every model, whatever --name or a configuration says.")
    ] = False,
    resend: Annotated[
        str,
        typer.Option(
            metavar="TOPIC",
            help="Send the rejected rows to this topic, having said how many they are and asked; a letter that was "
            "sent once is never sent again. Letters of several models need --name or --all-models.",
        ),
    ] = "",
    yes: Annotated[
        bool, typer.Option("--yes", help="With --resend: send without a question. Where nobody can answer one, needed.")
    ] = False,
    mended: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With --resend: send the field `again` of these lines, as --json printed them, instead of the "
            "original rows, and no other letters. - reads standard input.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, one line per letter, with complete values.")
    ] = False,
) -> None:
    """Show rejected records: where each is, why it was rejected, and what to do about it; or send them again.

    Where a model's name is configured (--name), only letters of its trainer and scorer. Without --resend nothing is
    written. With it, all matching letters are sent, regardless of --last, except those that were sent before; the
    dead-letter topic keeps a receipt of each. Exit status of --resend: 0, done; 1, nothing was sent, for want of a yes.
    """
    from datetime import UTC, datetime

    from consumers.dead_letters.listing import chosen, plain, read_letters, report
    from consumers.host.runtime import connect
    from streamsvm.kafka import Cluster

    require({"--mended": mended, "--resend": resend})
    lines = _mended(mended)
    name = settings.name if "name" in settings.model_fields_set and not all_models else ""
    now = datetime.now(UTC)
    wanted, source = chosen(reason or (), since, name, now), topic or settings.input.dead_letters
    cluster = Cluster(connect(settings, "cli"))
    if topic is None and _nobody_read(cluster, settings.input.topic, source):
        if not as_json:
            typer.echo(
                f"{source}: 0 dead letters; the topic does not exist: nothing has read {settings.input.topic} yet"
            )
        return
    if resend:
        agreed = yes or (None if str(mended) != "-" and sys.stdin.isatty() else False)
        _resend(cluster, source, resend, wanted, now, lines, agreed=agreed, all_models=all_models)
        return
    found = read_letters(cluster, source, last, wanted)
    shown = (json.dumps(plain(letter, found.receipts.get(letter.rejected.id))) for letter in found.letters)
    for line in shown if as_json else report(found):
        typer.echo(line)


def _nobody_read(cluster: Cluster, topic: str, dead_letter_topic: str) -> bool:
    """Return whether an input is there and its dead-letter topic is not; raise `TopicMissing` if neither is."""
    try:
        cluster.describe(dead_letter_topic)
    except TopicMissing:
        cluster.describe(topic)
        return True
    return False


def _resend(
    cluster: Cluster,
    source: str,
    target: str,
    wanted: Chosen,
    now: datetime,
    lines: dict[str, bytes | None] | None,
    *,
    agreed: bool | None,
    all_models: bool,
) -> None:
    """Say what would be sent, ask where nobody has agreed or refused, and send it; exit with 1 without a yes."""
    from consumers.dead_letters import resending

    planned = resending.plan(cluster, source, target, wanted, lines)
    for line in planned.counts:
        typer.echo(line)
    if not all_models:
        planned.require_one_model()
    if agreed is None and planned.ids:
        agreed = typer.confirm(f"Send {len(planned.ids):,} of them to {target}?")
    if planned.ids and not agreed:
        typer.echo("nothing was sent: give --yes to send them")
        raise typer.Exit(1)
    done = resending.resend(cluster, source, target, wanted, now, mended=lines, agreed=planned.ids)
    for line in done.lines(source, target):
        typer.echo(line)


def _mended(file: Path | None) -> dict[str, bytes | None] | None:
    from consumers.dead_letters.resending import mended_lines

    if file is None:
        return None
    if str(file) == "-":
        return mended_lines(sys.stdin.buffer, "standard input")
    try:
        with file.open("rb") as lines:
            return mended_lines(lines, str(file))
    except OSError as error:
        raise ConfigurationError(
            f"{file} cannot be read: {error.strerror}", "Give a file with the lines that --json printed."
        ) from None


@app.command()
def demo(
    reducer: Annotated[
        ReducerName, typer.Option(help="How many points are reduced to few: coreset.reducer.")
    ] = "calibrated",
    keep_open: Annotated[
        bool, typer.Option(help="Keep running after the table, so that the live page stays available.")
    ] = False,
    write_csv: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Instead, write 6,000 rows of the survey, labeled noise or pulsar, as a CSV file to try replay with.",
        ),
    ] = None,
) -> None:
    """Replay the HTRU2 pulsar survey through an embedded broker, train, subscribe, and compare with the full data."""
    if write_csv is not None:
        from streamsvm import datasets

        datasets.write_csv(write_csv, rows=6_000, words=("noise", "pulsar"), shuffle_seed=0)
        typer.echo(f"6,000 rows of the survey written to {write_csv}")
        return
    from consumers.demo.demo import run

    if not run(reducer, keep_open=keep_open):
        raise typer.Exit(1)
