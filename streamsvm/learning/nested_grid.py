r"""A grid of box and gamma, searched over nested sizes: many cells on few points, few cells on all of them.

What is best on a thousand points is seldom best on a hundred thousand: gamma grows with their number, and the box of a
point of mean weight stays (ijcnn1, cod_rna, 2,500 to 40,000 points: `tests/benchmarks/results/grid.txt`). So a cell is
named by gamma and *box*, the greatest value of the dual variable of such a point, and:

1. The points are nested: a sixteenth of each fold and label, a quarter, all; sizes below `LEAST` are left out.
2. At each size, cells are judged by folds. For each gamma and fold one run of `BlockDescent` goes up the path of the
   boxes, each solved from where the one before ended. A fold that is left out takes part with boxes of 0: its decision
   values are those of the run, and no kernel value is computed for them alone.
3. The next size is for the best of them: a quarter, but `FEWEST` at least. A cell whose neighbour of a smaller gamma is
   better counts as that one does, because gamma will grow; and so do both neighbours in gamma of the best one.
4. Where gamma is not given, its best value at the last two sizes, each the vertex of a parabola in log gamma, is
   continued to the number of points that a model is trained on, by at most a square root.

Runs end at a KKT gap of `TOLERANCE`, or the configured one if that is larger: decisions are then right but for points
whose decision value is below it.

Invariant: a pure function of the arguments, bounded by iterations.

Source of nested sizes: Jamieson and Talwalkar 2016 (successive halving). Of the path: `streamsvm.learning.tuning`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.learning.judging import Judge
from streamsvm.model.kernels import Float, RbfKernel
from streamsvm.points import Signs
from streamsvm.svm.block.descent import BlockDescent

SHRINK: Final = 4
"""Factor between two sizes, and between the numbers of cells that are judged at them."""
SIZES: Final = 3
LEAST: Final = 600
"""Fewest points of a size: with fewer, folds have too few points to tell cells apart."""
FEWEST: Final = 5
"""Fewest cells of a size."""
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


def search(grid: Grid, random: np.random.Generator) -> list[GridScores]:
    """Judge cells at rising sizes; the last is of all points."""
    cells = np.ones((len(grid.gammas), len(grid.boxes)), np.bool_)
    found: list[GridScores] = []
    for chosen in nested(grid, random):
        found.append(_judged(grid, chosen, cells))
        cells = promising(found[-1], max(FEWEST, -(-cells.sum() // SHRINK)))
    return found


def nested(grid: Grid, random: np.random.Generator) -> list[NDArray[np.intp]]:
    """Return the points of each size, the smallest first; each holds those before it, in the order of all points."""
    rank = np.empty(len(grid.y))
    for fold in np.unique(grid.fold):
        for sign in (-1, 1):
            own = np.flatnonzero((grid.fold == fold) & (grid.y == sign))
            rank[own] = (random.permutation(len(own)) + 0.5) / len(own)
    shares = [SHRINK**-step for step in range(SIZES - 1, -1, -1)]
    return [np.flatnonzero(rank <= share) for share in shares if share == 1.0 or share * len(rank) >= LEAST]


def promising(judged: GridScores, most: int) -> NDArray[np.bool_]:
    """Return the cells that are worth a larger size."""
    mean = np.nan_to_num(judged.mean, nan=-np.inf)
    hoped = mean.copy()
    hoped[1:] = np.maximum(hoped[1:], mean[:-1])
    gamma, box = judged.best
    hoped[max(0, gamma - 1) : gamma + 2, box] = np.inf
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


def _judged(grid: Grid, chosen: NDArray[np.intp], cells: NDArray[np.bool_]) -> GridScores:
    Z, y, fold = np.ascontiguousarray(grid.Z[chosen]), grid.y[chosen], grid.fold[chosen]
    weight = grid.weight[chosen]
    for sign in (-1, 1):  # each label keeps its share of the weight
        own = y == sign
        weight[own] *= grid.weight[grid.y == sign].mean() / weight[own].mean()
    weight /= grid.weight.mean()
    scores = np.full((len(grid.folds), *cells.shape), np.nan)
    for place, left_out in enumerate(grid.folds):
        aside = fold == left_out
        for row in range(len(grid.gammas)):
            wanted = np.flatnonzero(cells[row])
            if not len(wanted):
                continue
            boxes = [grid.boxes[column] for column in wanted]
            runs = _path(Z, y, np.where(aside, 0.0, weight), RbfKernel(grid.gammas[row]), boxes, grid.tolerance)
            for column, decision in zip(wanted, runs, strict=True):
                scores[place, row, column] = grid.judge(decision[aside], y[aside], weight[aside])
    of_fold = np.array([weight[fold == left_out].sum() for left_out in grid.folds])
    mean = np.einsum("f,fgb->gb", of_fold / of_fold.sum(), scores)
    return GridScores(len(chosen), mean, scores.std(axis=0))


def _path(
    Z: Float, y: Signs, weight: Float, kernel: RbfKernel, boxes: Sequence[float], tolerance: float
) -> list[Float]:
    """Return the decision values of all points for each box; points of weight 0 are learned from by no machine."""
    run = BlockDescent(Z, y, boxes[0] * weight, kernel, max(TOLERANCE, tolerance))
    decisions = []
    for place, box in enumerate(boxes):
        if place:
            run.scale_boxes(box / boxes[place - 1])
        run.advance(MOST_ITERATIONS)
        decisions.append(run.F + y + run.centred_intercept)
    return decisions
