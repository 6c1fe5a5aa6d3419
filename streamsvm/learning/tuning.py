r"""C and gamma by cross-validation on a cut's training set.

The summary stands for the stream, so its weighted points are dealt into five folds, and a value is as good as the share
of the left-out weight that machines of the other four classify right. Fold machines have the boxes C u of the whole
training set, as a grid search over all of the data has one C for its folds and its last fit. Weights are those of the
problem, class weights included: with balanced ones the share is the balanced accuracy.

Each label's points are dealt by falling weight, five to five folds at random: no fold gets all of the heavy ones. For
each gamma and fold one run of the blocks of `streamsvm.svm.block.descent` goes up the path of C: variables, boxes and F
grow by the same factor, so that what was at a bound stays there and no kernel value is computed twice to begin with.

An RBF machine with landmarks (`coreset.landmarks`) is trained on up to a hundred times the points, so its grid is
larger and searched over nested sizes: `streamsvm.learning.nested_grid`. There the box of a point of mean weight is what
is chosen, and alpha follows from it and from the number of points that the cut is trained on.

Of equals the larger alpha wins, then the smaller gamma. The best mean is taken as it is: the rule of one standard error
would prefer machines that are worse by what a fold's chance is, and folds of one training set share most of it.

Invariant: a pure function of the cut, the configuration and the seed, whichever cuts came before it and whoever solves
(`svm.solver` has no part in it); bounded by iterations, never by time. Whether a cut is to be tuned is a function of
its rows and of the tuning in force.

Why not the audit sample, which is independent of the coreset: a thousand points resolve accuracies to half a point, and
the choice by them lost more than a point of cod_rna where that by folds lost a fifth of one
(`tests/benchmarks/tuning.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.config import ModelConfig, SvmConfig
from streamsvm.coreset.reducers.base import Purpose, generator, reduce_for
from streamsvm.learning import training
from streamsvm.learning.cutting import Cut
from streamsvm.learning.judging import Judge, judge_of
from streamsvm.learning.nested_grid import Grid, Judged, continued, search
from streamsvm.learning.tasks import REDUCERS, TwoClasses
from streamsvm.model.kernels import Float, Kernel, LinearKernel, RbfKernel
from streamsvm.model.machine import KernelMachine, LinearMachine, Machine
from streamsvm.points import Points, Position
from streamsvm.svm.block import descent as fast
from streamsvm.svm.block.descent import BlockDescent

FOLDS: Final = 5
STEPS: Final = (0.01, 0.1, 1.0, 10.0, 100.0)
"""Multiples of the configured alpha or C."""
WIDTHS: Final = (1 / 16, 1 / 4, 1.0, 4.0, 16.0)
"""Multiples of the configured gamma."""
NESTED_WIDTHS: Final = (1 / 16, 1 / 4, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0)
"""Multiples of the configured gamma where the grid is nested."""
NESTED_BOXES: Final = (0.1, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Of a point of mean weight, there."""
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
        Standard deviation of it between folds.
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
        Alpha falling, for each of them gamma rising; of a nested grid, the cells that were judged on all points, the
        chosen one first, with the gamma that it is continued to. Empty where a label has fewer points than there are
        folds: then the configured values stay.
    """

    tuning: Tuning
    scores: tuple[Score, ...]


def is_due(rows: int, tuned_rows: int | None, config: ModelConfig) -> bool:
    """Tell whether a cut is to be tuned.

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
    period = config.svm.tune_every_leaves * config.coreset.leaf_rows
    return tuned_rows is None or rows // period > tuned_rows // period


def tune(cut: Cut, config: ModelConfig) -> Tuned:
    """Choose C, and gamma of the RBF kernel, at a cut.

    Parameters
    ----------
    cut : Cut
        With a point at least.
    config : ModelConfig
        Whether `svm.tune` is set does not matter.
    """
    random = generator(config.seed, Purpose.TUNE, _counter(cut.points))
    with training.limited(config.svm):
        folds = _Folds.of(_summary(cut, config, random), cut, config.svm, random)
        nested = config.coreset.landmarks is not None
        if not folds.possible:
            scores: tuple[Score, ...] = ()
        elif nested:
            scores = _nested(folds, cut, config.svm, random)
        else:
            scores = tuple(folds.scores())
    best = max(scores, key=lambda score: score.mean, default=None)
    fixed = config.svm.C is not None
    tuning = Tuning(
        alpha=None if best is None or fixed else best.alpha,
        C=best.C if best is not None and fixed else None,
        gamma=best.gamma if best is not None else None,
        positions=cut.positions,
        leader_epochs=cut.leader_epochs,
        rows=cut.rows,
    )
    return Tuned(tuning, scores)


def warm_up(config: ModelConfig, say: Callable[[str], None] = lambda _: None) -> None:
    """Compile, or load from numba's file cache, what `tune` runs under a configuration."""
    if config.svm.tune is not None:
        fast.warm_up(LinearKernel() if config.svm.kernel == "linear" else RbfKernel(1.0), say)


def _counter(points: Points) -> tuple[int, int, int]:
    """Return 192 bits that name a training set, wherever it came from: an estimator's, or that of a cut."""
    words = np.frombuffer(bytes.fromhex(points.sha256()), dtype="<u8")
    return int(words[0]), int(words[1]), int(words[2])


def _summary(cut: Cut, config: ModelConfig, random: np.random.Generator) -> Points:
    """Return the cut's training set, reduced further if it is large."""
    if len(cut.points) <= config.svm.tune_points:
        return cut.points
    reducer = REDUCERS[config.coreset.reducer](config.coreset)
    pilot = TwoClasses().pilot(cut.points, cut.moments.weight, cut.moments, config) if reducer.needs_pilot else None
    return reduce_for(reducer, cut.points, config.svm.tune_points, random, pilot)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Folds:
    """The problem of a training set, dealt into folds.

    Attributes
    ----------
    Z : ndarray of shape (n, d)
        Scaled as a model of the cut is.
    y : ndarray of shape (n,), int8
    weight : ndarray of shape (n,)
        Class weights included.
    fold : ndarray of shape (n,)
        0 to `FOLDS` - 1.
    alphas : tuple of (float, float)
        Each alpha, falling, and its C.
    kernels : tuple of Kernel
        Gamma rising.
    tolerance : float
    judge : Judge
    """

    Z: Float
    y: NDArray[np.int8]
    weight: Float
    fold: NDArray[np.int64]
    alphas: tuple[tuple[float, float], ...]
    kernels: tuple[Kernel, ...]
    tolerance: float
    judge: Judge

    @classmethod
    def of(cls, points: Points, cut: Cut, config: SvmConfig, random: np.random.Generator) -> _Folds:
        scaler = training.scaler_of(cut.moments, config)
        weighted = points.class_weighted(config.class_weights(cut.moments.class_weight))
        return cls(
            Z=np.ascontiguousarray(scaler.transform(points.X)),
            y=points.y,
            weight=weighted.weight,
            fold=_dealt(weighted, random),
            alphas=tuple(_alphas(config, cut.moments.weight)),
            kernels=tuple(_kernels(training.kernel_of(scaler, cut.moments, config), config)),
            tolerance=config.tolerance,
            judge=judge_of(config.tune_scoring, config.cost),
        )

    @property
    def possible(self) -> bool:
        """Whether each label has a point for each fold."""
        positive = int(np.count_nonzero(self.y > 0))
        return min(positive, len(self.y) - positive) >= FOLDS

    def scores(self) -> Iterator[Score]:
        """Yield the score of each pair of values."""
        shares = np.array([[self._path(kernel, fold) for fold in range(FOLDS)] for kernel in self.kernels])
        left_out = np.array([self.weight[self.fold == fold].sum() for fold in range(FOLDS)])
        for step, (alpha, C) in enumerate(self.alphas):
            for kernel, of_kernel in zip(self.kernels, shares[:, :, step], strict=True):
                gamma = kernel.gamma if isinstance(kernel, RbfKernel) else None
                mean = float((of_kernel * left_out).sum() / left_out.sum())
                yield Score(C, alpha, gamma, mean, float(of_kernel.std()))

    def _path(self, kernel: Kernel, fold: int) -> list[float]:
        """Return, for each alpha, how good machines of the other folds are on a fold."""
        left_out = self.fold == fold
        Z, y, weight = self.Z[left_out], self.y[left_out], self.weight[left_out]
        return [self.judge(machine.decide(Z), y, weight) for machine in self._machines(kernel, ~left_out)]

    def _machines(self, kernel: Kernel, kept: NDArray[np.bool_]) -> Iterator[Machine]:
        """Yield the machine of some points for each alpha, each solved from where the one before ended."""
        Z, y = self.Z[kept], self.y[kept]
        at = self.alphas[0][1]
        run = BlockDescent(Z, y, at * self.weight[kept], kernel, self.tolerance)
        for _, C in self.alphas:
            if at != C:
                run.scale_boxes(C / at)
                at = C
            run.advance(MOST_ITERATIONS)
            yield _machine(run, Z, kernel)


def _nested(folds: _Folds, cut: Cut, config: SvmConfig, random: np.random.Generator) -> tuple[Score, ...]:
    """Search the grid over nested sizes."""
    weight, points = cut.moments.weight, len(cut.points)
    (kernel, *_) = folds.kernels
    assert isinstance(kernel, RbfKernel)
    configured = kernel.gamma / WIDTHS[0]
    given = tuple(sorted(set(config.tune_gammas)))
    boxes = {1.0 / (alpha * points) for alpha in config.tune_alphas} or set(NESTED_BOXES)
    grid = Grid(
        Z=folds.Z,
        y=folds.y,
        weight=folds.weight,
        fold=folds.fold,
        gammas=given or tuple(width * configured for width in NESTED_WIDTHS),
        boxes=tuple(sorted(boxes)),
        tolerance=folds.tolerance,
        judge=folds.judge,
        folds=tuple(range(FOLDS)),
    )
    found = search(grid, random)
    last = found[-1]
    gamma, box = last.best
    chosen = continued(found, grid.gammas, points) if not given else grid.gammas[gamma]
    first = _scored(last, (gamma, box), grid, chosen, points, weight)
    others = [(int(row), int(column)) for column, row in np.argwhere(np.isfinite(last.mean.T))]
    rest = [_scored(last, cell, grid, grid.gammas[cell[0]], points, weight) for cell in others if cell != (gamma, box)]
    return (first, *rest)


def _scored(judged: Judged, cell: tuple[int, int], grid: Grid, gamma: float, points: int, weight: float) -> Score:
    alpha = 1.0 / (grid.boxes[cell[1]] * points)
    return Score(1.0 / (alpha * weight), alpha, gamma, float(judged.mean[cell]), float(judged.deviation[cell]))


def _machine(run: BlockDescent, Z: Float, kernel: Kernel) -> Machine:
    intercept, w = run.centred_intercept, run.coefficients
    if w is not None:
        return LinearMachine(w, intercept - float(w @ run.centre))
    assert isinstance(kernel, RbfKernel)
    support = np.flatnonzero(run.b)
    return KernelMachine(kernel, Z[support], run.b[support], intercept)


def _dealt(points: Points, random: np.random.Generator) -> NDArray[np.int64]:
    """Return the fold of each point; each five of a label that are next to each other by weight go to five folds."""
    fold = np.empty(len(points), np.int64)
    for sign in (-1, 1):
        own = np.flatnonzero(points.y == sign)
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
    alphas = config.tune_alphas or [min(1.0, max(1e-30, step * configured)) for step in STEPS]
    for alpha in sorted(set(alphas), reverse=True):
        yield alpha, 1.0 / (alpha * weight)


def _kernels(kernel: Kernel, config: SvmConfig) -> Iterator[Kernel]:
    """Yield the kernels to choose among, gamma rising."""
    if not isinstance(kernel, RbfKernel):
        yield kernel
        return
    for gamma in sorted(set(config.tune_gammas or [width * kernel.gamma for width in WIDTHS])):
        yield RbfKernel(gamma)
