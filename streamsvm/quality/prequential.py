"""Prequential quality: every point is scored by the model of the moment before any model has learned it.

The figures tell what a reader of `current` gets now: they are of the newest points, each scored by the version that was
current when the point came, and no version that scored a point had learned it. The model is compared with two
scorers that need no coreset: plain SGD on a small share of the stream, and the more frequent label. A model that does
not beat them is not worth its memory.

The baseline takes the steps of scikit-learn's SGDClassifier with the hinge loss and a constant rate, so that it
forgets, on features standardised by what it learned so far; of several rates, the one that lately did best answers. It
learns every 64th point, and is scored on the others.
The steps are our own because a call of `partial_fit` takes as long as some thousand of them; its steps are the oracle.

Invariants: a scorer never scores a point that it has learned; figures never enter a version, its hash or a checkpoint,
so that after a restart they begin with nothing. They depend on the points, their order and the models only, up to
rounding; a kernel machine of many support vectors scores every k-th point only (`stride_of`).

Source: Dawid 1984 (the prequential approach); Gama, Sebastiao and Rodrigues 2013 (over a sliding window).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from streamsvm.compiling import njit
from streamsvm.coreset.buckets import add_in_order
from streamsvm.model.machine import LinearMachine, Model
from streamsvm.points import Points
from streamsvm.quality.skill import Answered

SCORERS: Final = ("model", "sgd", "majority")
WINDOW_POINTS: Final = 10_000
BASELINE_EVERY: Final = 64
"""The baseline learns one point in so many: a few per cent of the learning time. One value for all trainers, so that
their figures can be compared; a smaller one takes more time, a larger one makes the baseline a worse yardstick."""
BASELINE_BATCH: Final = 16
"""Points that the baseline learns at a time, so that it is asked about many at a time."""
BASELINE_RATES: Final = (0.001, 0.003, 0.01, 0.03, 0.1)
MEMORY: Final = 0.99
"""Of a machine's losses, a batch: what was a hundred batches ago counts a third."""
BASELINE_ALPHA: Final = 1e-4
EPSILON: Final = float(np.finfo(np.float64).eps)
FARTHEST_SD: Final = 10.0
"""Where a feature is clipped for the baseline, in standard deviations: one wild point must not end it."""
GREATEST_SHARE: Final = 100.0
"""Most that a point weighs for the baseline, in mean weights."""
MOST_KERNELS: Final = 16
"""Kernel values a point of the stream, on average, that scoring may take."""

Values = NDArray[np.float64]
ClassWeight = Literal["none", "balanced"] | tuple[float, float]


@dataclass(frozen=True, slots=True)
class Quality:
    """How well a scorer did on the window; every point counts by its weight.

    Attributes
    ----------
    points : int
        Points of the window that it scored.
    accuracy : float
        Share of the weight that is answered right.
    balanced_accuracy : float or None
        Mean of that share over the two labels; None while a label is missing.
    hinge_loss : float or None
        Mean of max(0, 1 - y f(x)); None of what has no decision value.
    """

    points: int
    accuracy: float
    balanced_accuracy: float | None
    hinge_loss: float | None


class Prequential:
    """Scores points as they come, and remembers how the newest were answered.

    Parameters
    ----------
    dimension : int
    window : int
        Points that the figures are of.
    baseline_every : int
        The baseline learns one point in so many; 0: there is none.
    class_weight : "none", "balanced" or two numbers
        As the model's, so that the baseline is asked for the same: factors for the weights of negative and positive
        points in what it learns.
    """

    def __init__(
        self,
        dimension: int,
        window: int = WINDOW_POINTS,
        baseline_every: int = BASELINE_EVERY,
        class_weight: ClassWeight = "none",
    ) -> None:
        self._model: Model | None = None
        self._linear: Values | None = None
        self._stride = 1
        self._seen = 0
        self._lead = 0.0
        self._answers = _ScoreRing(window)
        self._baseline = Baseline(dimension, baseline_every, class_weight=class_weight)
        self.scored = 0

    def serve(self, model: Model) -> None:
        """Let this model score from now on."""
        self._model = model
        self._linear = on_raw_features(model) if isinstance(model.machine, LinearMachine) else None
        self._stride = stride_of(model)

    def add(self, points: Points) -> None:
        """Score points, then let the baseline learn its share of them.

        Parameters
        ----------
        points : Points
            Raw, in the order in which they came; the model has not learned them.
        """
        chosen = slice(-self._seen % self._stride, None, self._stride)
        lead = self._leads(points)
        sgd, decided = self._baseline.add(points, self._linear)
        self._seen += len(points)
        scored = points.take(chosen)
        if self._model is None or not len(scored):
            return
        self.scored += len(scored)
        if self._linear is None:
            decided = self._model.decision_function(scored.X)
        majority = np.asarray((lead[chosen] > 0.0) * 2.0 - 1.0, np.float64)
        self._answers.add(scored, decided, sgd[chosen], majority, border=self._model.border)

    def figures(self) -> Mapping[str, Quality]:
        """Return the quality of each scorer that scored a point of the window, by its name."""
        return self._answers.figures()

    def answered(self) -> Answered | None:
        """Return the window's points with the model's answers; None before there are any."""
        return self._answers.of_the_model()

    def _leads(self, points: Points) -> Values:
        """Return, for each point, by how much weight the positive label led before it."""
        signed = points.weight * points.y
        after = self._lead + np.cumsum(signed)
        if len(points):
            self._lead = float(after[-1])
        return np.asarray(after - signed)


def stride_of(model: Model) -> int:
    """Return that one point in so many is scored by a model, so that scoring stays a small part of the work."""
    machine = model.machine
    return 1 if isinstance(machine, LinearMachine) else max(1, -(-len(machine.support) // MOST_KERNELS))


class Baseline:
    """SGD on standardised features, which learns one point in so many and is scored on all others.

    Several machines learn the same points, each at its rate; the one that lately did best on points before it learned
    them is asked. So the baseline is what a person would have after looking for a rate, which they must.

    Parameters
    ----------
    dimension : int
    every : int
        With 1 it learns every point, and is never asked; with 0 it learns none, and has no answer.
    rates : sequence of float
    class_weight : "none", "balanced" or two numbers
        Factors for the weights of negative and positive points; `balanced` gives each label half of the total weight
        learned so far.
    """

    def __init__(
        self,
        dimension: int,
        every: int,
        rates: Sequence[float] = BASELINE_RATES,
        *,
        class_weight: ClassWeight = "none",
    ) -> None:
        self._every = every
        self._seen = 0
        waiting = BASELINE_BATCH
        self._waiting = np.zeros((waiting, dimension)), np.zeros(waiting, np.int8), np.zeros(waiting)
        self._moments = np.zeros(2), np.zeros(dimension), np.zeros(dimension)
        self._rates = np.array(rates)
        self._balanced = class_weight == "balanced"
        self._factors = np.array(class_weight if isinstance(class_weight, tuple) else (1.0, 1.0))
        self._machines = np.zeros((len(rates), dimension + 1))
        self._losses = np.zeros(len(rates))
        self._machine = np.full(dimension + 1, np.nan)

    def add(self, points: Points, beside: Values | None = None) -> tuple[Values, Values]:
        """Return decision values, NaN for learned points and where there is none; then learn its share of the points.

        Parameters
        ----------
        points : Points
        beside : ndarray of shape (d + 1,), optional
            Coefficients on raw features, and the intercept, of another machine, which is asked about all points: both
            together take little longer than one.

        Returns
        -------
        tuple of ndarrays of shape (n,)
            The baseline's values and the other machine's, NaN without one.
        """
        values = np.empty((2, len(points)))
        machines = np.stack((self._machine, np.full_like(self._machine, np.nan) if beside is None else beside))
        stop = 0
        while stop < len(points):
            start = stop
            stop = _answer(
                points.X, points.y, points.weight, start, self._every, self._seen, machines, *self._waiting, values
            )
            self._seen += stop - start
            if self._every and self._seen % (self._every * BASELINE_BATCH) == 0:
                batches = self._seen // (self._every * BASELINE_BATCH)
                _learn(
                    *self._waiting,
                    batches,
                    *self._moments,
                    self._balanced,
                    self._factors,
                    self._rates,
                    self._machines,
                    self._losses,
                    machines[0],
                )
        self._machine = machines[0]
        return values[0], values[1]


@njit(cache=True, nogil=True, fastmath={"reassoc"})
def _answer(  # type: ignore[no-untyped-def]
    X, y, weight, start, every, seen, machines, waiting_X, waiting_y, waiting_weight, values
):
    """Answer rows from one on until a batch to be learned is full; return the next row.

    Sums of a row are in whatever order is fast: no version hangs on them.

    Parameters
    ----------
    X, y, weight : arrays of n rows
    start, every, seen : int
        The first row; how many rows one is learned of, 0 for none; rows seen before the first.
    machines : ndarray of shape (2, d + 1)
    waiting_X, waiting_y, waiting_weight : arrays of `BASELINE_BATCH` rows
        To be learned.
    values : ndarray of shape (2, n)
        Filled; NaN where the first machine learns the row.
    """
    d = X.shape[1]
    for i in range(start, len(y)):
        first, second = machines[0, d], machines[1, d]
        for j in range(d):
            x = np.float64(X[i, j])
            first += x * machines[0, j]
            second += x * machines[1, j]
        values[0, i], values[1, i] = first, second
        seen += 1
        if every and seen % every == 0:
            values[0, i] = np.nan
            place = (seen // every - 1) % BASELINE_BATCH
            for j in range(d):
                waiting_X[place, j] = X[i, j]
            waiting_y[place], waiting_weight[place] = y[i], weight[i]
            if place == BASELINE_BATCH - 1:
                return i + 1
    return len(y)


@njit(cache=True, nogil=True)
def _learn(  # type: ignore[no-untyped-def]
    X, y, weight, batches, class_weight, mean, square, balanced, factors, rates, machines, losses, scored
):
    """Learn a batch, and let the best machine answer from now on.

    Parameters
    ----------
    X, y, weight : arrays of `BASELINE_BATCH` rows
        Overwritten.
    batches : int
        Learned, with this one.
    class_weight, mean, square : ndarrays
        Moments of what was learned, to which the batch is added.
    balanced : bool
        Whether each label gets half of the total weight.
    factors : ndarray of shape (2,)
        For the weights of negative and positive points, if not balanced.
    rates, losses : ndarray of shape (r,)
    machines : ndarray of shape (r, d + 1)
        Coefficients on standardised features, and the intercept, of each rate.
    scored : ndarray of shape (d + 1,)
        The machine that answers, on raw features.
    """
    n, d = X.shape
    add_in_order(X, (y > 0).astype(np.int64), weight, class_weight, mean, square)
    total = class_weight[0] + class_weight[1]
    scale = _scale(mean, square, total)
    for i in range(n):
        for j in range(d):
            X[i, j] = _clipped((X[i, j] - mean[j]) / scale[j])
        label = 1 if y[i] > 0 else 0
        factor = total / (2.0 * class_weight[label]) if balanced else factors[label]
        weight[i] = min(weight[i] * factor * (batches * n / total), GREATEST_SHARE)
    for r in range(len(rates)):
        losses[r] = MEMORY * losses[r] + _descend(X, y, weight, machines[r], rates[r], BASELINE_ALPHA)
    best = np.argmin(losses)
    scored[d] = machines[best, d]
    for j in range(d):
        scored[j] = machines[best, j] / scale[j]
        scored[d] -= mean[j] * scored[j]


@njit(nogil=True)
def _scale(mean, square, total):  # type: ignore[no-untyped-def]
    """Return what `Scaler.standard` divides by."""
    scale = np.ones(len(mean))
    for j in range(len(mean)):
        deviation = np.sqrt(max(square[j] / total, 0.0))
        if deviation > 10.0 * EPSILON * abs(mean[j]):
            scale[j] = deviation
    return scale


@njit(nogil=True)
def _clipped(z):  # type: ignore[no-untyped-def]
    return max(-FARTHEST_SD, min(FARTHEST_SD, z)) if z == z else 0.0


@njit(nogil=True)
def _descend(Z, y, weight, machine, rate, alpha):  # type: ignore[no-untyped-def]
    """Take one step a row, in order: w <- (1 - rate alpha) w + rate u y z where y f(z) < 1; return the hinge loss.

    Parameters
    ----------
    Z : ndarray of shape (n, d), float64
    y : ndarray of shape (n,), int8
    weight : ndarray of shape (n,), float64
    machine : ndarray of shape (d + 1,), float64
        Coefficients and intercept, changed in place.
    rate, alpha : float

    Returns
    -------
    float
        The sum over the rows, of each before its step.
    """
    d, loss = Z.shape[1], 0.0
    for i in range(len(Z)):
        decided = machine[d]
        for j in range(d):
            decided += machine[j] * Z[i, j]
        loss += weight[i] * max(0.0, 1.0 - y[i] * decided)
        step = rate * weight[i] * y[i] if y[i] * decided <= 1.0 else 0.0
        for j in range(d):
            machine[j] = (1.0 - rate * alpha) * machine[j] + step * Z[i, j]
        machine[d] += step
    return loss


def on_raw_features(model: Model) -> Values:
    """Return the coefficients, and last the intercept, of a linear model with its scaler folded in, shape (d + 1,).

    They give the same values, up to rounding, in less time.
    """
    scaler, machine = model.scaler, model.machine
    assert isinstance(machine, LinearMachine)
    coefficients = machine.coefficients / scaler.scale
    return np.append(coefficients, machine.intercept - scaler.mean @ coefficients)


def warm_up(dtype: np.dtype[np.floating]) -> None:
    """Compile, or load from numba's file cache, what the baseline runs."""
    n = BASELINE_BATCH
    Baseline(1, 1).add(Points(np.zeros((n, 1), dtype), np.ones(n, np.int8), np.ones(n)))


class _ScoreRing:
    """The newest scored points with what each scorer said: a ring, so that sums never drift.

    Parameters
    ----------
    capacity : int
    """

    def __init__(self, capacity: int) -> None:
        self._y = np.zeros(capacity)
        self._weight = np.zeros(capacity)
        self._values = np.full((len(SCORERS), capacity), np.nan)
        self._border = np.zeros((len(SCORERS), capacity))
        self._next = 0
        self._filled = 0

    def add(self, points: Points, *values: Values, border: float = 0.0) -> None:
        """Take in scored points, the newest last; the first scorer, the model, answers +1 above a border of its own."""
        capacity = len(self._y)
        done = max(0, len(points) - capacity)
        while done < len(points):
            taken = min(capacity - self._next, len(points) - done)
            into, source = slice(self._next, self._next + taken), slice(done, done + taken)
            self._y[into], self._weight[into] = points.y[source], points.weight[source]
            for row, value in enumerate(values):
                self._values[row, into] = value[source]
            self._border[0, into] = border
            self._next, done = (self._next + taken) % capacity, done + taken
            self._filled = min(capacity, self._filled + taken)

    def of_the_model(self) -> Answered | None:
        """Return what the model answered; None without an answer."""
        values = self._values[0, : self._filled]
        scored = np.isfinite(values)
        if not scored.any():
            return None
        y, weight, border = self._y[: self._filled], self._weight[: self._filled], self._border[0, : self._filled]
        return Answered(y=y[scored], weight=weight[scored], values=values[scored], border=border[scored])

    def figures(self) -> dict[str, Quality]:
        """Return the quality of each scorer that has an answer."""
        filled = slice(0, self._filled)
        y, weight = self._y[filled], self._weight[filled]
        found = {}
        for name, values, border in zip(SCORERS, self._values[:, filled], self._border[:, filled], strict=True):
            scored = np.isfinite(values)
            if scored.any():
                found[name] = _quality(y[scored], weight[scored], values[scored], border[scored], name != "majority")
        return found


def _quality(y: Values, weight: Values, values: Values, border: Values, with_hinge: bool) -> Quality:
    right = (values > border) == (y > 0.0)
    labels = [own for own in (y < 0.0, y > 0.0) if own.any()]
    shares = [float(weight[own & right].sum() / weight[own].sum()) for own in labels]
    hinge = float(np.average(np.maximum(0.0, 1.0 - y * values), weights=weight)) if with_hinge else None
    balanced = sum(shares) / 2 if len(labels) == 2 else None
    return Quality(len(y), float(weight[right].sum() / weight.sum()), balanced, hinge)
