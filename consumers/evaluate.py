"""Evaluate: one pass over a file's points with a chosen memory, beside what else could be done with them.

Nothing here needs a broker. Times are of this machine and this moment: compare them within one table.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from sklearn.base import BaseEstimator, is_classifier
from sklearn.linear_model import SGDClassifier

from streamsvm.config import Label
from streamsvm.errors import ConfigurationError
from streamsvm.estimators import CoresetSVC
from streamsvm.evaluation import (
    SGD_SETTINGS,
    Objective,
    Optimum,
    ProbabilityScores,
    Reservoir,
    Scores,
    cross_validated_probabilities,
    decisions_of,
    machine_of,
    optimum,
    probability_scores,
    scores,
    split,
)
from streamsvm.learner import warm_up
from streamsvm.points import Points
from streamsvm.sources import Source
from streamsvm.svm.kernels import RbfKernel
from streamsvm.svm.model import LinearMachine, Model
from streamsvm.svm.probability import Method

PORTION: Final = 1_000
"""Points that a learner is given at once."""
DEFAULT_TRAIN_POINTS: Final = 20_000
MOST_CELLS: Final = 1 << 28
"""Points times features beyond which the linear optimum is not sought: minutes, and gigabytes."""
MOST_RBF_POINTS: Final = 50_000
"""The same for RBF, whose time grows faster than the points."""
LEAST_MEMORY: Final = 16
WARM_UP_MEMORY: Final = 256
WARM_UP_POINTS: Final = 2_000
"""Enough to fill and reduce that memory a few times, unmeasured."""
MEMORY_FACTORS: Final = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Of the chosen memory, for the plot."""
LEAST_PLOTTED: Final = 32

Step = Callable[[str, int, int | None], None]
"""Told what is going on, how many points of it are done, and of how many; None where that is not known."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to evaluate.

    Attributes
    ----------
    memory_points : int
        Of the coreset, and of the reservoir.
    alpha, C : float, optional
        At most one of them; alpha = 1e-4 without.
    kernel, gamma, structure, reducer, probability
        As `CoresetSVC`'s.
    seed : int
        Of the split, the order, the coreset, the reservoir and SGD.
    test_share : float
        Share of the points that is set aside, in (0, 1).
    find_optimum : bool, optional
        Whether to train on all points, without which there are no gaps. Default: unless they are too many.
    against : tuple of str
        Dotted names of classifiers.
    """

    memory_points: int = 10_000
    alpha: float | None = None
    C: float | None = None
    kernel: Literal["linear", "rbf"] = "linear"
    gamma: Literal["scale", "auto"] | float = "scale"
    structure: Literal["tree", "chain"] = "chain"
    reducer: Literal["calibrated", "sensitivity", "uniform"] = "calibrated"
    probability: Method | None = None
    seed: int = 0
    test_share: float = 0.2
    find_optimum: bool | None = None
    against: tuple[str, ...] = ()

    def machine(self) -> CoresetSVC:
        """Return a new classifier of this plan."""
        return CoresetSVC(
            memory_points=self.memory_points,
            alpha=self.alpha,
            C=self.C,
            kernel=self.kernel,
            gamma=self.gamma,
            structure=self.structure,
            reducer=self.reducer,
            probability=self.probability,
            train_points=max(DEFAULT_TRAIN_POINTS, self.memory_points),
            seed=self.seed,
        )


@dataclass(frozen=True, slots=True)
class Row:
    """What one method made of the training part.

    Attributes
    ----------
    name : str
    objective : float or None
        F on the training part; None of a machine of another kind.
    gap : float or None
        Of F to the optimum's; None without one of both.
    scores : Scores or None
        On what was set aside; None of a method that failed.
    points_per_s : float or None
        Training points over the wall time of reading them and of training.
    points_held : int or None
        At most.
    note : str
    probabilities : ProbabilityScores or None
        On what was set aside; of streamsvm and the optimum, if they were asked for.
    """

    name: str
    objective: float | None = None
    gap: float | None = None
    scores: Scores | None = None
    points_per_s: float | None = None
    points_held: int | None = None
    note: str = ""
    probabilities: ProbabilityScores | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome.

    Attributes
    ----------
    source : str
    labels : tuple
        Negative, positive.
    training_points, test_points, dimension : int
    C : float
    gamma : float or None
    uncertainty : float or None
        Relative distance from the true optimum within which the optimum lies; None if it was not sought.
    rows : tuple of Row
    curve : tuple of (memory, our gap, the reservoir's)
        Empty unless asked for.
    """

    source: str
    labels: tuple[Label, Label]
    training_points: int
    test_points: int
    dimension: int
    C: float
    gamma: float | None
    uncertainty: float | None
    rows: tuple[Row, ...]
    curve: tuple[tuple[int, float, float], ...] = ()

    def plain(self) -> dict[str, Any]:
        """Return it as what JSON can hold."""
        return asdict(self)


def evaluate(source: Source, plan: Plan, *, curve: bool = False, step: Step | None = None) -> Report:
    """Read, split, learn once, and measure.

    Parameters
    ----------
    source : Source
        Labeled with two labels; it is held in memory as a whole.
    plan : Plan
    curve : bool
        Measure the gap for a few memories, too.
    step : callable, optional

    Raises
    ------
    ConfigurationError
        If an option or the source does not make sense; before anything takes long, but for bad rows of a file.
    """
    step = step or _silent
    _check(plan, curve=curve)
    peers = [resolve(name) for name in plan.against]
    points, labels = load(source, step)
    train, test = split(points, plan.test_share, plan.seed)
    _check_parts(source, train, test)
    without = _without_optimum(plan, train, curve=curve)
    objective = _prepared(plan, train, step)
    rows = [method(plan, objective, test, step) for method in (_streamsvm, _reservoir, _sgd)]
    best = None
    if without:
        rows.append(Row("optimum", note=without))
    else:
        best, row = _optimum(plan, objective, test, step)
        rows.append(row)
    rows += [_peer(name, made, plan, objective, test, step) for name, made in zip(plan.against, peers, strict=True)]
    return Report(
        source=source.name,
        labels=labels,
        training_points=len(train),
        test_points=len(test),
        dimension=train.dimension,
        C=objective.penalty,
        gamma=objective.kernel.gamma if isinstance(objective.kernel, RbfKernel) else None,
        uncertainty=None if best is None else best.uncertainty,
        rows=tuple(_with_gap(row, best) for row in rows),
        curve=tuple(_curve(plan, objective, best, step)) if curve and best is not None else (),
    )


def _silent(what: str, done: int, total: int | None) -> None:
    pass


def _check(plan: Plan, *, curve: bool) -> None:
    if plan.alpha is not None and plan.C is not None:
        raise ConfigurationError("--alpha and --C are both given", "They are two ways to say one thing: keep one.")
    if not 0.0 < plan.test_share < 1.0:
        raise ConfigurationError(f"--test-share is {plan.test_share}", "Give a share above 0 and below 1.")
    for name, value in (("--alpha", plan.alpha), ("--C", plan.C), ("--gamma", plan.gamma)):
        if isinstance(value, float) and not 0.0 < value < np.inf:
            raise ConfigurationError(f"{name} is {value}", "Give a number above 0.")
    if plan.memory_points < LEAST_MEMORY:
        raise ConfigurationError(f"--memory-points is {plan.memory_points}", f"Give {LEAST_MEMORY} or more.")
    if plan.seed < 0:
        raise ConfigurationError(f"--seed is {plan.seed}", "Give 0 or more.")
    if curve and plan.find_optimum is False:
        raise ConfigurationError("--plot shows gaps, which --no-optimum leaves out", "Keep one of them.")


def load(source: Source, step: Step = _silent) -> tuple[Points, tuple[Label, Label]]:
    """Read a whole source; return its points and its labels, negative and positive: the lower and the higher.

    Raises
    ------
    ConfigurationError
        If it has not exactly two labels, or a row is not a valid point.
    """
    batches, read = [], 0
    for batch in source.batches():
        batches.append(batch)
        read += len(batch)
        step("reading", read, source.rows)
    given = list(chain.from_iterable(batch.y or () for batch in batches))
    labels = sorted(set(given), key=lambda label: (isinstance(label, str), label))
    if len(labels) != 2:
        shown = ", ".join(repr(label) for label in labels[:5]) + (", ..." if len(labels) > 5 else "")
        raise ConfigurationError(
            f"{source.name} has {len(labels)} labels ({shown}), evaluate tells two apart",
            "Choose the label column by --label, or leave rows of other labels out.",
        )
    signs = np.where(np.fromiter((label == labels[1] for label in given), np.bool_, len(given)), 1, -1)
    weight = [np.ones(len(batch)) if batch.weight is None else batch.weight for batch in batches]
    points = Points(np.concatenate([batch.X for batch in batches]), signs.astype(np.int8), np.concatenate(weight))
    return points, (labels[0], labels[1])


def _check_parts(source: Source, train: Points, test: Points) -> None:
    if not len(test):
        raise ConfigurationError(
            f"{source.name} has {len(train):,} points, of which --test-share sets none aside", "Raise it."
        )
    if len(np.unique(train.y)) < 2:
        raise ConfigurationError(
            f"of the {len(train) + len(test):,} points of {source.name} those to train on are not of both labels",
            "Give more points of the rarer label, a lower --test-share or another --seed.",
        )


def _prepared(plan: Plan, train: Points, step: Step) -> Objective:
    """Check the plan's options by what two points need, compile what the pass will run, and state the objective."""
    step("warming up", 0, None)
    two = np.array([np.argmin(train.y), np.argmax(train.y)])
    try:
        config = replace(plan, probability=None).machine().fit(train.X[two], train.y[two]).model_config
    except ValueError as error:
        reason = str(error).removeprefix(": Value error, ")
        raise ConfigurationError(reason, "See streamsvm evaluate --help.") from None
    warm_up(config)
    few = replace(plan, memory_points=min(plan.memory_points, WARM_UP_MEMORY))
    few = replace(few, probability=None)
    assert _learned(few, train.take(slice(WARM_UP_POINTS)), _silent).model_  # what the reducers compile is not in it
    return Objective.over(train, config.svm)


def _without_optimum(plan: Plan, train: Points, *, curve: bool) -> str:
    """Say why the optimum is not sought; nothing if it is."""
    if plan.find_optimum is not None:
        return "" if plan.find_optimum else "not sought"
    if plan.kernel == "rbf" and len(train) > MOST_RBF_POINTS:
        reason = f"{len(train):,} points, more than {MOST_RBF_POINTS:,} under RBF"
    elif train.X.size > MOST_CELLS:
        reason = f"{train.X.size:,} values, more than {MOST_CELLS:,}"
    else:
        return ""
    if curve:
        raise ConfigurationError(
            f"--plot shows gaps, and the optimum is not sought for {reason}", "Give --optimum to wait for it."
        )
    return f"skipped for {reason}; --optimum seeks it"


def _portions(points: Points, what: str, step: Step) -> Iterator[Points]:
    for start in range(0, len(points), PORTION):
        yield points.take(slice(start, start + PORTION))
        step(what, min(start + PORTION, len(points)), len(points))


def _measured(name: str, model: Model, objective: Objective, test: Points, seconds: float, held: int) -> Row:
    return Row(
        name,
        objective.value(model),
        scores=scores(test, model.decision_function(test.X)),
        points_per_s=len(objective.points) / max(seconds, 1e-9),
        points_held=min(held, len(objective.points)),
    )


def _learned(plan: Plan, train: Points, step: Step) -> CoresetSVC:
    machine = plan.machine()
    for part in _portions(train, f"streamsvm, {plan.memory_points:,} points", step):
        machine.partial_fit(part.X, part.y, classes=[-1, 1], sample_weight=part.weight)
    return machine


def _streamsvm(plan: Plan, objective: Objective, test: Points, step: Step) -> Row:
    begun = time.perf_counter()
    machine = _learned(plan, objective.points, step)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="no probabilities")  # the row's note says so
        model, fit = machine.model_, machine.fit_
    seconds = time.perf_counter() - begun
    held = machine.model_config.coreset.partition_points
    row = _measured("streamsvm", model, objective, test, seconds, held)
    note = f"{plan.reducer} {plan.structure}, trained on {fit.points:,} points" + (
        "" if fit.converged else "; the solver did not converge"
    )
    if plan.probability is None:
        return replace(row, note=note)
    if model.probability is None:
        return replace(row, note=f"{note}; no probabilities: too few points of a label in the audit sample")
    said = probability_scores(test, model.predict_proba(test.X)[:, 1])
    audited = machine.model_config.coreset.audit_points
    return replace(row, note=f"{note}; {plan.probability} by an audit sample of {audited:,}", probabilities=said)


def _sampled(plan: Plan, objective: Objective, step: Step) -> Points:
    reservoir = Reservoir(plan.memory_points, plan.seed)
    for part in _portions(objective.points, f"reservoir, {plan.memory_points:,} points", step):
        reservoir.learn(part)
    return reservoir.points


def _reservoir(plan: Plan, objective: Objective, test: Points, step: Step) -> Row:
    begun = time.perf_counter()
    few = _sampled(plan, objective, step)
    if len(np.unique(few.y)) < 2:
        return Row("reservoir", points_held=len(few), note="failed: its sample is of one label")
    model = objective.of_few(few)
    row = _measured("reservoir", model, objective, test, time.perf_counter() - begun, len(few))
    return replace(row, note="a uniform sample; it is given the training part's scaler")


def _sgd(plan: Plan, objective: Objective, test: Points, step: Step) -> Row:
    passes = [made for settings in SGD_SETTINGS if (made := _sgd_pass(settings, plan, objective, step))]
    if not passes:
        return Row("SGD", points_held=0, note="failed: every setting overflows")
    best = min(passes, key=lambda made: objective.value(made.model))
    row = _measured("SGD", best.model, objective, test, best.seconds, 0)
    settings = ", ".join(f"{name}={value!r}" for name, value in best.settings.items())
    note = (
        f"partial_fit of SGDClassifier(hinge, alpha=1/(C n), {settings}), the best of {len(SGD_SETTINGS)} settings; it "
        "is given the training part's scaler"
    )
    if plan.kernel != "linear":
        return replace(row, objective=None, note=f"{note}; linear: no gap under RBF")
    return replace(row, note=note)


@dataclass(frozen=True, slots=True)
class _SgdPass:
    settings: dict[str, Any]
    model: Model
    seconds: float


def _sgd_pass(settings: dict[str, Any], plan: Plan, objective: Objective, step: Step) -> _SgdPass | None:
    """Take one pass; None if these settings overflow."""
    alpha = 1.0 / (objective.penalty * len(objective.points))
    machine = SGDClassifier(loss="hinge", alpha=alpha, random_state=plan.seed, **settings)
    begun = time.perf_counter()
    try:
        for part in _portions(objective.points, "SGD", step):
            Z = objective.scaler.transform(part.X)
            machine.partial_fit(Z, part.y, classes=[-1, 1], sample_weight=part.weight)
    except ValueError:
        return None
    seconds = time.perf_counter() - begun
    model = Model(objective.scaler, LinearMachine(machine.coef_[0], float(machine.intercept_[0])))
    return _SgdPass(settings, model, seconds)


def _optimum(plan: Plan, objective: Objective, test: Points, step: Step) -> tuple[Optimum, Row]:
    step("the optimum on all training points", 0, None)
    begun = time.perf_counter()
    best = optimum(objective)
    seconds = time.perf_counter() - begun
    row = _measured("optimum", best.model, objective, test, seconds, len(objective.points))
    note = f"STDASVC on all training points, certified to {best.uncertainty:.1e}"
    if plan.probability is None:
        return best, replace(row, note=note)
    step(f"{plan.probability} probabilities by cross-validation", 0, None)
    try:
        said = cross_validated_probabilities(objective, plan.probability, test.X)
    except ValueError as error:
        return best, replace(row, note=f"{note}; no probabilities: {_one_line(error)}")
    note = f"{note}; {plan.probability} by CalibratedClassifierCV of five folds, whose time is not counted"
    return best, replace(row, note=note, probabilities=probability_scores(test, said))


def resolve(name: str) -> Any:
    """Return a new classifier by the dotted name of its class, with that class's own defaults.

    Raises
    ------
    ConfigurationError
        If it cannot be imported, is no classifier, or cannot be made without parameters.
    """
    module, _, attribute = name.rpartition(".")
    remedy = "Give the dotted name of a classifier, such as sklearn.svm.SVC."
    if not (module and all(part.isidentifier() for part in name.split("."))):
        raise ConfigurationError(f"--against {name!r} is no dotted name", remedy)
    try:
        found = getattr(importlib.import_module(module), attribute, None)
    except Exception as error:  # noqa: BLE001 - foreign code: what its import raises is not ours to know
        raise ConfigurationError(f"--against {name} cannot be imported: {_one_line(error)}", remedy) from None
    if found is None:
        raise ConfigurationError(f"--against {name}: {module} has no {attribute}", remedy)
    if not (inspect.isclass(found) and issubclass(found, BaseEstimator) and hasattr(found, "fit")):
        raise ConfigurationError(f"--against {name} is no classifier of scikit-learn's kind", remedy)
    try:
        made = found()
    except Exception as error:  # noqa: BLE001 - the same
        what = f"--against {name} cannot be made without parameters: {_one_line(error)}"
        raise ConfigurationError(what, remedy) from None
    if not is_classifier(made):
        raise ConfigurationError(f"--against {name} is no classifier", remedy)
    return made


def _peer(name: str, classifier: Any, plan: Plan, objective: Objective, test: Points, step: Step) -> Row:
    """Fit a peer on all training points, scaled; what goes wrong in foreign code becomes a note."""
    step(name, 0, None)
    given = _given(classifier, plan, objective)
    note = ", ".join(f"{key}={value:.6g}" if key == "C" else f"{key}={value}" for key, value in given.items())
    note = f"all training points, scaled; {note or 'its own defaults'}"
    train, Z = objective.points, objective.scaler.transform(objective.points.X)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            classifier.set_params(**given)
            begun = time.perf_counter()
            if (train.weight == 1.0).all():
                classifier.fit(Z, train.y)
            else:
                classifier.fit(Z, train.y, sample_weight=train.weight)
            seconds = time.perf_counter() - begun
            scored = scores(test, decisions_of(classifier, objective.scaler.transform(test.X)))
        except Exception as error:  # noqa: BLE001 - foreign code: what it raises is not ours to know
            return Row(name, note=f"failed: {_one_line(error)}")
    note += "".join(f"; {_one_line(text)}" for text in dict.fromkeys(str(warning.message) for warning in caught))
    machine = machine_of(classifier, objective.kernel)
    reached = None if machine is None else objective.value(Model(objective.scaler, machine))
    return Row(name, reached, None, scored, len(train) / max(seconds, 1e-9), len(train), note)


def _given(classifier: Any, plan: Plan, objective: Objective) -> dict[str, Any]:
    """Return the parameters that a peer shares with the objective: C and what goes with it, and the seed."""
    known, given = classifier.get_params(deep=False), dict[str, Any]()
    if "C" in known:
        given["C"] = objective.penalty
        if "kernel" in known:
            given["kernel"] = plan.kernel
        if "gamma" in known and isinstance(objective.kernel, RbfKernel):
            given["gamma"] = objective.kernel.gamma
    if "random_state" in known:
        given["random_state"] = plan.seed
    return given


def _one_line(what: object) -> str:
    text = " ".join(str(what).split()) or type(what).__name__
    return text if len(text) <= 160 else f"{text[:157]}..."


def _with_gap(row: Row, best: Optimum | None) -> Row:
    return row if best is None or row.objective is None else replace(row, gap=best.gap(row.objective))


def _curve(plan: Plan, objective: Objective, best: Optimum, step: Step) -> Iterator[tuple[int, float, float]]:
    for factor in MEMORY_FACTORS:
        one = replace(plan, memory_points=round(factor * plan.memory_points))
        if not LEAST_PLOTTED <= one.memory_points < len(objective.points):
            continue
        ours = _learned(one, objective.points, step).model_
        sampled = objective.of_few(_sampled(one, objective, step))
        yield one.memory_points, best.gap(objective.value(ours)), best.gap(objective.value(sampled))


def headline(report: Report) -> str:
    """Return what was measured."""
    gamma = "" if report.gamma is None else f", gamma {report.gamma:.4g}"
    return (
        f"{report.source}: one pass over {report.training_points:,} points, {report.test_points:,} set aside; "
        f"{report.dimension} features, C {report.C:.4g}{gamma}"
    )


def describe(report: Report) -> Table:
    """Return the table; without an optimum it has objectives in the place of gaps."""
    judged = any(row.probabilities is not None for row in report.rows)
    table = Table(padding=(0, 0 if judged else 1))  # so that two columns more fit into 80 characters
    measure = "objective" if report.uncertainty is None else "gap"
    headings = ("", measure, "accuracy", "balanced", "AUC", *(("Brier", "log loss") if judged else ()))
    for heading in (*headings, "points/s", "held"):
        table.add_column(heading, justify="left" if not heading else "right", no_wrap=bool(heading), overflow="fold")
    for row in report.rows:
        found, said = row.scores, row.probabilities
        table.add_row(
            row.name.rpartition(".")[2],
            _gap(row, report.uncertainty),
            *(("-",) * 3 if found is None else map(_share, (found.accuracy, found.balanced_accuracy, found.auc))),
            *(map(_share, (None, None) if said is None else (said.brier, said.log_loss)) if judged else ()),
            "-" if row.points_per_s is None else f"{row.points_per_s:,.0f}",
            "-" if row.points_held is None else f"{row.points_held:,}",
        )
    return table


def notes(report: Report) -> list[str]:
    """Return what the table has no room for, one line each."""
    said = [f"{row.name}: {row.note}" for row in report.rows if row.note]
    said += [f"memory {memory:,}: gap {ours:.2e}, reservoir {theirs:.2e}" for memory, ours, theirs in report.curve]
    return said


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _gap(row: Row, uncertainty: float | None) -> str:
    if uncertainty is None:
        return "-" if row.objective is None else f"{row.objective:.6g}"
    if row.gap is None:
        return "-"
    if row.name == "optimum":
        return "0"
    return f"< {uncertainty:.1e}" if row.gap < uncertainty else f"{row.gap:.2e}"


@contextmanager
def progress_bar() -> Iterator[Step]:
    """Show a bar on standard error while the block runs, if that is a terminal."""
    if not sys.stderr.isatty():
        yield _silent
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda what, done, total: bar.update(task, description=what, completed=done, total=total)


def check_plot(path: Path) -> None:
    """Check that a plot can be made and written, before anything takes long.

    Raises
    ------
    ConfigurationError
    """
    if path.suffix.lower() != ".png":
        raise ConfigurationError(f"--plot {path} does not end in .png", "A PNG is what is written.")
    if not path.absolute().parent.is_dir():
        raise ConfigurationError(f"--plot {path}: there is no such directory", "Make it, or give another path.")
    if importlib.util.find_spec("matplotlib") is None:
        raise ConfigurationError(
            "--plot needs matplotlib, which is not installed", "Get it by: python -m pip install matplotlib"
        )


def plot(report: Report, path: Path) -> None:
    """Write the gap against memory as a PNG.

    Raises
    ------
    ConfigurationError
        If there is nothing to show, or the file cannot be written.
    """
    from matplotlib.figure import Figure  # a development dependency: only who asks for a plot needs it

    if not report.curve:
        raise ConfigurationError(
            "--plot has nothing to show: no memory to try is below the number of training points",
            "Lower --memory-points.",
        )
    memory, ours, theirs = zip(*report.curve, strict=True)
    floor = max(report.uncertainty or 0.0, 1e-12)
    figure = Figure(figsize=(6.4, 4.8), layout="constrained")
    axes = figure.subplots()
    for name, gaps, marker in (("streamsvm", ours, "o"), ("reservoir", theirs, "s")):
        axes.plot(memory, np.maximum(gaps, floor), marker=marker, label=name)
    axes.set(xscale="log", yscale="log")
    axes.set_xticks(memory, [f"{points:,}" for points in memory])
    axes.set_xticks([], minor=True)
    axes.set(xlabel="points held", ylabel="gap to the optimum, (F - F*) / F*")
    axes.set_title(f"{report.source}, {report.training_points:,} points")
    axes.grid(visible=True, which="both", alpha=0.3)
    axes.legend()
    try:
        figure.savefig(path)
    except OSError as error:
        raise ConfigurationError(
            f"{path} cannot be written: {error.strerror}", "Give a path that can be written."
        ) from None
