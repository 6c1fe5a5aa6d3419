"""Test, then train: rows in their own order, each predicted by what was learned of the labels that came before it.

Labels come in portions of `lag` rows, each when its last row has been predicted. Whenever `leaf_rows` more rows were
learned, a model is made, as a trainer makes a version. Every contender is judged on the same rows: those after the
first portion, and after the first leaf.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Final, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import SGDClassifier

from consumers.evaluate.plan import Step, silent
from consumers.evaluate.reading import load
from streamsvm.choices import MemoryName
from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig, SvmConfig
from streamsvm.coreset.moments import Moments
from streamsvm.errors import ConfigurationError
from streamsvm.estimators.evaluation import SGD_SETTINGS
from streamsvm.ingest.files.source import PointSource
from streamsvm.learning.learner import Learner
from streamsvm.learning.recipe import make
from streamsvm.learning.training import train
from streamsvm.model.machine import Model
from streamsvm.points import Points, Position, Rows
from streamsvm.supports import LABELS, require

AT_ONCE: Final = 1
"""A lag of one row: each label is known before the next row comes."""
EXACT_ROWS: Final = (2_000, 10_000)
"""Windows of which an exact machine is trained."""
WINDOW_LEAVES: Final = 16
HALF_LIFE_LEAVES: Final = 8
NO_CUT: Final = 1 << 30
MOST_SHORT: Final = 0.5
"""Share of the weight above which short horizons have taken over."""
Signs = NDArray[np.int8]
Right = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrequentialPlan:
    """What to compare.

    Attributes
    ----------
    leaf_rows : int
        Rows between two versions.
    lag : int or None
        Rows of a portion of labels; None: those of a leaf.
    kernel : "linear" or "rbf"
    alpha : float or None
    seed : int
    """

    leaf_rows: int = 2_000
    lag: int | None = None
    kernel: Literal["linear", "rbf"] = "linear"
    alpha: float | None = None
    seed: int = 0

    @property
    def rows_of_lag(self) -> int:
        """Rows of a portion of labels."""
        return self.leaf_rows if self.lag is None else self.lag

    def check(self, rows: int) -> None:
        """Refuse what does not make sense.

        Raises
        ------
        ConfigurationError
        """
        if self.leaf_rows < 1:
            raise ConfigurationError(f"--leaf-rows is {self.leaf_rows}", "Give 1 or more.")
        if self.rows_of_lag < 1:
            raise ConfigurationError(f"--lag is {self.lag}", "Give 1 or more; 1: each label is known at once.")
        if rows < 2 * self.first:
            raise ConfigurationError(
                f"{rows:,} rows are less than twice the {self.first:,} after which the first version can be judged",
                "Lower --leaf-rows or --lag, or give more rows.",
            )

    @property
    def first(self) -> int:
        """The first row that is judged."""
        return max(self.leaf_rows, self.rows_of_lag)

    def config(self, dimension: int, memory: MemoryName, **coreset: Any) -> ModelConfig:
        """Return the configuration of one of our contenders."""
        return ModelConfig(
            points=PointsConfig(dimension=dimension),
            coreset=CoresetConfig(leaf_rows=self.leaf_rows, audit_points=0, max_partitions=1, memory=memory, **coreset),
            svm=SvmConfig(kernel=self.kernel, alpha=self.alpha),
            seed=self.seed,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PrequentialRow:
    """How one contender did.

    Attributes
    ----------
    contender : str
    kernel : str
        Empty of one that has none.
    lag : int
    accuracy : float
        Share of the judged rows that were predicted right.
    seconds : float
        Wall time of learning and predicting.
    note : str
    """

    contender: str
    kernel: str = ""
    lag: int
    accuracy: float
    seconds: float
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrequentialReport:
    """The outcome.

    Attributes
    ----------
    source : str
    rows_judged : int
    dimension : int
    leaf_rows, lag : int
    rows : tuple of PrequentialRow
    over_time : mapping of str to list of float
        Accuracy of each contender at the chosen lag, a number for each `every` rows.
    every : int
    takeovers : tuple of int
        Rows at which horizons shorter than a tenth of the stream took over in `adaptive`.
    """

    source: str
    rows_judged: int
    dimension: int
    leaf_rows: int
    lag: int
    rows: tuple[PrequentialRow, ...]
    over_time: dict[str, list[float]]
    every: int
    takeovers: tuple[int, ...]

    def plain(self) -> dict[str, Any]:
        """Return it as what JSON can hold."""
        return asdict(self)


class Contender(Protocol):
    """Predicts, and learns what came."""

    def predict(self, X: NDArray[np.floating]) -> Signs:
        """Return -1 or +1 for each row."""
        ...

    def learn(self, points: Points) -> None:
        """Take labeled rows, in their order."""
        ...


def evaluate_prequentially(source: PointSource, plan: PrequentialPlan, step: Step = silent) -> PrequentialReport:
    """Read a source, and run every contender over it.

    Raises
    ------
    ConfigurationError
        If the source has not two labels, or is too short.
    """
    points, labels = load(source, step)
    require({"--prequential": True, LABELS: len(labels)}, {LABELS: source.name})
    plan.check(len(points))
    if plan.rows_of_lag % plan.leaf_rows and plan.leaf_rows % plan.rows_of_lag:
        raise ConfigurationError(
            f"--lag is {plan.lag}, but --leaf-rows is {plan.leaf_rows}",
            "Give a lag that divides the leaf, or a multiple of the leaf.",
        )
    found = [run_entry(one, points, plan, step) for one in entries(points.dimension, plan)]
    every = max(plan.leaf_rows, (len(points) - plan.first) // 100)
    best = best_of_sgd([row for row, _, _ in found])
    at_lag = {row.contender: right for row, right, _ in found if row.lag == plan.rows_of_lag and _is_shown(row, best)}
    return PrequentialReport(
        source=source.name,
        rows_judged=len(points) - plan.first,
        dimension=points.dimension,
        leaf_rows=plan.leaf_rows,
        lag=plan.rows_of_lag,
        rows=best,
        over_time={name: _over_time(right[plan.first :], every) for name, right in at_lag.items()},
        every=every,
        takeovers=next((rows for row, _, rows in found if row.contender == "adaptive"), ()),
    )


@dataclass(frozen=True)
class Entry:
    """A contender before it runs: its name, how it is made, and at which lag."""

    name: str
    begin: Callable[[], Contender]
    lag: int
    kernel: str = ""
    note: str = ""


def entries(dimension: int, plan: PrequentialPlan) -> Iterator[Entry]:
    """Yield everyone who is compared: ours, then the others."""
    yield from _ours(dimension, plan)
    yield from others(dimension, plan)


def _ours(dimension: int, plan: PrequentialPlan) -> Iterator[Entry]:
    lag, leaf = plan.rows_of_lag, plan.leaf_rows

    def ours(name: str, memory: MemoryName, note: str, **coreset: Any) -> Entry:
        config = plan.config(dimension, memory, **coreset)
        return Entry(name, lambda: CoresetContender(config, leaf), lag, plan.kernel, note)

    window, half_life = WINDOW_LEAVES * leaf, HALF_LIFE_LEAVES * leaf
    yield ours("all", "all", "everything since the beginning")
    yield ours("window", "window", f"the last {window:,} rows", window_points=window, span_rows=leaf)
    yield ours("decay", "decay", f"half after {half_life:,} rows", half_life_points=half_life, span_rows=leaf)
    yield ours("adaptive", "adaptive", f"spans of {leaf:,} rows", span_rows=leaf)
    if plan.kernel == "linear":
        default = plan.config(dimension, "adaptive").coreset.span_rows
        if default != leaf:
            yield ours("adaptive, default span", "adaptive", f"spans of {default:,} rows")


def others(dimension: int, plan: PrequentialPlan) -> Iterator[Entry]:
    """Yield exact machines of the newest rows, SGD and the baselines."""
    lag, leaf = plan.rows_of_lag, plan.leaf_rows
    for rows in EXACT_ROWS:
        name, svm = f"SVM of the last {rows:,}", SvmConfig(kernel=plan.kernel, alpha=plan.alpha)
        yield Entry(name, partial(_Exact, rows, leaf, svm), lag, plan.kernel, "trained each leaf")
    lags = (lag,) if lag == AT_ONCE else (lag, AT_ONCE)
    for own in lags:
        for settings in SGD_SETTINGS:
            yield Entry("SGD", partial(_Sgd, settings, dimension, plan), own, "linear", str(settings))
        yield Entry("majority", _Majority, own)
        yield Entry("no-change", _NoChange, own, note="the newest label known")


def run_entry(
    entry: Entry, points: Points, plan: PrequentialPlan, step: Step = silent
) -> tuple[PrequentialRow, Right, tuple[int, ...]]:
    """Return how a contender did, which rows it got right, and where short horizons took over."""
    contender, right, begun = entry.begin(), np.zeros(len(points), np.bool_), time.perf_counter()
    for start in range(0, len(points), entry.lag):
        part = points.take(slice(start, start + entry.lag))
        right[start : start + len(part)] = contender.predict(part.X) == part.y
        contender.learn(part)
        if start % (100 * entry.lag) == 0:
            step(entry.name, start, len(points))
    seconds = time.perf_counter() - begun
    takeovers = tuple(contender.takeovers) if isinstance(contender, CoresetContender) else ()
    row = PrequentialRow(
        contender=entry.name,
        kernel=entry.kernel,
        lag=entry.lag,
        accuracy=float(right[plan.first :].mean()),
        seconds=seconds,
        note=entry.note,
    )
    return row, right, takeovers


def _over_time(right: Right, every: int) -> list[float]:
    return [float(right[start : start + every].mean()) for start in range(0, len(right), every)]


class CoresetContender:
    """One of ours: the trainer's learner, and a model for each leaf.

    Parameters
    ----------
    config : ModelConfig
    leaf_rows : int
        Rows between two models.
    partitions : int
        To which rows are dealt in turn.

    Attributes
    ----------
    takeovers : list of int
        Rows after which short horizons took over.
    """

    def __init__(self, config: ModelConfig, leaf_rows: int, partitions: int = 1) -> None:
        self._config, self._leaf_rows, self._partitions = config, leaf_rows, partitions
        self._learner = Learner(config, {partition: Position(0) for partition in range(partitions)}, NO_CUT)
        self._model: Model | None = None
        self._at = 0
        self.takeovers: list[int] = []
        self._is_short = False

    def predict(self, X: NDArray[np.floating]) -> Signs:
        """Return -1 or +1 for each row."""
        if self._model is None:
            return np.ones(len(X), np.int8)
        return np.where(self._model.decision_function(X.astype(np.float32)) > 0.0, 1, -1).astype(np.int8)

    def learn(self, points: Points) -> None:
        """Take labeled rows, in their order."""
        before = self._at
        for partition in range(self._partitions):
            own = points.take(slice((partition - before) % self._partitions, None, self._partitions))
            self._learn(partition, own)
        self._at += len(points)
        if self._at // self._leaf_rows > before // self._leaf_rows:
            self._model = make(self._learner.cut(), self._config).trained.model
            is_short = (self._learner.short_share() or 0.0) > MOST_SHORT
            if is_short and not self._is_short:
                self.takeovers.append(self._at)
            self._is_short = is_short

    def _learn(self, partition: int, points: Points) -> None:
        n, at = len(points), self._learner.positions[partition].offset
        self._learner.learn(
            Rows(
                partition=partition,
                offset=np.arange(at, at + n),
                row=np.zeros(n, np.int64),
                last=np.ones(n, np.bool_),
                time_ms=np.full(n, -1, np.int64),
                accepted=np.ones(n, np.bool_),
                points=Points(points.X.astype(np.float32), points.y, points.weight.astype(np.float64)),
                leader_epoch=np.full(n, -1, np.int64),
            )
        )


class _Newest:
    """The newest rows, and a machine that is made of them after each leaf."""

    def __init__(self, rows: int, leaf_rows: int) -> None:
        self._rows, self._leaf_rows, self._at = rows, leaf_rows, 0
        self._parts: deque[Points] = deque()
        self._kept = 0

    def learn(self, points: Points) -> None:
        before = self._at
        self._parts.append(points)
        self._kept, self._at = self._kept + len(points), before + len(points)
        while self._kept - len(self._parts[0]) >= self._rows:
            self._kept -= len(self._parts.popleft())
        if self._at // self._leaf_rows > before // self._leaf_rows:
            points = Points.union(list(self._parts))
            self._train(points.take(slice(-self._rows, None)))

    def _train(self, points: Points) -> None:
        raise NotImplementedError


class _Exact(_Newest):
    def __init__(self, rows: int, leaf_rows: int, svm: SvmConfig) -> None:
        super().__init__(rows, leaf_rows)
        self._svm = svm
        self._model: Model | None = None

    def predict(self, X: NDArray[np.floating]) -> Signs:
        if self._model is None:
            return np.ones(len(X), np.int8)
        return np.where(self._model.decision_function(X) > 0.0, 1, -1).astype(np.int8)

    def _train(self, points: Points) -> None:
        self._model = train(points, Moments.zero(points.dimension).add(points), self._svm).model


class _Sgd:
    """`SGDClassifier` over features scaled by what was seen of them."""

    def __init__(self, settings: dict[str, Any], dimension: int, plan: PrequentialPlan) -> None:
        alpha = SvmConfig.DEFAULT_ALPHA if plan.alpha is None else plan.alpha
        self._machine = SGDClassifier(loss="hinge", alpha=alpha, random_state=plan.seed, **settings)
        self._moments, self._is_fitted = Moments.zero(dimension), False

    def _scaled(self, X: NDArray[np.floating]) -> NDArray[np.float64]:
        sd = np.sqrt(self._moments.square / self._moments.weight)
        return np.asarray((X - self._moments.mean) / np.where(sd > 0.0, sd, 1.0), np.float64)

    def predict(self, X: NDArray[np.floating]) -> Signs:
        return self._machine.predict(self._scaled(X)) if self._is_fitted else np.ones(len(X), np.int8)

    def learn(self, points: Points) -> None:
        self._moments = self._moments.add(points)
        self._machine.partial_fit(self._scaled(points.X), points.y, classes=[-1, 1], sample_weight=points.weight)
        self._is_fitted = True


class _Majority:
    def __init__(self) -> None:
        self._sum = 0.0

    def predict(self, X: NDArray[np.floating]) -> Signs:
        return np.full(len(X), 1 if self._sum > 0.0 else -1, np.int8)

    def learn(self, points: Points) -> None:
        self._sum += float(points.weight @ points.y)


class _NoChange:
    def __init__(self) -> None:
        self._newest = 1

    def predict(self, X: NDArray[np.floating]) -> Signs:
        return np.full(len(X), self._newest, np.int8)

    def learn(self, points: Points) -> None:
        self._newest = int(points.y[-1])


def _is_shown(row: PrequentialRow, best: Sequence[PrequentialRow]) -> bool:
    return any(row.contender == one.contender and row.accuracy == one.accuracy for one in best)


def best_of_sgd(rows: Sequence[PrequentialRow]) -> tuple[PrequentialRow, ...]:
    """Return the rows with one SGD for each lag: the best in hindsight."""
    best: dict[int, PrequentialRow] = {}
    for row in rows:
        if row.contender == "SGD" and (row.lag not in best or row.accuracy > best[row.lag].accuracy):
            best[row.lag] = row
    kept, seen = [], set[int]()
    for row in rows:
        if row.contender != "SGD":
            kept.append(row)
        elif row.lag not in seen:
            seen.add(row.lag)
            note = f"the best of {len(SGD_SETTINGS)} in hindsight: {best[row.lag].note}"
            kept.append(replace(best[row.lag], note=note))
    return tuple(kept)
