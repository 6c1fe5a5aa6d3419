r"""Alpha (or C) and gamma by a grid search on a cut's training set.

A pair of values is as good as the answers that its machines give for points that they did not learn (`judged`):
`svm.tune_scoring` under the weights of the problem, class weights included. With balanced ones the accuracy is the
balanced accuracy. Of more than two labels the machines of all problems have the same values, and the label that they
answer together is judged. One run of the solver goes up the path of the boxes: the dual variables, the boxes and F grow
by the same factor, so that a point at a bound stays there and no kernel value is computed twice.

**By folds** (`by_folds`): the coreset stands for the stream, so its weighted points are dealt into five folds, and the
machines of four folds answer for the fifth. Their boxes are C u for the C of the whole training set, as a usual grid
search has one C for its folds and for its last fit. Each label's points are dealt by falling weight, five to five folds
at random: no fold gets all of the heavy ones. A machine whose label is not in the other four folds answers as one that
is trained on what is there. Of equal means the larger alpha wins, then the smaller gamma. The rule of one standard
error is not used: it would prefer worse machines by as much as a fold varies, and folds share most of that.

**Nested** (`nested`), for an RBF machine of two labels with landmarks, whose training set is large: a search takes a
twentieth to a seventh of a long pass. The values that are best on a thousand points are seldom the best on a hundred
thousand, because the best gamma grows with their number. So a cell is named by gamma and *box*, the largest dual
variable that a point of mean weight may have, and judged by what its score grows to:

1. Up to `MANY` + `JUDGES` points are drawn, of each label its share, but at least `RARE`. Weights make up for a label
   of which more than its share is drawn. `MANY` of the points learn, or `SHARE` of the training set if that is less,
   and all others judge. With larger machines (step 4) as many points judge as the largest machine has.
2. A machine of a fourth of the learning points judges every cell. Then machines of all of them judge a few cells: the
   best box and one on each side, and gammas from one below the best to two above, because the best gamma will grow.
3. The score of each of these is continued to the size of the training set, by s(n) = a - b / n^`LAW` through the two
   sizes. The same points judge both sizes, so that their chance is not multiplied.
4. For a training set of 32,000 points or more, steps 2 and 3 are repeated with one or two larger machines for three
   gammas and three boxes around the best.
5. The choice is the geometric mean of the best cells, which chance moves less than the single best cell.

Where fewer than twice `FEW` points would learn, there is one size. Kernel values are computed once for each gamma, and
runs end at a KKT gap of `TOLERANCE`: decisions are then right but for points whose decision value is smaller than that.

Invariant: a pure function of the cut, the configuration and the seed, whichever cuts came before it and whichever
solver trains; bounded by iterations, never by time. Whether a cut is to be tuned depends on its rows and on the tuning
in force only.

Turned down: choosing on the audit sample, which is independent of the coreset. A thousand points resolve accuracies to
half a point, and the choice by them lost more than a point of cod_rna where that by folds lost a fifth of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamsvm.config import ModelConfig, SvmConfig
from streamsvm.coreset.reduce import Observed, Purpose, generator
from streamsvm.learning.learner import Cut, training_set
from streamsvm.learning.training import Task, kernel_of, scaler_of, task_of
from streamsvm.model import correctness
from streamsvm.model.kernels import Float, Kernel, LinearKernel, RbfKernel
from streamsvm.model.machine import KernelMachine, LinearMachine
from streamsvm.model.version import PartitionCut, partition_cuts
from streamsvm.points import Points, Signs
from streamsvm.svm import additive
from streamsvm.svm.probability import fit_probability, objection
from streamsvm.svm.problem import Problem
from streamsvm.svm.rbf import KernelRows, rough_decisions
from streamsvm.svm.stda import Descent

EVERY_LEAVES: Final = 50
"""A machine is tuned again after so many leaves of `leaf_rows` rows."""
GROWTH: Final = 5.0
"""Growth of a stream that forgets nothing after which a machine with landmarks is tuned again."""
MOST_ITERATIONS: Final = 1_000_000
"""Bound on the steps for one box: a machine that reaches it is judged as it is."""

FOLDS: Final = 5
MOST_POINTS: Final = 5_000
"""A larger training set is reduced to so many points before it is dealt into folds."""
STEPS: Final = (0.01, 0.1, 1.0, 10.0, 100.0)
"""Multiples of the configured alpha or C."""
WIDTHS: Final = (1 / 16, 1 / 4, 1.0, 4.0, 16.0)
"""Multiples of the configured gamma."""

# The nested search.
GAMMAS: Final = (1 / 16, 1 / 4, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0)
"""Multiples of the configured gamma. Kernel values of twice or four times a gamma are squares."""
BOXES: Final = (0.1, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Of a point of mean weight."""
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
"""Share of the training set that a larger machine may have. A search then takes a tenth to a third of the training."""
SHARE: Final = 0.25
"""Share of the training set that `MANY` may be at most, so that the search of a short stream is short, too."""
LEARNING: Final = 0.5
"""Most of the points, and of each label, that learn where others of them judge two sizes; of one, `LEARNING_ALONE`."""
LEARNING_ALONE: Final = 0.8
RARE: Final = 50
"""Fewest points of a label that are drawn; all, if there are fewer. For a machine, the part that learns times this."""
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
"""KKT gap of a run, unless the configured one is larger."""
LEAST_PROBABILITY: Final = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """What was chosen, and where.

    Attributes
    ----------
    alpha, C : float or None
        The one of them that is configured; None where there was nothing to choose by.
    gamma : float or None
        None for the linear kernel, and where there was nothing to choose by.
    cut : tuple of PartitionCut
    rows : int
        Rows seen up to the cut.
    """

    alpha: float | None
    C: float | None
    gamma: float | None
    cut: tuple[PartitionCut, ...]
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
        Standard deviation of it between folds; 0 of a nested search, which has none.
    """

    C: float
    alpha: float
    gamma: float | None
    mean: float
    deviation: float


class Tuned(NamedTuple):
    """A choice, and the scores by which it was made.

    Scores by folds come with alpha falling, for each of them gamma rising; of a nested search first what was chosen.
    There are none where fewer than two labels have a point for each fold: then the configured values stay.
    """

    tuning: Tuning
    scores: tuple[Score, ...]


def is_due(rows: int, tuned_rows: int | None, config: ModelConfig) -> bool:
    """Return whether a cut at so many rows is to be tuned; `tuned_rows` are those of the tuning in force, if any."""
    if config.svm.tune is None or tuned_rows is None:
        return config.svm.tune is not None
    # Landmarks make leaves so short that a search at each fiftieth would cost many times what learning does.
    if config.coreset.landmarks is not None and config.coreset.memory == "all":
        return rows >= GROWTH * tuned_rows
    period = EVERY_LEAVES * config.coreset.leaf_rows
    return rows // period > tuned_rows // period


def tune(cut: Cut, config: ModelConfig) -> Tuned:
    """Choose alpha or C, and gamma of the RBF kernel, at a cut with a point at least, whatever `svm.tune` is."""
    svm, moments, points = config.svm, cut.moments, cut.points
    # Named by its bytes, the training set of an estimator has the same random numbers as that of a daemon's cut.
    words = np.frombuffer(bytes.fromhex(points.sha256()), dtype="<u8")
    name = int(words[0]), int(words[1]), int(words[2])
    # Landmarks may be of pilots that have another kernel.
    is_nested = config.coreset.landmarks is not None and svm.kernel == "rbf"
    random = generator(config.seed, Purpose.TUNE, name)
    if not is_nested:
        points = training_set(points, MOST_POINTS, moments, config, Purpose.CUT, name, Observed())
    points = points.class_weighted(svm.class_weights(moments.class_weight))
    kernel = kernel_of(scaler_of(moments, svm), moments, svm)
    fold = dealt(points, random)  # before a nested search, too: its random numbers come after these
    _, counts = np.unique(points.y, return_counts=True)
    scores, best = tuple[Score, ...](), None
    if np.count_nonzero(counts >= FOLDS) >= 2:
        if isinstance(kernel, RbfKernel) and is_nested:
            scores = nested(points, kernel, random, cut, config)
            best = scores[0]
        else:
            scores = by_folds(points, kernel, fold, cut, config)
            best = max(scores, key=lambda score: score.mean)
    tuning = Tuning(
        alpha=best.alpha if best is not None and svm.C is None else None,
        C=best.C if best is not None and svm.C is not None else None,
        gamma=best.gamma if best is not None else None,
        cut=partition_cuts(cut.positions, cut.leader_epochs),
        rows=cut.learned.rows,
    )
    return Tuned(tuning, scores)


def dealt(points: Points, random: np.random.Generator) -> NDArray[np.int64]:
    """Return the fold of each point; each five of a label that are next to each other by weight go to five folds."""
    fold = np.empty(len(points), np.int64)
    for label in np.unique(points.y):
        own = np.flatnonzero(points.y == label)
        heaviest_first = own[np.argsort(-points.weight[own], kind="stable")]
        hands = -(-len(own) // FOLDS)
        deal = random.permuted(np.tile(np.arange(FOLDS), (hands, 1)), axis=1).ravel()
        fold[heaviest_first] = deal[: len(own)]
    return fold


def by_folds(
    points: Points, kernel: Kernel, fold: NDArray[np.int64], cut: Cut, config: ModelConfig
) -> tuple[Score, ...]:
    """Return the score of each alpha, falling, and gamma, rising, from class-weighted points that are dealt."""
    svm, total = config.svm, cut.moments.weight
    if svm.C is not None:
        penalties = [(1.0 / (step * svm.C * total), step * svm.C) for step in STEPS]
    else:
        configured = svm.DEFAULT_ALPHA if svm.alpha is None else svm.alpha
        alphas = {min(1.0, max(1e-30, step * configured)) for step in STEPS}
        penalties = [(alpha, 1.0 / (alpha * total)) for alpha in sorted(alphas, reverse=True)]
    kernels = [RbfKernel(width * kernel.gamma) for width in WIDTHS] if isinstance(kernel, RbfKernel) else [kernel]
    boxes, shares, left_out = [C for _, C in penalties], [], []
    for out in range(FOLDS):
        others, own = points.take(fold != out), points.take(fold == out)
        # One kernel at a time: with many labels, the decision values of all would take too much memory.
        shares.append([judged(others, own, [one], boxes, cut, config)[0] for one in kernels])
        left_out.append(own.weight.sum())
    mean, deviation = np.average(shares, axis=0, weights=left_out), np.std(shares, axis=0)
    return tuple(
        Score(C, alpha, getattr(one, "gamma", None), float(mean[row, step]), float(deviation[row, step]))
        for step, (alpha, C) in enumerate(penalties)
        for row, one in enumerate(kernels)
    )


def nested(
    points: Points, kernel: RbfKernel, random: np.random.Generator, cut: Cut, config: ModelConfig
) -> tuple[Score, ...]:
    """Return the choice, with the mean of the best cell, and the other cells of the last size; see the module."""
    n, total = len(points), cut.moments.weight
    gammas, boxes = [width * kernel.gamma for width in GAMMAS], list(BOXES)
    largest = min(LAST_RUNG, int(PART * n))
    rungs = (RUNG, largest)[: (largest >= RUNG) + (largest >= 2 * RUNG)]
    points = subset(points, drawn(points.y, max(MANY + JUDGES, 2 * max(rungs, default=0)), random))
    y, size = points.y, min(MANY, int(SHARE * n), int(LEARNING * len(points)))
    if size < 2 * FEW:
        members = [drawn(y, min(FEW, int(LEARNING_ALONE * len(y))), random, LEARNING_ALONE)]
    else:
        sizes = (size, *(rung for rung in rungs if rung <= LEARNING * (len(y) + 2)))
        members = [drawn(y, sizes[-1], random, LEARNING)]
        for smaller in reversed(sizes[:-1]):
            members.append(members[-1][drawn(y[members[-1]], smaller, random)])
    judges = subset(points, np.setdiff1d(np.arange(len(y)), members[0]))

    def scores_of(learning: NDArray[np.intp], rows: slice = slice(None), columns: slice = slice(None)) -> Float:
        """Return the scores of cells, shape (gammas, boxes); NaN for the others."""
        found = np.full((len(gammas), len(boxes)), np.nan)
        kernels = [RbfKernel(gamma) for gamma in gammas[rows]]
        found[rows, columns] = judged(subset(points, learning), judges, kernels, boxes[columns], cut, config)
        return found

    if size < 2 * FEW:
        ranked = mean = scores_of(members[0])
    else:
        for step, many in enumerate(reversed(members)):
            few = many[drawn(y[many], len(many) // 4, random)]
            if step == 0:
                ranked = rough = scores_of(few)
            followed = GAMMAS_FOLLOWED if step == 0 else GAMMAS_OF_A_RUNG
            gamma, box = mean_of_best(ranked, gammas, boxes)
            row = int(np.abs(np.log(gammas) - np.log(gamma)).argmin()) - BELOW
            column = int(np.abs(np.log(boxes) - np.log(box)).argmin()) - 1
            row, column = max(0, min(row, len(gammas) - followed)), max(0, min(column, len(boxes) - BOXES_FOLLOWED))
            cells = slice(row, row + followed), slice(column, column + BOXES_FOLLOWED)
            if step > 0:
                rough = scores_of(few, *cells)
            mean = scores_of(many, *cells)
            growth = max(0.0, len(many) ** -LAW - n**-LAW) / (len(few) ** -LAW - len(many) ** -LAW)
            ranked = mean + growth * (mean - rough)
    # Of equals the cell of the smaller box, then of the smaller gamma.
    column, row = divmod(int(np.nanargmax(ranked.T)), len(gammas))
    found = [(*mean_of_best(ranked, gammas, boxes), mean[row, column])]
    mean[row, column] = np.nan
    found += [(gammas[row], boxes[column], mean[row, column]) for column, row in np.argwhere(np.isfinite(mean.T))]
    return tuple(Score(n * box / total, 1.0 / (box * n), gamma, float(share), 0.0) for gamma, box, share in found)


def judged(
    learning: Points, judges: Points, kernels: Sequence[Kernel], boxes: Sequence[float], cut: Cut, config: ModelConfig
) -> Float:
    """Return how good the machines of some points are for others, shape (kernels, boxes); all are class-weighted."""
    scaler, task = scaler_of(cut.moments, config.svm), task_of(config)
    problems = Task(task.classes, task.machine_config(config.svm)).problems(learning, cut.moments)  # weighted already
    Z = np.ascontiguousarray(scaler.transform(judges.X))
    values = np.empty((len(kernels), len(boxes), len(Z), len(problems)))
    for column, (own, _) in enumerate(problems):
        values[..., column] = decisions(np.ascontiguousarray(scaler.transform(own.X)), own, Z, kernels, boxes, config)
    return np.array([[judge(cell, judges, config) for cell in of_kernel] for of_kernel in values])


def decisions(
    Z: Float, points: Points, others: Float, kernels: Sequence[Kernel], boxes: Sequence[float], config: ModelConfig
) -> Float:
    """Return the decision values of others, shape (kernels, boxes, n), by the machines of points, with C_i = C u_i.

    Z are the points' features, scaled as the others are. With landmarks the machines are solved roughly.
    """
    y, is_rough = points.y, config.coreset.landmarks is not None and config.svm.kernel == "rbf"
    values = np.empty((len(kernels), len(boxes), len(others)))
    if np.all(y == y[:1]):
        # One label, or no point: the optimum is w = 0, with the intercept at that label.
        values[:] = float(y[0]) if len(y) else 0.0
        return values
    if config.svm.kernel == "additive":
        values[0] = _additive(Z, points, others, boxes, config.svm)
        return values
    b, intercept = np.empty((len(kernels), len(boxes), len(y))), np.empty((len(kernels), len(boxes), 1))
    upper, source = boxes[0] * points.weight, None
    tolerance = max(TOLERANCE, config.svm.tolerance) if is_rough else config.svm.tolerance
    for row, kernel in enumerate(kernels):
        # Of more points, all kernel values would take too much memory.
        if is_rough and isinstance(kernel, RbfKernel) and len(y) <= MANY + RARE:
            source = KernelRows(Z, kernel.gamma, source)
        run = Descent(Z, y, upper, kernel, tolerance, source=source, rough=is_rough, loss=config.svm.margin_loss)
        for step, box in enumerate(boxes):
            if step > 0:
                run.scale_boxes(box / boxes[step - 1])
            run.advance(MOST_ITERATIONS)
            bias, w = run.intercept, run.coefficients
            b[row, step:], intercept[row, step:] = run.b, bias
            if is_rough:
                # If no point is at its box, the machine of every larger box is the same.
                if config.svm.margin_loss == "hinge" and (np.abs(run.b) < run.high - run.low).all():
                    break
            elif w is not None:
                values[row, step] = LinearMachine(w, bias).decide(others)
            elif isinstance(kernel, RbfKernel):
                support = np.flatnonzero(run.b)
                values[row, step] = KernelMachine(kernel, Z[support], run.b[support], bias).decide(others)
    if is_rough:
        gammas = [kernel.gamma for kernel in kernels if isinstance(kernel, RbfKernel)]
        values[:] = rough_decisions(Z, others, gammas, b) + intercept
    return values


def _additive(Z: Float, points: Points, others: Float, boxes: Sequence[float], svm: SvmConfig) -> Float:
    """Return the decision values of others by additive machines, shape (boxes, n); the middle box's pairs are all's."""
    values, chosen, middle = np.empty((len(boxes), len(others))), None, len(boxes) // 2
    for step in (middle, *(step for step in range(len(boxes)) if step != middle)):
        problem = Problem(
            Z=Z,
            y=points.y,
            upper=boxes[step] * points.weight,
            kernel=LinearKernel(),
            tolerance=svm.tolerance,
            max_iterations=MOST_ITERATIONS,
            loss=svm.margin_loss,
        )
        machine, *_ = additive.solved(problem, points.weight, chosen)
        values[step] = machine.decide(others)
        chosen = machine if step == middle else chosen
    return values


def judge(values: Float, points: Points, config: ModelConfig) -> float:
    """Return what `svm.tune_scoring` measures of decision values, shape (n, n_machines); the greater, the better.

    Both labels are among the points, unless the answers are measured. `log_loss` is that of the sigmoid that fits the
    points best, and `cost` the mean cost at the best threshold; both are negated.
    """
    scoring, y, weight = config.svm.tune_scoring, points.y, points.weight
    if scoring in ("accuracy", "balanced_accuracy"):
        said = correctness.answers(values[:, 0]) if config.points.classes == 2 else task_of(config).answers(values)
        measure = correctness.accuracy if scoring == "accuracy" else correctness.balanced_accuracy
        return measure(said, y, weight)
    from sklearn.metrics import log_loss, roc_auc_score, roc_curve

    if scoring == "log_loss":
        if objection(values[:, 0], y):
            return -float(np.log(2.0))
        positive = fit_probability(values[:, 0], y, weight).of(values[:, 0])
        return -float(log_loss(y, np.clip(positive, LEAST_PROBABILITY, 1.0 - LEAST_PROBABILITY), sample_weight=weight))
    decision = np.nan_to_num(values[:, 0])
    if scoring == "auc":
        return float(roc_auc_score(y, decision, sample_weight=weight))
    assert config.svm.cost is not None
    missed, alarm = config.svm.cost
    false_alarms, found, _ = roc_curve(y, decision, sample_weight=weight)
    costs = missed * weight[y > 0].sum() * (1.0 - found) + alarm * weight[y < 0].sum() * false_alarms
    return -float(costs.min() / weight.sum())


def subset(points: Points, chosen: NDArray[np.intp]) -> Points:
    """Return the chosen points under weights of mean 1, each label with the share of the weight that it has in all."""
    some = points.take(chosen)
    weight = some.weight.copy()
    for label in np.unique(some.y):
        weight[some.y == label] *= points.weight[points.y == label].sum() / weight[some.y == label].sum()
    return some.reweighted(weight / weight.mean())


def drawn(y: Signs, most: int, random: np.random.Generator, share: float = 1.0) -> NDArray[np.intp]:
    """Draw about `most` points, of each label in proportion to its number; return their places, ascending.

    Of a rare label `share` times `RARE` points are drawn, or a fourth of `most` if that is less; but of no label more
    than `share` of its points.
    """
    chosen = []
    for label in np.unique(y):
        own = np.flatnonzero(y == label)
        size = max(min(share * RARE, most / 4), most * len(own) / len(y))
        chosen.append(random.permutation(own)[: round(min(share * len(own), size))])
    return np.sort(np.concatenate(chosen))


def mean_of_best(scores: Float, gammas: Sequence[float], boxes: Sequence[float]) -> tuple[float, float]:
    """Return the geometric means of the gammas and of the boxes of the best cells.

    Scores have the shape (gammas, boxes), and are NaN for cells that were not judged.
    """
    # Of equals, those inside of a good region: by the mean with the neighbours, where one at a side counts half, one at
    # a corner a fourth.
    sums, weights = np.pad(np.nan_to_num(scores), 1), np.pad(np.isfinite(scores).astype(np.float64), 1)
    for axis in (0, 1):
        sums, weights = (one + 0.5 * (np.roll(one, 1, axis) + np.roll(one, -1, axis)) for one in (sums, weights))
    smoothed = sums[1:-1, 1:-1] / np.maximum(weights[1:-1, 1:-1], 0.25)
    most = BEST if np.isfinite(scores).all() else BEST_OF_FEW
    order = np.lexsort((-smoothed.ravel(), -np.nan_to_num(scores, nan=-np.inf).ravel()))[:most]
    rows, columns = np.unravel_index(order, scores.shape)
    gamma, box = np.log(np.take(gammas, rows)).mean(), np.log(np.take(boxes, columns)).mean()
    return float(np.exp(gamma)), float(np.exp(box))
