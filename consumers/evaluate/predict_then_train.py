"""Test, then train: rows in their own order, each predicted by what was learned of the labels that came before it.

Labels come in portions of `lag` rows, each when its last row has been predicted. After the first leaf, and then
whenever `every_leaves` more leaves were learned, a model is made, as a trainer makes a version; a row is answered by
the newest model. Every contender is judged on the same rows: those after the first portion, and after the first leaf.

Figures are scikit-learn's, over all judged rows at once, by the decision value that each row had when it was answered.
Probabilities are those of a version with `svm.probability = sigmoid`; as long as a version has none, the shares of the
labels known so far.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

import numpy as np
from pydantic import ValidationError
from sklearn.metrics import log_loss

from consumers.evaluate.plan import REMARK, Step, silent
from consumers.evaluate.prequential_contenders import (
    Answers,
    Contender,
    CoresetContender,
    ExactContender,
    SgdContender,
    majority,
    no_change,
    shares_before,
)
from consumers.evaluate.reading import load
from streamsvm.choices import MemoryName
from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig, SvmConfig
from streamsvm.config.sizes import ADAPTIVE_LEAF, AUDITED
from streamsvm.errors import ConfigurationError
from streamsvm.estimators.evaluation import SGD_SETTINGS, Scores, probability_scores, scores
from streamsvm.ingest.files.source import PointSource
from streamsvm.learning.learner import warm_up
from streamsvm.model.kernels import Float
from streamsvm.points import Points

AT_ONCE: Final = 1
"""A lag of one row: each label is known before the next row comes."""
LEAF_ROWS: Final = 2_000
"""Rows of a leaf where nobody says otherwise."""
MOST_VERSIONS: Final = 100
"""Models that are made of a file where nobody says how many leaves lie between two: of 581,000 rows of 54 features a
model for each leaf would take minutes, most of it solving. Blocks of `over_time` are as many or fewer."""
EXACT_ROWS: Final = (2_000, 10_000)
"""Windows of which an exact machine is trained."""
WINDOW_LEAVES: Final = 16
HALF_LIFE_LEAVES: Final = 8
BLOCKS: Final = 100
"""Of `over_time`."""
STEP_ROWS: Final = 2_000
"""Rows after which progress is told at the earliest."""
FIGURES: Final = ("accuracy", "balanced_accuracy", "auc", "average_precision", "log_loss")


@dataclass(frozen=True, slots=True, kw_only=True)
class PrequentialPlan:
    """What to compare.

    Attributes
    ----------
    leaf_rows : int or None
        Rows of a leaf; None: `LEAF_ROWS`.
    lag : int or None
        Rows of a portion of labels; None: those of a leaf.
    every_leaves : int or None
        Leaves between two models; None: 1, and where leaf_rows is None as many as make `MOST_VERSIONS` models.
    peers : bool
        Whether exact machines of the newest rows and SGD run, too.
    svm : SvmConfig
        Of every version; its probability is `sigmoid` here.
    seed : int
    """

    leaf_rows: int | None = None
    lag: int | None = None
    every_leaves: int | None = None
    peers: bool = False
    svm: SvmConfig = field(default_factory=SvmConfig)
    seed: int = 0

    @property
    def rows_of_leaf(self) -> int:
        """Rows of a leaf."""
        return LEAF_ROWS if self.leaf_rows is None else self.leaf_rows

    @property
    def rows_of_lag(self) -> int:
        """Rows of a portion of labels."""
        return self.rows_of_leaf if self.lag is None else self.lag

    @property
    def first(self) -> int:
        """The first row that is judged."""
        return max(self.rows_of_leaf, self.rows_of_lag)

    def version_rows(self, rows: int) -> int:
        """Return the rows between two models of a stream of so many."""
        if self.every_leaves is not None:
            return self.every_leaves * self.rows_of_leaf
        leaves = 1 if self.leaf_rows is not None else max(1, -(-rows // (self.rows_of_leaf * MOST_VERSIONS)))
        return leaves * self.rows_of_leaf

    def check(self, rows: int) -> None:
        """Refuse what does not make sense.

        Raises
        ------
        ConfigurationError
        """
        for option, value in (("--leaf-rows", self.leaf_rows), ("--every-leaves", self.every_leaves)):
            if value is not None and value < 1:
                raise ConfigurationError(f"{option} is {value}", "Give 1 or more.")
        lag, leaf = self.rows_of_lag, self.rows_of_leaf
        if lag < 1:
            raise ConfigurationError(f"--lag is {self.lag}", "Give 1 or more; 1: each label is known at once.")
        if rows < 2 * self.first:
            raise ConfigurationError(
                f"{rows:,} rows are less than twice the {self.first:,} after which the first version can be judged",
                "Lower --leaf-rows or --lag, or give more rows.",
            )
        if lag % leaf and leaf % lag:
            raise ConfigurationError(
                f"--lag is {lag}, but --leaf-rows is {leaf}",
                "Give a lag that divides the leaf, or a multiple of the leaf.",
            )

    def config(self, dimension: int, memory: MemoryName, classes: int = 2, **coreset: Any) -> ModelConfig:
        """Return the configuration of one of our contenders.

        Raises
        ------
        ConfigurationError
            If an option makes no sense with the others.
        """
        try:
            return ModelConfig(
                points=PointsConfig(dimension=dimension, labels=tuple(range(classes))),
                coreset=CoresetConfig(memory=memory, **coreset),
                svm=self.svm.model_copy(update={"probability": self.svm.probability or "sigmoid"}),
                seed=self.seed,
            )
        except ValidationError as error:
            reason = error.errors()[0]["msg"].removeprefix("Value error, ")
            raise ConfigurationError(reason, "See streamsvm evaluate --help.") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class PrequentialRow:
    """How one contender did on the judged rows.

    Attributes
    ----------
    contender : str
    kernel : str
        Empty of one that has none.
    lag : int
    accuracy, balanced_accuracy : float
    auc : float or None
        Of more than two labels the mean over each against the rest; None of rows of one label only.
    average_precision : float or None
        None of rows of one label only, and of more than two labels.
    log_loss : float or None
        None of one that has no probabilities.
    seconds, cpu_seconds : float
        Wall and CPU time of learning and predicting.
    note : str
    """

    contender: str
    kernel: str = ""
    lag: int
    accuracy: float
    balanced_accuracy: float
    auc: float | None
    average_precision: float | None
    log_loss: float | None
    seconds: float
    cpu_seconds: float
    note: str = ""

    @property
    def title(self) -> str:
        """The contender as people read it."""
        return f"{self.contender}{', rbf' if self.kernel == 'rbf' else ''}{', at once' if self.lag == AT_ONCE else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrequentialReport:
    """The outcome.

    Attributes
    ----------
    source : str
    rows_judged : int
    dimension : int
    labels : int
    leaf_rows, lag, version_rows : int
        Rows of a leaf, of a portion of labels, and between two models.
    rows : tuple of PrequentialRow
    over_time, auc_over_time : mapping of str to list of float
        Accuracy and AUC of each contender at the chosen lag, a number for each `every` rows; the AUC is None where
        these rows have one label only.
    every : int
    takeovers : tuple of int
        Rows at which horizons shorter than a tenth of the stream took over in `adaptive`.
    """

    source: str
    rows_judged: int
    dimension: int
    labels: int
    leaf_rows: int
    lag: int
    version_rows: int
    rows: tuple[PrequentialRow, ...]
    over_time: dict[str, list[float]]
    auc_over_time: dict[str, list[float | None]]
    every: int
    takeovers: tuple[int, ...]

    def plain(self) -> dict[str, Any]:
        """Return it as what JSON can hold."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Stream:
    """Labeled rows in their order, and how many labels they have."""

    points: Points
    classes: int

    def none(self) -> Answers:
        """Return room for the answers to all rows."""
        shape = len(self.points) if self.classes == 2 else (len(self.points), self.classes)
        return Answers(np.zeros(shape), np.full(shape, np.nan))


def evaluate_prequentially(source: PointSource, plan: PrequentialPlan, step: Step = silent) -> PrequentialReport:
    """Read a source, and run every contender over it; each row is remarked as soon as it is there.

    Raises
    ------
    ConfigurationError
        If the source has fewer than two labels, or is too short.
    """
    points, labels = load(source, step)
    plan.check(len(points))
    stream = Stream(points, len(labels))
    step("warming up", 0, None)
    warm_up(plan.config(points.dimension, "all", stream.classes))
    every = max(plan.rows_of_leaf, (len(points) - plan.first) // BLOCKS)
    rows, blocks, takeovers = list[PrequentialRow](), dict[str, list[Scores]](), tuple[int, ...]()
    for row, answers, taken_over in contenders(stream, plan, step):
        step(remark(row), 0, REMARK)
        rows.append(row)
        takeovers = taken_over or takeovers
        if row.lag == plan.rows_of_lag:
            blocks[row.contender] = list(_blocks(points, answers, plan.first, every))
    return PrequentialReport(
        source=source.name,
        rows_judged=len(points) - plan.first,
        dimension=points.dimension,
        labels=len(labels),
        leaf_rows=plan.rows_of_leaf,
        lag=plan.rows_of_lag,
        version_rows=plan.version_rows(len(points)),
        rows=tuple(rows),
        over_time={name: [one.accuracy for one in own] for name, own in blocks.items()},
        auc_over_time={name: [one.auc for one in own] for name, own in blocks.items()},
        every=every,
        takeovers=takeovers,
    )


def remark(row: PrequentialRow) -> str:
    """Return how a contender did, in one line."""
    figures = [f"{name.replace('_', ' ')} {value:.4f}" for name in FIGURES if (value := getattr(row, name)) is not None]
    return f"{row.title}: {', '.join(figures)}, {row.seconds:.1f} s"


Ran = tuple[PrequentialRow, Answers, tuple[int, ...]]
"""How a contender did, its answers to all rows, and the rows at which short horizons took over."""


def contenders(stream: Stream, plan: PrequentialPlan, step: Step = silent) -> Iterator[Ran]:
    """Run everyone who is compared, and yield how each did: ours, the baselines, and peers if they are asked for."""
    for name, note, config in memories(stream.points.dimension, plan, stream.classes):
        contender = CoresetContender(config, plan.version_rows(len(stream.points)))
        yield run(name, contender, stream, plan, step, note=note, kernel=plan.svm.kernel)
    for lag in dict.fromkeys((plan.rows_of_lag, AT_ONCE)):
        yield whole("majority", majority(stream.points, stream.classes, lag), stream, plan, lag)
        newest = no_change(stream.points, stream.classes, lag)
        yield whole("no-change", newest, stream, plan, lag, "the newest label known")
    if plan.peers:
        yield from _peers(stream, plan, step)


def memories(dimension: int, plan: PrequentialPlan, classes: int = 2) -> Iterator[tuple[str, str, ModelConfig]]:
    """Yield ours: a name, what it is made of, and its configuration."""
    leaf = plan.rows_of_leaf
    window, half_life = WINDOW_LEAVES * leaf, HALF_LIFE_LEAVES * leaf
    points = ADAPTIVE_LEAF * leaf  # of which one part is a leaf of so many rows
    own: dict[MemoryName, tuple[str, Mapping[str, int]]] = {
        "all": ("everything since the beginning", {"points": AUDITED * leaf // 2}),
        "window": (f"the last {window:,} rows", {"window": window, "points": points}),
        "decay": (f"half after {half_life:,} rows", {"half_life": half_life, "points": points}),
        "adaptive": ("as much of the past as did best", {"points": points}),
    }
    for memory, (note, sizes) in own.items():
        yield memory, note, plan.config(dimension, memory, classes, **sizes)


def _peers(stream: Stream, plan: PrequentialPlan, step: Step) -> Iterator[Ran]:
    """Yield exact machines of the newest rows, and SGD: the best of its settings in hindsight."""
    config, versions = (
        plan.config(stream.points.dimension, "all", stream.classes),
        plan.version_rows(len(stream.points)),
    )
    for rows in EXACT_ROWS:
        exact = ExactContender(config, rows, versions)
        yield run(f"SVM of the last {rows:,}", exact, stream, plan, step, kernel=plan.svm.kernel)
    ran = list[tuple[Ran, dict[str, Any]]]()
    for settings in SGD_SETTINGS:
        try:
            ran.append((run("SGD", SgdContender(config, settings), stream, plan, step, kernel="linear"), settings))
        except ValueError:  # these settings overflow
            continue
    if not ran:
        return
    (row, answers, _), settings = max(ran, key=lambda one: one[0][0].accuracy)
    words = ", ".join(f"{name}={value!r}" for name, value in settings.items())
    yield replace(row, note=f"the best of {len(SGD_SETTINGS)} in hindsight: {words}"), answers, ()
    if plan.rows_of_lag != AT_ONCE:
        one = SgdContender(config, settings)
        yield run("SGD", one, stream, plan, step, lag=AT_ONCE, note="the same settings, row by row", kernel="linear")


def run(
    name: str,
    contender: Contender,
    stream: Stream,
    plan: PrequentialPlan,
    step: Step = silent,
    *,
    lag: int | None = None,
    note: str = "",
    kernel: str = "",
) -> Ran:
    """Let a contender predict portion by portion, and learn each portion after it; by default at the plan's lag."""
    points, lag = stream.points, lag or plan.rows_of_lag
    answers, wall, cpu, told = stream.none(), time.perf_counter(), time.process_time(), 0
    for start in range(0, len(points), lag):
        part = points.take(slice(start, start + lag))
        answers.put(start, contender.predict(part.X))
        contender.learn(part)
        if start - told >= STEP_ROWS:
            told = start
            step(name, start, len(points))
    times = time.perf_counter() - wall, time.process_time() - cpu
    row = _row(name, answers, stream, plan, lag, times, note, kernel)
    return row, answers, tuple(contender.takeovers) if isinstance(contender, CoresetContender) else ()


def whole(name: str, answers: Answers, stream: Stream, plan: PrequentialPlan, lag: int, note: str = "") -> Ran:
    """Return how one did whose answers to all rows are known."""
    return _row(name, answers, stream, plan, lag, (0.0, 0.0), note, ""), answers, ()


def _row(
    name: str,
    answers: Answers,
    stream: Stream,
    plan: PrequentialPlan,
    lag: int,
    times: tuple[float, float],
    note: str,
    kernel: str,
) -> PrequentialRow:
    judged = slice(plan.first, None)
    points, found = stream.points.take(judged), scores(stream.points.take(judged), answers.decision[judged])
    loss = None
    if answers.has_probabilities:
        loss = loss_of(points, answers.filled(shares_before(stream.points, stream.classes, lag))[judged])
    return PrequentialRow(
        contender=name,
        kernel=kernel,
        lag=lag,
        accuracy=found.accuracy,
        balanced_accuracy=found.balanced_accuracy,
        auc=found.auc,
        average_precision=found.average_precision,
        log_loss=loss,
        seconds=times[0],
        cpu_seconds=times[1],
        note=note,
    )


def loss_of(points: Points, probability: Float) -> float:
    """Return the log loss of probabilities of the second label, shape (n,), or of each label, shape (n, n_classes)."""
    if probability.ndim == 1:
        return probability_scores(points, probability).log_loss
    labels = np.arange(probability.shape[1])
    return float(log_loss(points.y, probability, sample_weight=points.weight, labels=labels))


def _blocks(points: Points, answers: Answers, first: int, every: int) -> Iterator[Scores]:
    for start in range(first, len(points), every):
        block = slice(start, start + every)
        yield scores(points.take(block), answers.decision[block])
