r"""C and gamma by cross-validation on a cut's training set.

The summary stands for the stream, so its weighted points are dealt into five folds, and a value is as good as the share
of the left-out weight that machines of the other four classify right. Fold machines have the boxes C u of the whole
training set, as a grid search over all of the data has one C for its folds and its last fit. Weights are those of the
problem, class weights included: with balanced ones the share is the balanced accuracy.

Each label's points are dealt by falling weight, five to five folds at random: no fold gets all of the heavy ones. For
each gamma and fold one run of the blocks of `streamsvm.svm.stda` goes up the path of C: variables, boxes and F
grow by the same factor, so that what was at a bound stays there and no kernel value is computed twice to begin with.

Of more than two labels there is such a run for each machine of the task, all at the same C and gamma, and the label
that all of them answer together is judged. A machine whose label is not among the other four folds, as that of a label
that never came, answers as one that is trained on what is there.

A branch may search another way (`Search`).

Of equals the larger alpha wins, then the smaller gamma. The best mean is taken as it is: the rule of one standard error
would prefer machines that are worse by what a fold's chance is, and folds of one training set share most of it.

Invariant: a pure function of the cut, the configuration and the seed, whichever cuts came before it and whoever solves
(`svm.solver` has no part in it); bounded by iterations, never by time. Whether a cut is to be tuned is a function of
its rows and of the tuning in force.

Why not the audit sample, which is independent of the coreset: a thousand points resolve accuracies to half a point, and
the choice by them lost more than a point of cod_rna where that by folds lost a fifth of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.config import ModelConfig, SvmConfig
from streamsvm.coreset.buckets import Moments
from streamsvm.coreset.reduce import Observed, Purpose, generator
from streamsvm.learning import training
from streamsvm.learning.judging import LABEL_JUDGES, Judge, judge_of
from streamsvm.learning.learner import Cut, training_set
from streamsvm.learning.tasks import Task, task_of
from streamsvm.model.kernels import Float, Kernel, LinearKernel, RbfKernel
from streamsvm.model.machine import KernelMachine, LinearMachine, Machine, Scaler
from streamsvm.points import Points, Position
from streamsvm.svm import stda
from streamsvm.svm.stda import Descent

FOLDS: Final = 5
EVERY_LEAVES: Final = 50
"""A machine is tuned again after so many leaves of `leaf_rows` rows."""
MOST_POINTS: Final = 5_000
"""A larger training set is reduced to so many points before it is dealt into folds."""
GROWTH: Final = 5.0
"""By what a stream that forgets nothing has grown before a kernel machine with landmarks is tuned again."""
STEPS: Final = (0.01, 0.1, 1.0, 10.0, 100.0)
"""Multiples of the configured alpha or C."""
WIDTHS: Final = (1 / 16, 1 / 4, 1.0, 4.0, 16.0)
"""Multiples of the configured gamma."""
MOST_ITERATIONS: Final = 1_000_000
"""Bound on the steps of one machine: one that meets it is judged as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """What was chosen, and where.

    Attributes
    ----------
    alpha, C : float or None
        The one of them that the configuration speaks of; None where there was nothing to choose by.
    gamma : float or None
        None for the linear kernel, and where there was nothing to choose by.
    positions, leader_epochs : mapping of partition to Position, and to int
        The cut.
    rows : int
        Rows seen up to there.
    """

    alpha: float | None
    C: float | None
    gamma: float | None
    positions: Mapping[int, Position]
    leader_epochs: Mapping[int, int]
    rows: int

    def applied(self, config: SvmConfig) -> SvmConfig:
        """Return the configuration with what was chosen in place of what was configured."""
        chosen = {"alpha": self.alpha, "C": self.C, "gamma": self.gamma}
        return config.model_copy(update={name: value for name, value in chosen.items() if value is not None})


@dataclass(frozen=True, slots=True)
class Score:
    """How good one pair of values is.

    Attributes
    ----------
    C : float
        Penalty on the training set of the cut.
    alpha : float
        1 / (C U), U the weight of the stream up to the cut.
    gamma : float or None
        None for the linear kernel.
    mean : float
        Share of the left-out weight that is classified right, or what else `svm.tune_scoring` says, over the folds.
    deviation : float
        Standard deviation of it between folds; 0 of a search that has none.
    """

    C: float
    alpha: float
    gamma: float | None
    mean: float
    deviation: float


@dataclass(frozen=True, slots=True)
class Tuned:
    """A choice and what it was made by.

    Attributes
    ----------
    tuning : Tuning
    scores : tuple of Score
        Alpha falling, for each of them gamma rising; of another search, first what it chose.
        Empty where fewer than two labels have a point for each fold: then the configured values stay.
    """

    tuning: Tuning
    scores: tuple[Score, ...]


def is_due(rows: int, tuned_rows: int | None, config: ModelConfig) -> bool:
    """Return whether a cut is to be tuned.

    Parameters
    ----------
    rows : int
        Rows seen up to the cut.
    tuned_rows : int or None
        The same of the cut whose tuning is in force; None: there is none.
    config : ModelConfig
    """
    if config.svm.tune is None:
        return False
    period = EVERY_LEAVES * config.coreset.leaf_rows
    if tuned_rows is None:
        return True
    # Landmarks make leaves so short that a search at each fiftieth would cost many times what learning does.
    short = config.coreset.landmarks is not None and config.coreset.memory == "all"
    return rows >= GROWTH * tuned_rows if short else rows // period > tuned_rows // period


def tune(cut: Cut, config: ModelConfig) -> Tuned:
    """Choose C, and gamma of the RBF kernel, at a cut.

    Parameters
    ----------
    cut : Cut
        With a point at least.
    config : ModelConfig
        Whether `svm.tune` is set does not matter.
    """
    task, random = task_of(config), generator(config.seed, Purpose.TUNE, _counter(cut.points))
    searches, points = config.coreset.landmarks is not None, cut.points
    if not searches:
        name = _counter(cut.points)
        points = training_set(points, MOST_POINTS, cut.moments, config, Purpose.CUT, name, Observed())
    folds = Folds.of(points, cut, config.svm, task, random)
    if not folds.possible:
        scores: tuple[Score, ...] = ()
    elif searches:
        from streamsvm.learning import nested_grid  # it has its own files, which few models need

        scores = nested_grid.scores(folds, cut, config.svm, random)
    else:
        scores = tuple(folds.scores())
    best = scores[0] if scores and searches else max(scores, key=lambda score: score.mean, default=None)
    fixed = config.svm.C is not None
    tuning = Tuning(
        alpha=None if best is None or fixed else best.alpha,
        C=best.C if best is not None and fixed else None,
        gamma=best.gamma if best is not None else None,
        positions=cut.positions,
        leader_epochs=cut.leader_epochs,
        rows=cut.learned.rows,
    )
    return Tuned(tuning, scores)


def warm_up(config: ModelConfig, say: Callable[[str], None] = lambda _: None) -> None:
    """Compile, or load from numba's file cache, what `tune` runs under a configuration."""
    if config.svm.tune is not None:
        stda.warm_up(LinearKernel() if config.svm.kernel == "linear" else RbfKernel(1.0), say)


def _counter(points: Points) -> tuple[int, int, int]:
    """Return 192 bits that name a training set, wherever it came from: an estimator's, or that of a cut."""
    words = np.frombuffer(bytes.fromhex(points.sha256()), dtype="<u8")
    return int(words[0]), int(words[1]), int(words[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class Folds:
    """The problem of a training set, dealt into folds.

    Attributes
    ----------
    points : Points
        Weights as they came.
    weight : ndarray of shape (n,)
        Class weights included.
    fold : ndarray of shape (n,)
        0 to `FOLDS` - 1.
    seen : Moments
        Of the stream up to the cut.
    scaler : Scaler
        That of a model of the cut.
    alphas : tuple of (float, float)
        Each alpha, falling, and its C.
    kernels : tuple of Kernel
        Gamma rising.
    svm : SvmConfig
    task : Task
    """

    points: Points
    weight: Float
    fold: NDArray[np.int64]
    seen: Moments
    scaler: Scaler
    alphas: tuple[tuple[float, float], ...]
    kernels: tuple[Kernel, ...]
    svm: SvmConfig
    task: Task

    @classmethod
    def of(cls, points: Points, cut: Cut, config: SvmConfig, task: Task, random: np.random.Generator) -> Folds:
        """Deal the points of a cut."""
        scaler = training.scaler_of(cut.moments, config)
        weighted = points.class_weighted(config.class_weights(cut.moments.class_weight))
        return cls(
            points=points,
            weight=weighted.weight,
            fold=_dealt(weighted, random),
            seen=cut.moments,
            scaler=scaler,
            alphas=tuple(_alphas(config, cut.moments.weight)),
            kernels=tuple(_kernels(training.kernel_of(scaler, cut.moments, config))),
            svm=config,
            task=task,
        )

    @property
    def possible(self) -> bool:
        """Whether two labels, or more, have a point for each fold."""
        _, counts = np.unique(self.points.y, return_counts=True)
        return int(np.count_nonzero(counts >= FOLDS)) >= 2

    @property
    def judge(self) -> Judge:
        """By what two labels are judged."""
        return judge_of(self.svm.tune_scoring, self.svm.cost)

    def scores(self) -> Iterator[Score]:
        """Yield the score of each pair of values."""
        # Of each gamma, fold and alpha.
        shares = np.stack([self._shares(fold) for fold in range(FOLDS)], axis=1)
        left_out = np.array([self.weight[self.fold == fold].sum() for fold in range(FOLDS)])
        for step, (alpha, C) in enumerate(self.alphas):
            for kernel, of_kernel in zip(self.kernels, shares[:, :, step], strict=True):
                gamma = kernel.gamma if isinstance(kernel, RbfKernel) else None
                mean = float((of_kernel * left_out).sum() / left_out.sum())
                yield Score(C, alpha, gamma, mean, float(of_kernel.std()))

    def _shares(self, fold: int) -> Float:
        """Return how good machines of the other folds are on a fold, for each gamma and alpha."""
        out = self.fold == fold
        left_out, weight = self.points.take(out), self.weight[out]
        Z = np.ascontiguousarray(self.scaler.transform(left_out.X))
        problems = self._problems(self.points.take(~out))
        return np.array([self._path(kernel, problems, Z, left_out.y, weight) for kernel in self.kernels])

    def _problems(self, points: Points) -> list[_Problem]:
        svm = self.task.machine_config(self.svm)
        found = []
        for own, seen in self.task.problems(points, self.seen):
            weighted = own.class_weighted(svm.class_weights(seen.class_weight))
            found.append(_Problem(np.ascontiguousarray(self.scaler.transform(own.X)), own.y, weighted.weight))
        return found

    def _path(
        self, kernel: Kernel, problems: Sequence[_Problem], Z: Float, y: NDArray[np.int8], weight: Float
    ) -> list[float]:
        """Return, for each alpha, how good the machines of some problems are on points."""
        values = np.empty((len(self.alphas), len(Z), len(problems)))
        for column, problem in enumerate(problems):
            for step, machine in enumerate(problem.machines(kernel, self.alphas, self.svm.tolerance)):
                values[step, :, column] = machine.decide(Z)
        if self.task.classes == 2:
            return [self.judge(of_step[:, 0], y, weight) for of_step in values]
        judge = LABEL_JUDGES[self.svm.tune_scoring]
        return [judge(self.task.answers(of_step), y, weight) for of_step in values]


@dataclass(frozen=True, slots=True)
class _Problem:
    """What one machine is trained on.

    Attributes
    ----------
    Z : ndarray of shape (n, d)
        Scaled as a model of the cut is.
    y : ndarray of shape (n,), int8
        Signs.
    weight : ndarray of shape (n,)
        Class weights included.
    """

    Z: Float
    y: NDArray[np.int8]
    weight: Float

    def machines(self, kernel: Kernel, alphas: Sequence[tuple[float, float]], tolerance: float) -> Iterator[Machine]:
        """Yield the machine for each alpha, each solved from where the one before ended."""
        positive = int(np.count_nonzero(self.y > 0))
        if positive in (0, len(self.y)):
            # One label, or none: the optimum is w = 0, with the intercept at that label.
            answer = float(np.sign(2 * positive - len(self.y))) if len(self.y) else 0.0
            yield from [LinearMachine(np.zeros(self.Z.shape[1]), answer)] * len(alphas)
            return
        at = alphas[0][1]
        run = Descent(self.Z, self.y, at * self.weight, kernel, tolerance)
        for _, C in alphas:
            if at != C:
                run.scale_boxes(C / at)
                at = C
            run.advance(MOST_ITERATIONS)
            yield _machine(run, self.Z, kernel)


def _machine(run: Descent, Z: Float, kernel: Kernel) -> Machine:
    intercept, w = run.centred_intercept, run.coefficients
    if w is not None:
        return LinearMachine(w, run.intercept)
    assert isinstance(kernel, RbfKernel)
    support = np.flatnonzero(run.b)
    return KernelMachine(kernel, Z[support], run.b[support], intercept)


def _dealt(points: Points, random: np.random.Generator) -> NDArray[np.int64]:
    """Return the fold of each point; each five of a label that are next to each other by weight go to five folds."""
    fold = np.empty(len(points), np.int64)
    for label in np.unique(points.y):
        own = np.flatnonzero(points.y == label)
        heaviest_first = own[np.argsort(-points.weight[own], kind="stable")]
        hands = -(-len(own) // FOLDS)
        dealt = random.permuted(np.tile(np.arange(FOLDS), (hands, 1)), axis=1).ravel()
        fold[heaviest_first] = dealt[: len(own)]
    return fold


def _alphas(config: SvmConfig, weight: float) -> Iterator[tuple[float, float]]:
    """Yield each alpha, falling, and its C."""
    if config.C is not None:
        for step in STEPS:
            yield 1.0 / (step * config.C * weight), step * config.C
        return
    configured = config.DEFAULT_ALPHA if config.alpha is None else config.alpha
    alphas = [min(1.0, max(1e-30, step * configured)) for step in STEPS]
    for alpha in sorted(set(alphas), reverse=True):
        yield alpha, 1.0 / (alpha * weight)


def _kernels(kernel: Kernel) -> Iterator[Kernel]:
    """Yield the kernels to choose among, gamma rising."""
    if not isinstance(kernel, RbfKernel):
        yield kernel
        return
    for gamma in sorted({width * kernel.gamma for width in WIDTHS}):
        yield RbfKernel(gamma)
