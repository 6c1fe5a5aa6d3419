r"""A grid of box and gamma, searched over nested sizes: many cells on few points, few cells on all of them.

What is best on a thousand points is seldom best on a hundred thousand: gamma grows with their number, and the box of a
point of mean weight stays (ijcnn1, cod_rna, 2,500 to 40,000 points: `tests/benchmarks/results/grid.txt`). So a cell is
named by gamma and *box*, the greatest value of the dual variable of such a point, and:

1. The points are nested: a sixteenth of each fold and label, a quarter, all; sizes below `LEAST` are left out. Of a
   rare label it is `RARE` at least, and weights make up for that.
2. At each size, cells are judged by folds. For each gamma and fold one run of `RoughDescent` goes up the path of the
   boxes, each solved from where the one before ended. A fold that is left out takes part with boxes of 0: its decision
   values are those of the run, and no kernel value is computed for them alone. Of few points all kernel values are
   computed once for a gamma, and serve every fold and box.
3. The next size is for the best of them: a quarter, but `FEWEST` at least. A cell whose neighbour of a smaller gamma is
   better counts as that one does, because gamma will grow; and so do both neighbours in gamma of the best one.
   Where folds are not small, `ROUGH` of them judge all cells. At the last size the others judge the `LAST` best only.
4. Where gamma is not given, its best value at the last two sizes, each the vertex of a parabola in log gamma, is
   continued to the number of points that a model is trained on, by at most a square root.

Runs end at a KKT gap of `TOLERANCE`, or the configured one if that is larger: decisions are then right but for points
whose decision value is below it.

Invariant: a pure function of the arguments, bounded by iterations.

Measured: `tests/benchmarks/results/grid.txt`. Source of nested sizes: Jamieson and Talwalkar 2016 (successive halving).
Of the path: `streamsvm.learning.tuning`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.branches.landmarks.rough_descent import KernelMatrix, RoughDescent
from streamsvm.config import SvmConfig
from streamsvm.learning.cutting import Cut
from streamsvm.learning.judging import Judge
from streamsvm.learning.tuning import FOLDS, WIDTHS, Folds, Score, Search
from streamsvm.model.kernels import Float, RbfKernel
from streamsvm.points import Signs

GAMMAS: Final = (1 / 16, 1 / 4, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0)
"""Multiples of the configured gamma, where none are given."""
BOXES: Final = (0.1, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Of a point of mean weight, where no alphas are given."""
SHRINK: Final = 4
"""Factor between two sizes, and between the numbers of cells that are judged at them."""
SIZES: Final = 3
LEAST: Final = 600
"""Fewest points of a size: with fewer, folds have too few points to tell cells apart."""
RARE: Final = 5
"""Points of each fold and label that every size has, where there are so many. Without one, all cells would be equal."""
FEWEST: Final = 5
"""Fewest cells of a size."""
ROUGH: Final = 2
"""Folds by which all cells of a size are judged."""
ROUGH_POINTS: Final = 1_000
"""Points of a size from which that is enough; of fewer, every fold counts."""
LAST: Final = 4
"""Cells that all folds judge at the last size: the best, its neighbours in gamma, and one more."""
WHOLE: Final = 1_536
"""Points up to which a kernel matrix is kept. Of more, computing a value again is as fast as reading it."""
TOLERANCE: Final = 0.03
MOST_ITERATIONS: Final = 1_000_000
"""Of one run: one that meets it is judged as it is."""
STEEPEST: Final = 0.5
"""Largest power of the number of points by which gamma is continued."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """What is searched.

    Attributes
    ----------
    Z : ndarray of shape (n, d), C-contiguous
    y : ndarray of shape (n,), -1 or +1
    weight : ndarray of shape (n,), positive
    fold : ndarray of shape (n,)
        0 to folds - 1.
    gammas, boxes : tuple of float, rising
    tolerance : float
    judge : Judge
    folds : tuple of int
        Which folds are left out in turn; one is enough for a rough choice.
    """

    Z: Float
    y: Signs
    weight: Float
    fold: NDArray[np.int64]
    gammas: tuple[float, ...]
    boxes: tuple[float, ...]
    tolerance: float
    judge: Judge
    folds: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GridScores:
    """A grid at one size.

    Attributes
    ----------
    points : int
    mean : ndarray of shape (gammas, boxes)
        NaN where a cell was not judged.
    deviation : ndarray of shape (gammas, boxes)
        Between folds.
    """

    points: int
    mean: Float
    deviation: Float

    @property
    def best(self) -> tuple[int, int]:
        """The best cell; of equals that of the smaller box, then of the smaller gamma."""
        order = np.argsort(-np.nan_to_num(self.mean, nan=-np.inf).T.ravel(), kind="stable")
        box, gamma = divmod(int(order[0]), len(self.mean))
        return gamma, box


@dataclass(frozen=True, slots=True)
class _Size:
    """The points of one size; attributes as of `Grid`."""

    Z: Float
    y: Signs
    weight: Float
    fold: NDArray[np.int64]

    @classmethod
    def of(cls, grid: Grid, chosen: NDArray[np.intp]) -> _Size:
        """Take points; each label keeps its share of the weight, however many are taken, and the mean weight is 1."""
        y, weight = grid.y[chosen], grid.weight[chosen]
        for sign in (-1, 1):
            own = y == sign
            weight[own] *= grid.weight[grid.y == sign].sum() / weight[own].sum()
        return cls(np.ascontiguousarray(grid.Z[chosen]), y, weight / weight.mean(), grid.fold[chosen])


def scores(folds: Folds, cut: Cut, config: SvmConfig, random: np.random.Generator) -> tuple[Score, ...]:
    """Search for a cut; see `Search`. The chosen cell comes first, then those that were judged on all points."""
    weight, points = cut.moments.weight, len(cut.points)
    (kernel, *_) = folds.kernels
    assert isinstance(kernel, RbfKernel)
    configured = kernel.gamma / WIDTHS[0]
    given = tuple(sorted(set(config.tune_gammas)))
    boxes = {1.0 / (alpha * points) for alpha in config.tune_alphas} or set(BOXES)
    grid = Grid(
        Z=folds.Z,
        y=folds.points.y,
        weight=folds.weight,
        fold=folds.fold,
        gammas=given or tuple(width * configured for width in GAMMAS),
        boxes=tuple(sorted(boxes)),
        tolerance=config.tolerance,
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


def _scored(judged: GridScores, cell: tuple[int, int], grid: Grid, gamma: float, points: int, weight: float) -> Score:
    alpha = 1.0 / (grid.boxes[cell[1]] * points)
    return Score(1.0 / (alpha * weight), alpha, gamma, float(judged.mean[cell]), float(judged.deviation[cell]))


def search(grid: Grid, random: np.random.Generator) -> list[GridScores]:
    """Judge cells at rising sizes; the last is of all points."""
    cells = np.ones((len(grid.gammas), len(grid.boxes)), np.bool_)
    found: list[GridScores] = []
    sizes = nested(grid, random)
    for place, chosen in enumerate(sizes):
        size = _Size.of(grid, chosen)
        enough = ROUGH if len(chosen) >= ROUGH_POINTS else len(grid.folds)
        rough = _judged(grid, size, cells, grid.folds[:enough])
        if place + 1 == len(sizes) and enough < len(grid.folds):
            cells = promising(_mean(grid, size, rough), LAST, cells)
            rough = np.concatenate([np.where(cells, rough, np.nan), _judged(grid, size, cells, grid.folds[enough:])])
        found.append(_mean(grid, size, rough))
        cells = promising(found[-1], max(FEWEST, -(-cells.sum() // SHRINK)))
    return found


def nested(grid: Grid, random: np.random.Generator) -> list[NDArray[np.intp]]:
    """Return the points of each size, the smallest first; each holds those before it, in the order of all points."""
    rank = np.empty(len(grid.y))
    for fold in np.unique(grid.fold):
        for sign in (-1, 1):
            own = np.flatnonzero((grid.fold == fold) & (grid.y == sign))
            place = random.permutation(len(own))
            rank[own] = np.where(place < RARE, 0.0, (place + 0.5) / len(own))
    shares = [SHRINK**-step for step in range(SIZES - 1, -1, -1)]
    return [np.flatnonzero(rank <= share) for share in shares if share == 1.0 or share * len(rank) >= LEAST]


def promising(judged: GridScores, most: int, among: NDArray[np.bool_] | None = None) -> NDArray[np.bool_]:
    """Return the cells, among some or all, that are worth a larger size."""
    mean = np.nan_to_num(judged.mean, nan=-np.inf)
    hoped = mean.copy()
    hoped[1:] = np.maximum(hoped[1:], mean[:-1])
    gamma, box = judged.best
    hoped[max(0, gamma - 1) : gamma + 2, box] = np.inf
    hoped[~(np.ones_like(judged.mean, np.bool_) if among is None else among)] = -np.inf
    order = np.lexsort((np.arange(hoped.size), -hoped.ravel()))[: int(most)]
    cells = np.zeros(hoped.size, np.bool_)
    cells[order] = True
    return cells.reshape(hoped.shape) & (hoped > -np.inf)


def continued(found: Sequence[GridScores], gammas: Sequence[float], points: int) -> float:
    """Return the gamma for a training on so many points; see step 4 of the module."""
    last = found[-1]
    here = _vertex(last, gammas)
    if len(found) < 2 or points <= last.points:
        return float(np.exp(here))
    slope = (here - _vertex(found[-2], gammas)) / np.log(last.points / found[-2].points)
    return float(np.exp(here + min(STEEPEST, max(0.0, slope)) * np.log(points / last.points)))


def _vertex(judged: GridScores, gammas: Sequence[float]) -> float:
    """Return log gamma of the vertex of the parabola through the best cell and its neighbours in gamma."""
    gamma, box = judged.best
    at = np.log(gammas[gamma])
    if not 0 < gamma < len(gammas) - 1:
        return float(at)
    below, top, above = judged.mean[gamma - 1 : gamma + 2, box]
    if not np.isfinite([below, above]).all() or below + above >= 2.0 * top:
        return float(at)
    down, up = np.log(gammas[gamma - 1]) - at, np.log(gammas[gamma + 1]) - at
    curve = ((above - top) / up - (below - top) / down) / (up - down)
    slope = (above - top) / up - curve * up
    return float(at + min(0.5 * up, max(0.5 * down, -slope / (2.0 * curve))))


def _judged(grid: Grid, size: _Size, cells: NDArray[np.bool_], folds: Sequence[int]) -> Float:
    """Return how good cells are on each of some folds; NaN where they were not asked for."""
    found = np.full((len(folds), *cells.shape), np.nan)
    for row in np.flatnonzero(cells.any(axis=1)):
        columns, kernel = np.flatnonzero(cells[row]), RbfKernel(grid.gammas[row])
        source = KernelMatrix(size.Z, kernel.gamma) if len(size.y) <= WHOLE else None
        for place, left_out in enumerate(folds):
            aside = size.fold == left_out
            weight = np.where(aside, 0.0, size.weight)
            runs = _path(size.Z, size.y, weight, kernel, [grid.boxes[at] for at in columns], grid.tolerance, source)
            for column, decision in zip(columns, runs, strict=True):
                found[place, row, column] = grid.judge(decision[aside], size.y[aside], size.weight[aside])
    return found


def _mean(grid: Grid, size: _Size, judged: Float) -> GridScores:
    weight = np.array([size.weight[size.fold == left_out].sum() for left_out in grid.folds[: len(judged)]])
    mean = np.einsum("f,fgb->gb", weight / weight.sum(), judged)
    return GridScores(len(size.y), mean, judged.std(axis=0))


def _path(
    Z: Float,
    y: Signs,
    weight: Float,
    kernel: RbfKernel,
    boxes: Sequence[float],
    tolerance: float,
    source: KernelMatrix | None = None,
) -> list[Float]:
    """Return the decision values of all points for each box; points of weight 0 are learned from by no machine."""
    run = RoughDescent(Z, y, boxes[0] * weight, kernel, max(TOLERANCE, tolerance), source)
    decisions = []
    for place, box in enumerate(boxes):
        if place:
            run.scale_boxes(box / boxes[place - 1])
        run.advance(MOST_ITERATIONS)
        decisions.append(run.F + y + run.centred_intercept)
    return decisions


SEARCH: Final = Search(wanted=lambda config: bool(config.coreset.kernel_option), scores=scores)
