"""Prequential quality: every point is scored by the model of the moment before any model has learned it.

The figures tell what a reader of `current` gets now: they are of the newest points, each scored by the version that was
current when the point came, and no version that scored a point had learned it. Beside the model stand two scorers that
anybody can have without it: plain SGD on a small share of the stream, and the commoner label. A model that does not
beat them is not worth its memory.

The baseline takes the steps of scikit-learn's SGDClassifier with the hinge loss and a constant rate, so that it
forgets, on features standardised by what it learned so far. It learns every 64th point, and is scored on the others.
The steps are our own because a call of `partial_fit` takes as long as some thousand of them; its steps are the oracle.

Invariants: a scorer never scores a point that it has learned; figures never enter a version, its hash or a checkpoint,
so that after a restart they begin with nothing. They depend on the points, their order and the models only, up to
rounding; a kernel machine of many support vectors scores every so manieth point (`stride_of`).

Source: Dawid 1984 (the prequential approach); Gama, Sebastiao and Rodrigues 2013 (over a sliding window).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numba import njit
from numpy.typing import NDArray

from streamsvm.coreset.moments import Moments
from streamsvm.points import Features, Points
from streamsvm.svm.model import LinearMachine, Model, Scaler

SCORERS: Final = ("model", "sgd", "majority")
WINDOW_POINTS: Final = 10_000
BASELINE_EVERY: Final = 64
BASELINE_BATCH: Final = 16
"""Points that the baseline learns at a time, so that it is asked about many at a time."""
BASELINE_RATE: Final = 0.01
BASELINE_ALPHA: Final = 1e-4
FARTHEST_SD: Final = 10.0
"""Where a feature is clipped for the baseline, in standard deviations: one wild point must not end it."""
GREATEST_SHARE: Final = 100.0
"""Most that a point weighs for the baseline, in mean weights."""
MOST_KERNELS: Final = 16
"""Kernel values a point of the stream, on average, that scoring may take."""

Values = NDArray[np.float64]


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
    """

    def __init__(self, dimension: int, window: int = WINDOW_POINTS, baseline_every: int = BASELINE_EVERY) -> None:
        self._decide: Callable[[Features], Values] | None = None
        self._stride = 1
        self._seen = 0
        self._lead = 0.0
        self._answers = _Answers(window)
        self._baseline = Baseline(dimension, baseline_every) if baseline_every else None
        self.scored = 0

    @property
    def stride(self) -> int:
        """One point in so many is scored."""
        return self._stride

    def serve(self, model: Model) -> None:
        """Let this model score from now on."""
        machine = model.machine
        self._decide = (
            on_raw_features(model.scaler, machine) if isinstance(machine, LinearMachine) else model.decision_function
        )
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
        sgd = np.full(len(points), np.nan) if self._baseline is None else self._baseline.add(points)
        self._seen += len(points)
        asked = points.take(chosen)
        if self._decide is None or not len(asked):
            return
        self.scored += len(asked)
        decided = self._decide(asked.X)
        self._answers.add(asked, decided, sgd[chosen], np.where(lead[chosen] > 0.0, 1.0, -1.0))

    def figures(self) -> Mapping[str, Quality]:
        """Return the quality of each scorer that scored a point of the window, by its name."""
        return self._answers.figures()

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
    """SGD on standardised features, which learns one point in so many and is asked about all others.

    Parameters
    ----------
    dimension : int
    every : int
        At least 1; with 1 it learns every point, and is never asked.
    """

    def __init__(self, dimension: int, every: int) -> None:
        self._every = every
        self._seen = 0
        self._waiting: list[Points] = []
        self._moments = Moments.zero(dimension)
        self._machine = LinearMachine(np.zeros(dimension), 0.0)
        self._decide: Callable[[Features], Values] | None = None

    def add(self, points: Points) -> Values:
        """Return decision values, NaN where there is none to be had or the point is learned; then learn its share."""
        values, start = np.full(len(points), np.nan), 0
        while start < len(points):
            stop = min(len(points), start + self._to_next_batch)
            part = points.take(slice(start, stop))
            self._ask(part.X, values[start:stop])
            learned = slice(-(self._seen + 1) % self._every, None, self._every)
            values[start:stop][learned] = np.nan
            self._seen += len(part)
            self._take(part.take(learned))
            start = stop
        return values

    @property
    def _to_next_batch(self) -> int:
        whole = self._every * BASELINE_BATCH
        return whole - self._seen % whole

    def _ask(self, X: Features, into: Values) -> None:
        if self._decide is not None:
            into[:] = self._decide(X)

    def _take(self, points: Points) -> None:
        if len(points):
            self._waiting.append(Points(points.X.copy(), points.y.copy(), points.weight.copy()))
        if sum(len(part) for part in self._waiting) == BASELINE_BATCH:
            self._learn(Points.union(self._waiting))
            self._waiting.clear()

    def _learn(self, points: Points) -> None:
        self._moments = moments = self._moments.add(points)
        scaler = Scaler.standard(moments.mean, moments.square / moments.weight)
        Z = np.clip(np.nan_to_num(scaler.transform(points.X)), -FARTHEST_SD, FARTHEST_SD)
        shares = np.minimum(points.weight * (moments.count / moments.weight), GREATEST_SHARE)
        coefficients = self._machine.coefficients.copy()
        intercept = _descend(Z, points.y, shares, coefficients, self._machine.intercept, BASELINE_RATE, BASELINE_ALPHA)
        self._machine = LinearMachine(coefficients, float(intercept))
        self._decide = on_raw_features(scaler, self._machine)


@njit(cache=True, nogil=True)
def _descend(Z, y, weight, coefficients, intercept, rate, alpha):  # type: ignore[no-untyped-def]
    """Take one step a row, in order: w <- (1 - rate alpha) w + rate u y z where y f(z) < 1; returns the intercept.

    Parameters
    ----------
    Z : ndarray of shape (n, d), float64
    y : ndarray of shape (n,), int8
    weight : ndarray of shape (n,), float64
    coefficients : ndarray of shape (d,), float64
        Changed in place.
    intercept, rate, alpha : float
    """
    for i in range(Z.shape[0]):
        decided = intercept
        for j in range(Z.shape[1]):
            decided += coefficients[j] * Z[i, j]
        step = rate * weight[i] * y[i] if y[i] * decided <= 1.0 else 0.0
        for j in range(Z.shape[1]):
            coefficients[j] = (1.0 - rate * alpha) * coefficients[j] + step * Z[i, j]
        intercept += step
    return intercept


def on_raw_features(scaler: Scaler, machine: LinearMachine) -> Callable[[Features], Values]:
    """Return a linear decision function with its scaler folded in: the same values, up to rounding, in less time."""
    coefficients = machine.coefficients / scaler.scale
    intercept = float(machine.intercept - scaler.mean @ coefficients)
    return lambda X: np.asarray(X @ coefficients + intercept, np.float64)


def warm_up(dtype: np.dtype[np.floating]) -> None:
    """Compile, or load from numba's file cache, what the baseline runs."""
    points = Points(np.zeros((BASELINE_BATCH, 1), dtype), np.ones(BASELINE_BATCH, np.int8), np.ones(BASELINE_BATCH))
    Baseline(1, 1).add(points)


class _Answers:
    """The newest scored points with what each scorer said: a ring, so that sums never drift.

    Parameters
    ----------
    capacity : int
    """

    def __init__(self, capacity: int) -> None:
        self._y = np.zeros(capacity)
        self._weight = np.zeros(capacity)
        self._values = np.full((len(SCORERS), capacity), np.nan)
        self._next = 0
        self._held = 0

    def add(self, points: Points, *values: Values) -> None:
        """Take in scored points, the newest last."""
        capacity = len(self._y)
        done = max(0, len(points) - capacity)
        while done < len(points):
            taken = min(capacity - self._next, len(points) - done)
            into, source = slice(self._next, self._next + taken), slice(done, done + taken)
            self._y[into], self._weight[into] = points.y[source], points.weight[source]
            for row, value in enumerate(values):
                self._values[row, into] = value[source]
            self._next, done = (self._next + taken) % capacity, done + taken
            self._held = min(capacity, self._held + taken)

    def figures(self) -> dict[str, Quality]:
        """Return the quality of each scorer that has an answer."""
        held = slice(0, self._held)
        y, weight = self._y[held], self._weight[held]
        found = {}
        for name, values in zip(SCORERS, self._values[:, held], strict=True):
            asked = np.isfinite(values)
            if asked.any():
                found[name] = _quality(y[asked], weight[asked], values[asked], name != "majority")
        return found


def _quality(y: Values, weight: Values, values: Values, with_hinge: bool) -> Quality:
    right = (values > 0.0) == (y > 0.0)
    labels = [own for own in (y < 0.0, y > 0.0) if own.any()]
    shares = [float(weight[own & right].sum() / weight[own].sum()) for own in labels]
    hinge = float(np.average(np.maximum(0.0, 1.0 - y * values), weights=weight)) if with_hinge else None
    balanced = sum(shares) / 2 if len(labels) == 2 else None
    return Quality(len(y), float(weight[right].sum() / weight.sum()), balanced, hinge)
