r"""A grid of box and gamma, searched on few points: a search may take a quarter of what the stream does.

What is best on a thousand points is seldom best on a hundred thousand: gamma grows with their number, and the box of a
point of mean weight falls slowly (`tests/benchmarks/results/grid.txt`, `search_share.txt`). So a cell is named by gamma
and *box*, the greatest value of the dual variable of such a point, and:

1. Up to `svm.tune_points` are drawn, of each label its share, but `RARE` at least where there are so many. A machine is
   trained on `FEW` of them, and all others judge it. Weights make up for labels of which more than their share is
   drawn. Where few points judge, this is done twice, and the mean counts.
2. For each gamma the kernel values are computed once, and one run of `RoughDescent` goes up the path of the boxes,
   each solved from where the one before ended. Every cell is judged.
3. Where no values are given, the choice is the geometric mean of the `BEST` cells, which chance moves less than one.
   With as many times more points as a model has, gamma grows by the power 2 / (d + 2), at which the best width shrinks,
   and the box falls by the power `BOX_POWER`.

Runs end at a KKT gap of `TOLERANCE`, or the configured one if that is larger: decisions are then right but for points
whose decision value is below it.

Invariant: a pure function of the arguments, bounded by iterations.

Measured: `tests/benchmarks/results/search_share.txt`. Sources: of gamma's power, Eberts and Steinwart 2013 (a target of
smoothness 1); of the path, `streamsvm.learning.tuning`.
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
FEW: Final = 500
"""Points of a machine; of fewer than twice as many, half. Work grows with their square. With 250, single choices of a9a
lost 0.4 points more; with 1,000, none of a9a and ijcnn1 was better by more than 0.05 (seeds 0 and 1)."""
RARE: Final = 50
"""Fewest points of a label that are drawn, half of them for the machine; all, of fewer."""
JUDGES: Final = 1_000
"""Where fewer judge, two machines are trained, on points that are drawn anew."""
BEST: Final = 5
"""Cells of whose values the geometric mean is taken."""
BOX_POWER: Final = 1 / 3
"""Measured on a9a and ijcnn1, seeds 0 and 1: 0.15 lost 0.05 points more, 0.5 lost up to 0.5 more in single searches."""
TOLERANCE: Final = 0.03
MOST_ITERATIONS: Final = 1_000_000
"""Of one run: one that meets it is judged as it is."""


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
    """How good the cells of a grid are.

    Attributes
    ----------
    points : int
        Of a machine.
    mean, deviation : ndarray of shape (gammas, boxes)
        Over machines.
    """

    points: int
    mean: Float
    deviation: Float

    @property
    def best(self) -> tuple[int, int]:
        """The best cell; of equals that of the smaller box, then of the smaller gamma."""
        box, gamma = divmod(int(np.argmax(self.mean.T)), len(self.mean))
        return gamma, box


def scores(folds: Folds, cut: Cut, config: SvmConfig, random: np.random.Generator) -> tuple[Score, ...]:
    """Search for a cut; see `Search`. What was chosen comes first, then the cells but the best one."""
    weight, points = cut.moments.weight, len(cut.points)
    (kernel, *_) = folds.kernels
    assert isinstance(kernel, RbfKernel)
    configured = kernel.gamma / WIDTHS[0]
    given = tuple(sorted(set(config.tune_gammas)))
    boxes = {1.0 / (alpha * points) for alpha in config.tune_alphas} or set(BOXES)
    some = drawn(folds.points.y, config.tune_points, random)
    grid = Grid(
        Z=np.ascontiguousarray(folds.scaler.transform(folds.points.X[some])),
        y=folds.points.y[some],
        weight=_weight(folds.points.y, folds.weight, some),
        gammas=given or tuple(width * configured for width in GAMMAS),
        boxes=tuple(sorted(boxes)),
        tolerance=config.tolerance,
        judge=folds.judge,
    )
    judged = search(grid, random)
    best = judged.best
    values = (grid.gammas[best[0]], grid.boxes[best[1]])
    if not config.tune_gammas and not config.tune_alphas:
        values = between(judged, grid, points)
    every = [(values, best)]
    for column, row in np.ndindex(judged.mean.T.shape):
        if (row, column) != best:
            every.append(((grid.gammas[row], grid.boxes[column]), (row, column)))
    return tuple(
        Score(
            points * box / weight, 1.0 / (box * points), gamma, float(judged.mean[cell]), float(judged.deviation[cell])
        )
        for (gamma, box), cell in every
    )


def search(grid: Grid, random: np.random.Generator) -> GridScores:
    """Judge all cells."""
    size = min(FEW, len(grid.y) // 2)
    turns = 1 if len(grid.y) - size >= JUDGES else 2
    shares = np.stack([_judged(grid, drawn(grid.y, size, random, 0.5)) for _ in range(turns)])
    return GridScores(size, shares.mean(axis=0), shares.std(axis=0))


def drawn(y: Signs, most: int, random: np.random.Generator, part: float = 1.0) -> NDArray[np.intp]:
    """Return places of about so many points, rising: of each label its share, but no more than a part of its points.

    If that is less than the part of `RARE`, this many, or what the part has; but no more than a fourth of all.
    """
    chosen = []
    for label in np.unique(y):
        own = np.flatnonzero(y == label)
        size = max(min(part * RARE, most / 4), most * len(own) / len(y))
        chosen.append(random.permutation(own)[: round(min(part * len(own), size))])
    return np.sort(np.concatenate(chosen))


def smoothed(mean: Float) -> Float:
    """Return the mean of each cell with its neighbours: one beside it counts half, one at a corner a fourth."""
    sums, weights = np.pad(mean, 1), np.pad(np.ones_like(mean), 1)
    for axis in (0, 1):
        sums, weights = (part + 0.5 * (np.roll(part, 1, axis) + np.roll(part, -1, axis)) for part in (sums, weights))
    return np.asarray(sums[1:-1, 1:-1] / weights[1:-1, 1:-1])


def between(judged: GridScores, grid: Grid, points: int) -> tuple[float, float]:
    """Return gamma and box for a training on so many points; see step 3 of the module."""
    # Of equals, those inside of a good region.
    order = np.lexsort((-smoothed(judged.mean).ravel(), -judged.mean.ravel()))[:BEST]
    rows, columns = np.unravel_index(order, judged.mean.shape)
    growth = max(1.0, points / judged.points)
    gamma, box = (
        float(np.exp(np.log(values).mean())) for values in (np.take(grid.gammas, rows), np.take(grid.boxes, columns))
    )
    return gamma * growth ** (2.0 / (grid.Z.shape[1] + 2.0)), box * growth**-BOX_POWER


def _judged(grid: Grid, few: NDArray[np.intp]) -> Float:
    """Return how good machines of few points are on all others, for each cell."""
    aside = np.setdiff1d(np.arange(len(grid.y)), few)
    both = np.ascontiguousarray(grid.Z[np.concatenate([few, aside])])
    weight, outside = (_weight(grid.y, grid.weight, part) for part in (few, aside))
    found = np.empty((len(grid.gammas), len(grid.boxes)))
    for row, gamma in enumerate(grid.gammas):
        source = KernelRows(both, len(few), gamma)
        for column, decision in enumerate(_path(source, grid.y[few], weight, RbfKernel(gamma), grid.boxes, grid)):
            found[row, column] = grid.judge(decision, grid.y[aside], outside)
    return found


def _weight(y: Signs, weight: Float, chosen: NDArray[np.intp]) -> Float:
    """Return the weights of some points, so that each label keeps its share of the weight, and their mean is 1."""
    label, own = y[chosen], weight[chosen]
    for sign in np.unique(label):
        own[label == sign] *= weight[y == sign].sum() / own[label == sign].sum()
    return np.asarray(own / own.mean(), dtype=np.float64)


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
