"""What a model is worth, and what it takes, beside the models that people would train instead.

    python -m tests.benchmarks.peers --help

    python -m tests.benchmarks.peers [--data FOLDER] [--only NAMES] [--rounds 5] [--peers PYTHON] [--json FILE]

    python -m tests.benchmarks.peers --rows FILE ...    # README's table of files that --json has written

Each round shuffles a set by its own seed, holds a fifth out, and gives every contender the other rows, in turn; where
the turn begins moves on with the rounds. FOLDER has NAME.npz files with `X` and `y` (-1 or +1); without it only `htru2`
is at hand. NAMES are sets, contenders or both, with commas between them. Held-out rows choose nothing.

The contenders:

- `streamsvm`, `streamsvm_balanced`, `streamsvm_rbf`: the learner as the trainer runs it, with all defaults but one
  partition and `svm.probability = sigmoid`; `svm.class_weight = balanced`, and
  `svm.kernel = rbf`. One pass, one training at its end.
- `svm_all`, `svm_all_balanced`: the same objective, class weights and C on all rows, at its optimum (`STDASVC`,
  certified to 1e-5); `liblinear`: the same of scikit-learn's LinearSVC, at most 1,000 passes. Of all three the features
  are scaled by all rows' moments, and scikit-learn's sigmoid is fitted over the same rows.
- `sgd` (log loss), `sgd_balanced` (the same with balanced class weights) and `sgd_hinge`: SGDClassifier in one pass of
  batches. `sgd_epochs`: `sgd` in five passes. Features are scaled by all rows' moments, which favours them. The setting
  (alpha and learning rate, of 25) is the one of the least log loss on a fifth of at most 20,000 training rows, after
  the other four fifths were learned; then all rows are learned. Where the loss or the class weights leave no
  probabilities, a sigmoid is fitted on that fifth.
- `hist_gb`: scikit-learn's HistGradientBoostingClassifier. And, where `--peers` gives an interpreter that has them,
  `river` (StandardScaler | LogisticRegression, one pass) and `lightgbm`: with the defaults of each.

A row says, for one set and one contender, the medians over the rounds on held-out rows; the least and the greatest of
the AUC; `skill`, false if in any round the answers were all the same or the ranking no better than chance;
`seconds`, CPU time of training, without what choosing a setting took (`choosing_s`); `cpu_ratio`, to `streamsvm`'s of
the same round; `points`, the most held at once (of `streamsvm`, looked at every 1,000 rows); `bytes`, what these points
take at 4 bytes a feature and 9 more. One thread each. The machine may be shared: compare ratios, not seconds.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig, SvmConfig
from streamsvm.estimators import STDASVC
from streamsvm.estimators.evaluation import (
    OPTIMUM_TOLERANCE,
    SGD_SETTINGS,
    EmpiricalObjective,
    probability_scores,
    scores,
    split,
)
from streamsvm.estimators.stream import Stream
from streamsvm.learning.recipe import make
from streamsvm.learning.tasks import TwoClasses
from streamsvm.points import Points
from tests.benchmarks.thresholds import load
from tests.benchmarks.worth_environment import Others

Float = NDArray[np.float64]

SETS: Final = ("htru2", "credit_default", "a9a", "elec2", "w8a", "ijcnn1", "skin", "cod_rna")
TEST_SHARE: Final = 0.2
PORTION: Final = 1_000
"""Rows that are learned at once."""
WARM_ROWS: Final = 8_000
"""Enough that other people's code runs once before a clock does; ours takes all rows for that, as what it compiles
depends on how many there are."""
TUNING_ROWS: Final = 20_000
VALIDATION_SHARE: Final = 0.2
ALPHAS: Final = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
EPOCHS: Final = 5
OVERFLOWN: Final = 1e100
"""Decision values beyond this are of a setting that diverged."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a contender made of one split.

    Attributes
    ----------
    decision : ndarray of shape (n,)
        Of the held-out rows; those above 0 are answered +1.
    positive : ndarray of shape (n,)
        Their probabilities of +1.
    seconds, choosing_s : float
        CPU seconds of training, and of choosing the setting.
    points : int
        The most held at once.
    """

    decision: Float
    positive: Float
    seconds: float
    choosing_s: float
    points: int


Contender = Callable[[Points, Points, int], Answer]
"""(training rows, held-out rows, seed) -> answer."""


# ---------------------------------------------------------------------------------------------------------------- ours


def streamsvm(train: Points, test: Points, seed: int, **svm: Any) -> Answer:
    """Learn all rows in one pass, and train once."""
    config = ModelConfig(
        points=PointsConfig(dimension=train.dimension),
        coreset=CoresetConfig(),
        svm=SvmConfig(probability="sigmoid", **svm),
        seed=seed,
    )
    begun, held = time.process_time(), 0
    stream = Stream(config, TwoClasses())
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* are outliers")  # a few rows of real sets are
        for start in range(0, len(train), PORTION):
            stream.learn(train.take(slice(start, start + PORTION)))
            held = max(held, stream.learner.points_held)
    made = make(stream.learner.cut(), config)
    seconds = time.process_time() - begun
    model = made.trained.model
    assert model.probability is not None, made.trained.no_probability
    decision = model.decision_function(test.X)
    return Answer(decision, model.probability.of(decision), seconds, 0.0, held)


# ------------------------------------------------------------------------------------------------ all points, linear


def svm_all(train: Points, test: Points, seed: int, solver: str = "stda", class_weight: str = "none") -> Answer:
    """Solve on all rows what `streamsvm` solves on some."""
    begun = time.process_time()
    objective = EmpiricalObjective.over(train, SvmConfig(class_weight=class_weight))
    Z = objective.scaler.transform(train.X)
    machine = (
        STDASVC(C=objective.penalty, kernel="linear", tol=OPTIMUM_TOLERANCE)
        if solver == "stda"
        else LinearSVC(C=objective.penalty, loss="hinge", random_state=seed)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        machine.fit(Z, train.y, sample_weight=objective.weight)
    judge = _sigmoid(machine, Z, train.y)
    seconds = time.process_time() - begun
    aside = objective.scaler.transform(test.X)
    return Answer(machine.decision_function(aside), judge.predict_proba(aside)[:, 1], seconds, 0.0, len(train))


def sgd(
    train: Points, test: Points, seed: int, loss: str = "log_loss", class_weight: str | None = None, epochs: int = 1
) -> Answer:
    """Choose a setting on some of the rows, then learn all of them in so many passes."""
    scaler = StandardScaler().fit(train.X.astype(np.float64))
    Z, y = scaler.transform(train.X.astype(np.float64)), train.y
    counts = {label: float(np.count_nonzero(y == label)) for label in (-1, 1)}
    weights = {label: len(y) / (2.0 * count) for label, count in counts.items()} if class_weight else None
    fit = partial(_passes, loss=loss, weights=weights, epochs=epochs, seed=seed)
    raw = loss == "log_loss" and weights is None
    begun = time.process_time()
    some = min(len(y), TUNING_ROWS)
    aside = round(some * VALIDATION_SHARE)
    first, second = slice(aside, some), slice(aside)  # split() has shuffled the rows
    best, chosen = math.inf, None
    for alpha, setting in product(ALPHAS, SGD_SETTINGS):
        machine = fit(Z[first], y[first], {"alpha": alpha, **setting})
        if machine is not None and (judged := log_loss(y[second], _probabilities(machine, Z, y, second, raw))) < best:
            best, chosen = judged, {"alpha": alpha, **setting}
    assert chosen is not None, "every setting overflows"
    choosing_s = time.process_time() - begun
    begun = time.process_time()
    machine = fit(Z, y, chosen)
    assert machine is not None, f"{chosen} overflows on all rows"
    judge = machine if raw else _sigmoid(machine, Z[second], y[second])
    seconds = time.process_time() - begun
    held_out = scaler.transform(test.X.astype(np.float64))
    points = 0 if epochs == 1 else len(train)
    return Answer(machine.decision_function(held_out), judge.predict_proba(held_out)[:, 1], seconds, choosing_s, points)


def _passes(
    Z: Float,
    y: NDArray[np.int8],
    setting: Mapping[str, Any],
    *,
    loss: str,
    weights: Mapping[int, float] | None,
    epochs: int,
    seed: int,
) -> Any:
    """Return the fitted machine; None if the setting overflows."""
    machine = SGDClassifier(loss=loss, class_weight=weights, random_state=seed, **setting)
    random = np.random.default_rng(seed)
    try:
        for epoch in range(epochs):
            order = random.permutation(len(y)) if epoch else np.arange(len(y))
            for start in range(0, len(y), PORTION):
                rows = order[start : start + PORTION]
                machine.partial_fit(Z[rows], y[rows], classes=[-1, 1])
    except ValueError:
        return None
    sizes = np.abs(machine.coef_).max(), abs(float(machine.intercept_[0]))
    return machine if max(sizes) < OVERFLOWN else None


def _probabilities(machine: Any, Z: Float, y: NDArray[np.int8], rows: slice, raw: bool) -> Float:
    judge = machine if raw else _sigmoid(machine, Z[rows], y[rows])
    return np.asarray(judge.predict_proba(Z[rows])[:, 1])


def _sigmoid(machine: Any, Z: Float, y: NDArray[np.int8]) -> Any:
    return CalibratedClassifierCV(FrozenEstimator(machine), method="sigmoid").fit(Z, y)


# ------------------------------------------------------------------------------------------------ all points, boosted


def hist_gb(train: Points, test: Points, seed: int) -> Answer:
    """Boost with scikit-learn's defaults."""
    machine = HistGradientBoostingClassifier(random_state=seed)
    begun = time.process_time()
    machine.fit(train.X, train.y)
    seconds = time.process_time() - begun
    positive = machine.predict_proba(test.X)[:, 1]
    return Answer(positive - 0.5, positive, seconds, 0.0, len(train))


def foreign(train: Points, test: Points, seed: int, others: Others, name: str) -> Answer:
    """Ask the other interpreter; raises ModuleNotFoundError if it has no such library."""
    told = others.fit(name, train, test, seed)
    held = THEIRS[name]
    return Answer(told.decision, told.positive, told.seconds, 0.0, len(train) if held is None else held)


OURS: Final[Mapping[str, Contender]] = {
    "streamsvm": streamsvm,
    "streamsvm_balanced": partial(streamsvm, class_weight="balanced"),
    "streamsvm_rbf": partial(streamsvm, kernel="rbf"),
    "svm_all": svm_all,
    "svm_all_balanced": partial(svm_all, class_weight="balanced"),
    "liblinear": partial(svm_all, solver="liblinear"),
    "sgd": sgd,
    "sgd_balanced": partial(sgd, class_weight="balanced"),
    "sgd_hinge": partial(sgd, loss="hinge"),
    "sgd_epochs": partial(sgd, epochs=EPOCHS),
    "hist_gb": hist_gb,
}
THEIRS: Final = {"river": 0, "lightgbm": None}
"""Of another interpreter: points held, None for all."""
NAMES: Final = (*OURS, *THEIRS)


# ------------------------------------------------------------------------------------------------------------ the rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Figures of one contender in one round; see the module."""

    auc: float
    average_precision: float
    log_loss: float
    balanced_accuracy: float
    skill: bool | None
    seconds: float
    choosing_s: float
    points: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Medians of one set and one contender; see the module."""

    data: str
    contender: str
    rounds: int
    auc: float
    auc_least: float
    auc_greatest: float
    average_precision: float
    log_loss: float
    balanced_accuracy: float
    skill: bool | None
    seconds: float
    choosing_s: float
    cpu_ratio: float | None
    points: int
    bytes: int


def run_of(answer: Answer, test: Points) -> Run:
    """Score an answer."""
    found = scores(test, answer.decision)
    assert found.auc is not None
    assert found.average_precision is not None
    return Run(
        auc=found.auc,
        average_precision=found.average_precision,
        log_loss=probability_scores(test, answer.positive).log_loss,
        balanced_accuracy=found.balanced_accuracy,
        skill=found.skill,
        seconds=answer.seconds,
        choosing_s=answer.choosing_s,
        points=answer.points,
    )


def row_of(data: str, contender: str, dimension: int, runs: Sequence[Run], ours: Sequence[Run]) -> Row:
    """Sum up the rounds; `ours` are the same rounds of `streamsvm`, if it took part."""
    ratios = [run.seconds / own.seconds for run, own in zip(runs, ours, strict=True)] if ours else []
    skills = {run.skill for run in runs}
    points = max(run.points for run in runs)
    return Row(
        data=data,
        contender=contender,
        rounds=len(runs),
        auc=statistics.median(run.auc for run in runs),
        auc_least=min(run.auc for run in runs),
        auc_greatest=max(run.auc for run in runs),
        average_precision=statistics.median(run.average_precision for run in runs),
        log_loss=statistics.median(run.log_loss for run in runs),
        balanced_accuracy=statistics.median(run.balanced_accuracy for run in runs),
        skill=False if False in skills else None if None in skills else True,
        seconds=statistics.median(run.seconds for run in runs),
        choosing_s=statistics.median(run.choosing_s for run in runs),
        cpu_ratio=statistics.median(ratios) if ratios else None,
        points=points,
        bytes=points * PointsConfig(dimension=dimension).point_bytes,
    )


def measure(
    data: str, points: Points, contenders: Mapping[str, Contender], rounds: int, say: Callable[[str], None]
) -> Iterator[Row]:
    """Run every contender in turn, and yield a row for each; one whose library is missing is left out, and said."""
    there = dict(contenders)
    train, test = split(points, TEST_SHARE, 0)
    for name in contenders:
        try:
            there[name](train if name.startswith("streamsvm") else train.take(slice(WARM_ROWS)), test, 0)
        except ModuleNotFoundError as error:
            say(f"{name} is left out: {error}")
            del there[name]
    runs: dict[str, list[Run]] = {name: [] for name in there}
    for turn in range(rounds):
        train, test = split(points, TEST_SHARE, turn)
        names = list(there)
        for name in [*names[turn % len(names) :], *names[: turn % len(names)]]:
            runs[name].append(run_of(there[name](train, test, turn), test))
    for name in there:
        yield row_of(data, name, points.dimension, runs[name], runs.get("streamsvm", []))


# ----------------------------------------------------------------------------------------------------------- the tables

HEADING: Final = (
    f"{'data':<15}{'contender':<19}{'AUC':>7}  {'least-greatest':<15}{'AP':>7}{'log loss':>10}{'balanced':>10}  "
    f"{'skill':<6}{'CPU s':>8}{'choosing':>9}{'ratio':>8}{'points':>9}{'kB':>8}"
)


def shown(row: Row) -> str:
    """Return a row as a line under `HEADING`."""
    ratio = "-" if row.cpu_ratio is None else f"{row.cpu_ratio:.2f}"
    skill = {True: "yes", False: "NO", None: "?"}[row.skill]
    return (
        f"{row.data:<15}{row.contender:<19}{row.auc:>7.4f}  {f'{row.auc_least:.4f}-{row.auc_greatest:.4f}':<15}"
        f"{row.average_precision:>7.4f}{row.log_loss:>10.4f}{row.balanced_accuracy:>10.4f}  {skill:<6}"
        f"{row.seconds:>8.2f}{row.choosing_s:>9.2f}{ratio:>8}{row.points:>9,}{row.bytes / 1e3:>8,.0f}"
    )


COLUMNS: Final[Mapping[str, str]] = {
    "streamsvm": "streamsvm",
    "streamsvm_balanced": "streamsvm, balanced",
    "streamsvm_rbf": "streamsvm, RBF",
    "svm_all": "SVM, all rows",
    "sgd": "SGD, tuned",
    "sgd_balanced": "SGD, balanced",
    "river": "River",
    "hist_gb": "HistGradientBoosting",
    "lightgbm": "LightGBM",
}
"""The contenders of README's table, and what it calls them."""


def markdown(rows: Sequence[Row]) -> Iterator[str]:
    """Yield README's table: AUC, average precision and log loss of each set and contender, then times and bytes."""
    table = {(row.data, row.contender): row for row in rows}
    sets = list(dict.fromkeys(row.data for row in rows))
    names = [name for name in COLUMNS if any((data, name) in table for data in sets)]
    yield "| AUC, average precision, log loss | " + " | ".join(COLUMNS[name] for name in names) + " |"
    yield "|---|" + "---|" * len(names)
    for data in sets:
        of_set = [table.get((data, name)) for name in names]
        best = max(_figures(row)[0] for row in of_set if row is not None)
        yield f"| `{data}` | " + " | ".join("-" if row is None else _cell(row, best) for row in of_set) + " |"
    own = [[table[data, name] for data in sets if (data, name) in table] for name in names]
    ratios = [[row.cpu_ratio for row in of_one if row.cpu_ratio is not None] for of_one in own]
    yield (
        "| CPU time, to streamsvm's | "
        + " | ".join(_span([f"{one:.2g}" for one in sorted(of)]) for of in ratios)
        + " |"
    )
    kilobytes = [sorted(row.bytes / 1e3 for row in of_one) for of_one in own]
    yield "| points kept, kB | " + " | ".join(_span([f"{one:,.0f}" for one in of]) for of in kilobytes) + " |"


def _figures(row: Row) -> tuple[str, str, str]:
    return f"{row.auc:.3f}", f"{row.average_precision:.3f}", f"{row.log_loss:.3f}"


def _cell(row: Row, best: str) -> str:
    auc, *others = _figures(row)
    return " ".join([f"**{auc}**" if auc == best else auc, *others]) + ("" if row.skill is not False else ", no skill")


def _span(ordered: Sequence[str]) -> str:
    return "-" if not ordered else ordered[0] if ordered[0] == ordered[-1] else f"{ordered[0]} to {ordered[-1]}"


def chosen(only: str, data: Path | None, say: Callable[[str], None]) -> tuple[list[str], list[str]]:
    """Return the sets and the contenders that `--only` names, or all that are at hand."""
    asked = [name for name in only.split(",") if name]
    if unknown := [name for name in asked if name not in (*SETS, *NAMES)]:
        raise SystemExit(
            f"--only {','.join(unknown)} is unknown. Sets: {', '.join(SETS)}. Contenders: {', '.join(NAMES)}."
        )
    sets = [name for name in SETS if name in asked] or list(SETS)
    names = [name for name in NAMES if name in asked] or list(NAMES)
    there = [name for name in sets if (name == "htru2" if data is None else (data / f"{name}.npz").exists())]
    if missing := [name for name in sets if name not in there]:
        say(f"{', '.join(missing)} left out: " + ("--data is not given" if data is None else f"not in {data.name}"))
    return there, names


def main(arguments: list[str] | None = None) -> None:
    """Print a line for each set and contender."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="has NAME.npz files with X and y")
    parser.add_argument("--only", default="", metavar="NAMES", help="sets and contenders, with commas between them")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peers", default="", metavar="PYTHON", help="interpreter that has river and lightgbm")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows here, too, anew after each set")
    parser.add_argument("--rows", type=Path, nargs="+", metavar="FILE", help="only print the table of these rows")
    asked = parser.parse_args(arguments)
    if asked.rows:
        kept = [Row(**row) for file in asked.rows for row in json.loads(file.read_text())["rows"]]
        print("\n".join(markdown(sorted(kept, key=lambda row: SETS.index(row.data)))))
        return
    say = partial(print, flush=True)
    sets, names = chosen(asked.only, asked.data, say)
    say(f"{asked.rounds} rounds, one thread each, load of the machine {os.getloadavg()[0]:.1f} at the beginning")
    rows: list[Row] = []
    with ExitStack() as stack:
        stack.enter_context(threadpool_limits(1))
        contenders = {name: OURS[name] for name in names if name in OURS}
        wanted = [name for name in names if name in THEIRS]
        if wanted and not asked.peers:
            say(f"{', '.join(wanted)} left out: --peers PYTHON is not given")
        elif wanted:
            others = stack.enter_context(Others(asked.peers))
            contenders |= {name: partial(foreign, others=others, name=name) for name in wanted}
        say(HEADING)
        for name in sets:
            X, y = load(name, asked.data)
            for row in measure(name, Points(X, y, np.ones(len(y))), contenders, asked.rounds, say):
                rows.append(row)
                say(shown(row))
            if asked.json is not None:
                asked.json.write_text(json.dumps({"rows": [asdict(row) for row in rows]}, indent=2) + "\n")
    say(f"load of the machine {os.getloadavg()[0]:.1f} at the end")
    say("\n".join(["", *markdown(rows)]))


if __name__ == "__main__":
    main()
