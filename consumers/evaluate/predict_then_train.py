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
from consumers.evaluate.prequential_contenders import Answers, Contender, CoresetContender, SgdContender, shares_before
from consumers.evaluate.reading import read
from streamsvm.choices import MemoryName
from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig, SvmConfig
from streamsvm.config.sizes import ADAPTIVE_LEAF
from streamsvm.errors import ConfigurationError
from streamsvm.estimators.evaluation import SGD_SETTINGS, probability_scores, scores
from streamsvm.ingest.files.source import PointSource
from streamsvm.learning.learner import warm_up
from streamsvm.model.kernels import Float
from streamsvm.points import Points

LEAF_ROWS: Final = 2_000
"""Rows of a leaf where nobody says otherwise."""
MOST_VERSIONS: Final = 100
"""Models that are made of a file where nobody says how many leaves lie between two: of 581,000 rows of 54 features a
model for each leaf would take minutes, most of it solving."""
WINDOW_LEAVES: Final = 16
HALF_LIFE_LEAVES: Final = 8
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
    svm : SvmConfig
        Of every version; its probability is `sigmoid` here.
    positive : str, optional
        Of two labels, the positive one as it is written.
    seed : int
    """

    leaf_rows: int | None = None
    lag: int | None = None
    every_leaves: int | None = None
    svm: SvmConfig = field(default_factory=SvmConfig)
    positive: str | None = None
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
    accuracy: float
    balanced_accuracy: float | None
    auc: float | None
    average_precision: float | None
    log_loss: float | None
    seconds: float
    cpu_seconds: float
    note: str = ""

    @property
    def title(self) -> str:
        """The contender as people read it."""
        return f"{self.contender}{', rbf' if self.kernel == 'rbf' else ''}"


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
    said : tuple of str
        Of two labels, which one figures are of.
    """

    source: str
    rows_judged: int
    dimension: int
    labels: int
    leaf_rows: int
    lag: int
    version_rows: int
    rows: tuple[PrequentialRow, ...]
    said: tuple[str, ...] = ()

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
    table = read(source, step, positive=plan.positive)
    points, labels = table.points, table.labels
    plan.check(len(points))
    stream = Stream(points, len(labels))
    step("warming up", 0, None)
    warm_up(plan.config(points.dimension, "all", stream.classes))
    rows = list[PrequentialRow]()
    for row, _ in contenders(stream, plan, step):
        step(remark(row), 0, REMARK)
        rows.append(row)
    return PrequentialReport(
        source=source.name,
        rows_judged=len(points) - plan.first,
        dimension=points.dimension,
        labels=len(labels),
        leaf_rows=plan.rows_of_leaf,
        lag=plan.rows_of_lag,
        version_rows=plan.version_rows(len(points)),
        rows=tuple(rows),
        said=() if table.two is None else (table.two.said,),
    )


def remark(row: PrequentialRow) -> str:
    """Return how a contender did, in one line."""
    figures = [f"{name.replace('_', ' ')} {value:.4f}" for name in FIGURES if (value := getattr(row, name)) is not None]
    return f"{row.title}: {', '.join(figures)}, {row.seconds:.1f} s"


Ran = tuple[PrequentialRow, Answers]
"""How a contender did, and its answers to all rows."""


def contenders(stream: Stream, plan: PrequentialPlan, step: Step = silent) -> Iterator[Ran]:
    """Run everyone who is compared, and yield how each did: ours, and SGD by the best of its settings in hindsight."""
    for name, note, config in memories(stream.points.dimension, plan, stream.classes):
        contender = CoresetContender(config, plan.version_rows(len(stream.points)))
        yield run(name, contender, stream, plan, step, note=note, kernel=plan.svm.kernel)
    config, ran = plan.config(stream.points.dimension, "all", stream.classes), list[tuple[Ran, dict[str, Any]]]()
    for settings in SGD_SETTINGS:
        try:
            ran.append((run("SGD", SgdContender(config, settings), stream, plan, step, kernel="linear"), settings))
        except ValueError:  # these settings overflow
            continue
    if ran:
        (row, answers), settings = max(ran, key=lambda one: one[0][0].accuracy)
        words = ", ".join(f"{name}={value!r}" for name, value in settings.items())
        yield replace(row, note=f"the best of {len(SGD_SETTINGS)}: {words}"), answers


def memories(dimension: int, plan: PrequentialPlan, classes: int = 2) -> Iterator[tuple[str, str, ModelConfig]]:
    """Yield ours: a name, what it is made of, and its configuration."""
    leaf = plan.rows_of_leaf
    window, half_life = WINDOW_LEAVES * leaf, HALF_LIFE_LEAVES * leaf
    short = {} if plan.leaf_rows is None else {"points": ADAPTIVE_LEAF * leaf}  # of which a part is a leaf
    own: dict[MemoryName, tuple[str, Mapping[str, int]]] = {
        "all": ("everything since the beginning", {}),
        "window": (f"the last {window:,} rows", {"window": window}),
        "decay": (f"half after {half_life:,} rows", {"half_life": half_life}),
        "adaptive": ("as much of the past as did best", short),
    }
    for memory, (note, sizes) in own.items():
        yield memory, note, plan.config(dimension, memory, classes, **sizes)


def run(
    name: str,
    contender: Contender,
    stream: Stream,
    plan: PrequentialPlan,
    step: Step = silent,
    *,
    note: str = "",
    kernel: str = "",
) -> Ran:
    """Let a contender predict portion by portion, and learn each portion after it."""
    points, lag = stream.points, plan.rows_of_lag
    answers, wall, cpu, told = stream.none(), time.perf_counter(), time.process_time(), 0
    for start in range(0, len(points), lag):
        part = points.take(slice(start, start + lag))
        answers.put(start, contender.predict(part.X))
        contender.learn(part)
        if start - told >= STEP_ROWS:
            told = start
            step(name, start, len(points))
    times = time.perf_counter() - wall, time.process_time() - cpu
    return judged_row(name, answers, stream, plan, times, note, kernel), answers


def judged_row(
    name: str,
    answers: Answers,
    stream: Stream,
    plan: PrequentialPlan,
    times: tuple[float, float] = (0.0, 0.0),
    note: str = "",
    kernel: str = "",
) -> PrequentialRow:
    """Return how one did whose answers to all rows are known, and which took so much wall and CPU time."""
    judged = slice(plan.first, None)
    points, found = stream.points.take(judged), scores(stream.points.take(judged), answers.decision[judged])
    loss = None
    if answers.has_probabilities:
        loss = loss_of(points, answers.filled(shares_before(stream.points, stream.classes, plan.rows_of_lag))[judged])
    return PrequentialRow(
        contender=name,
        kernel=kernel,
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
