"""Prequential quality: every point is scored by the model of the moment before any model has learned it.

The figures tell what a reader of `current` gets now: they are of the newest points, each scored by the version that was
current when the point came, and no version that scored a point had learned it. The model is compared with two
scorers that need no coreset: plain SGD on a small share of the stream, and the most frequent label so far. A model that
does not beat them is not worth its memory.

The baseline takes the steps of scikit-learn's SGDClassifier with the hinge loss and a constant rate, so that it
forgets, on features standardised by what it learned so far; of several rates, the one that lately did best answers. It
learns every 64th point, and is scored on the others. Of two labels it is one machine, of more one machine for each
label against the rest.
The steps are our own because a call of `partial_fit` takes as long as some thousand of them; its steps are the oracle.

There is no hinge loss of more than two labels: that of machines in pairs and that of machines against the rest cannot
be compared.

Invariants: a scorer never scores a point that it has learned; figures never enter a version, its hash or a checkpoint,
so that after a restart they begin with nothing. They depend on the points, their order and the models only, up to
rounding; a kernel machine of many support vectors scores every k-th point only (`MOST_KERNELS`).

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
from streamsvm.model.classes import AnyModel, KernelMachines
from streamsvm.model.correctness import accuracy, answers, balanced_accuracy
from streamsvm.model.machine import KernelMachine, LinearMachine
from streamsvm.points import NO_CODE, Points, Signs
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
"""Factor by which a machine's earlier losses fade with each batch: those of a hundred batches ago count a third."""
BASELINE_ALPHA: Final = 1e-4
EPSILON: Final = float(np.finfo(np.float64).eps)
FARTHEST_SD: Final = 10.0
"""Where a feature is clipped for the baseline, in standard deviations: one wild point must not end it."""
GREATEST_SHARE: Final = 100.0
"""Most that a point weighs for the baseline, in mean weights."""
MOST_KERNELS: Final = 16
"""Kernel values a point of the stream, on average, that scoring may take."""

Values = NDArray[np.float64]
ClassWeight = Literal["none", "balanced"] | tuple[float, ...]


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
        Mean of that share over the labels of the window; None while it has one label only.
    hinge_loss : float or None
        Mean of max(0, 1 - y f(x)); None of what has no decision value, and of more than two labels.
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
    class_weight : "none", "balanced" or numbers
        As the model's, so that the baseline is asked for the same: a factor for the weights of each label's points in
        what it learns.
    classes : int
        Number of labels.
    """

    def __init__(
        self,
        dimension: int,
        window: int = WINDOW_POINTS,
        baseline_every: int = BASELINE_EVERY,
        class_weight: ClassWeight = "none",
        *,
        classes: int = 2,
    ) -> None:
        self._model: AnyModel | None = None
        self._linear: Values | None = None
        self._stride = 1
        self._seen = 0
        self._classes = classes
        # A ring of the newest points, so that sums never drift; a row of `_said` and of `_values` for each scorer.
        self._y, self._weight = np.zeros(window, np.int8), np.zeros(window)
        self._said = np.full((len(SCORERS), window), NO_CODE, np.int8)
        self._values = np.full((len(SCORERS), window), np.nan)
        self._next = 0
        self._baseline = Baseline(dimension, baseline_every, class_weight=class_weight, classes=classes)
        self.scored = 0

    def serve(self, model: AnyModel) -> None:
        """Let this model score from now on."""
        machine, scaler = model.machine, model.scaler
        self._model, self._linear, self._stride = model, None, 1
        if isinstance(machine, LinearMachine):
            # With its scaler folded in: the same values, up to rounding, in less time.
            coefficients = machine.coefficients / scaler.scale
            self._linear = np.append(coefficients, machine.intercept - scaler.mean @ coefficients)
        elif isinstance(machine, KernelMachine | KernelMachines):
            self._stride = max(1, -(-len(machine.support) // MOST_KERNELS))

    def add(self, points: Points) -> None:
        """Score points, then let the baseline learn its share of them.

        Parameters
        ----------
        points : Points
            Raw, in the order in which they came; the model has not learned them.
        """
        chosen = slice(-self._seen % self._stride, None, self._stride)
        values, frequent = self._baseline.add(points, self._linear)
        self._seen += len(points)
        scored = points.take(chosen)
        n, window = len(scored), len(self._y)
        if self._model is None or not n:
            return
        self.scored += n
        decided = values[-1] if self._linear is not None else self._model.decision_function(scored.X)
        sgd = values[0, chosen] if self._classes == 2 else values.T[chosen]
        said = answers(decided, self._model.border), answers(sgd), frequent[chosen]
        done = max(0, n - window)
        while done < n:
            into = slice(self._next, min(window, self._next + n - done))
            source = slice(done, done + into.stop - into.start)
            self._y[into], self._weight[into] = scored.y[source], scored.weight[source]
            for scorer, codes in enumerate(said):
                self._said[scorer, into] = codes[source]
            if self._classes == 2:
                self._values[0, into], self._values[1, into] = decided[source], sgd[source]
            self._next, done = into.stop % window, source.stop

    def figures(self) -> Mapping[str, Quality]:
        """Return the quality of each scorer that scored a point of the window, by its name."""
        found = {}
        for name, codes, whole in zip(SCORERS, self._said, self._values, strict=True):
            scored = codes != NO_CODE
            if not scored.any():
                continue
            y, weight, said, values = self._y[scored], self._weight[scored], codes[scored], whole[scored]
            balanced = balanced_accuracy(said, y, weight) if (y != y[0]).any() else None
            hinge = float(np.average(np.maximum(0.0, 1.0 - y * values), weights=weight))
            found[name] = Quality(len(y), accuracy(said, y, weight), balanced, None if np.isnan(hinge) else hinge)
        return found

    def answered(self) -> Answered | None:
        """Return the window's points with the model's answers; None before there are any."""
        scored = self._said[0] != NO_CODE
        if not scored.any():
            return None
        return Answered(
            y=self._y[scored], said=self._said[0, scored], weight=self._weight[scored], values=self._values[0, scored]
        )


class Baseline:
    """SGD on standardised features, which learns one point in so many and is scored on all others; and the majority.

    Several machines learn the same points, each at its rate; the one that lately did best on points before it learned
    them is asked. So the baseline is what a person would have after looking for a rate, which they must.

    Parameters
    ----------
    dimension : int
    every : int
        With 1 it learns every point, and is never asked; with 0 it learns none, and has no answer.
    rates : sequence of float
    class_weight : "none", "balanced" or numbers
        Factors for the weights of each label's points; `balanced` gives each label that came the same share of the
        total weight learned so far.
    classes : int
        Of two labels there is one machine a rate, of more one for each label against the rest.
    """

    def __init__(
        self,
        dimension: int,
        every: int,
        rates: Sequence[float] = BASELINE_RATES,
        *,
        class_weight: ClassWeight = "none",
        classes: int = 2,
    ) -> None:
        machines = 1 if classes == 2 else classes
        self._every = every
        self._seen = 0
        waiting = BASELINE_BATCH
        self._waiting = np.zeros((waiting, dimension)), np.zeros(waiting, np.int64), np.zeros(waiting)
        self._moments = np.zeros(classes), np.zeros(dimension), np.zeros(dimension)
        self._rates = np.array(rates)
        self._balanced = class_weight == "balanced"
        self._factors = np.array(class_weight) if isinstance(class_weight, tuple) else np.ones(classes)
        self._machines = np.zeros((len(rates), machines, dimension + 1))
        self._losses = np.zeros(len(rates))
        self._asked = np.full((machines, dimension + 1), np.nan)
        self._weights = np.zeros(classes)

    def add(self, points: Points, beside: Values | None = None) -> tuple[Values, Signs]:
        """Answer points, then learn its share of them.

        Parameters
        ----------
        points : Points
        beside : ndarray of shape (d + 1,), optional
            Coefficients on raw features, and the intercept, of another machine, which is asked about all points: both
            together take little longer than one.

        Returns
        -------
        ndarray of shape (n_machines, n)
            Decision values, NaN for learned points and where there is none; the last row is of the other machine.
        ndarray of shape (n,), int8
            For each point the label of greatest weight before it; of equal ones the first.
        """
        asked = self._asked if beside is None else np.vstack((self._asked, beside))
        values, frequent = np.empty((len(asked), len(points))), np.empty(len(points), np.int8)
        period, start = self._every * BASELINE_BATCH, 0
        while start < len(points):
            stop = min(len(points), start + period - self._seen % period) if period else len(points)
            _answer(points.X, start, stop, asked, values)
            _follow(
                points.X,
                points.y,
                points.weight,
                start,
                stop,
                self._every,
                self._seen,
                self._weights,
                *self._waiting,
                values[: len(self._asked)],
                frequent,
            )
            self._seen, start = self._seen + stop - start, stop
            if period and self._seen % period == 0:
                batches = self._seen // period
                _learn(
                    *self._waiting,
                    batches,
                    *self._moments,
                    self._balanced,
                    self._factors,
                    self._rates,
                    self._machines,
                    self._losses,
                    asked,
                )
        self._asked = asked[: len(self._asked)]
        return values, frequent


@njit(cache=True, nogil=True, fastmath={"reassoc"})
def _answer(X, start, stop, machines, values):  # type: ignore[no-untyped-def]
    """Fill `values`, shape (m, n), from start to stop with the decisions of machines on raw features, shape (m, d + 1).

    The compiler may choose the order of a row's sum: no version depends on it.
    """
    d = X.shape[1]
    for k in range(len(machines)):
        for i in range(start, stop):
            value = machines[k, d]
            for j in range(d):
                value += np.float64(X[i, j]) * machines[k, j]
            values[k, i] = value


@njit(cache=True, nogil=True)
def _follow(  # type: ignore[no-untyped-def]
    X,
    y,
    weight,
    start,  # of the rows to follow; the batch to be learned is not full before the last of them
    stop,
    every,  # one row of so many is learned; 0: none
    seen,  # rows before `start`
    weights,  # (n_labels,): weight of each label before `start`; in and out
    waiting_X,  # `BASELINE_BATCH` rows that are to be learned; out
    waiting_label,  # indices of labels
    waiting_weight,
    values,  # (m, n): decision values; out: NaN for the rows that are to be learned
    frequent,  # (n,), out
):
    """Find the most frequent label before each row, and keep rows to be learned; apart from `_answer`, for speed."""
    two, greatest = len(weights) == 2, np.argmax(weights)
    for i in range(start, stop):
        frequent[i] = 2 * greatest - 1 if two else greatest
        label = np.int64(y[i] > 0) if two else np.int64(y[i])
        weights[label] += weight[i]
        lead = weights[label] - weights[greatest]
        if lead > 0.0 or (lead == 0.0 and label < greatest):
            greatest = label
    place = seen // every % BASELINE_BATCH if every else 0
    for i in range(start + every - 1 - seen % every if every else stop, stop, max(1, every)):
        for j in range(X.shape[1]):
            waiting_X[place, j] = X[i, j]
        waiting_label[place] = np.int64(y[i] > 0) if two else np.int64(y[i])
        waiting_weight[place] = weight[i]
        for k in range(len(values)):
            values[k, i] = np.nan
        place += 1


@njit(cache=True, nogil=True)
def _learn(  # type: ignore[no-untyped-def]
    X,  # `BASELINE_BATCH` rows, overwritten, as are their labels' indices and weights
    label,
    weight,
    batches,  # learned, this one included
    class_weight,  # moments of all that was learned, as `Moments` has them; in and out
    mean,
    square,
    balanced,  # whether each label that came gets the same share of the total weight
    factors,  # (n_labels,): of the weights of each label's points, if not balanced
    rates,  # (r,)
    machines,  # (r, m, d + 1): coefficients on standardised features, and the intercept, of each rate; in and out
    losses,  # (r,): the fading sum of each rate's losses; in and out
    asked,  # (m or more, d + 1): the first m become the machines of the best rate, on raw features
):
    """Learn a batch, and let the machines of the best rate answer from now on.

    A step a row, in order: w <- (1 - rate alpha) w + rate u y z where y f(z) < 1.
    """
    n, d = X.shape
    m = machines.shape[1]
    add_in_order(X, label, weight, class_weight, mean, square)
    total, came = 0.0, 0
    for own in class_weight:
        total += own
        came += own > 0.0
    scale = np.ones(d)  # as `Scaler.standard` has it
    for j in range(d):
        deviation = np.sqrt(max(square[j] / total, 0.0))
        if deviation > 10.0 * EPSILON * abs(mean[j]):
            scale[j] = deviation
    for i in range(n):
        for j in range(d):
            z = (X[i, j] - mean[j]) / scale[j]
            X[i, j] = max(-FARTHEST_SD, min(FARTHEST_SD, z)) if z == z else 0.0
        factor = total / (max(2, came) * class_weight[label[i]]) if balanced else factors[label[i]]
        weight[i] = min(weight[i] * factor * (batches * n / total), GREATEST_SHARE)
    for r in range(len(rates)):
        rate, loss = rates[r], 0.0
        for i in range(n):
            for k in range(m):
                machine = machines[r, k]
                sign = 1.0 if label[i] == (1 if m == 1 else k) else -1.0
                decided = machine[d]
                for j in range(d):
                    decided += machine[j] * X[i, j]
                loss += weight[i] * max(0.0, 1.0 - sign * decided)
                step = rate * weight[i] * sign if sign * decided <= 1.0 else 0.0
                for j in range(d):
                    machine[j] = (1.0 - rate * BASELINE_ALPHA) * machine[j] + step * X[i, j]
                machine[d] += step
        losses[r] = MEMORY * losses[r] + loss
    best = np.argmin(losses)
    for k in range(m):
        asked[k, d] = machines[best, k, d]
        for j in range(d):
            asked[k, j] = machines[best, k, j] / scale[j]
            asked[k, d] -= mean[j] * asked[k, j]


def warm_up(dtype: np.dtype[np.floating]) -> None:
    """Compile, or load from numba's file cache, what the baseline runs."""
    n = BASELINE_BATCH
    Baseline(1, 1).add(Points(np.zeros((n, 1), dtype), np.ones(n, np.int8), np.ones(n)))
