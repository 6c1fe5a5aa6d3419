"""Prequential quality of more than two labels: `streamsvm.quality.prequential`, with an answer instead of a sign.

Every point is answered by the version that is current, before any version has learned it, and beside it by two scorers
that need no coreset: plain SGD, one machine a label against the rest, on a small share of the stream; and the most
frequent label so far.

There is no hinge loss: that of machines in pairs and that of machines against the rest cannot be compared.

Invariants: those of `streamsvm.quality.prequential`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from streamsvm.coreset.buckets import Moments
from streamsvm.model.classes import ClassModel, LinearMachines
from streamsvm.model.machine import Scaler
from streamsvm.points import Points
from streamsvm.quality.class_skill_rule import ClassesAnswered
from streamsvm.quality.prequential import (
    BASELINE_ALPHA,
    BASELINE_BATCH,
    BASELINE_EVERY,
    BASELINE_RATES,
    FARTHEST_SD,
    GREATEST_SHARE,
    MEMORY,
    MOST_KERNELS,
    SCORERS,
    WINDOW_POINTS,
    Quality,
)

Values = NDArray[np.float64]
Codes = NDArray[np.int8]
ClassWeight = Literal["none", "balanced"] | tuple[float, ...]

UNASKED: Final = -1
"""In place of an answer."""


class ClassPrequential:
    """Answers points as they come, and remembers how the newest were answered.

    Parameters
    ----------
    dimension, classes : int
    window : int
        Points that the figures are of.
    baseline_every : int
        The baseline learns one point in so many; 0: there is none.
    class_weight : "none", "balanced" or numbers
        As the model's, so that the baseline is asked for the same.
    """

    def __init__(
        self,
        dimension: int,
        classes: int,
        window: int = WINDOW_POINTS,
        baseline_every: int = BASELINE_EVERY,
        class_weight: ClassWeight = "none",
    ) -> None:
        self._model: ClassModel | None = None
        self._stride = 1
        self._seen = 0
        self._classes = classes
        self._weights = np.zeros(classes)
        self._answers = _ClassScoreRing(window, classes)
        self._baseline = ClassBaseline(dimension, classes, baseline_every, class_weight=class_weight)
        self.scored = 0

    def serve(self, model: ClassModel) -> None:
        """Let this model answer from now on."""
        machine = model.machine
        self._model = model
        self._stride = 1 if isinstance(machine, LinearMachines) else max(1, -(-len(machine.support) // MOST_KERNELS))

    def add(self, points: Points) -> None:
        """Answer points, then let the baseline learn its share of them.

        Parameters
        ----------
        points : Points
            Raw, in the order in which they came, with indices of labels; the model has not learned them.
        """
        chosen = slice(-self._seen % self._stride, None, self._stride)
        frequent = self._most_frequent(points)
        baseline = self._baseline.add(points)
        self._seen += len(points)
        scored = points.take(chosen)
        if self._model is None or not len(scored):
            return
        self.scored += len(scored)
        with np.errstate(all="ignore"):
            decision = self._model.decision_function(scored.X)
        self._answers.add(scored, [decision, baseline[chosen]], frequent[chosen])

    def figures(self) -> Mapping[str, Quality]:
        """Return the quality of each scorer that answered a point of the window, by its name."""
        return self._answers.figures()

    def answered(self) -> ClassesAnswered | None:
        """Return the window's points with the model's answers; None before there are any."""
        return self._answers.of_the_model()

    def _most_frequent(self, points: Points) -> Codes:
        """Return, for each point, the label of greatest weight before it, by pieces of the stream."""
        answers = np.empty(len(points), np.int8)
        for start in range(0, len(points), BASELINE_EVERY):
            part = slice(start, start + BASELINE_EVERY)
            answers[part] = int(self._weights.argmax())
            self._weights += np.bincount(points.y[part], points.weight[part], minlength=self._classes)
        return answers


class ClassBaseline:
    """SGD on standardised features, a machine a label against the rest, which learns one point in so many.

    Of several rates the one that lately did best on points before it learned them is asked, as by
    `streamsvm.quality.prequential.Baseline`, whose steps these are.

    Parameters
    ----------
    dimension, classes : int
    every : int
        With 1 it learns every point, and is never asked; with 0 it learns none, and has no answer.
    rates : sequence of float
    class_weight : "none", "balanced" or numbers
    """

    def __init__(
        self,
        dimension: int,
        classes: int,
        every: int,
        rates: Sequence[float] = BASELINE_RATES,
        *,
        class_weight: ClassWeight = "none",
    ) -> None:
        self._every, self._seen = every, 0
        self._classes = classes
        self._waiting: list[Points] = []
        self._moments = Moments.zero(dimension, classes)
        self._rates = np.array(rates)
        self._balanced = class_weight == "balanced"
        self._factors = np.array(class_weight) if isinstance(class_weight, tuple) else np.ones(classes)
        self._machines = np.zeros((len(rates), classes, dimension))
        self._intercepts = np.zeros((len(rates), classes))
        self._losses = np.zeros(len(rates))
        self._machine: tuple[Values, Values] | None = None

    def add(self, points: Points) -> Values:
        """Return decision values, shape (n, n_classes), NaN for learned points and where there is none; then learn."""
        values = np.full((len(points), self._classes), np.nan)
        start = 0
        while start < len(points):
            stop = min(len(points), start + self._until_batch())
            part = slice(start, stop)
            if self._machine is not None:
                with np.errstate(all="ignore"):
                    values[part] = points.X[part].astype(np.float64) @ self._machine[0].T + self._machine[1]
            self._take(points.take(part), values[part])
            start = stop
        return values

    def _until_batch(self) -> int:
        """Return how many points come before a batch is learned, at most."""
        if not self._every:
            return 1 << 30
        period = self._every * BASELINE_BATCH
        return period - self._seen % period

    def _take(self, points: Points, values: Values) -> None:
        if not self._every:
            return
        learned = slice((self._every - 1 - self._seen) % self._every, None, self._every)
        values[learned] = np.nan
        self._waiting.append(points.take(learned))
        self._seen += len(points)
        if self._seen % (self._every * BASELINE_BATCH) == 0:
            self._learn(Points.union(self._waiting))
            self._waiting.clear()

    def _learn(self, batch: Points) -> None:
        """Learn a batch, and let the best machines answer from now on."""
        self._moments = moments = self._moments.add(batch)
        scaler = Scaler.standard(moments.mean, moments.square / moments.weight)
        Z = np.nan_to_num(np.clip(scaler.transform(batch.X), -FARTHEST_SD, FARTHEST_SD))
        weight = np.minimum(self._weights(batch) * (moments.count / moments.weight), GREATEST_SHARE)
        losses = np.zeros(len(self._rates))
        for z, label, own in zip(Z, batch.y, weight, strict=True):
            losses += self._step(z, int(label), float(own))
        self._losses = MEMORY * self._losses + losses
        best = int(self._losses.argmin())
        w = self._machines[best] / scaler.scale
        self._machine = w, self._intercepts[best] - w @ scaler.mean

    def _weights(self, batch: Points) -> Values:
        if not self._balanced:
            return np.asarray(batch.weight * self._factors[batch.y])
        own = self._moments.class_weight
        part = self._moments.weight / np.count_nonzero(own)
        return np.asarray(batch.weight * part / own[batch.y])

    def _step(self, z: Values, label: int, weight: float) -> Values:
        """Take one step at every rate, w <- (1 - rate alpha) w + rate u y z where y f(z) < 1; return hinge losses."""
        sign = np.full(self._classes, -1.0)
        sign[label] = 1.0
        margin = sign * (self._machines @ z + self._intercepts)
        step = np.where(margin <= 1.0, self._rates[:, None] * weight * sign, 0.0)
        self._machines *= (1.0 - self._rates * BASELINE_ALPHA)[:, None, None]
        self._machines += step[:, :, None] * z
        self._intercepts += step
        return np.asarray(weight * np.maximum(0.0, 1.0 - margin).sum(axis=1))


class _ClassScoreRing:
    """The newest answered points with what each scorer said: a ring, so that sums never drift.

    Parameters
    ----------
    capacity, classes : int
    """

    def __init__(self, capacity: int, classes: int) -> None:
        self._classes = classes
        self._y = np.zeros(capacity, np.int8)
        self._weight = np.zeros(capacity)
        self._said = np.full((len(SCORERS), capacity), UNASKED, np.int8)
        self._next = self._filled = 0

    def add(self, points: Points, decisions: Sequence[Values], frequent: Codes) -> None:
        """Take in answered points, the newest last: decision values of the scorers that have some, then a label."""
        capacity = len(self._y)
        newest = slice(max(0, len(points) - capacity), None)
        y, weight = points.y[newest], points.weight[newest]
        places = (self._next + np.arange(len(y))) % capacity
        self._y[places], self._weight[places] = y, weight
        for scorer, whole in enumerate(decisions):
            decision = whole[newest]
            scored = np.isfinite(decision).all(axis=1)
            self._said[scorer, places] = np.where(scored, np.argmax(np.nan_to_num(decision), axis=1), UNASKED)
        self._said[-1, places] = frequent[newest]
        self._next, self._filled = (self._next + len(y)) % capacity, min(capacity, self._filled + len(y))

    def of_the_model(self) -> ClassesAnswered | None:
        """Return what the model answered; None without an answer."""
        said = self._said[0, : self._filled]
        scored = said != UNASKED
        if not scored.any():
            return None
        return ClassesAnswered(
            y=self._y[: self._filled][scored], said=said[scored], weight=self._weight[: self._filled][scored]
        )

    def figures(self) -> dict[str, Quality]:
        """Return the quality of each scorer that has an answer."""
        filled, found = slice(0, self._filled), {}
        y, weight = self._y[filled], self._weight[filled]
        for name, said in zip(SCORERS, self._said[:, filled], strict=True):
            scored = said != UNASKED
            if scored.any():
                found[name] = self._quality(y[scored], weight[scored], said[scored])
        return found

    def _quality(self, y: Codes, weight: Values, said: Codes) -> Quality:
        right = said == y
        own = np.bincount(y, weight, minlength=self._classes)
        of_right = np.bincount(y[right], weight[right], minlength=self._classes)
        came = own > 0.0
        balanced = float((of_right[came] / own[came]).mean()) if np.count_nonzero(came) > 1 else None
        return Quality(len(y), float(weight[right].sum() / weight.sum()), balanced, None)
