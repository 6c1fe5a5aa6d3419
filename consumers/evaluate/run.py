"""One pass by each method, and the optimum that their gaps are measured from."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import SGDClassifier

from consumers.evaluate.leaks import TOO_GOOD, suspected
from consumers.evaluate.peers import class_weighted, one_line, peer, resolve
from consumers.evaluate.plan import (
    FLAGS,
    REMARK,
    AtThreshold,
    EvaluationReport,
    EvaluationRow,
    Plan,
    Step,
    label_of,
    silent,
)
from consumers.evaluate.reading import check_parts, load
from streamsvm.config import Label
from streamsvm.errors import ConfigurationError
from streamsvm.estimators import CoresetSVC
from streamsvm.estimators.evaluation import (
    SGD_SETTINGS,
    Objectives,
    Optima,
    ReservoirBaseline,
    cross_validated_probabilities,
    decisions,
    optimum,
    probability_scores,
    scores,
    split,
)
from streamsvm.estimators.stream import CoresetWarning, NoProbabilities
from streamsvm.ingest.files.source import Source
from streamsvm.learning.learner import warm_up
from streamsvm.learning.tasks import OneVsOne, OneVsRest, Task, task_of
from streamsvm.model.classes import AnyModel, ClassModel
from streamsvm.model.kernels import Float, RbfKernel
from streamsvm.model.machine import LinearMachine, Model
from streamsvm.model.threshold import Threshold, described
from streamsvm.points import Points
from streamsvm.supports import LABELS, require
from streamsvm.svm.fit_threshold import judge

T = TypeVar("T")

PORTION: Final = 1_000
"""Points that a learner is given at once."""
MOST_CELLS: Final = 1 << 26
"""Points times features beyond which the linear optimum is not sought: minutes, and gigabytes."""
MOST_RBF_POINTS: Final = 50_000
"""The same for RBF, whose time grows faster than the points."""
WARM_UP_MEMORY: Final = 256
WARM_UP_POINTS: Final = 2_000
"""Enough to fill and reduce that memory a few times, unmeasured."""
MEMORY_FACTORS: Final = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Of the chosen memory, for the plot."""
LEAST_PLOTTED: Final = 32
RECALLS_SHOWN: Final = (0.99, 0.95, 0.9, 0.8, 0.5, 0.2)
"""Of the held-out positive points, at thresholds that are shown beside the chosen one."""


def evaluate(source: Source, plan: Plan, *, curve: bool = False, step: Step | None = None) -> EvaluationReport:
    """Read, split, learn once, and measure.

    Parameters
    ----------
    source : Source
        Labeled with two labels or more; it is held in memory as a whole.
    plan : Plan
    curve : bool
        Measure the gap for a few memories, too.
    step : callable, optional

    Raises
    ------
    ConfigurationError
        If an option or the source does not make sense; before anything takes long, but for bad rows of a file.
    """
    step = step or silent
    plan.check(curve=curve)
    peers = [resolve(name) for name in plan.against]
    points, labels = load(source, step)
    train, test = split(points, plan.test_share, plan.seed)
    check_parts(source, train, test, len(labels))
    goal = {"svm.cost": plan.cost, "svm.target": plan.target, "--probability": plan.probability}
    require({**goal, LABELS: len(labels)}, {**FLAGS, LABELS: source.name})
    _check_class_weight(plan, labels)
    without = _without_optimum(plan, train, curve=curve)
    if without:
        step(f"the optimum is left out: {without}", 0, REMARK)
    objective = _prepared(plan, train, step)
    fields = plan.fields(source)
    ours, thresholds = _streamsvm(plan, objective, test, fields, step)
    rows = [ours, *(method(plan, objective, test, step) for method in (_reservoir, _sgd))]
    best = None
    if without:
        rows.append(EvaluationRow(name="optimum", note=without))
    else:
        best, row = _optimum(plan, objective, test, step)
        rows.append(row)
    rows += [peer(name, made, plan, objective, test, step) for name, made in zip(plan.against, peers, strict=True)]
    return EvaluationReport(
        source=source.name,
        labels=labels,
        training_points=len(train),
        test_points=len(test),
        dimension=train.dimension,
        C=objective.penalty,
        gamma=objective.kernel.gamma if isinstance(objective.kernel, RbfKernel) else None,
        uncertainty=None if best is None else best.uncertainty,
        rows=tuple(_said(_with_gap(row, best), rows, test, labels, plan) for row in rows),
        curve=tuple(_curve(plan, objective, best, step)) if curve and best is not None else (),
        thresholds=thresholds,
    )


def _check_class_weight(plan: Plan, labels: Sequence[object]) -> None:
    if len(labels) > 2 and isinstance(plan.class_weight, tuple):
        raise ConfigurationError(
            f"--class-weight has two numbers, but there are {len(labels)} labels", "Give balanced, or leave it out."
        )


def _prepared(plan: Plan, train: Points, step: Step) -> Objectives:
    """Check the options by what a point of each label needs, compile what the pass will run, state the objective."""
    step("warming up", 0, None)
    _, first = np.unique(train.y, return_index=True)
    try:
        config = replace(plan, probability=None).machine().fit(train.X[first], train.y[first]).model_config
    except ValueError as error:
        reason = str(error).removeprefix(": Value error, ")
        raise ConfigurationError(reason, "See streamsvm evaluate --help.") from None
    warm_up(config)
    task = task_of(config)  # as a trainer's, which tells few labels apart in pairs
    few = replace(plan, memory_points=min(plan.memory_points, WARM_UP_MEMORY), probability=None)
    _learned(few, train.take(slice(WARM_UP_POINTS)), task, silent)  # what reducers compile is not in `warm_up`
    return Objectives.over(train, config.svm, task)


def _without_optimum(plan: Plan, train: Points, *, curve: bool) -> str:
    """Say why the optimum is not sought; nothing if it is."""
    if plan.find_optimum is not None:
        return "" if plan.find_optimum else "not computed"
    if plan.kernel == "rbf" and len(train) > MOST_RBF_POINTS:
        reason = f"{len(train):,} points, more than {MOST_RBF_POINTS:,} under RBF"
    elif train.X.size > MOST_CELLS:
        reason = f"{train.X.size:,} values, more than {MOST_CELLS:,}"
    else:
        return ""
    if curve:
        raise ConfigurationError(
            f"--plot shows gaps, but the optimum is not computed: {reason}",
            "Give --optimum to compute it all the same.",
        )
    return f"skipped: {reason}; --optimum computes it all the same"


def _portions(points: Points, what: str, step: Step) -> Iterator[Points]:
    for start in range(0, len(points), PORTION):
        yield points.take(slice(start, start + PORTION))
        step(what, min(start + PORTION, len(points)), len(points))


def _measured(
    name: str, models: Sequence[Model], objective: Objectives, test: Points, seconds: float, held: int
) -> EvaluationRow:
    decision = decisions(objective.task, models, test.X)
    if len(models) == 1:
        decision = decision - models[0].border  # as scores go by the sign, and none by the size
    return EvaluationRow(
        name=name,
        objective=objective.value(models),
        scores=scores(test, decision),
        points_per_s=len(objective.points) / max(seconds, 1e-9),
        seconds=seconds,
        points_held=min(held, len(objective.points)),
    )


def _learned(plan: Plan, train: Points, task: Task, step: Step) -> tuple[CoresetSVC, bool]:
    """Return the machine of all rows, trained, and whether a trainer would publish its probabilities.

    What it would warn of is measured here, or said by the row's note.
    """
    machine = plan.machine()
    with warnings.catch_warnings(record=True) as told:
        for said in (CoresetWarning, ConvergenceWarning):
            warnings.simplefilter("ignore", said)
        warnings.simplefilter("always", NoProbabilities)
        for part in _portions(train, f"streamsvm, {plan.memory_points:,} points", step):
            machine.partial_fit(part.X, part.y, classes=_classes(task), sample_weight=part.weight)
        assert machine.model_
    for one in told:
        if not issubclass(one.category, NoProbabilities):
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    return machine, not any(issubclass(one.category, NoProbabilities) for one in told)


def _classes(task: Task) -> list[int]:
    """Return what `Points.y` holds."""
    return [-1, 1] if task.classes == 2 else list(range(task.classes))


def _machines(model: AnyModel) -> tuple[Model, ...]:
    """Return the machines of a model, of one, too."""
    return tuple(map(model.model, range(model.machines))) if isinstance(model, ClassModel) else (model,)


def _each(found: T | tuple[T, ...]) -> tuple[T, ...]:
    """Return what `CoresetSVC` has of each machine, of one, too."""
    return found if isinstance(found, tuple) else (found,)


def _streamsvm(
    plan: Plan, objective: Objectives, test: Points, fields: Mapping[str, slice], step: Step
) -> tuple[EvaluationRow, tuple[AtThreshold, ...]]:
    """Return the row, and what several thresholds come to if one is asked for."""
    begun = time.perf_counter()
    machine, publishes_probabilities = _learned(plan, objective.points, objective.task, step)
    models, fits = _machines(machine.model_), _each(machine.fit_)
    seconds = time.perf_counter() - begun
    held = machine.model_config.coreset.partition_points
    row = _measured("streamsvm", models, objective, test, seconds, held)
    note = f"{plan.reducer} {plan.structure}, trained on {fits[0].points:,} points" + (
        "" if all(fit.converged for fit in fits) else "; the solver did not converge"
    )
    if len(models) == 1 and row.scores is not None and (row.scores.auc or 0.0) > TOO_GOOD:
        note = f"{suspected(models[0].decision_function, test, fields, plan.seed)}; {note}"
    at, thresholds = None, tuple[AtThreshold, ...]()
    if (threshold := machine.threshold_) is not None:
        decision = models[0].decision_function(test.X)
        at = at_threshold(threshold.value, plan.cost, decision, test)
        thresholds = tuple(at_threshold(one, plan.cost, decision, test) for one in _beside(threshold, decision, test))
        note += f"; threshold {described(threshold)}"
    row = replace(row, note=note, at=at)
    if plan.probability is None:
        return row, thresholds
    if not publishes_probabilities:
        note = f"{note}; no probabilities: too few points of a label in the audit sample"
        return replace(row, note=note), thresholds
    said = probability_scores(test, models[0].predict_proba(test.X)[:, 1])
    audited = machine.model_config.coreset.audit_points
    note = f"{note}; {plan.probability} by an audit sample of {audited:,}"
    return replace(row, note=note, probabilities=said), thresholds


def at_threshold(value: float, costs: tuple[float, float] | None, decision: Float, test: Points) -> AtThreshold:
    """Return what answers above a threshold come to on points that were set aside."""
    told = judge(value, costs, decision, test.y, np.asarray(test.weight, np.float64))
    figures = {figure: judged.value for figure, judged in told.items() if judged is not None}
    return AtThreshold(
        threshold=value,
        precision=figures.get("precision"),
        recall=figures.get("recall"),
        alarm_rate=figures.get("alarm_rate", 0.0),
        cost=figures.get("cost"),
    )


def _beside(threshold: Threshold, decision: Float, test: Points) -> list[float]:
    """Return the threshold, 0, and those that find several shares of the positive points that were set aside."""
    positive = decision[test.y > 0]
    found: list[float] = np.quantile(positive, 1.0 - np.array(RECALLS_SHOWN)).tolist() if len(positive) else []
    return sorted({0.0, threshold.value, *found})


def _sampled(plan: Plan, objective: Objectives, step: Step) -> Points:
    reservoir = ReservoirBaseline(plan.memory_points, plan.seed)
    for part in _portions(objective.points, f"reservoir, {plan.memory_points:,} points", step):
        reservoir.learn(part)
    return reservoir.points


def _reservoir(plan: Plan, objective: Objectives, test: Points, step: Step) -> EvaluationRow:
    begun = time.perf_counter()
    few = _sampled(plan, objective, step)
    if len(np.unique(few.y)) < 2:
        return EvaluationRow(name="reservoir", points_held=len(few), note="failed: its sample has one label only")
    models = objective.of_few(few)
    row = _measured("reservoir", models, objective, test, time.perf_counter() - begun, len(few))
    return replace(row, note="a uniform sample, with the training part's scaler")


def _sgd(plan: Plan, whole: Objectives, test: Points, step: Step) -> EvaluationRow:
    task, objective = whole.task, whole
    if isinstance(task, OneVsOne):  # it has a plane for each label, not for each pair
        objective = Objectives.over(whole.points, whole.svm, OneVsRest(task.classes, task.class_weight))
    passes = [made for settings in SGD_SETTINGS if (made := _sgd_pass(settings, plan, objective, step))]
    if not passes:
        return EvaluationRow(name="SGD", points_held=0, note="failed: every setting overflows")
    best = min(passes, key=lambda made: objective.value(made.models))
    row = _measured("SGD", best.models, objective, test, best.seconds, 0)
    settings = ", ".join(f"{name}={value!r}" for name, value in best.settings.items())
    note = (
        f"partial_fit of SGDClassifier(hinge, alpha=1/(C n), {settings}), the best of {len(SGD_SETTINGS)} settings, "
        "with the training part's scaler"
    )
    if plan.kernel != "linear":
        return replace(row, objective=None, note=f"{note}; linear: no gap under RBF")
    if objective is not whole:
        return replace(row, objective=None, note=f"{note}; each label against the rest: no gap among pairs")
    return replace(row, note=note)


@dataclass(frozen=True, slots=True)
class _SgdPass:
    settings: dict[str, Any]
    models: tuple[Model, ...]
    seconds: float


def _sgd_pass(settings: dict[str, Any], plan: Plan, objective: Objectives, step: Step) -> _SgdPass | None:
    """Take one pass; None if these settings overflow."""
    alpha = 1.0 / (objective.penalty * len(objective.points))
    machine = SGDClassifier(loss="hinge", alpha=alpha, random_state=plan.seed, **settings)
    begun = time.perf_counter()
    try:
        for part in _portions(class_weighted(objective), "SGD", step):
            Z = objective.scaler.transform(part.X)
            machine.partial_fit(Z, part.y, classes=_classes(objective.task), sample_weight=part.weight)
    except ValueError:
        return None
    seconds = time.perf_counter() - begun
    planes = zip(machine.coef_, machine.intercept_, strict=True)
    models = tuple(Model(objective.scaler, LinearMachine(w, float(b))) for w, b in planes)
    return _SgdPass(settings, models, seconds)


def _optimum(plan: Plan, objective: Objectives, test: Points, step: Step) -> tuple[Optima, EvaluationRow]:
    step("the optimum on all training points (--no-optimum leaves it out)", 0, None)
    begun = time.perf_counter()
    best = Optima(tuple(optimum(own) for own in objective.each))
    seconds = time.perf_counter() - begun
    row = _measured("optimum", best.models, objective, test, seconds, len(objective.points))
    note = f"STDASVC on all training points, certified to {best.uncertainty:.1e}"
    if plan.probability is None:
        return best, replace(row, note=note)
    step(f"{plan.probability} probabilities by cross-validation", 0, None)
    try:
        said = cross_validated_probabilities(objective.each[0], plan.probability, test.X)
    except ValueError as error:
        return best, replace(row, note=f"{note}; no probabilities: {one_line(error)}")
    note = f"{note}; {plan.probability} by CalibratedClassifierCV of five folds, whose time is not counted"
    return best, replace(row, note=note, probabilities=probability_scores(test, said))


def _with_gap(row: EvaluationRow, best: Optima | None) -> EvaluationRow:
    return row if best is None or row.objective is None else replace(row, gap=best.gap(row.objective))


def _said(
    row: EvaluationRow, rows: Sequence[EvaluationRow], test: Points, labels: tuple[Label, ...], plan: Plan
) -> EvaluationRow:
    """Add to a row's note what its gap is worth in errors, and that it answers the same to everything."""
    notes = [row.note] if row.note else []
    best = next((one for one in rows if one.name == "optimum"), None)
    if row.gap and row.scores is not None and best is not None and best.scores is not None and row is not best:
        errors = round((best.scores.accuracy - row.scores.accuracy) * len(test))
        count = "no" if not errors else f"{abs(errors):,} {'more' if errors > 0 else 'fewer'}"
        notes.append(f"its gap of {row.gap:.2g} goes with {count} errors on {len(test):,} held-out rows")
    remedy = "" if plan.class_weight is not None else ": try --class-weight balanced"
    if row.scores is not None and row.scores.only_answer is not None:
        notes.append(f"it answers {label_of(row.scores.only_answer, labels)!r} to every held-out row{remedy}")
    elif row.scores is not None and row.scores.skill is False:
        notes.append(f"its answers are not better than chance{remedy}")
    return replace(row, note="; ".join(notes))


def _curve(plan: Plan, objective: Objectives, best: Optima, step: Step) -> Iterator[tuple[int, float, float]]:
    for factor in MEMORY_FACTORS:
        one = replace(plan, memory_points=round(factor * plan.memory_points))
        if not LEAST_PLOTTED <= one.memory_points < len(objective.points):
            continue
        ours = _machines(_learned(one, objective.points, objective.task, step)[0].model_)
        sampled = objective.of_few(_sampled(one, objective, step))
        yield one.memory_points, best.gap(objective.value(ours)), best.gap(objective.value(sampled))
