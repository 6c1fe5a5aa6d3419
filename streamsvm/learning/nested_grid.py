r"""A grid of box and gamma, searched on few points: searches take a twentieth to a seventh of a long pass.

What is best on a thousand points is seldom best on a hundred thousand: gamma grows with their number. So a cell is
named by gamma and *box*, the greatest value of the dual variable of a point of mean weight, and judged by what its
score grows to:

1. Up to `MANY` and `JUDGES` points are drawn, but no more than `MOST_POINTS`; of each label its share, but `RARE`
   at least where there are so many. Weights make up for labels of which more than their share is drawn. `MANY` of the
   points learn, or `SHARE` of a model's points if that is less, and all others judge. With larger machines (step 4) as
   many points judge as the largest machine has.
2. Every cell is judged by a machine of a fourth of those that learn. Then a few are by machines of all of these: those
   of the best box and of the one on each side, and of gammas from one below the best to two above, because it will
   grow.
3. The score of each of these is continued to the number of points of a model:
   s(n) = a - b / n^`LAW` through the two sizes. The same points judge both, so that their chance is not multiplied.
4. For a model of 32,000 points or more, steps 2 and 3 are repeated with larger machines (`rungs`) for the cells around
   the best one: three gammas and three boxes, each judged by a machine of the larger size and one of a fourth of it.
5. Where no values are given, the choice is the geometric mean of the best cells, which chance moves less than one.

Where fewer than twice `FEW` would learn, there is one size.

For each gamma the kernel values are computed once, and one rough run of STDA goes up the path of the boxes, each
solved from where the one before ended, as far as some point is at its box. Runs end at a KKT gap of `TOLERANCE`, or the
configured one if that is larger: decisions are then right but for points whose decision value is below it.

Invariant: a pure function of the arguments, bounded by iterations.

Source of the path: `streamsvm.learning.tuning`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.config import SvmConfig
from streamsvm.learning.judging import Judge
from streamsvm.learning.learner import Cut
from streamsvm.learning.tuning import WIDTHS, Folds, Score
from streamsvm.model.kernels import Float, RbfKernel
from streamsvm.points import Signs
from streamsvm.svm.rbf import KernelRows, rough_decisions
from streamsvm.svm.stda import Descent

GAMMAS: Final = (1 / 16, 1 / 4, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0)
"""Multiples of the configured gamma, where none are given."""
BOXES: Final = (0.1, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Of a point of mean weight, where no alphas are given."""
FEW: Final = 250
"""Points of a machine of the whole grid where there is one size; work grows with their square. Of two sizes it is a
fourth of the larger one: a score is then continued by little more than half of its growth between the two, however many
points a model has."""
MANY: Final = 1_000
"""Most points of a machine of a few cells. With 800, and 200 for the grid, cod_rna lost 0.16 points; 1,400 took twice
the time for the same accuracy of eight sets."""
JUDGES: Final = 2_000
"""Most points that judge. With 1,500 ijcnn1 lost 0.06 points, and 3,000 made no difference."""
RUNG: Final = 4_000
"""Points of the first larger machines. With machines of 1,000 points only, gammas were too small for a model of
100,000 points: cod_rna lost 0.2 points of accuracy."""
LAST_RUNG: Final = 32_000
"""Most points of the last larger machines, so that a search takes at most about ten seconds."""
PART: Final = 1 / 8
"""Share of a model's points that a larger machine may have. A search then takes a tenth to a third of the training."""
SHARE: Final = 0.25
"""Of a model's points, the most that `MANY` may be, so that the search of a short stream is short, too."""
LEARNING: Final = 0.5
"""Most of the points, and of each label, that learn where others of them judge two sizes; of one, `LEARNING_ALONE`."""
LEARNING_ALONE: Final = 0.8
RARE: Final = 50
"""Fewest points of a label that are drawn; all, of fewer. So many times the part that learns are for a machine."""
BELOW: Final = 1
"""Gammas below the best one that are followed. Without it a9a lost up to 0.7 points, with gammas too large for it."""
GAMMAS_FOLLOWED: Final = 4
"""Gammas for which machines of `MANY` points are trained."""
GAMMAS_OF_A_RUNG: Final = 3
"""Gammas for which the larger machines are trained."""
BOXES_FOLLOWED: Final = 3
LAW: Final = 0.75
"""Exponent in s(n) = a - b / n^LAW. Chosen by cod_rna and ijcnn1. With 1, at a tenth of their rows, credit_default lost
0.12 points and cod_rna 0.03, and none of six other sets gained."""
BEST: Final = 5
"""Cells of a whole grid of whose values the geometric mean is taken."""
BEST_OF_FEW: Final = 3
"""The same of the cells of the larger size."""
TOLERANCE: Final = 0.1
MOST_ITERATIONS: Final = 1_000_000
"""Of one run: one that meets it is judged as it is."""

Cells = tuple[slice, slice]
"""Which gammas and which boxes."""


MOST_POINTS: Final = 64_000
"""From which a search draws."""


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
        Of a machine, the larger one.
    mean : ndarray of shape (gammas, boxes)
        NaN where a cell was judged at the smaller size only.
    continued : ndarray of shape (gammas, boxes)
        By which cells are ranked: the mean, and of two sizes what step 3 of the module says.
    """

    points: int
    mean: Float
    continued: Float

    @property
    def best(self) -> tuple[int, int]:
        """The best cell; of equals that of the smaller box, then of the smaller gamma."""
        box, gamma = divmod(int(np.nanargmax(self.continued.T)), len(self.mean))
        return gamma, box


def scores(folds: Folds, cut: Cut, config: SvmConfig, random: np.random.Generator) -> tuple[Score, ...]:
    """Search for a cut; see `Search`. After what was chosen come the cells of the last size but the best one."""
    weight, points = cut.moments.weight, len(cut.points)
    (kernel, *_) = folds.kernels
    assert isinstance(kernel, RbfKernel)
    configured = kernel.gamma / WIDTHS[0]
    some = drawn(folds.points.y, min(MOST_POINTS, max(MANY + JUDGES, 2 * max(rungs(points), default=0))), random)
    grid = Grid(
        Z=np.ascontiguousarray(folds.scaler.transform(folds.points.X[some])),
        y=folds.points.y[some],
        weight=_weight(folds.points.y, folds.weight, some),
        gammas=tuple(width * configured for width in GAMMAS),
        boxes=tuple(sorted(BOXES)),
        tolerance=config.tolerance,
        judge=folds.judge,
    )
    judged = search(grid, random, points)
    best = judged.best
    every = [(between(judged.continued, grid), best)]
    for column, row in np.argwhere(np.isfinite(judged.mean.T)):
        if (row, column) != best:
            every.append(((grid.gammas[row], grid.boxes[column]), (int(row), int(column))))
    return tuple(
        Score(points * box / weight, 1.0 / (box * points), gamma, float(judged.mean[cell]), 0.0)
        for (gamma, box), cell in every
    )


def search(grid: Grid, random: np.random.Generator, points: int) -> GridScores:
    """Judge cells, for a model of so many points."""
    whole = (slice(None), slice(None))
    size = min(MANY, int(SHARE * points), int(LEARNING * len(grid.y)))
    if size < 2 * FEW:
        few = drawn(grid.y, min(FEW, int(LEARNING_ALONE * len(grid.y))), random, LEARNING_ALONE)
        mean = _judged(grid, few, _others(grid, few), whole)
        return GridScores(len(few), mean, mean)
    sizes = (size, *(rung for rung in rungs(points) if rung <= LEARNING * (len(grid.y) + 2)))
    members = [drawn(grid.y, sizes[-1], random, LEARNING)]
    for smaller in reversed(sizes[:-1]):
        members.append(members[-1][drawn(grid.y[members[-1]], smaller, random)])
    aside, ranked = _others(grid, members[0]), None
    for many in reversed(members):
        few = many[drawn(grid.y[many], len(many) // 4, random)]
        if ranked is None:  # the first size: every cell
            rough = _judged(grid, few, aside, whole)
            cells = promising(rough, grid, GAMMAS_FOLLOWED)
        else:
            cells = promising(ranked, grid, GAMMAS_OF_A_RUNG)
            rough = _judged(grid, few, aside, cells)
        fine = _judged(grid, many, aside, cells)
        ranked = continued(rough, fine, len(few), len(many), points)
    assert ranked is not None
    return GridScores(len(members[0]), fine, ranked)


def rungs(points: int) -> tuple[int, ...]:
    """Return the sizes of the larger machines for a model of so many points: none, one or two of them."""
    last = min(LAST_RUNG, int(PART * points))
    return (RUNG, last)[: (last >= RUNG) + (last >= 2 * RUNG)]


def promising(ranked: Float, grid: Grid, gammas: int) -> Cells:
    """Return the cells that a larger machine is trained for: those around the best, of so many gammas."""
    best = between(ranked, grid)
    row, column = (
        int(np.abs(np.log(values) - np.log(value)).argmin())
        for values, value in zip((grid.gammas, grid.boxes), best, strict=True)
    )
    row = max(0, min(row - BELOW, len(grid.gammas) - gammas))
    column = max(0, min(column - 1, len(grid.boxes) - BOXES_FOLLOWED))
    return slice(row, row + gammas), slice(column, column + BOXES_FOLLOWED)


def continued(rough: Float, fine: Float, few: int, many: int, points: int) -> Float:
    """Return the scores of machines of so many points; see step 3 of the module."""
    beyond = max(0.0, many**-LAW - points**-LAW) / (few**-LAW - many**-LAW)
    return np.asarray(fine + beyond * (fine - rough))


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
    sums, weights = np.pad(np.nan_to_num(mean), 1), np.pad(np.isfinite(mean).astype(np.float64), 1)
    for axis in (0, 1):
        sums, weights = (part + 0.5 * (np.roll(part, 1, axis) + np.roll(part, -1, axis)) for part in (sums, weights))
    return np.asarray(sums[1:-1, 1:-1] / np.maximum(weights[1:-1, 1:-1], 0.25))


def between(mean: Float, grid: Grid) -> tuple[float, float]:
    """Return the geometric mean of the values of the best cells."""
    most = BEST if np.isfinite(mean).all() else BEST_OF_FEW
    # Of equals, those inside of a good region.
    order = np.lexsort((-smoothed(mean).ravel(), -np.nan_to_num(mean, nan=-np.inf).ravel()))[:most]
    rows, columns = np.unravel_index(order, mean.shape)
    gamma, box = (
        np.exp(np.log(values).mean()) for values in (np.take(grid.gammas, rows), np.take(grid.boxes, columns))
    )
    return float(gamma), float(box)


def _others(grid: Grid, some: NDArray[np.intp]) -> NDArray[np.intp]:
    return np.setdiff1d(np.arange(len(grid.y)), some)


def _judged(grid: Grid, few: NDArray[np.intp], aside: NDArray[np.intp], cells: Cells) -> Float:
    """Return how good machines of a few points are on others; NaN for cells that were not asked for."""
    Z = np.ascontiguousarray(grid.Z[few])
    weight, outside = (_weight(grid.y, grid.weight, part) for part in (few, aside))
    found = np.full((len(grid.gammas), len(grid.boxes)), np.nan)
    gammas, boxes = grid.gammas[cells[0]], grid.boxes[cells[1]]
    b, intercept = np.zeros((len(gammas), len(boxes), len(few))), np.zeros((len(gammas), len(boxes), 1))
    source = None
    for row, gamma in enumerate(gammas):
        # Of more points all kernel values would take too much memory.
        source = KernelRows(Z, gamma, source) if len(few) <= MANY + RARE else None
        b[row], intercept[row, :, 0] = _path(Z, gamma, source, grid.y[few], weight, boxes, grid)
    values = rough_decisions(Z, grid.Z[aside], gammas, b) + intercept
    found[cells] = [[grid.judge(decision, grid.y[aside], outside) for decision in of_gamma] for of_gamma in values]
    return found


def _weight(y: Signs, weight: Float, chosen: NDArray[np.intp]) -> Float:
    """Return the weights of some points, so that each label keeps its share of the weight, and their mean is 1."""
    label, own = y[chosen], weight[chosen]
    for sign in np.unique(label):
        own[label == sign] *= weight[y == sign].sum() / own[label == sign].sum()
    return np.asarray(own / own.mean(), dtype=np.float64)


def _path(
    Z: Float, gamma: float, source: KernelRows | None, y: Signs, weight: Float, boxes: Sequence[float], grid: Grid
) -> tuple[Float, Float]:
    """Return the coefficients and the intercept of the machine for each box."""
    b, intercept = np.zeros((len(boxes), len(y))), np.full(len(boxes), float(y[0]))
    if np.all(y == y[0]):
        return b, intercept
    tolerance = max(TOLERANCE, grid.tolerance)
    run = Descent(Z, y, boxes[0] * weight, RbfKernel(gamma), tolerance, source=source, rough=True)
    for place, box in enumerate(boxes):
        if place:
            run.scale_boxes(box / boxes[place - 1])
        run.advance(MOST_ITERATIONS)
        b[place:], intercept[place:] = run.b, run.centred_intercept
        # No point is at its box: the machine of every larger one is the same.
        if (np.abs(run.b) < run.high - run.low).all():
            break
    return b, intercept
