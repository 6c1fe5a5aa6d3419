"""A published version as a table for people."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np
from rich.table import Table

from consumers.host.untrusted_text import cell, moment, printable
from consumers.models.shapes import bars, shapes_of_version
from streamsvm.checkpoint.format import decode
from streamsvm.checkpoint.snapshot import Snapshot
from streamsvm.config import ModelConfig
from streamsvm.errors import ConfigurationError, CorruptCheckpoint
from streamsvm.learning.learner import latest_ms
from streamsvm.model.additive import AdditiveMachine
from streamsvm.model.class_skill import ClassSkill, class_summary
from streamsvm.model.classes import AdditiveMachines, AnyModel, ClassModel, KernelMachines
from streamsvm.model.described import Label
from streamsvm.model.fit import Audit, Fit
from streamsvm.model.machine import KernelMachine, LinearMachine, Model
from streamsvm.model.message import content_sha256
from streamsvm.model.probability import Sigmoid
from streamsvm.model.recipes import recipes_of
from streamsvm.model.skill import spelt
from streamsvm.model.skill_header import complaint_of, doubt_of
from streamsvm.model.threshold import Threshold, described
from streamsvm.model.version import PartitionCut, Version
from streamsvm.points import Position, label_codes
from streamsvm.registry.loading import Loaded
from streamsvm.sockets import DAEMONS, plugged

FEATURES_SHOWN = 12
CLOCKS_APART_MS = 60_000
"""By how much clocks of producers and trainers may differ without a word."""


@dataclass(frozen=True, slots=True)
class ShownFacts:
    """What a branch shows of a version, at the socket ``shown_facts``: names and texts."""

    lines: Callable[[Version], Sequence[tuple[str, str]]]


def describe(loaded: Loaded) -> Table:
    """Return what a version is, what it was made from, and how good its fit is."""
    version, fit, lineage = loaded.version, loaded.version.fit, loaded.version.lineage
    table = Table(title=cell(version.key), show_header=False, title_style="bold")
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    machine = version.model.machine
    kind = f"rbf, gamma {machine.kernel.gamma:.6g}" if isinstance(machine, KernelMachine | KernelMachines) else "linear"
    kind = "additive" if isinstance(machine, AdditiveMachine | AdditiveMachines) else kind
    stream = version.stream
    for name, value in (
        ("labels", _labels(version.labels)),
        ("machine", f"{kind}, C {fit.C:.6g}"),
        ("covers", f"{stream.points:,} points of {stream.rows:,} rows, weight {stream.weight:,.6g}"),
        ("written", _written(loaded)),
        ("trained on", f"{fit.points:,} points, {fit.support_vectors:,} support vectors"),
        ("objective", _objective(fit)),
        ("audit", _audit(version.audit, fit)),
        ("skill", _skill(loaded)),
        ("probability", _probability_of(version.model)),
        ("threshold", _threshold(version.model.threshold)),
        ("events", _events(version.recipe)),
        ("converged", "yes" if fit.converged else f"no: stopped after {fit.iterations:,} iterations"),
        ("input", f"{lineage.topic}" + (f" (id {lineage.topic_id})" if lineage.topic_id else "")),
        ("cut", cut_text(lineage.cut)),
        ("tuned at", "not tuned" if lineage.tuned_at is None else cut_text(lineage.tuned_at)),
        *(line for shown in plugged("shown_facts", ShownFacts, DAEMONS) for line in shown.lines(version)),
        ("parent", lineage.parent or "none: the first version"),
        ("sha256", loaded.sha256),
        ("configuration", lineage.configuration_sha256),
        ("training set", lineage.training_set_sha256),
        ("content", content_sha256(version)),
        ("build", ", ".join(f"{part} {value}" for part, value in sorted(lineage.build.items()))),
        ("record", f"offset {loaded.offset} of the models topic"),
    ):
        table.add_row(name, cell(value))
    if isinstance(machine, LinearMachine):
        names = version.feature_names or tuple(f"x[{index}]" for index in range(version.model.dimension))
        weights = machine.coefficients
        shown = sorted(range(len(weights)), key=lambda index: -abs(weights[index]))[:FEATURES_SHOWN]
        table.add_section()
        for index in shown:
            table.add_row(cell(names[index]), f"{weights[index]:+.6f}")
        table.add_row("intercept", f"{machine.intercept:+.6f}")
    if isinstance(machine, AdditiveMachine | AdditiveMachines):
        table.add_section()
        for one in shapes_of_version(version)[:FEATURES_SHOWN]:
            low, high = float(np.min(one.values)), float(np.max(one.values))
            drawn = f"adds {low:+.3g} to {high:+.3g}"
            if len(one.names) == 1:
                drawn = f"{bars(one.values, low, high)}  {drawn}, from {one.knots[0][0]:g} to {one.knots[0][-1]:g}"
            table.add_row(cell(one.title), cell(drawn))
        if isinstance(machine, AdditiveMachine):
            table.add_row("intercept", f"{machine.intercept:+.6f}")
    if version.machines:
        _add_machines(table, loaded)
    return table


def _labels(labels: tuple[Label, ...]) -> str:
    if len(labels) == 2:
        return f"{labels[0]!r} (negative), {labels[1]!r} (positive)"
    return f"{len(labels)}: {', '.join(map(repr, labels))}"


def _add_machines(table: Table, loaded: Loaded) -> None:
    """Add a row for each label: its share of the stream, how its machine was fitted, and how often it is found."""
    version, skill, model = loaded.version, loaded.skill, loaded.version.model
    figures = skill.figures if isinstance(skill, ClassSkill) else None
    in_pairs = isinstance(model, ClassModel) and model.scheme == "one_vs_one"
    table.add_section()
    table.add_row("machines", f"{len(version.machines):,}, {'one a pair of labels' if in_pairs else 'one a label'}")
    for index, label in enumerate(version.labels):
        share = version.stream.class_weight[index] / version.stream.weight if version.stream.weight else 0.0
        text = f"{share:.3%} of the weight"
        if not in_pairs:
            fit = version.machines[index]
            text += f"; {fit.support_vectors:,} support vectors, objective {fit.objective:.6g}"
            text += "" if fit.converged else ", not converged"
        if figures is not None and index < len(figures.labels):
            right = figures.labels[index].right
            verdict = "too few points to judge"
            if right is not None:
                verdict = f"{right:.1%} answered right"
            text += f"; {verdict}"
        table.add_row(cell(spelt(label)), text)


def _objective(fit: Fit) -> str:
    if fit.dual_objective is None or fit.kkt_gap is None:
        return f"{fit.objective:.8g} (this solver gives no bound)"
    relative = (fit.objective - fit.dual_objective) / fit.objective if fit.objective else 0.0
    return (
        f"{fit.objective:.8g} on the training set (dual {fit.dual_objective:.8g}, duality gap {relative:.2g} of it, "
        f"KKT gap {fit.kkt_gap:.2g})"
    )


def _skill(loaded: Loaded) -> str:
    """Return what was known of the quality of its answers when it was published."""
    skill, labels = loaded.skill, loaded.version.labels
    if skill is None:
        return "not measured"
    svm = loaded.version.lineage.configuration.get("svm")  # of a foreign version it may be anything
    weighted = isinstance(svm, dict) and svm.get("class_weight", "none") != "none"
    text = complaint_of(skill, labels, weighted=weighted) or doubt_of(skill, labels) or "it knows something"
    if skill.figures is None:
        return text
    on = "the newest points" if skill.newest is not None else "the audit sample"
    if isinstance(skill, ClassSkill):
        summary = class_summary(skill, labels)
        return f"{text}; {summary}, on {skill.figures.points:,} points of {on} when it was published"
    figures = skill.figures
    assert figures is not None
    return (
        f"{text}; {figures.said:.3g} of the weight is answered {spelt(labels[1])}, {figures.true:.3g} is; balanced "
        f"accuracy {figures.balanced_accuracy.value:.4f}, AUC {figures.auc.value:.4f}, average precision "
        f"{figures.average_precision:.4f}, on {figures.points:,} points of {on} when it was published"
    )


def _audit(audit: Audit | None, fit: Fit) -> str:
    """Return what the objective over the whole stream is, and whether the training set's fits it."""
    if audit is None:
        return "none: no audit sample was kept"
    verdict = "" if audit.low <= fit.objective <= audit.high else "; the training set's objective lies outside"
    return (
        f"{audit.objective:.6g} over the whole stream, in 95 of 100 cases {audit.low:.6g} to {audit.high:.6g}, "
        f"by {audit.points:,} points beside the coreset{verdict}"
    )


def _probability_of(model: AnyModel) -> str:
    if isinstance(model, Model):
        return _probability(model.probability)
    if model.probabilities is None:
        return "none"
    return "sigmoid, one a machine"


def _probability(probability: Sigmoid | None) -> str:
    """Return how a decision value f becomes a probability of the positive label."""
    if probability is None:
        return "none"
    return f"sigmoid, 1 / (1 + exp({probability.a:.6g} f {probability.b:+.6g}))"


def _threshold(threshold: Threshold | None) -> str:
    """Return above which decision value the second label is answered, why, and what is expected there."""
    return "0: neither svm.cost nor svm.target is configured" if threshold is None else described(threshold)


def _events(recipe: object | None) -> str:
    """Return what the version evaluates of an event."""
    return "none: the input is points" if recipe is None else recipes_of(recipe).described(recipe)


def cut_text(cut: tuple[PartitionCut, ...]) -> str:
    """Return where a cut lies in each partition."""
    return ", ".join(f"[{part.partition}] {part.offset}+{part.row}" for part in cut)


def _written(loaded: Loaded) -> str:
    """Return when the rows were written, as their timestamps say; name a clock that was ahead."""
    stream, made = loaded.version.stream, loaded.published_at
    said = f"{moment(stream.first_time_ms)} to {moment(stream.last_time_ms)}"
    if made is None or stream.last_time_ms <= 1_000 * made + CLOCKS_APART_MS:
        return said
    return f"{said}; the version was made at {moment(round(1_000 * made))}, so some timestamps are wrong"


def newest_checkpoint(directory: Path, name: str) -> Snapshot:
    """Return the newest checkpoint of a model in a directory; a trainer may run meanwhile.

    Raises
    ------
    ConfigurationError
        If the directory holds no checkpoint of that model, or none that can be read.
    """
    for path in sorted(directory.glob("checkpoint-*.ssvm"), reverse=True):
        try:
            found = decode(path.read_bytes())
        except (CorruptCheckpoint, OSError):  # the trainer removes old ones
            continue
        if found.name == name:
            return found
    raise ConfigurationError(
        f"{directory} holds no checkpoint of {name} that can be read",
        "Name the trainer's checkpoint.directory, and run this as a user who may read it.",
    )


def write_kept_points(found: Snapshot, version: Version, out: TextIO) -> None:
    """Write, as CSV, the points that a checkpoint holds of the rows that a version has learned, under their weights.

    Raises
    ------
    ConfigurationError
        If the checkpoint is of another input: its offsets would name other records.
    """
    if (found.topic, found.topic_id) != (version.lineage.topic, version.lineage.topic_id):
        raise ConfigurationError(
            f"the newest checkpoint is of the input {found.topic} (id {found.topic_id}), and {version.key} was made "
            f"from {version.lineage.topic} (id {version.lineage.topic_id})",
            "Choose a version that was made since the model began anew.",
        )
    config, states = ModelConfig.of_canonical(found.configuration), found.learner.partitions
    write = csv.writer(out, lineterminator="\n")
    ends = {one.partition: Position(one.offset, one.row) for one in version.lineage.cut}
    labels = dict(zip(label_codes(config.points.classes), config.points.labels, strict=True))
    now_ms = latest_ms(states, config.coreset)
    write.writerow(("partition", "offset", "row", "label", "weight", "id_hash"))
    for partition, state in states.items():
        for points in state.parts(state.factors(config.coreset, now_ms)):
            columns = points.places.tolist(), points.y.tolist(), points.weight.tolist()
            for (offset, row, hashed), code, weight in zip(*columns, strict=True):
                if Position(offset, row) < ends.get(partition, Position(-1)):
                    id_hash = f"{hashed % (1 << 64):016x}" if hashed else ""
                    write.writerow((partition, offset, row, printable(str(labels[code])), repr(weight), id_hash))
