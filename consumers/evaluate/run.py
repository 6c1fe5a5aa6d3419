"""One pass by each method, and the optimum that their gaps are measured from."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from sklearn.linear_model import SGDClassifier

from consumers.evaluate.copies import copies_of
from consumers.evaluate.leaks import TOO_GOOD, suspected
from consumers.evaluate.learning import NO_CUT, PORTION, TrainingResult, learn
from consumers.evaluate.plan import (
    FLAGS,
    REMARK,
    AtThreshold,
    EvaluatedVersion,
    EvaluationReport,
    EvaluationRow,
    Plan,
    Step,
    label_of,
    silent,
)
from consumers.evaluate.reading import LoadedPoints, check_parts, read
from streamsvm.config import Label, ModelConfig
from streamsvm.errors import ConfigurationError
from streamsvm.estimators.evaluation import (
    SGD_SETTINGS,
    EmpiricalObjective,
    Optimum,
    ReservoirBaseline,
    cross_validated_probabilities,
    optimum,
    probability_scores,
    scores,
    split,
)
from streamsvm.ingest.files.source import PointSource
from streamsvm.learning.learner import warm_up
from streamsvm.model.classes import AnyModel
from streamsvm.model.described import RARE
from streamsvm.model.kernels import Float, RbfKernel
from streamsvm.model.machine import LinearMachine, Model
from streamsvm.model.threshold import Threshold, described
from streamsvm.points import Points, label_codes
from streamsvm.supports import LABELS, require
from streamsvm.svm.threshold import judge

MOST_CELLS: Final = 1 << 26
"""Points times features beyond which the linear optimum is not sought: minutes, and gigabytes."""
MOST_RBF_POINTS: Final = 50_000
"""The same for RBF, whose time grows faster than the points."""
WARM_UP_MEMORY: Final = 256
WARM_UP_POINTS: Final = 2_000
"""Enough to fill and reduce that memory a few times, unmeasured."""
COARSE: Final = 0.01
"""Share of an objective in doubt by the solver's tolerance, from which people are told."""
MARGIN_WIDTH: Final = 0.02
"""Distance from -1, or from 1, within which a decision value counts as at the margin."""
MOSTLY_TIED: Final = 0.9
"""Share of rows at one margin from which people are told: of 36,000 calls of a bank, 12 % successful, it was 97 %, and
the AUC of solutions whose objectives agree in six figures was 0.87 to 0.90; with balanced weights all had 0.912."""
OTHER_WEIGHTS: Final = {"balanced": "balanced", "none": "unweighted"}
"""Names of rows under other class weights."""
MOST_NAMED: Final = 5
"""Columns that a note names."""
RECALLS_SHOWN: Final = (0.99, 0.95, 0.9, 0.8, 0.5, 0.2)
"""Of the held-out positive points, at thresholds that are shown beside the chosen one."""


def evaluate(
    source: PointSource,
    plan: Plan,
    *,
    step: Step | None = None,
    rejected: Callable[[], int] = lambda: 0,
) -> EvaluationReport:
    """Read, split, learn once, and measure.

    Parameters
    ----------
    source : PointSource
        Labeled with two labels or more; it is held in memory as a whole.
    plan : Plan
    step : callable, optional
    rejected : callable
        Called when all is read: how many rows, which are not among the points, a trainer reads and rejects.

    Raises
    ------
    ConfigurationError
        If an option or the source does not make sense; before anything takes long, but for bad rows of a file.
    """
    step = step or silent
    plan.check()
    table = read(source, step, None if plan.config is None else plan.config.points, plan.positive)
    labels = table.labels
    copies = copies_of(table.points)
    train, test = split(table.points, plan.test_share, plan.seed, copies.groups)
    check_parts(source, train, test, len(labels))
    goal = {"svm.cost": plan.cost, "svm.target": plan.target, "--probability": plan.probability}
    require({**goal, LABELS: len(labels)}, {**FLAGS, LABELS: source.name})
    _check_class_weight(plan, labels)
    without = _without_optimum(plan, train)
    if without:
        step(f"the optimum is left out: {without}", 0, REMARK)
    config = _prepared(plan, train, step)
    begun = time.perf_counter()
    learned = learn(config, train, f"streamsvm, {plan.points_of_all:,} points", step, partitions=plan.partitions)
    seconds = time.perf_counter() - begun
    objective = EmpiricalObjective.over(train, learned.svm, classes=learned.task.classes)
    fields = plan.fields(source)
    ours, thresholds = _streamsvm(plan, learned, objective, test, fields, seconds)
    rows = [ours, *_other_weights(plan, learned, objective, test, step)]
    rows += [method(plan, objective, test, step) for method in (_reservoir, _sgd)]
    best = None
    if without:
        rows.append(EvaluationRow(name="optimum", note=without))
    else:
        best, row = _optimum(plan, objective, test, step)
        if ours.scores is not None and (ours.scores.auc or 0.0) <= TOO_GOOD:
            row = _with_suspect(row, best.model, test, fields, plan)
        rows.append(row)
    return EvaluationReport(
        source=source.name,
        labels=labels,
        training_points=len(train),
        test_points=len(test),
        dimension=train.dimension,
        C=objective.penalty,
        gamma=objective.kernel.gamma if isinstance(objective.kernel, RbfKernel) else None,
        uncertainty=None if best is None else best.uncertainty,
        most_bytes=config.coreset.largest_bytes(config.points, plan.partitions),
        rows=tuple(_said(_with_gap(row, best), rows, test, labels, plan) for row in rows),
        thresholds=thresholds,
        said=(
            *_of_labels(plan, table),
            *_not_held_out(labels, train, test),
            *copies.said(train, test),
            *_rounded(table.rounded),
        ),
        version=_version_of(plan, table, rejected(), step),
    )


def _of_labels(plan: Plan, table: LoadedPoints) -> Iterator[str]:
    """Yield which of two labels figures are of, and what its mistakes cost."""
    if table.two is not None:
        yield table.two.said
        if plan.cost is not None:
            yield table.two.cost_said(plan.cost)


def _rounded(columns: Sequence[str]) -> Iterator[str]:
    """Yield of which columns float32 makes different values the same."""
    if columns:
        named = ", ".join(columns[:MOST_NAMED]) + (", ..." if len(columns) > MOST_NAMED else "")
        yield f'points.dtype = "float32" makes different values of {named} the same: set points.dtype = "float64"'


def _not_held_out(labels: Sequence[Label], train: Points, test: Points) -> Iterator[str]:
    """Yield of which labels no row was set aside, so that figures are absent."""
    for label, code in zip(labels, label_codes(len(labels)), strict=True):
        if not np.any(test.y == code):
            there = int(np.sum(train.y == code))
            yield (
                f"no row of {label!r} was held out: it has {there:,}, and balanced accuracy, AUC and average precision "
                "need two or more"
            )


def _version_of(plan: Plan, table: LoadedPoints, rejected: int, step: Step) -> EvaluatedVersion | None:
    """Return the last version that a trainer publishes of a file's rows; those that it rejects keep their places."""
    config = plan.config
    if config is None or config.svm.tune is not None:
        return None
    rows, cuts = len(table.points) + rejected, NO_CUT
    if plan.partitions == 1 and plan.every_leaves is not None:
        cuts = plan.every_leaves
    learned = learn(
        config,
        table.points,
        "a version of the file as it is",
        step,
        partitions=plan.partitions,
        at=table.at if rejected else None,
        rows=rows,
        every_leaves=cuts,
    )
    return EvaluatedVersion(
        rows=learned.made.cut.learned.rows,
        of_rows=rows,
        partitions=plan.partitions,
        training_set_sha256=learned.made.training_set_sha256,
        content_sha256=learned.content_sha256,
    )


def _check_class_weight(plan: Plan, labels: Sequence[object]) -> None:
    if plan.config is None and len(labels) > 2 and isinstance(plan.class_weight, tuple):
        raise ConfigurationError(
            f"--class-weight has two numbers, but there are {len(labels)} labels", "Give balanced, or leave it out."
        )


def _prepared(plan: Plan, train: Points, step: Step) -> ModelConfig:
    """Return the configuration by which the points are learned, all compiled that the pass will run."""
    step("warming up", 0, None)
    config = plan.configuration(train)
    warm_up(config)
    if plan.config is None:  # what reducers of these sizes compile is not in `warm_up`
        few = replace(plan, points=min(plan.points, WARM_UP_MEMORY)).configuration(train)
        learn(few, train.take(slice(WARM_UP_POINTS)), "", silent)
    return config


def _without_optimum(plan: Plan, train: Points) -> str:
    """Return why the optimum is not sought; nothing if it is."""
    if plan.find_optimum is not None:
        return "" if plan.find_optimum else "not computed"
    if plan.kernel == "rbf" and len(train) > MOST_RBF_POINTS:
        reason = f"{len(train):,} points, more than {MOST_RBF_POINTS:,} under RBF"
    elif train.X.size > MOST_CELLS:
        reason = f"{train.X.size:,} values, more than {MOST_CELLS:,}"
    else:
        return ""
    return f"skipped: {reason}; --optimum computes it all the same"


def _portions(points: Points, what: str, step: Step) -> Iterator[Points]:
    for start in range(0, len(points), PORTION):
        yield points.take(slice(start, start + PORTION))
        step(what, min(start + PORTION, len(points)), len(points))


def _measured(
    name: str, model: AnyModel, objective: EmpiricalObjective, test: Points, seconds: float, points_held: int
) -> EvaluationRow:
    decision = np.asarray(model.decision_function(test.X))
    if isinstance(model, Model):
        decision = decision - model.border  # as scores go by the sign, and none by the size
    return EvaluationRow(
        name=name,
        objective=objective.value(model),
        scores=scores(test, decision),
        points_per_s=len(objective.points) / max(seconds, 1e-9),
        seconds=seconds,
        points_held=min(points_held, len(objective.points)),
    )


def _streamsvm(
    plan: Plan,
    learned: TrainingResult,
    objective: EmpiricalObjective,
    test: Points,
    fields: Mapping[str, slice],
    seconds: float,
) -> tuple[EvaluationRow, tuple[AtThreshold, ...]]:
    """Return the row, and what several thresholds come to if one is configured."""
    made, model, coreset = learned.made, learned.made.model, learned.config.coreset
    row = _measured("streamsvm", model, objective, test, seconds, plan.points_of_all)
    notes = [f"{coreset.reducer} {coreset.structure}, trained on {len(made.cut.points):,} points"]
    if not all(machine.fit.converged for machine in made.machines):
        notes.append("the solver did not converge")
    notes += _kept(learned, len(objective.points))
    if isinstance(model, Model) and not plan.class_weight:
        notes += _tied(model.decision_function(test.X))
    at, thresholds = None, tuple[AtThreshold, ...]()
    threshold = model.threshold
    if threshold is not None:
        decision = model.decision_function(test.X)
        at = at_threshold(threshold.value, plan.cost, decision, test)
        thresholds = tuple(at_threshold(one, plan.cost, decision, test) for one in _beside(threshold, decision, test))
        notes.append(f"threshold {described(threshold)}")
    said = None
    if plan.probability is not None and made.no_probability:
        notes.append("no probabilities: too few points of a label in the audit sample")
    elif plan.probability is not None:
        said = probability_scores(test, model.predict_proba(test.X)[:, 1])
        notes.append(f"{plan.probability} by an audit sample of {coreset.audit_points:,}")
    row = replace(row, note="; ".join(notes), at=at, probabilities=said)
    return _with_suspect(row, model, test, fields, plan), thresholds


def _tied(decision: Float) -> Iterator[str]:
    """Yield a remark if nearly all rows lie at one margin, where the hinge loss does not separate them."""
    share = max(float(np.mean(np.abs(decision - margin) < MARGIN_WIDTH)) for margin in (-1.0, 1.0))
    if share > MOSTLY_TIED:
        yield (
            f"{share:.0%} of the held-out rows lie at one margin, so that their order, and the AUC, depend on where "
            "the solver stops: try --class-weight balanced"
        )


def _kept(learned: TrainingResult, rows: int) -> Iterator[str]:
    """Yield remarks on what a gap comes from where no point was reduced."""
    made = learned.made
    if learned.clipped:
        yield f"{learned.clipped:,} rows are outliers, and were drawn in"
    elif len(made.cut.points) == rows:
        yield "all points are held as they came, so that the gap is the solver's own"
        fit = made.machines[0].fit
        if len(made.machines) == 1 and fit.dual_objective is not None:
            doubt = (fit.objective - fit.dual_objective) / max(fit.objective, 1e-300)
            if doubt > COARSE:
                yield (
                    f"its tolerance, {learned.svm.tolerance:g}, is coarse for an objective of {fit.objective:.3g}, of "
                    f"which {doubt:.0%} are in doubt: lower svm.tolerance if that matters"
                )


def _with_suspect(
    row: EvaluationRow, model: AnyModel, test: Points, fields: Mapping[str, slice], plan: Plan
) -> EvaluationRow:
    """Add to a row's note which field answers by itself, where nearly all rows are right."""
    auc = row.scores and row.scores.auc
    if not isinstance(model, Model) or (auc or 0.0) <= TOO_GOOD:
        return row
    suspect = suspected(model.decision_function, test, fields, plan.seed)
    return replace(row, note=f"{suspect}; {row.note}")


def _other_weights(
    plan: Plan, learned: TrainingResult, objective: EmpiricalObjective, test: Points, step: Step
) -> Iterator[EvaluationRow]:
    """Yield, where a label is rare, what the other choice of class weights would be: balanced, or none."""
    points, config = objective.points, learned.config
    if learned.task.classes > 2 or config.svm.class_weight not in ("none", "balanced"):
        return
    positive = float(np.mean(points.y > 0))
    share = min(positive, 1.0 - positive)
    if share >= RARE:
        return
    other = "balanced" if config.svm.class_weight == "none" else "none"
    name = OTHER_WEIGHTS[other]
    begun = time.perf_counter()
    svm = config.svm.model_copy(update={"class_weight": other})
    weighted = learn(
        config.model_copy(update={"svm": svm, "pilots": svm}), points, name, step, partitions=plan.partitions
    )
    seconds = time.perf_counter() - begun
    row = _measured(name, weighted.made.model, objective, test, seconds, plan.points_of_all)
    note = f"streamsvm with class_weight = {other}, because only {share:.1%} of the rows have the rarer label"
    yield replace(row, objective=None, note=f"{note}; another objective, so no gap")


def at_threshold(value: float, costs: tuple[float, float] | None, decision: Float, test: Points) -> AtThreshold:
    """Return what answers above a threshold come to on points that were set aside."""
    shares = judge(value, costs, decision, test.y, np.asarray(test.weight, np.float64))
    figures = {figure: judged.value for figure, judged in shares.items() if judged is not None}
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


def _sampled(plan: Plan, objective: EmpiricalObjective, step: Step) -> Points:
    reservoir = ReservoirBaseline(plan.points_of_all, plan.seed)
    for part in _portions(objective.points, f"reservoir, {plan.points_of_all:,} points", step):
        reservoir.learn(part)
    return reservoir.points


def _reservoir(plan: Plan, objective: EmpiricalObjective, test: Points, step: Step) -> EvaluationRow:
    begun = time.perf_counter()
    few = _sampled(plan, objective, step)
    if len(np.unique(few.y)) < 2:
        return EvaluationRow(name="reservoir", points_held=len(few), note="failed: its sample has one label only")
    model = objective.of_few(few)
    row = _measured("reservoir", model, objective, test, time.perf_counter() - begun, len(few))
    return replace(row, note="a uniform sample, with the training part's scaler")


def _sgd(plan: Plan, whole: EmpiricalObjective, test: Points, step: Step) -> EvaluationRow:
    task, objective = whole.task, whole
    if task.in_pairs:  # it has a plane for each label, not for each pair
        against_the_rest = whole.svm.model_copy(update={"multiclass": "one_vs_rest"})
        objective = EmpiricalObjective.over(whole.points, against_the_rest, classes=task.classes)
    passes = [(*made, settings) for settings in SGD_SETTINGS if (made := _sgd_pass(settings, plan, objective, step))]
    if not passes:
        return EvaluationRow(name="SGD", points_held=0, note="failed: every setting overflows")
    model, seconds, best = min(passes, key=lambda made: objective.value(made[0]))
    row = _measured("SGD", model, objective, test, seconds, 0)
    settings = ", ".join(f"{name}={value!r}" for name, value in best.items())
    note = (
        f"partial_fit of SGDClassifier({objective.svm.margin_loss}, alpha=1/(C n), {settings}), the best of "
        f"{len(SGD_SETTINGS)} settings, with the training part's scaler"
    )
    if plan.kernel != "linear":
        return replace(row, objective=None, note=f"{note}; linear: no gap under RBF")
    if objective is not whole:
        return replace(row, objective=None, note=f"{note}; each label against the rest: no gap among pairs")
    return replace(row, note=note)


def _sgd_pass(
    settings: dict[str, Any], plan: Plan, objective: EmpiricalObjective, step: Step
) -> tuple[AnyModel, float] | None:
    """Take one pass and return its model and seconds; None if these settings overflow."""
    alpha = 1.0 / (objective.penalty * len(objective.points))
    machine = SGDClassifier(loss=objective.svm.margin_loss, alpha=alpha, random_state=plan.seed, **settings)
    begun = time.perf_counter()
    try:
        weighted = objective.points.reweighted(objective.weight)  # SGD knows no class weights
        for part in _portions(weighted, "SGD", step):
            Z = objective.scaler.transform(part.X)
            machine.partial_fit(Z, part.y, classes=list(label_codes(objective.task.classes)), sample_weight=part.weight)
    except ValueError:
        return None
    seconds = time.perf_counter() - begun
    planes = zip(machine.coef_, machine.intercept_, strict=True)
    models = [Model(objective.scaler, LinearMachine(w, float(b))) for w, b in planes]
    return objective.task.model(models), seconds


def _optimum(plan: Plan, objective: EmpiricalObjective, test: Points, step: Step) -> tuple[Optimum, EvaluationRow]:
    step("the optimum on all training points (--no-optimum leaves it out)", 0, None)
    begun = time.perf_counter()
    best = optimum(objective)
    seconds = time.perf_counter() - begun
    row = _measured("optimum", best.model, objective, test, seconds, len(objective.points))
    note = f"trained on all training points, certified to {best.uncertainty:.1e}"
    if plan.probability is None:
        return best, replace(row, note=note)
    step(f"{plan.probability} probabilities by cross-validation", 0, None)
    try:
        said = cross_validated_probabilities(objective, test.X)
    except ValueError as error:
        return best, replace(row, note=f"{note}; no probabilities: {' '.join(str(error).split())}")
    note = f"{note}; {plan.probability} by CalibratedClassifierCV of five folds, whose time is not counted"
    return best, replace(row, note=note, probabilities=probability_scores(test, said))


def _with_gap(row: EvaluationRow, best: Optimum | None) -> EvaluationRow:
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
