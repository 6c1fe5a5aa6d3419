r"""A grid of box and gamma, searched on few points: a search may take a tenth of what the stream does.

What is best on a thousand points is seldom best on a hundred thousand: gamma grows with their number, and the box of a
point of mean weight stays (ijcnn1, cod_rna, 2,500 to 40,000 points: `tests/benchmarks/results/grid.txt`). So a cell is
named by gamma and *box*, the greatest value of the dual variable of such a point, and:

1. Points are put into an order drawn at random, of which any stretch has its share of each label. The first are trained
   on, and those that follow judge. Of few points, the two halves change places, and the mean counts.
2. For each gamma the kernel values are computed once, and one run of `RoughDescent` goes up the path of the boxes,
   each solved from where the one before ended.
3. On half as many points as at the last size, every second box is judged; then the `KEPT` cells that are best by their
   own score and their neighbours'. Of few points there is one size.
4. Where no values are given, the geometric mean of the best cell and the best two beside it is the choice, and its
   gamma is multiplied by the growth of the number of points to the power 2 / (d + 2), at which the best width shrinks.

How much work that is follows from `svm.tune_points`, by which `PART` bounds the runs. Runs end at a KKT gap of
`TOLERANCE`, or the configured one if that is larger: decisions are then right but for points whose decision value is
below it.

Invariant: a pure function of the arguments, bounded by iterations.

Measured: `tests/benchmarks/results/search_share.txt`. Sources: of sizes, Jamieson and Talwalkar 2016 (successive
halving); of the power, Eberts and Steinwart 2013 (a target of smoothness 1); of the path,
`streamsvm.learning.tuning`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.branches.landmarks.rough_descent import KernelRows, RoughDescent
from streamsvm.config import SvmConfig
from streamsvm.learning.cutting import Cut
from streamsvm.learning.judging import Judge
from streamsvm.learning.tuning import WIDTHS, Folds, Score, Search
from streamsvm.model.kernels import Float, RbfKernel
from streamsvm.points import Signs

GAMMAS: Final = (1 / 16, 1 / 4, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0)
"""Multiples of the configured gamma, where none are given."""
BOXES: Final = (0.1, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Of a point of mean weight, where no alphas are given."""
PART: Final = 20
"""Of the points, one in so many is trained on at the last size. A pilot has up to 8,192 points, and its work grows with
their square: a search of 500 took a tenth of the pilots' time between two searches on each set that was measured."""
LEAST: Final = 128
"""Fewest points of a size, if there are twice as many."""
SHRINK: Final = 2
"""Factor between two sizes. With 3 or 4, one search of ijcnn1 in twenty gave up all good cells; with 2 none of 60."""
JUDGED: Final = 1_500
"""Most points by which a cell is judged."""
SHARE: Final = 8
"""As many times more points judge than are trained on, up to `JUDGED`."""
KEPT: Final = 6
"""Cells of the second size."""
TOLERANCE: Final = 0.03
MOST_ITERATIONS: Final = 1_000_000
"""Of one run: one that meets it is judged as it is."""
MIDDLE: Final = 3
"""Best cells, of whose values the geometric mean is taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """What is searched.

    Attributes
    ----------
    Z : ndarray of shape (n, d), C-contiguous
    y : ndarray of shape (n,), -1 or +1
    weight : ndarray of shape (n,), positive
    gammas, boxes : tuple of float, rising
    tolerance : float
    judge : Judge
    """

    Z: Float
    y: Signs
    weight: Float
    gammas: tuple[float, ...]
    boxes: tuple[float, ...]
    tolerance: float
    judge: Judge


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


def scores(folds: Folds, cut: Cut, config: SvmConfig, random: np.random.Generator) -> tuple[Score, ...]:
    """Search for a cut; see `Search`. The chosen cell comes first, then those that were judged at the last size."""
    weight, points = cut.moments.weight, len(cut.points)
    (kernel, *_) = folds.kernels
    assert isinstance(kernel, RbfKernel)
    configured = kernel.gamma / WIDTHS[0]
    given = tuple(sorted(set(config.tune_gammas)))
    boxes = {1.0 / (alpha * points) for alpha in config.tune_alphas} or set(BOXES)
    some = np.sort(mixed(folds.points.y, random)[: config.tune_points])
    grid = Grid(
        Z=np.ascontiguousarray(folds.scaler.transform(folds.points.X[some])),
        y=folds.points.y[some],
        weight=_weight(folds.points.y, folds.weight, some),
        gammas=given or tuple(width * configured for width in GAMMAS),
        boxes=tuple(sorted(boxes)),
        tolerance=config.tolerance,
        judge=folds.judge,
    )
    last = search(grid, random)[-1]
    best = last.best
    values = (grid.gammas[best[0]], grid.boxes[best[1]])
    if not config.tune_gammas and not config.tune_alphas:
        values = between(last, grid, points)
    judged = [(values, best)]
    for column, row in np.argwhere(np.isfinite(last.mean.T)):
        if (row, column) != best:
            judged.append(((grid.gammas[row], grid.boxes[column]), (row, column)))
    return tuple(
        Score(points * box / weight, 1.0 / (box * points), gamma, float(last.mean[cell]), float(last.deviation[cell]))
        for (gamma, box), cell in judged
    )


def search(grid: Grid, random: np.random.Generator) -> list[GridScores]:
    """Judge all cells on few points, and the best of them on more."""
    order = mixed(grid.y, random)
    cells = np.ones((len(grid.gammas), len(grid.boxes)), np.bool_)
    found: list[GridScores] = []
    rising = sizes(len(order))
    if len(rising) > 1:
        cells[:, -2::-2] = False
    for size in rising:
        turns = [_judged(grid, turn, size, cells) for turn in _turns(order, size)]
        shares = np.stack(turns)
        found.append(GridScores(size, shares.mean(axis=0), shares.std(axis=0)))
        cells = promising(smoothed(found[-1].mean), KEPT)
    return found


def sizes(points: int) -> list[int]:
    """Return on how many of some points machines are trained, rising."""
    last = min(points // 2, max(LEAST, points // PART))
    return [last // SHRINK, last] if last >= SHRINK * LEAST else [last]


def mixed(y: Signs, random: np.random.Generator) -> NDArray[np.intp]:
    """Return places in an order of which any stretch has its share of each label."""
    rank = np.empty(len(y))
    for sign in (-1, 1):
        own = np.flatnonzero(y == sign)
        rank[own] = (random.permutation(len(own)) + 0.5) / len(own)
    return np.argsort(rank, kind="stable")


def _turns(order: NDArray[np.intp], size: int) -> list[NDArray[np.intp]]:
    """Return the order, and of few points also its second half before its first: chance counts half as much then."""
    return [order] if len(order) - size >= JUDGED else [order, np.roll(order, -(len(order) // 2))]


def promising(mean: Float, most: int) -> NDArray[np.bool_]:
    """Return the cells of the best means; NaN is no cell."""
    order = np.argsort(-np.nan_to_num(mean, nan=-np.inf).ravel(), kind="stable")[:most]
    cells = np.zeros(mean.size, np.bool_)
    cells[order] = True
    return cells.reshape(mean.shape) & np.isfinite(mean)


def smoothed(mean: Float) -> Float:
    """Return the mean of each cell with its judged neighbours: one beside it counts half, one at a corner a fourth.

    A few hundred points say little of a cell, and more of where good ones are.
    """
    sums, weights = np.pad(np.nan_to_num(mean), 1), np.pad(np.isfinite(mean).astype(np.float64), 1)
    for axis in (0, 1):
        sums, weights = (part + 0.5 * (np.roll(part, 1, axis) + np.roll(part, -1, axis)) for part in (sums, weights))
    sums, weights = sums[1:-1, 1:-1], weights[1:-1, 1:-1]
    return np.where(weights > 0.0, sums / np.maximum(weights, 0.25), np.nan)


def between(judged: GridScores, grid: Grid, points: int) -> tuple[float, float]:
    """Return gamma and box for a training on so many points; see step 4 of the module."""
    gamma, box = judged.best
    near = np.full_like(judged.mean, np.nan)
    around = slice(max(0, gamma - 1), gamma + 2), slice(max(0, box - 1), box + 2)
    near[around] = judged.mean[around]
    rows, columns = np.nonzero(promising(near, MIDDLE))
    growth = max(1.0, points / judged.points) ** (2.0 / (grid.Z.shape[1] + 2.0))
    means = [
        float(np.exp(np.log(values).mean())) for values in (np.take(grid.gammas, rows), np.take(grid.boxes, columns))
    ]
    return means[0] * growth, means[1]


def _judged(grid: Grid, order: NDArray[np.intp], size: int, cells: NDArray[np.bool_]) -> Float:
    """Return how good cells are on the points that follow those of a size; NaN where they were not asked for."""
    few, aside = np.sort(order[:size]), np.sort(order[size:][: min(JUDGED, SHARE * size)])
    both = np.ascontiguousarray(grid.Z[np.concatenate([few, aside])])
    weight, outside = (_weight(grid.y, grid.weight, part) for part in (few, aside))
    found = np.full(cells.shape, np.nan)
    for row in np.flatnonzero(cells.any(axis=1)):
        columns, kernel = np.flatnonzero(cells[row]), RbfKernel(grid.gammas[row])
        source = KernelRows(both, size, kernel.gamma)
        boxes = [grid.boxes[at] for at in columns]
        for column, decision in zip(columns, _path(source, grid.y[few], weight, kernel, boxes, grid), strict=True):
            found[row, column] = grid.judge(decision, grid.y[aside], outside)
    return found


def _weight(y: Signs, weight: Float, chosen: NDArray[np.intp]) -> Float:
    """Return the weights of some points, so that each label keeps its mean weight, and all points have a mean of 1."""
    label, own = y[chosen], weight[chosen]
    for sign in np.unique(label):
        own[label == sign] *= weight[y == sign].mean() / own[label == sign].mean()
    return np.asarray(own / weight.mean(), dtype=np.float64)


def _path(
    source: KernelRows, y: Signs, weight: Float, kernel: RbfKernel, boxes: Sequence[float], grid: Grid
) -> list[Float]:
    """Return the decision values of the points aside for each box."""
    if np.all(y == y[0]):
        return [np.full(len(source.aside(np.zeros(len(y)))), float(y[0]))] * len(boxes)
    run = RoughDescent(source.Z, y, boxes[0] * weight, kernel, max(TOLERANCE, grid.tolerance), source)
    decisions = []
    for place, box in enumerate(boxes):
        if place:
            run.scale_boxes(box / boxes[place - 1])
        run.advance(MOST_ITERATIONS)
        decisions.append(source.aside(run.b) + run.centred_intercept)
    return decisions


SEARCH: Final = Search(wanted=lambda config: bool(config.coreset.kernel_option), scores=scores)
