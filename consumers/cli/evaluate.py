"""`streamsvm evaluate`."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args

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
from consumers.help_texts import AllOptions, PositiveLabel
from consumers.host.untrusted_text import printable
from streamsvm.choices import KernelName, Loss, ReducerName, StructureName
from streamsvm.errors import ConfigurationError
from streamsvm.supports import require


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
    positive: PositiveLabel = None,
    weight: WeightColumn = None,
    id_: IdColumn = None,
    columns: FeatureColumns = None,
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
    points: Annotated[
        int | None,
        typer.Option(help="Most points kept for each partition: coreset.points. Default without --config: 11000."),
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(help="Trade-off of margin against average loss, C = 1 / (alpha n); default 1e-4.")
    ] = None,
    penalty: Annotated[
        float | None, typer.Option("--C", help="Penalty C of scikit-learn's SVC, instead of alpha.")
    ] = None,
    kernel: Annotated[
        KernelName | None, typer.Option(help="Machine: linear, rbf or additive. Default: linear.")
    ] = None,
    loss: Annotated[
        Loss | None, typer.Option(help="Loss of a margin. Default: hinge; with --kernel rbf, squared_hinge.")
    ] = None,
    gamma: Annotated[str | None, typer.Option(help="RBF width: scale, auto or a number. Default: scale.")] = None,
    structure: Annotated[
        StructureName | None,
        typer.Option(
            metavar="NAME",
            help=f"How buckets merge, coreset.structure: {', '.join(get_args(StructureName))}. Default without "
            "--config: chain.",
        ),
    ] = None,
    reducer: Annotated[
        ReducerName | None,
        typer.Option(
            metavar="NAME",
            help=f"How many points are reduced to few, coreset.reducer: {', '.join(get_args(ReducerName))}. "
            "Default: calibrated.",
        ),
    ] = None,
    probability: Annotated[
        Literal["sigmoid"] | None,
        typer.Option(
            metavar="KIND",
            help="Also judge probabilities, by Brier score and log loss: svm.probability.",
        ),
    ] = None,
    class_weight: Annotated[
        str | None,
        typer.Option(
            help="Factors for the weights of the negative and the positive label: two numbers, such as 1,10; or "
            "balanced. For every method alike: svm.class_weight."
        ),
    ] = None,
    cost: Annotated[
        str | None,
        typer.Option(
            metavar="FN,FP",
            help="Costs of a missed point of the positive label and of a false alarm, such as 50,1: choose the "
            "threshold of the least mean cost, and show what it comes to on held-out rows: svm.cost.",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="FIGURE=SHARE",
            help="Instead of --cost: the threshold for precision=0.9, recall=0.9 or alarm_rate=0.01, svm.target.",
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the split, the order and every method. Default: 0.")] = None,
    test_share: Annotated[float, typer.Option(help="Share of the points that is held out for testing.")] = 0.2,
    optimum: Annotated[
        bool | None,
        typer.Option(
            "--optimum/--no-optimum",
            help="Also train on all points, and measure gaps against that optimum. It takes most of the time. "
            "Default: only if points times features are at most 67 million.",
        ),
    ] = None,
    prequential: Annotated[
        bool,
        typer.Option(
            "--prequential",
            help="Keep the file's order instead of shuffling it, predict each row before it is learned, and compare "
            "every coreset.memory, by accuracy, balanced accuracy, AUC, average precision and log loss. For a stream "
            "that changes.",
        ),
    ] = False,
    lag: Annotated[
        int | None,
        typer.Option(help="With --prequential: labels come so many rows at a time. Default: those of a leaf."),
    ] = None,
    leaf_rows: Annotated[int | None, typer.Option(help="With --prequential: rows of a leaf. Default: 2000.")] = None,
    every_leaves: Annotated[
        int | None,
        typer.Option(
            help="With --prequential: leaves between two versions. Default: 1; without --leaf-rows, in a file of more "
            "than 200,000 rows, as many as leave 100 versions."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
    help_all: AllOptions = False,  # noqa: ARG001
) -> None:
    """Learn a file's points in one shuffled pass with a chosen memory, and compare; needs no broker.

    Compared with: a uniform sample of the same size, SGD in one pass, and the optimum on all training points.
    """
    from rich.console import Console

    from consumers.cli.file_options import SkippedRowCounter, in_flags, rows_by_recipe, source_of, taken_as_missing
    from consumers.delimiters import found_delimiter
    from consumers.evaluate import (
        FLAGS,
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
        prequential_notes,
        progress_bar,
        settings_of,
    )

    if (file is None) == (dataset is None):
        raise ConfigurationError(
            "evaluate needs either a file or --dataset", "For example: streamsvm evaluate --dataset htru2"
        )
    order = {"--lag": lag, "--leaf-rows": leaf_rows, "--every-leaves": every_leaves}
    require({"--prequential": prequential, **order})
    require({"--config": config is not None, "--partitions": partitions})
    learning = {
        "points": points,
        "structure": structure,
        "reducer": reducer,
        "alpha": alpha,
        "C": penalty,
        "kernel": kernel,
        "loss": loss,
        "gamma": gamma,
        "probability": probability,
        "class_weight": class_weight,
        "cost": cost,
        "target": target,
        "seed": seed,
    }
    given = {name: value for name, value in learning.items() if value is not None}
    plan = Plan(test_share=test_share, find_optimum=optimum, positive=positive)
    settings, options = None, _overriding(given)
    if config is not None:
        settings = settings_of(config, options)
    else:
        read: dict[str, Callable[[Any], Any]] = {"gamma": _gamma, "class_weight": _class_weight}
        own = {name: read[name](value) if name in read else value for name, value in given.items()}
        plan = replace(plan, **{**own, **_goal(cost, target)})
    left_out, markers = SkippedRowCounter(), dict[str, Counter[str]]()
    foreign: dict[str, object] = {"label": label, "weight": weight, "id": id_, "columns": columns}
    foreign["header"] = header
    with in_flags(sys.argv[1:]), progress_bar() as step:
        on_incomplete = left_out if skip_incomplete else None
        delimiter = found_delimiter(file, format_, delimiter)
        by_recipe = settings is not None and settings.recipe is not None
        if settings is not None and by_recipe:
            events = event_file("--config", file, foreign)
            source = rows_by_recipe(events, settings, format_, delimiter, on_incomplete, markers)
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
                on_incomplete=on_incomplete,
            )
        said = []
        if config is not None and settings is not None:
            settings = of_points(config, options, settings, source, positive)
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
            plan.check()
            require({"--prequential": True, "svm.C": plan.C}, FLAGS)
            found = evaluate_prequentially(
                source,
                PrequentialPlan(
                    leaf_rows=leaf_rows,
                    lag=lag,
                    every_leaves=every_leaves,
                    svm=plan.svm if settings is None else settings.svm,
                    seed=plan.seed,
                    positive=positive,
                ),
                step,
            )
        else:
            rejected = (lambda: left_out.rows) if by_recipe else (lambda: 0)
            report = evaluate(source, plan, step=step, rejected=rejected)
    said += taken_as_missing(markers)
    if prequential:
        if as_json:
            typer.echo(json.dumps(found.plain(), indent=2))
        else:
            Console().print(describe_prequential(found))
            for line in (*said, *prequential_notes(found)):
                typer.echo(printable(line))
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


_OFTEN: Final = {"file", "config", "dataset", "label", "points", "kernel", "prequential", "as_json"}
evaluate_command.seldom = frozenset(signature(evaluate_command).parameters) - _OFTEN - {"help_all"}  # type: ignore[attr-defined]


def _counted(partitions: int) -> str:
    return f"{partitions} partition{'' if partitions == 1 else 's'}"


def _overriding(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of `evaluate` as those of a configuration file that they override."""
    sections = {"points": "coreset", "structure": "coreset", "reducer": "coreset"}
    options: dict[str, Any] = {"seed": given["seed"]} if "seed" in given else {}
    for name, value in given.items():
        if name != "seed":
            options.setdefault(sections.get(name, "svm"), {})[name] = value
    return options


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
