"""Kernel machines of a stream beside a plain sample of it, feature maps, boosted trees and an online forest.

    python -m tests.benchmarks.kernels --data DIR [--sets NAMES] [--memory-bytes B | --memory-share S] [--noise SHARE]
        [--trials T] [--contenders NAMES] [--peers PYTHON] [--options FILE.toml] [--json]

Each trial shuffles a set by its own seed, holds a fifth out and gives the other rows to every contender, in that order.
DIR has NAME.npz files with `X` (numbers, dense) and `y`, two values of any kind, of which the greater is +1; NAMES are
separated by spaces or commas, and without `--sets` every file of DIR is one. Rows with a value that is not finite in
float32 are left out, as the trainer rejects them. The set `checkerboard` needs no file: 200,000 points over 10 x 10
fields, of which 15 % have the other label, in what is held out, too; nor does `terrain`, a hard table of 581,012 rows
(`tests.benchmarks.terrain`). `--noise` flips the labels of that share of the training rows; held-out rows keep theirs.

*Bytes* are those of the points held, at 4 a feature and 9 more, at any moment between two portions: buckets, the open
leaf and the audit sample together. `--memory-bytes` bounds them, 64 MB by default; `--memory-share` is a share of what
the training rows take instead. A model of fixed size counts with its numbers; boosting holds all rows.

The contenders:

- `ours`: the learner as the trainer runs it, one partition, `svm.kernel = rbf`, `svm.tune = auto` and
  `svm.probability = sigmoid`; one tuning and one training at its end.
- `reservoir`: a uniform sample of as many bytes, whole at the end of the stream, C and gamma chosen by the same tuning
  on it, then `STDASVC` on all of it. A tenth of it is then left out of a second training, of which the sigmoid is.
- `rbf_sampler`, `nystroem`: scikit-learn's feature maps of 512 columns, at the best gamma and alpha of nine pairs on a
  fifth of the first 20,000 rows, and averaged SGD of log loss in one pass. Features are scaled by all rows' moments.
- `hist_gb`: HistGradientBoostingClassifier, all rows. `lightgbm` (all rows) and `forest` (River's adaptive random
  forest, one pass, ten trees) where `--peers` gives an interpreter that has them, each with its defaults.

A row has, for one set and one contender, the means over the trials on held-out rows of `accuracy`,
`balanced_accuracy`, `auc` and `log_loss`; `seconds` of CPU time from the first row to the model, tuning included
(`learning_s`: of the pass alone, `training_s`: without tuning); `bytes`; and `support`, the support vectors or trees,
None where a model has none. One thread each. The machine may be shared: compare ratios, not seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import tomllib
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from streamsvm.config import ModelConfig
from streamsvm.coreset.moments import Moments
from streamsvm.coreset.reducers.base import Purpose, generator
from streamsvm.estimators import STDASVC
from streamsvm.estimators.evaluation import probability_scores, scores, split
from streamsvm.estimators.stream import Stream
from streamsvm.learning.cutting import Cut
from streamsvm.learning.recipe import make
from streamsvm.learning.tasks import TwoClasses
from streamsvm.learning.training import kernel_of, scaler_of
from streamsvm.learning.tuning import tune
from streamsvm.model.kernels import RbfKernel
from streamsvm.model.machine import KernelMachine
from streamsvm.points import Points, Position
from streamsvm.svm.fit_probability import fit_probability
from tests.benchmarks.terrain import terrain
from tests.benchmarks.worth_environment import Others

Float = NDArray[np.float64]

TEST_SHARE: Final = 0.2
PORTION: Final = 10_000
BYTES: Final = 64_000_000
BOARD_ROWS: Final = 200_000
BOARD_NOISE: Final = 0.15
FIELDS: Final = 10
COLUMNS: Final = 512
WIDTHS: Final = (0.25, 1.0, 4.0)
"""Multiples of 1 / d for gamma of the feature maps."""
ALPHAS: Final = (1e-6, 1e-5, 1e-4)
CHOOSING_ROWS: Final = 20_000
JUDGED_SHARE: Final = 0.1
LEAST_ROWS: Final = 10
"""Of each label: with fewer, a fifth that is held out may have none of it."""
LEAST_POINTS: Final = 16
"""That a kernel machine's memory must have room for (`coreset.points`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a contender made of one trial; see the module."""

    decision: Float
    positive: Float
    seconds: float
    bytes: int
    support: int | None = None
    learning_s: float | None = None
    training_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Means over the trials of one set and one contender; see the module."""

    set: str
    contender: str
    trials: int
    rows: int
    dimension: int
    accuracy: float
    accuracy_least: float
    balanced_accuracy: float
    auc: float
    log_loss: float
    seconds: float
    learning_s: float | None
    training_s: float | None
    bytes: int
    support: int | None


Contender = Callable[[Points, Points, int, int], Answer]
"""(training rows, held-out rows, bytes, seed) -> answer."""


# ------------------------------------------------------------------------------------------------------ kernel machines


def configured(dimension: int, points: int, seed: int, options: Mapping[str, Any]) -> ModelConfig:
    """Return the configuration of `ours`; options of a file count before these."""
    coreset = {"points": points, **options.get("coreset", {})}
    svm = {"kernel": "rbf", "tune": "auto", "probability": "sigmoid", **options.get("svm", {})}
    svm = {name: None if value == "none" else value for name, value in svm.items()}
    return ModelConfig.model_validate(
        {"points": {"dimension": dimension}, "coreset": coreset, "svm": svm, "seed": seed}
    )


def ours(train: Points, test: Points, budget: int, seed: int, options: Mapping[str, Any]) -> Answer:
    """Learn all rows in one pass; tune and train once."""
    config = configured(train.dimension, budget // _point_bytes(train.dimension), seed, options)
    begun, held = time.process_time(), 0
    stream = Stream(config, TwoClasses())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # conditions of the coreset, and outliers
        for start in range(0, len(train), PORTION):
            stream.learn(train.take(slice(start, start + PORTION)))
            held = max(held, stream.learner.points_held)
        learned = time.process_time() - begun
        made = make(stream.learner.cut(), config, clock=time.process_time)
    seconds = time.process_time() - begun
    model = made.trained.model
    assert isinstance(model.machine, KernelMachine)
    decision = model.decision_function(test.X)
    # Without a probability, where the audit sample has too few points of a label: the plainest sigmoid.
    positive = expit(decision) if model.probability is None else model.probability.of(decision)
    return Answer(
        decision=decision,
        positive=positive,
        seconds=seconds,
        bytes=held * _point_bytes(train.dimension),
        support=len(model.machine.dual),
        learning_s=learned,
        training_s=made.seconds,
    )


def reservoir(train: Points, test: Points, budget: int, seed: int, options: Mapping[str, Any]) -> Answer:
    """Train on a uniform sample, at values that the same tuning chose on it."""
    most = budget // _point_bytes(train.dimension)
    config = configured(train.dimension, most, seed, options)
    random = generator(seed, Purpose.CUT, (1, 1, 1))
    chosen = np.sort(random.choice(len(train), min(most, len(train)), replace=False))
    kept = train.take(chosen).reweighted(np.full(len(chosen), len(train) / len(chosen)))
    begun = time.process_time()
    moments = Moments.zero(train.dimension).add(train)  # exact totals cost a stream no memory
    learned = time.process_time() - begun
    at = {0: Position(len(train))}
    cut = Cut(
        positions=at,
        leader_epochs={0: -1},
        points=kept,
        moments=moments,
        rows=len(train),
        first_time_ms=-1,
        last_time_ms=-1,
    )
    svm = config.svm if config.svm.tune is None else tune(cut, config).tuning.applied(config.svm)
    to_train = time.process_time()
    scaler = scaler_of(moments, svm)
    Z, aside = scaler.transform(kept.X), scaler.transform(test.X)
    box = svm.penalty(moments.weight) * kept.weight[0]
    kernel = kernel_of(scaler, moments, svm)
    assert isinstance(kernel, RbfKernel)
    machine = STDASVC(C=box, gamma=kernel.gamma).fit(Z, kept.y)
    judged = random.random(len(kept)) < JUDGED_SHARE
    partly = STDASVC(C=box, gamma=kernel.gamma).fit(Z[~judged], kept.y[~judged])
    sigmoid = fit_probability(partly.decision_function(Z[judged]), kept.y[judged], kept.weight[judged])
    ended = time.process_time()
    decision = machine.decision_function(aside)
    return Answer(
        decision=decision,
        positive=sigmoid.of(decision),
        seconds=ended - begun,
        bytes=kept.nbytes,
        support=len(machine.support_),
        learning_s=learned,
        training_s=ended - to_train,
    )


# --------------------------------------------------------------------------------------------------------- feature maps


def mapped(train: Points, test: Points, budget: int, seed: int, kind: str) -> Answer:
    """Pass once over the columns of a feature map with averaged SGD."""
    scaler = StandardScaler().fit(train.X.astype(np.float64))
    some = train.take(slice(0, CHOOSING_ROWS))
    aside = round(len(some) * TEST_SHARE)
    begun, best = time.process_time(), None
    for width, alpha in product(WIDTHS, ALPHAS):
        model = _Mapped(kind, width / train.dimension, alpha, scaler, some.take(slice(aside, None)), seed)
        loss = log_loss(some.y[:aside], model.positive(some.X[:aside]), labels=[-1, 1])
        if best is None or loss < best[0]:
            best = (loss, width / train.dimension, alpha)
    assert best is not None
    model = _Mapped(kind, best[1], best[2], scaler, train, seed)
    seconds = time.process_time() - begun
    positive = model.positive(test.X)
    numbers = COLUMNS * (train.dimension + 2) + (COLUMNS**2 if kind == "nystroem" else 0)
    return Answer(decision=positive - 0.5, positive=positive, seconds=seconds, bytes=8 * numbers, support=None)


class _Mapped:
    """One setting of a feature map, fitted in one pass."""

    def __init__(self, kind: str, gamma: float, alpha: float, scaler: StandardScaler, rows: Points, seed: int) -> None:
        self._scaler = scaler
        made = RBFSampler if kind == "rbf_sampler" else Nystroem
        self._map = made(gamma=gamma, n_components=min(COLUMNS, len(rows)), random_state=seed)
        self._map.fit(scaler.transform(rows.X[:CHOOSING_ROWS].astype(np.float64)))
        self._machine = SGDClassifier(loss="log_loss", alpha=alpha, average=True, random_state=seed)
        for start in range(0, len(rows), PORTION):
            part = rows.take(slice(start, start + PORTION))
            self._machine.partial_fit(self._columns(part.X), part.y, classes=[-1, 1])

    def _columns(self, X: Any) -> Float:
        return np.asarray(self._map.transform(self._scaler.transform(X.astype(np.float64))), dtype=np.float64)

    def positive(self, X: Any) -> Float:
        """Return the probabilities of +1."""
        parts = [self._machine.predict_proba(self._columns(X[at : at + PORTION])) for at in range(0, len(X), PORTION)]
        return np.concatenate(parts)[:, 1]


# ---------------------------------------------------------------------------------------------------------------- trees


def hist_gb(train: Points, test: Points, budget: int, seed: int) -> Answer:
    """Boost with scikit-learn's defaults."""
    machine = HistGradientBoostingClassifier(random_state=seed)
    begun = time.process_time()
    machine.fit(train.X, train.y)
    seconds = time.process_time() - begun
    positive = machine.predict_proba(test.X)[:, 1]
    held = len(train) * _point_bytes(train.dimension)
    return Answer(decision=positive - 0.5, positive=positive, seconds=seconds, bytes=held, support=machine.n_iter_)


def foreign(train: Points, test: Points, budget: int, seed: int, others: Others, name: str) -> Answer:
    """Ask the other interpreter."""
    made = others.fit(name, train, test, seed)
    held = len(train) * _point_bytes(train.dimension) if made.bytes is None else made.bytes
    return Answer(decision=made.decision, positive=made.positive, seconds=made.seconds, bytes=held)


NAMES: Final = (
    "ours",
    "reservoir",
    "rbf_sampler",
    "nystroem",
    "hist_gb",
    "lightgbm",
    "forest",
)
THEIRS: Final = ("lightgbm", "forest")


def contenders(names: Sequence[str], options: Mapping[str, Any], others: Others | None) -> dict[str, Contender]:
    """Return the contenders of these names; those of another interpreter only where it is given."""
    made: dict[str, Contender] = {
        "ours": partial(ours, options=options),
        "reservoir": partial(reservoir, options=options),
        "rbf_sampler": partial(mapped, kind="rbf_sampler"),
        "nystroem": partial(mapped, kind="nystroem"),
        "hist_gb": hist_gb,
    }
    if others is not None:
        made |= {name: partial(foreign, others=others, name=name) for name in THEIRS}
    return {name: made[name] for name in names if name in made}


# ------------------------------------------------------------------------------------------------------------- the rows


def checkerboard(seed: int = 0) -> Points:
    """Return points over 10 x 10 fields of alternating labels, some of which are turned."""
    random = np.random.default_rng(seed)
    X = random.random((BOARD_ROWS, 2)).astype(np.float32)
    sign = np.where(np.floor(X * FIELDS).sum(axis=1) % 2 > 0, 1, -1)
    turned = random.random(BOARD_ROWS) < BOARD_NOISE
    return Points(X, np.where(turned, -sign, sign).astype(np.int8), np.ones(BOARD_ROWS))


WITHOUT_FILE: Final[Mapping[str, Callable[[], Points]]] = {"checkerboard": checkerboard, "terrain": terrain}
"""Sets that are drawn."""


def read(name: str, folder: Path | None) -> Points:
    """Return a set."""
    if name in WITHOUT_FILE:
        return WITHOUT_FILE[name]()
    if folder is None or not (folder / f"{name}.npz").exists():
        raise SystemExit(f"--sets {name}: there is no {name}.npz in --data {folder}")
    with np.load(folder / f"{name}.npz") as arrays:
        if missing := {"X", "y"} - set(arrays.files):
            raise SystemExit(f"--sets {name}: {name}.npz has no array {' and no '.join(sorted(missing))}")
        given, labels = arrays["X"], arrays["y"].ravel()
    found = np.unique(labels)
    if given.ndim != 2 or len(given) != len(labels) or len(found) != 2:
        raise SystemExit(
            f"--sets {name}: X has the shape {given.shape}, y the length {len(labels)} and {len(found)} different "
            "values; a row of X for each label is needed, and two values"
        )
    with np.errstate(over="ignore"):
        X = given.astype(np.float32)
    finite = np.isfinite(X).all(axis=1)
    y = np.where(labels == found[1], 1, -1).astype(np.int8)
    if min(np.count_nonzero(y[finite] == sign) for sign in (-1, 1)) < LEAST_ROWS:
        raise SystemExit(f"--sets {name}: fewer than {LEAST_ROWS} rows of a label have finite features")
    return Points(np.ascontiguousarray(X[finite]), y[finite], np.ones(int(finite.sum())))


def noisy(train: Points, share: float, seed: int) -> Points:
    """Return training rows of which some have the other label."""
    if not share:
        return train
    flipped = np.random.default_rng([seed, 1]).random(len(train)) < share
    return replace(train, y=np.where(flipped, -train.y, train.y).astype(np.int8))


def row_of(name: str, contender: str, train: Points, answers: Sequence[Answer], tests: Sequence[Points]) -> Row:
    """Sum up the trials of one contender."""
    found = [scores(test, answer.decision) for test, answer in zip(tests, answers, strict=True)]
    losses = [probability_scores(test, one.positive).log_loss for test, one in zip(tests, answers, strict=True)]

    def mean(values: Sequence[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return float(np.mean(known)) if known else None

    support = mean([one.support for one in answers])
    return Row(
        set=name,
        contender=contender,
        trials=len(answers),
        rows=len(train),
        dimension=train.dimension,
        accuracy=float(np.mean([one.accuracy for one in found])),
        accuracy_least=min(one.accuracy for one in found),
        balanced_accuracy=float(np.mean([one.balanced_accuracy for one in found])),
        auc=mean([one.auc for one in found]) or 0.0,
        log_loss=float(np.mean(losses)),
        seconds=float(np.mean([one.seconds for one in answers])),
        learning_s=mean([one.learning_s for one in answers]),
        training_s=mean([one.training_s for one in answers]),
        bytes=max(one.bytes for one in answers),
        support=None if support is None else round(support),
    )


HEADING: Final = (
    f"{'set':<15}{'contender':<13}{'accuracy':>9}{'least':>8}{'balanced':>9}{'AUC':>8}{'log loss':>9}{'CPU s':>9}"
    f"{'learning':>9}{'training':>9}{'kB':>10}{'support':>9}"
)


def shown(row: Row) -> str:
    """Return a row as a line under `HEADING`."""
    times = "".join(f"{'-' if one is None else f'{one:.2f}':>9}" for one in (row.learning_s, row.training_s))
    support = "-" if row.support is None else f"{row.support:,}"
    return (
        f"{row.set:<15}{row.contender:<13}{row.accuracy:>9.4f}{row.accuracy_least:>8.4f}{row.balanced_accuracy:>9.4f}"
        f"{row.auc:>8.4f}{row.log_loss:>9.4f}{row.seconds:>9.2f}{times}{row.bytes / 1e3:>10,.0f}{support:>9}"
    )


def run(asked: argparse.Namespace, say: Callable[[str], None]) -> list[Row]:
    """Measure every set and contender."""
    options = tomllib.loads(asked.options.read_text()) if asked.options else {}
    names, rows = _names(asked.contenders) or list(NAMES), []
    if unknown := [name for name in names if name not in NAMES]:
        raise SystemExit(f"--contenders {','.join(unknown)} is unknown. Give some of {', '.join(NAMES)}.")
    sets = _names(asked.sets) or sorted(file.stem for file in asked.data.glob("*.npz"))
    with ExitStack() as stack:
        stack.enter_context(threadpool_limits(1))
        others = None
        if asked.peers:
            others = stack.enter_context(Others(asked.peers))
        elif missing := [name for name in names if name in THEIRS]:
            say(f"{', '.join(missing)} left out: --peers PYTHON is not given")
        there = contenders(names, options, others)
        say(HEADING)
        for name in sets:
            rows += _of_set(name, read(name, asked.data), there, asked, say)
    return rows


def _of_set(
    name: str, points: Points, there: Mapping[str, Contender], asked: argparse.Namespace, say: Callable[[str], None]
) -> list[Row]:
    answers: dict[str, list[Answer]] = {contender: [] for contender in there}
    tests = []
    for trial in range(asked.trials):
        train, test = split(points, TEST_SHARE, trial)
        tests.append(test)
        train = noisy(train, asked.noise, trial)
        budget = asked.memory_bytes
        if asked.memory_share is not None:
            budget = int(asked.memory_share * len(train)) * _point_bytes(train.dimension)
        if budget < (least := LEAST_POINTS * _point_bytes(train.dimension)):
            raise SystemExit(
                f"--sets {name}: {budget} bytes of memory are room for fewer than {LEAST_POINTS} points of "
                f"{train.dimension} features: give {least} or more"
            )
        order = list(there)
        for contender in [*order[trial % len(order) :], *order[: trial % len(order)]]:
            try:
                answers[contender].append(there[contender](train, test, budget, trial))
            except ModuleNotFoundError as error:
                say(f"{contender} is left out: {error}")
    rows = [row_of(name, one, train, made, tests) for one, made in answers.items() if len(made) == len(tests)]
    for row in rows:
        say(shown(row))
    return rows


def _names(given: Sequence[str] | None) -> list[str]:
    return [name for part in given or () for name in part.split(",") if name]


def _point_bytes(dimension: int) -> int:
    return 4 * dimension + 9


def main(arguments: list[str] | None = None) -> None:
    """Print a line for each set and contender, or JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, metavar="DIR", help="has NAME.npz files with X and y")
    parser.add_argument("--sets", nargs="+", metavar="NAME")
    parser.add_argument("--memory-bytes", type=lambda text: int(float(text)), default=BYTES)
    parser.add_argument("--memory-share", type=float, help="of what the training rows take, instead of bytes")
    parser.add_argument("--noise", type=float, default=0.0, help="share of the training rows whose label is flipped")
    parser.add_argument("--trials", type=int, default=1)
    parser.add_argument("--contenders", nargs="+", metavar="NAME")
    parser.add_argument("--peers", default="", metavar="PYTHON", help="interpreter that has river and lightgbm")
    parser.add_argument("--options", type=Path, metavar="FILE", help="TOML with [coreset] and [svm] for ours")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    if asked.data is None and not set(_names(asked.sets) or ("",)) <= WITHOUT_FILE.keys():
        parser.error("--data is missing: give the folder of the sets")
    if not 0.0 <= asked.noise <= 0.5:
        parser.error(f"--noise {asked.noise:g} is not a share from 0 to 0.5")
    load = os.getloadavg()[0]
    rows = run(asked, (lambda _: None) if asked.json else partial(print, flush=True))
    if asked.json:
        print(json.dumps({"load": load, "rows": [asdict(row) for row in rows]}, indent=2))


if __name__ == "__main__":
    main()
