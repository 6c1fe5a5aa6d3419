"""A published version as a table for people."""

from __future__ import annotations

from datetime import UTC, datetime

from rich.table import Table

from consumers.host.untrusted_text import cell
from streamsvm.features.recipe import Recipe
from streamsvm.model.fit import Audit, Fit
from streamsvm.model.machine import LinearMachine
from streamsvm.model.probability import Probability, Sigmoid
from streamsvm.model.skill import complaint, doubt, spelt
from streamsvm.model.threshold import Threshold, described
from streamsvm.model.version import PartitionCut
from streamsvm.registry.loading import Loaded

FEATURES_SHOWN = 12


def describe(loaded: Loaded) -> Table:
    """Return what a version is, what it was made from, and how good its fit is."""
    version, fit, lineage = loaded.version, loaded.version.fit, loaded.version.lineage
    table = Table(title=cell(version.key), show_header=False, title_style="bold")
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    machine = version.model.machine
    kind = "linear" if isinstance(machine, LinearMachine) else f"rbf, gamma {machine.kernel.gamma:.6g}"
    stream = version.stream
    for name, value in (
        ("labels", f"{version.labels[0]!r} (negative), {version.labels[1]!r} (positive)"),
        ("machine", f"{kind}, C {fit.C:.6g}, solver {version.solver}"),
        ("covers", f"{stream.points:,} points of {stream.rows:,} rows, weight {stream.weight:,.6g}"),
        ("written", f"{_time(stream.first_time_ms)} to {_time(stream.last_time_ms)}"),
        ("trained on", f"{fit.points:,} points, {fit.support_vectors:,} support vectors"),
        ("objective", _objective(fit)),
        ("audit", _audit(version.audit, fit)),
        ("skill", _skill(loaded)),
        ("probability", _probability(version.model.probability)),
        ("threshold", _threshold(version.model.threshold)),
        ("events", _events(version.recipe)),
        ("converged", "yes" if fit.converged else f"no: stopped after {fit.iterations:,} iterations"),
        ("input", f"{lineage.topic}" + (f" (id {lineage.topic_id})" if lineage.topic_id else "")),
        ("cut", _cut(lineage.cut)),
        ("tuned at", "not tuned" if lineage.tuned_at is None else _cut(lineage.tuned_at)),
        ("parent", lineage.parent or "none: the first version"),
        ("sha256", loaded.sha256),
        ("configuration", lineage.configuration_sha256),
        ("training set", lineage.training_set_sha256),
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
    return table


def _objective(fit: Fit) -> str:
    if fit.dual_objective is None or fit.kkt_gap is None:
        return f"{fit.objective:.8g} (this solver gives no bound)"
    relative = (fit.objective - fit.dual_objective) / fit.objective if fit.objective else 0.0
    return (
        f"{fit.objective:.8g} on the training set (dual {fit.dual_objective:.8g}, duality gap {relative:.2g} of it, "
        f"KKT gap {fit.kkt_gap:.2g})"
    )


def _skill(loaded: Loaded) -> str:
    """Say what was found of its answers when it was published."""
    skill, labels = loaded.skill, loaded.version.labels
    if skill is None or skill.figures is None:
        return "not measured" if skill is None else doubt(skill, labels)
    figures = skill.figures
    svm = loaded.version.lineage.configuration.get("svm")  # of a foreign version it may be anything
    weighted = isinstance(svm, dict) and svm.get("class_weight", "none") != "none"
    told = complaint(skill, labels, weighted=weighted) or doubt(skill, labels) or "it knows something"
    on = "the newest points" if skill.newest is not None else "the audit sample"
    return (
        f"{told}; {figures.said:.3g} of the weight is answered {spelt(labels[1])}, {figures.true:.3g} is; balanced "
        f"accuracy {figures.balanced_accuracy.value:.4f}, AUC {figures.auc.value:.4f}, average precision "
        f"{figures.average_precision:.4f}, on {figures.points:,} points of {on} when it was published"
    )


def _audit(audit: Audit | None, fit: Fit) -> str:
    """Say what the objective over the whole stream is, and whether the training set's fits it."""
    if audit is None:
        return "none: no audit sample was kept"
    verdict = "" if audit.low <= fit.objective <= audit.high else "; the training set's objective lies outside"
    return (
        f"{audit.objective:.6g} over the whole stream, in 95 of 100 cases {audit.low:.6g} to {audit.high:.6g}, "
        f"by {audit.points:,} points beside the coreset{verdict}"
    )


def _probability(probability: Probability | None) -> str:
    """Say how a decision value f becomes a probability of the positive label."""
    if probability is None:
        return "none"
    if isinstance(probability, Sigmoid):
        return f"sigmoid, 1 / (1 + exp({probability.a:.6g} f {probability.b:+.6g}))"
    x, y = probability.x, probability.y
    return f"isotonic, {len(x)} knots, {y[0]:.4g} at f = {x[0]:.4g} to {y[-1]:.4g} at f = {x[-1]:.4g}"


def _threshold(threshold: Threshold | None) -> str:
    """Say above which decision value the second label is answered, why, and what is expected there."""
    return "0: neither svm.cost nor svm.target is configured" if threshold is None else described(threshold)


def _events(recipe: Recipe | None) -> str:
    """Say what the version evaluates of an event."""
    if recipe is None:
        return "none: the input is points"
    fields = [".".join(map(str, one.field)) for one in recipe.of_fields]
    return f"{', '.join(dict.fromkeys(fields))}; recipe {recipe.sha256()}"


def _cut(cut: tuple[PartitionCut, ...]) -> str:
    return ", ".join(f"[{part.partition}] {part.offset}+{part.row}" for part in cut)


def _time(milliseconds: int) -> str:
    if milliseconds < 0:
        return "unknown"
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds} ms, which is not a valid time"
