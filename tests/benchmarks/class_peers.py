"""More than two labels beside what else one would train: accuracy, balanced accuracy, and the CPU time of a row.

    python -m tests.benchmarks.classes --help

    python -m tests.benchmarks.classes --part peers [--seeds 3] [--sets digits,letters,...] [--points 4000] [--json]
        [--rows 20000]

Each set is split anew for each seed, a fifth held out and touched once. `pairs` and `rest` are what a trainer publishes
with `svm.multiclass` = one_vs_one and one_vs_rest, all else at its default but for the memory: one pass, at most
`--points` points held, and no more than a quarter of the rows. The peers hold all rows: `SVC` (linear, one against one,
the same C, on standardised features), `LightGBM`, and `SGD` (SGDClassifier on standardised features, hinge loss, five
passes), each at its own defaults.

`us_a_row` is the CPU time of learning a row, with the first leaves and without training; `late_us_a_row` that of the
second half of the rows only. `train_s` is the time of one training at the end. Leaves grow with the stream, and each
takes a pilot a label: with ten times the `--rows` (of the sets that are drawn) as many leaves are spread over ten times
the rows. No setting was chosen by held-out rows.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits, make_classification
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from streamsvm.choices import Multiclass
from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig, SvmConfig
from streamsvm.learning.learner import Learner
from streamsvm.learning.recipe import make
from streamsvm.model.classes import ClassModel
from streamsvm.points import Points, Position, Rows, Times

Arrays = tuple[NDArray[np.float32], NDArray[np.int8]]
ALPHA: Final = 1e-4
"""The trainer's default; C of SVC follows from it."""


@dataclass(frozen=True, slots=True)
class Row:
    """What one method makes of one set: means over the seeds."""

    set: str
    classes: int
    dimension: int
    rows: int
    method: str
    accuracy: float
    balanced_accuracy: float
    us_a_row: float | None
    late_us_a_row: float | None
    train_s: float


def blobs(classes: int, dimension: int, rows: int, spread: float, seed: int, shares: list[float] | None) -> Arrays:
    """Return labels around random centres, of which some are twice as wide as others."""
    random = np.random.default_rng(seed)
    y = random.choice(classes, rows, p=shares)
    wide = 1.0 + 0.5 * (y[:, None] % 3)
    X = random.normal(size=(classes, dimension))[y] + spread * wide * random.normal(size=(rows, dimension))
    return X.astype(np.float32), y.astype(np.int8)


def hard(classes: int, dimension: int, rows: int) -> Arrays:
    """Return labels of two clusters each, at corners of a cube: no plane tells one from all others."""
    X, y = make_classification(
        rows,
        dimension,
        n_informative=6,
        n_redundant=2,
        n_classes=classes,
        n_clusters_per_class=2,
        random_state=3,
    )
    return X.astype(np.float32), y.astype(np.int8)


def digits() -> Arrays:
    """Return scikit-learn's digits: ten labels, 64 features."""
    X, y = load_digits(return_X_y=True)
    return X.astype(np.float32), y.astype(np.int8)


ROWS: Final = 20_000
SETS: Final[dict[str, Callable[[int], Arrays]]] = {
    "three": lambda rows: blobs(3, 10, rows, 0.9, 1, None),
    "unequal": lambda rows: blobs(7, 10, rows, 0.6, 0, [0.4, 0.25, 0.15, 0.1, 0.06, 0.035, 0.005]),
    "hard": lambda rows: hard(8, 10, rows),
    "digits": lambda rows: digits(),
    "letters": lambda rows: blobs(26, 16, rows, 0.6, 2, None),
}
"""By name, of so many rows where they are drawn."""


def rows_of(X: NDArray[np.float32], y: NDArray[np.int8]) -> Rows:
    """Return points as rows of one partition."""
    n = len(y)
    return Rows(
        partition=0,
        offset=np.arange(n),
        row=np.zeros(n, np.int64),
        last=np.ones(n, np.bool_),
        times=Times.of(np.full(n, -1, np.int64)),
        accepted=np.ones(n, np.bool_),
        points=Points(X, y, np.ones(n)),
        leader_epoch=np.full(n, -1, np.int64),
    )


@dataclass(frozen=True, slots=True)
class Run:
    """The answers to held-out rows, and the seconds that they took."""

    answers: NDArray[Any]
    train_s: float
    us_a_row: float | None = None
    late_us_a_row: float | None = None


def streamed(scheme: Multiclass, train: Arrays, X: NDArray[np.float32], memory: int, seed: int) -> Run:
    """Return what one pass of a trainer's learner answers."""
    classes = int(train[1].max()) + 1
    config = ModelConfig(
        points=PointsConfig(dimension=X.shape[1], labels=tuple(range(classes)) if classes > 2 else (0, 1)),
        coreset=CoresetConfig(points=memory),
        svm=SvmConfig(multiclass=scheme, alpha=ALPHA),
        seed=seed,
    )
    learner, rows = Learner(config, {0: Position(0)}, 1 << 60), rows_of(*train)
    half, begun = len(rows) // 2, time.process_time()
    learner.learn(rows.slice(0, half))
    between = time.process_time()
    learner.learn(rows.slice(half, len(rows)))
    ended = time.process_time()
    model = make(learner.cut(), config).model
    assert isinstance(model, ClassModel)
    trained = time.process_time()
    late = 1e6 * (ended - between) / (len(rows) - half)
    return Run(model.predict_codes(X), trained - ended, 1e6 * (ended - begun) / len(rows), late)


def pairs(train: Arrays, X: NDArray[np.float32], memory: int, seed: int) -> Run:
    """A machine for each pair of labels."""
    return streamed("one_vs_one", train, X, memory, seed)


def rest(train: Arrays, X: NDArray[np.float32], memory: int, seed: int) -> Run:
    """A machine for each label."""
    return streamed("one_vs_rest", train, X, memory, seed)


def fitted(machine: Any, train: Arrays, X: NDArray[np.float32]) -> Run:
    """Return what a classifier of all rows answers."""
    begun = time.process_time()
    machine.fit(*train)
    return Run(machine.predict(X), time.process_time() - begun)


def svc(train: Arrays, X: NDArray[np.float32], memory: int, seed: int) -> Run:
    """LIBSVM, one against one."""
    machine = SVC(kernel="linear", C=1.0 / (ALPHA * len(train[1])))
    return fitted(make_pipeline(StandardScaler(), machine), train, X)


def lightgbm(train: Arrays, X: NDArray[np.float32], memory: int, seed: int) -> Run:
    """Boosted trees of the package LightGBM; not run where it is not installed."""
    from lightgbm import LGBMClassifier

    return fitted(LGBMClassifier(verbose=-1, n_jobs=1, random_state=seed), train, X)


def sgd(train: Arrays, X: NDArray[np.float32], memory: int, seed: int) -> Run:
    """SGDClassifier, one against the rest."""
    return fitted(make_pipeline(StandardScaler(), SGDClassifier(max_iter=5, tol=None, random_state=seed)), train, X)


METHODS: Final[dict[str, Callable[[Arrays, NDArray[np.float32], int, int], Run]]] = {
    "pairs": pairs,
    "rest": rest,
    "SVC": svc,
    "LightGBM": lightgbm,
    "SGD": sgd,
}


def balanced(y: NDArray[np.int8], answers: NDArray[Any]) -> float:
    """Return the mean over the labels of the share answered right."""
    return float(np.mean([np.mean(answers[y == label] == label) for label in np.unique(y)]))


def row(name: str, method: str, seeds: int, memory: int, rows: int = ROWS) -> Row:
    """Run one method on one set."""
    X, y = SETS[name](rows)
    runs, shares = list[Run](), list[tuple[float, float]]()
    for seed in range(seeds):
        order = np.random.default_rng(seed).permutation(len(y))
        test, train = order[: len(y) // 5], order[len(y) // 5 :]
        run = METHODS[method]((X[train], y[train]), X[test], min(memory, len(train) // 4), seed)
        runs.append(run)
        shares.append((float(np.mean(run.answers == y[test])), balanced(y[test], run.answers)))
    accuracy, even = np.mean(shares, axis=0)
    timed = [run for run in runs if run.us_a_row is not None]
    return Row(
        set=name,
        classes=int(y.max()) + 1,
        dimension=X.shape[1],
        rows=len(y) - len(y) // 5,
        method=method,
        accuracy=float(accuracy),
        balanced_accuracy=float(even),
        us_a_row=min(run.us_a_row or 0.0 for run in timed) if timed else None,
        late_us_a_row=min(run.late_us_a_row or 0.0 for run in timed) if timed else None,
        train_s=min(run.train_s for run in runs),
    )


def shown(one: Row) -> str:
    """Return a row as a line."""
    rate = "" if one.us_a_row is None else f"  {one.us_a_row:6.1f} us a row, late {one.late_us_a_row:6.1f}"
    return (
        f"{one.set:<8} K = {one.classes:2}, d = {one.dimension:2}, n = {one.rows:6,}  {one.method:<9} accuracy "
        f"{one.accuracy:.4f}  balanced {one.balanced_accuracy:.4f}  training {one.train_s:7.2f} s{rate}"
    )


def compare(
    sets: list[str], methods: list[str], seeds: int, memory: int, say: Callable[[str], None], length: int = ROWS
) -> list[Row]:
    """Return a row for each set and method; what is not installed is left out."""
    rows = []
    for name in sets:
        for method in methods:
            try:
                rows.append(row(name, method, seeds, memory, length))
            except ImportError as missing:
                say(f"{name:<8} {method}: not run, {missing}")
                continue
            say(shown(rows[-1]))
    return rows


def as_json(rows: list[Row]) -> str:
    """Return rows for programs."""
    return json.dumps({"rows": [asdict(one) for one in rows]}, indent=2)
