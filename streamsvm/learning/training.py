"""From a training set to a model: standardise, set C, solve, measure, audit. Pure functions; may run in any thread.

A `Task` says which problems of two classes the labels of a stream pose: to separate two, each of several from the rest,
or each pair. All machines are trained on the points of one structure. Partitions, leaves, cuts and checkpoints are the
same for all.

`streamsvm.learning.recipe.make` calls these functions for each machine of a version. To read: `train`, which is one
training from top to bottom. It turns raw points and exact moments into the problem that a solver takes
(`streamsvm.svm.problem`), and the solution into a `Model` whose scaler stands in front of its decision function.

The scaler comes from the moments of *all* rows up to the cut, and not from the training set: it then has no error of
sampling. The same moments give the total weight U in C = 1 / (alpha U), so that C falls as the stream grows and the
machine does not depend on how many points the training set has.

Audit: the training set was chosen, so the loss on it flatters. `audited` estimates the objective over the whole stream
on the audit sample, which is drawn without the coreset.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.choices import Loss
from streamsvm.config import ModelConfig, SvmConfig, support_vector_bytes
from streamsvm.coreset.audit import Sampled, estimate, represented
from streamsvm.coreset.buckets import Moments
from streamsvm.coreset.reduce import Purpose, generator
from streamsvm.model.additive import AdditiveMachine
from streamsvm.model.classes import AnyModel, joined, label_values, pairs_of
from streamsvm.model.deciles import Deciles, deciles_of
from streamsvm.model.described import MOST_LABELS
from streamsvm.model.fit import Audit, Fit
from streamsvm.model.kernels import Float, Kernel, LinearKernel, RbfKernel
from streamsvm.model.machine import KernelMachine, LinearMachine, Machine, Model, Packing, Scaler
from streamsvm.model.packing import MOST_ENTRIES, Grid
from streamsvm.points import Points
from streamsvm.svm import additive, stda
from streamsvm.svm.landmarks import decisions, fewer_terms
from streamsvm.svm.probability import fit_probability, objection
from streamsvm.svm.problem import Problem, losses, primal_objective
from streamsvm.svm.threshold import fit_threshold, halves

LEAST_ITERATIONS: Final = 10_000_000
ITERATIONS_A_POINT: Final = 10_000
"""After so many, or the least number, a machine counts as not converged: many times what any took that converged."""


MOST_MACHINES: Final = 5
"""Number of machines that answer for a label of which all training points are left out in turn: each is trained on four
fifths of them. If only a share of the label's points is left out, there are fewer in proportion."""
LEARNED_AT: Final = 10
"""A row that an audit sample has so often is learned like a label's share, not known by heart: it is not left out. A
machine that never saw a common row would answer for one that did."""


MOST_CLASSES = MOST_LABELS


@dataclass(frozen=True, slots=True)
class Task:
    """Separate the labels of points.

    Attributes
    ----------
    classes : int
        2, whose `Points.y` are signs, or more, whose are indices; at most `MOST_CLASSES`.
    svm : SvmConfig
        Its class weights, and for more than two labels its `multiclass`: a machine for each label, or for each pair,
        in the order (0, 1), (0, 2), ..., (1, 2), ..., where +1 is the later one. All have the penalty, the scaler and
        the class weights of the whole, as in scikit-learn's SVC.
    """

    classes: int
    svm: SvmConfig

    @property
    def in_pairs(self) -> bool:
        """Whether there is a machine for each pair of labels."""
        return self.classes > 2 and self.svm.multiclass == "one_vs_one"

    def problems(self, points: Points, seen: Moments) -> tuple[tuple[Points, Moments], ...]:
        """Return the problem of two labels of each machine, with its moments; a pair's may be without points.

        Of more than two labels the points are multiplied by their class weights; see `machine_config`.
        """
        if self.classes == 2:
            return ((points, seen),)
        weighed = points.class_weighted(self.svm.class_weights(seen.class_weight))
        if not self.in_pairs:
            return tuple((weighed.against_the_rest(one), seen.against_the_rest(one)) for one in range(self.classes))
        whole = seen.against_the_rest(0)
        of_class = [np.flatnonzero(points.y == label) for label in range(self.classes)]
        return tuple(
            (weighed.take(np.sort(np.concatenate((of_class[i], of_class[j])))).against_the_rest(j), whole)
            for i, j in pairs_of(self.classes)
        )

    def samples(self, audit: Sequence[Sampled]) -> tuple[Sequence[Sampled], ...]:
        """Return the audit sample of each problem, points as they came."""
        if self.classes == 2:
            return (audit,)
        if self.in_pairs:
            return tuple([part.of_pair(i, j) for part in audit] for i, j in pairs_of(self.classes))
        return tuple([part.against_the_rest(label) for part in audit] for label in range(self.classes))

    def machine_config(self, svm: SvmConfig) -> SvmConfig:
        """Return the configuration of each machine: without class weights where `problems` has applied them already."""
        if self.classes == 2:
            return svm
        # One C for all machines: what a version says of its penalty is said of each.
        alpha = svm.alpha if svm.alpha or svm.C else svm.DEFAULT_ALPHA
        return svm.model_copy(update={"class_weight": "none", "alpha": alpha})

    def answers(self, values: NDArray[np.float64]) -> NDArray[np.int8]:
        """Return what is answered, as in `Points.y`, by decision values of shape (n, n_machines); -1, or the first."""
        if self.classes == 2:
            return np.where(values[:, 0] > 0.0, 1, -1).astype(np.int8)
        return np.asarray(
            label_values(values, self.classes, self.svm.multiclass or "one_vs_rest").argmax(axis=1), np.int8
        )

    def whole(self, audit: Sequence[Sampled]) -> Sequence[Sampled]:
        """Return the whole audit sample as one of two strata: of more than two labels, the first against the rest."""
        return audit if self.classes == 2 else [part.against_the_rest(0) for part in audit]

    def model(self, models: Sequence[Model]) -> AnyModel:
        """Return what a version holds, of the model of each problem."""
        return models[0] if self.classes == 2 else joined(models, self.classes, self.svm.multiclass or "one_vs_rest")


def task_of(config: ModelConfig) -> Task:
    """Return the task of a configuration's labels."""
    return Task(config.points.classes, config.svm)


@dataclass(frozen=True, slots=True)
class Trained:
    """A model and how it came to be.

    Attributes
    ----------
    model : Model
    fit : Fit
    squared_norm : float
        |w|^2, in the space of the kernel.
    no_probability : str
        Why the model has no probabilities though they are configured; empty otherwise.
    """

    model: Model
    fit: Fit
    squared_norm: float
    no_probability: str = ""


def train(points: Points, moments: Moments, config: SvmConfig, like: AdditiveMachine | None = None) -> Trained:
    """Train on weighted raw points.

    Parameters
    ----------
    points : Points
        At least one.
    moments : Moments
        Of the whole stream up to the cut, for the scaler, for the weight U in C = 1 / (alpha U), and for balanced
        class weights.
    config : SvmConfig
    like : AdditiveMachine, optional
        Of an additive machine: whose knots and pairs it has.

    Notes
    -----
    With one label only, the optimum is w = 0 with the intercept at that label: every hinge loss is 0.
    """
    scaler = scaler_of(moments, config)
    Z, kernel = scaler.transform(points.X), kernel_of(scaler, moments, config)
    grid = Grid.of(Z, kernel.gamma) if config.packed and isinstance(kernel, RbfKernel) else None
    if grid is not None:  # before training: the support vectors are then those that are published
        Z = grid.rounded(Z)
    penalty, class_weight = config.penalty(moments.weight), config.class_weights(moments.class_weight)
    upper = penalty * points.class_weighted(class_weight).weight
    problem = Problem(
        Z=Z,
        y=points.y,
        upper=upper,
        kernel=kernel,
        tolerance=config.tolerance,
        max_iterations=max(LEAST_ITERATIONS, ITERATIONS_A_POINT * len(points)),
        loss=config.margin_loss,
    )
    machine: Machine
    if config.kernel == "additive":
        is_free = not (config.alpha or config.C or config.tune)
        machine, solution, part = additive.solved(problem, points.weight, like, is_free=is_free)
        penalty *= part
    else:
        solution = stda.solve(problem)
    support = np.flatnonzero(solution.alpha)
    if isinstance(kernel, RbfKernel):
        dual = points.y[support] * solution.alpha[support]
        machine = KernelMachine(kernel, Z[support], dual, solution.intercept)
    elif config.kernel == "linear":
        assert solution.coefficients is not None
        machine = LinearMachine(solution.coefficients, solution.intercept)
    fit = Fit(
        C=penalty,
        gamma=kernel.gamma if isinstance(kernel, RbfKernel) else None,
        points=len(points),
        weight=float(points.weight.sum()),
        support_vectors=len(support),
        objective=solution.primal,
        dual_objective=solution.dual,
        kkt_gap=solution.kkt_gap,
        iterations=solution.iterations,
        converged=solution.converged,
        class_weight=class_weight,
    )
    trained = Trained(Model(scaler, machine), fit, solution.squared_norm)
    return _as_published(trained, problem, points.weight, config, grid) if isinstance(kernel, RbfKernel) else trained


def untrained(moments: Moments, config: SvmConfig) -> Trained:
    """Return the machine of a problem without points: it decides 0 everywhere.

    Parameters
    ----------
    moments : Moments
        As of `train`.
    config : SvmConfig
    """
    scaler = scaler_of(moments, config)
    kernel, d = kernel_of(scaler, moments, config), len(scaler.mean)
    machine: Machine = LinearMachine(np.zeros(d), 0.0)
    if config.kernel == "additive":
        nothing = (np.empty(0),) * d
        machine = AdditiveMachine(nothing, nothing, (), 0.0)
    if isinstance(kernel, RbfKernel):
        machine = KernelMachine(kernel, np.zeros((0, d)), np.zeros(0), 0.0)
    fit = Fit(
        C=config.penalty(moments.weight),
        gamma=kernel.gamma if isinstance(kernel, RbfKernel) else None,
        points=0,
        weight=0.0,
        support_vectors=0,
        objective=0.0,
        dual_objective=0.0,
        kkt_gap=0.0,
        iterations=0,
        converged=True,
    )
    return Trained(Model(scaler, machine), fit, 0.0)


def audited(trained: Trained, sample: Sequence[Sampled], loss: Loss) -> Audit | None:
    """Estimate a model's objective over the whole stream; None if the audit sample has no points.

    Parameters
    ----------
    trained : Trained
    sample : sequence of Sampled
        Of the cut that the model was trained at, one a partition.
    loss : Loss
        That of the training.
    """
    if not any(len(part.points) for part in sample):
        return None
    points, decision = _answered(trained, sample)
    negative, positive = trained.fit.class_weight
    own = np.where(points.y > 0, positive, negative) * losses(decision, points.y, loss)
    totals = estimate(sample, own, boundary=max(negative, positive))
    objective, low, high = (0.5 * trained.squared_norm + trained.fit.C * total for total in totals)
    return Audit(objective, low, high, len(points))


def audit_scores(model: AnyModel, sample: Sequence[Sampled]) -> Deciles | None:
    """Return how the decision values of the audit sample lie; None where it is too small for that.

    Of more than two labels a point counts by its greatest value: that of its answer.

    It is of rows, whatever their weights, as scores are: each point of the sample counts for the rows that it stands
    for. Points of the sample may be in the training set, too: scores of a machine that overfits lie apart from these.

    Parameters
    ----------
    model : Model or ClassModel
    sample : sequence of Sampled
        Of the cut that the model was trained at, one a partition; of more than two labels in two strata.
    """
    if not any(len(part.points) for part in sample):
        return None
    points = Points.union([part.points for part in sample])
    decision = model.strength(model.decision_function(points.X))
    own = points.weight.astype(np.float64)
    rows = np.divide(represented(sample), own, out=np.zeros(len(own)), where=own > 0.0)
    return deciles_of(np.asarray(decision, np.float64), rows)


TrainFunction = Callable[[Points, Moments, SvmConfig], Trained]
"""Solves one problem of two classes. Tests replace it with something slow or broken."""


def held_out(
    trained: Trained,
    points: Points,
    moments: Moments,
    config: SvmConfig,
    sample: Sequence[Sampled],
    seed: int,
    train: TrainFunction = train,
) -> NDArray[np.float64]:
    """Return the decision value of each point of a sample, by the machine, or by one that was not trained on the point.

    A machine that overfits answers what it was trained on better, and farther from 0, than what is to come: a
    probability or a threshold would be fitted to decision values that no point to come has. In a short stream all of
    the sample is in the training set, in a long one all of a rare label. So machines of the rest answer these points:
    as many as leave each of them most of either label, in a long stream of common labels one.

    Parameters
    ----------
    trained : Trained
    points, moments, config
        What it was trained on, by `train`.
    sample : sequence of Sampled
        Of the cut that the model was trained at, one a partition.
    seed : int
        Of the lot that says which points are left out together.
    train : callable
    """
    audited, decision = _answered(trained, sample)
    place: dict[bytes, int] = {}
    row = np.array([place.setdefault(x.tobytes(), len(place)) for x in audited.X], np.int64)
    of_training = np.array([place.get(x.tobytes(), -1) for x in points.X], np.int64)
    known = np.unique(of_training[of_training >= 0])
    known = known[np.bincount(row, minlength=len(place))[known] < LEARNED_AT]
    left_out, is_positive = np.isin(of_training, known), points.y > 0
    machines = max(
        -(-MOST_MACHINES * int(np.count_nonzero(left_out & own)) // max(1, int(np.count_nonzero(own))))
        for own in (is_positive, ~is_positive)
    )
    if not machines:
        return decision
    # Half of the labels must not fall to one machine: dealt by lot, one label after the other.
    label = np.zeros(len(place), np.int8)
    label[row] = audited.y
    dealt = generator(seed, Purpose.THRESHOLD, (1, 0, 0)).permutation(known)
    turn = np.full(len(place) + 1, -1, np.int64)  # the last one is that of points which the sample does not have
    turn[dealt[np.argsort(label[dealt], kind="stable")]] = np.arange(len(dealt)) % machines
    if isinstance(trained.model.machine, AdditiveMachine):  # pairs are not chosen once more
        train = partial(_train_like, trained)
    for one in range(machines):
        kept = points.take(turn[of_training] != one)
        if not len(kept):
            continue
        weight = kept.weight.copy()
        for code in np.unique(kept.y):  # each label weighs what it weighed
            weight[kept.y == code] *= points.weight[points.y == code].sum() / weight[kept.y == code].sum()
        model = train(kept.reweighted(weight), moments, config).model
        out = turn[row] == one
        decision[out] = model.decision_function(audited.X[out])
    return decision


def _train_like(trained: Trained, points: Points, moments: Moments, config: SvmConfig) -> Trained:
    machine = trained.model.machine
    assert isinstance(machine, AdditiveMachine)
    return train(points, moments, config.model_copy(update={"alpha": None, "C": trained.fit.C}), machine)


def with_probability(
    trained: Trained,
    sample: Sequence[Sampled],
    config: SvmConfig,
    decision: NDArray[np.float64] | None = None,
) -> Trained:
    """Return the same with the configured probabilities in its model, or why it has none.

    They are of the whole stream up to the cut: each point of the audit sample counts for what it stands for, so that
    each label has its weight in the stream, without class weights.

    Parameters
    ----------
    trained : Trained
    sample : sequence of Sampled
        Of the cut that the model was trained at, one a partition.
    config : SvmConfig
        That of the training.
    decision : ndarray of shape (n,), optional
        Of `held_out`; by default the machine's own, though the points may be in its training set.
    """
    if config.probability is None:
        return trained
    if not any(len(part.points) for part in sample):
        return replace(trained, no_probability="the audit sample is empty")
    points, own = _answered(trained, sample)
    decision = own if decision is None else decision
    if reason := objection(decision, points.y):
        return replace(trained, no_probability=reason)
    probability = fit_probability(decision, points.y, represented(sample))
    return replace(trained, model=replace(trained.model, probability=probability))


def with_rough_probability(trained: Trained, sample: Sequence[Sampled]) -> Trained:
    """Return the same with a sigmoid of fewer points than a version's needs; unchanged where a label has none.

    For an estimator, which is asked for probabilities whatever came: Platt's targets keep the sigmoid of a single point
    of each label finite. Arguments are those of `with_probability`.
    """
    if not trained.no_probability or not any(len(part.points) for part in sample):
        return trained
    points, decision = _answered(trained, sample)
    if not -len(points) < int(points.y.sum(dtype=np.int64)) < len(points) or not np.isfinite(decision).all():
        return trained
    probability = fit_probability(decision, points.y, represented(sample))
    return replace(trained, model=replace(trained.model, probability=probability))


def with_threshold(
    trained: Trained,
    sample: Sequence[Sampled],
    config: SvmConfig,
    seed: int,
    decision: NDArray[np.float64],
) -> Trained:
    """Return the same with the configured threshold in its model, if there is one.

    It is of the whole stream up to the cut, as probabilities are; see `with_probability`.

    Parameters
    ----------
    trained : Trained
    sample : sequence of Sampled
        Of the cut that the model was trained at, one a partition.
    config : SvmConfig
        That of the training.
    seed : int
        Of the lot that divides the sample in halves.
    decision : ndarray of shape (n,)
        Of `held_out`.
    """
    if config.goal is None:
        return trained
    points = Points.union([part.points for part in sample])
    chosen_by = halves(points.y, generator(seed, Purpose.THRESHOLD, (0, 0, 0)))
    threshold = fit_threshold(*config.goal, decision, points.y, represented(sample), chosen_by)
    return replace(trained, model=replace(trained.model, threshold=threshold))


def _answered(trained: Trained, sample: Sequence[Sampled]) -> tuple[Points, NDArray[np.float64]]:
    """Return the points of a sample, partition after partition, and the decision value of each."""
    points, model = Points.union([part.points for part in sample]), trained.model
    return points, model.machine.decide(model.scaler.transform(points.X))


def warm_up(config: SvmConfig, say: Callable[[str], None] = lambda _: None) -> None:
    """Compile, or load from numba's file cache, what `train` runs; `say` is called before each part."""
    stda.warm_up(RbfKernel(1.0) if config.kernel == "rbf" else LinearKernel(), say)
    points = Points(np.array([[0.0], [1.0]]), np.array([-1, 1], np.int8), np.ones(2))
    train(points, Moments.zero(1).add(points), config)


def scaler_of(moments: Moments, config: SvmConfig) -> Scaler:
    """Return the scaler of a model, or of a pilot, of everything that the moments are of.

    Features that are not standardised lose their mean all the same: the machine stays the same, since its bias has no
    penalty and distances have no origin; but products of rows far from the origin keep no digit of their differences.
    """
    if not config.standardize:
        return Scaler(moments.mean, np.ones(len(moments.mean)))
    return Scaler.standard(moments.mean, moments.square / moments.weight)


def kernel_of(scaler: Scaler, moments: Moments, config: SvmConfig) -> Kernel:
    """Return the configured kernel; gamma follows the stream's moments, not the few points that stand for it."""
    if config.kernel != "rbf":
        return LinearKernel()
    if isinstance(config.gamma, float):
        return RbfKernel(config.gamma)
    variance = 1.0
    if config.gamma == "scale":
        # As of features that were not moved: of raw ones the means take part, as in scikit-learn.
        mean = (moments.mean - scaler.mean) / scaler.scale if config.standardize else moments.mean
        square = moments.square / (moments.weight * scaler.scale**2)
        variance = float(square.mean() + mean.var())
    return RbfKernel(1.0 / (len(moments.mean) * (variance or 1.0)))


def _as_published(whole: Trained, problem: Problem, weight: Float, config: SvmConfig, grid: Grid | None) -> Trained:
    """Return a kernel machine with the number of terms, and the bits of each number, with which it is published.

    Rounding the dual coefficients moves their sum, and with large boxes the decisions by more than their own size.
    Where the objective shows that, the machine stays in double precision, with as many landmarks as then fit into a
    message.
    """
    machine = whole.model.machine
    assert isinstance(machine, KernelMachine)
    terms, fewer = len(machine.dual), whole
    most = config.landmarks
    if grid is not None and most is None:
        room = config.packed_bytes(len(grid.bits)) * 3 // 4
        most = max(2, min(room // (grid.vector_bytes + 4), MOST_ENTRIES // len(grid.bits)))
    if most is not None and terms > most:
        fewer, _ = _measured(whole, fewer_terms(machine, problem.Z, problem.y, weight, most), problem)
    if grid is None:
        return fewer
    unrounded = fewer.model.machine
    assert isinstance(unrounded, KernelMachine)
    packed = unrounded.packed(Packing(grid, terms, 0.0, 0.0))
    if packed is not unrounded:
        rounded, error = _measured(whole, packed, problem)
        if not rounded.fit.objective > fewer.fit.objective + config.tolerance * abs(fewer.fit.objective):
            whole_error = error if len(unrounded.dual) == terms else _measured(whole, machine, problem)[1]
            packing = Packing(grid, terms, whole_error, error)
            return replace(rounded, model=replace(rounded.model, machine=replace(packed, packing=packing)))
    d = problem.Z.shape[1]
    most = max(2, config.packed_bytes(d) // support_vector_bytes(d))
    if len(unrounded.dual) <= most:
        return fewer
    return _measured(whole, fewer_terms(machine, problem.Z, problem.y, weight, most), problem)[0]


def _measured(whole: Trained, machine: KernelMachine, problem: Problem) -> tuple[Trained, float]:
    """Replace a trained machine by one of other terms, and compute its objective and norm.

    Returns also the share of sum C u that belongs to the points which it answers wrongly. The dual objective of the
    trained machine is a lower bound for the other one, too. The KKT gap stays if terms were only rounded.
    """
    decision = decisions(machine, problem.Z)
    norm = max(0.0, float(machine.dual @ decisions(replace(machine, intercept=0.0), machine.support)))
    fit = replace(
        whole.fit,
        support_vectors=len(machine.dual),
        objective=primal_objective(decision, problem.y, problem.upper, norm, problem.loss),
        kkt_gap=whole.fit.kkt_gap if len(machine.dual) == whole.fit.support_vectors else None,
    )
    is_wrong = (decision > 0.0) != (problem.y > 0)
    error = float(problem.upper[is_wrong].sum() / problem.upper.sum())
    return replace(whole, model=replace(whole.model, machine=machine), fit=fit, squared_norm=norm), error
