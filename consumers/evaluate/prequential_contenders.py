"""Who is compared prequentially: ours and SGD. Each answers portions of rows in turn, and then learns them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import SGDClassifier

from streamsvm.config import ModelConfig, SvmConfig
from streamsvm.coreset.buckets import Moments
from streamsvm.learning.learner import Learner
from streamsvm.learning.recipe import make
from streamsvm.learning.tuning import Tuning
from streamsvm.model.classes import AnyModel, ClassModel
from streamsvm.model.kernels import Float
from streamsvm.points import LookedUp, Points, Position, Rows, label_codes

NO_CUT: Final = 1 << 30
"""Leaves after which a cut falls due by itself: never."""


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers to rows.

    Attributes
    ----------
    decision : ndarray of shape (n,), or (n, n_classes)
        Above 0 for the second of two labels; the greatest for the answer of more.
    probability : ndarray of the same shape
        Of the second of two labels, or of each; not a number where there is none.
    """

    decision: Float
    probability: Float

    @property
    def has_probabilities(self) -> bool:
        """Whether any row has one."""
        return not bool(np.isnan(self.probability).all())

    def put(self, start: int, part: Answers) -> None:
        """Write the answers to the rows from `start` on."""
        own = slice(start, start + len(part.decision))
        self.decision[own], self.probability[own] = part.decision, part.probability

    def filled(self, shares: Float) -> Float:
        """Return the probabilities; where there is none, the shares of the labels known before, (n, n_classes)."""
        known = shares[:, 1] if self.probability.ndim == 1 else shares
        return np.where(np.isnan(self.probability), known, self.probability)


class Contender(Protocol):
    """Predicts, and learns what came."""

    def predict(self, X: NDArray[np.floating]) -> Answers:
        """Answer rows, shape (n, d)."""
        ...

    def learn(self, points: Points) -> None:
        """Take labeled rows, in their order."""
        ...


def _unknown(rows: int, classes: int) -> Answers:
    shape = (rows,) if classes == 2 else (rows, classes)
    return Answers(np.zeros(shape), np.full(shape, np.nan))


def answered(model: AnyModel | None, X: NDArray[np.floating], classes: int) -> Answers:
    """Return what a model says of rows; nothing is known without one."""
    if model is None:
        return _unknown(len(X), classes)
    if isinstance(model, ClassModel):
        values = model.machine_values(X)
        decision = model.label_values(values)
        return Answers(decision, _none(decision) if model.probabilities is None else model.shares(values))
    decision = model.decision_function(X)
    positive = _none(decision) if model.probability is None else model.probability.of(decision)
    return Answers(decision - model.border, positive)


def _none(decision: Float) -> Float:
    return np.full(decision.shape, np.nan)


class Due:
    """Whether a model is due: after the first leaf, and then after each further so many rows.

    Parameters
    ----------
    leaf_rows, version_rows : int
    """

    def __init__(self, leaf_rows: int, version_rows: int) -> None:
        self._leaf_rows, self._version_rows, self.rows = leaf_rows, version_rows, 0

    def after(self, rows: int) -> bool:
        """Count so many more rows, and tell whether a model is due now."""
        before, self.rows = self.rows, self.rows + rows
        if before < self._leaf_rows:
            return self.rows >= self._leaf_rows
        return self.rows // self._version_rows > before // self._version_rows


class CoresetContender:
    """One of ours: the trainer's learner, and models as it publishes them.

    Parameters
    ----------
    config : ModelConfig
    version_rows : int
        Rows between two models.
    partitions : int
        To which rows are dealt in turn.

    Attributes
    ----------
    points_held : int
        At most, after a portion.
    """

    def __init__(self, config: ModelConfig, version_rows: int, partitions: int = 1) -> None:
        self._config, self._partitions = config, partitions
        self._learner = Learner(config, {partition: Position(0) for partition in range(partitions)}, NO_CUT)
        self._due = Due(min(config.coreset.leaf_rows, version_rows), version_rows)
        self._model: AnyModel | None = None
        self._tuning: Tuning | None = None
        self.points_held = 0

    def predict(self, X: NDArray[np.floating]) -> Answers:
        """Answer rows by the newest model."""
        return answered(self._model, X.astype(self._config.points.numpy_dtype), self._config.points.classes)

    def learn(self, points: Points) -> None:
        """Take labeled rows, in their order."""
        before = self._due.rows
        for partition in range(self._partitions):
            own = points.take(slice((partition - before) % self._partitions, None, self._partitions))
            self._learn(partition, own)
        self.points_held = max(self.points_held, self._learner.points_held)
        if not self._due.after(len(points)):
            return
        made = make(self._learner.cut(), self._config, self._tuning)
        self._model, self._tuning = made.model, made.tuning

    def _learn(self, partition: int, points: Points) -> None:
        n, at = len(points), self._learner.positions[partition].offset
        X = points.X.astype(self._config.points.numpy_dtype)
        self._learner.learn(
            Rows(
                partition=partition,
                offset=np.arange(at, at + n),
                row=np.zeros(n, np.int64),
                last=np.ones(n, np.bool_),
                times=LookedUp.of(np.full(n, -1, np.int64)),
                accepted=np.ones(n, np.bool_),
                points=Points(X, points.y, points.weight.astype(np.float64)),
                leader_epoch=np.full(n, -1, np.int64),
            )
        )


class SgdContender:
    """`SGDClassifier` over features scaled by what was seen of them.

    Parameters
    ----------
    config : ModelConfig
    settings : mapping
        Of its learning rate.
    """

    def __init__(self, config: ModelConfig, settings: Mapping[str, Any]) -> None:
        alpha = SvmConfig.DEFAULT_ALPHA if config.svm.alpha is None else config.svm.alpha
        self._machine = SGDClassifier(loss="log_loss", alpha=alpha, random_state=config.seed, **settings)
        self._classes, self._is_fitted = config.points.classes, False
        self._moments = Moments.zero(config.points.dimension, self._classes)

    def _scaled(self, X: NDArray[np.floating]) -> Float:
        sd = np.sqrt(self._moments.square / self._moments.weight)
        return np.asarray((X - self._moments.mean) / np.where(sd > 0.0, sd, 1.0), np.float64)

    def predict(self, X: NDArray[np.floating]) -> Answers:
        """Answer rows.

        Raises
        ------
        ValueError
            If the coefficients overflow.
        """
        if not self._is_fitted:
            return _unknown(len(X), self._classes)
        Z = self._scaled(X)
        decision = self._machine.decision_function(Z)
        probability = self._machine.predict_proba(Z)
        return Answers(decision, probability[:, 1] if self._classes == 2 else probability)

    def learn(self, points: Points) -> None:
        """Take labeled rows, in their order.

        Raises
        ------
        ValueError
            If the coefficients overflow.
        """
        self._moments = self._moments.add(points)
        labels = list(label_codes(self._classes))
        self._machine.partial_fit(self._scaled(points.X), points.y, classes=labels, sample_weight=points.weight)
        self._is_fitted = True


def shares_before(points: Points, classes: int, lag: int) -> Float:
    """Return the shares of the labels that are known before each row, one row of each added: shape (n, n_classes)."""
    own = points.y[:, None] == np.array(label_codes(classes))
    known = np.arange(len(points)) // lag * lag
    seen = np.cumsum(np.vstack((np.ones(classes), own * points.weight[:, None])), axis=0)[known]
    return np.asarray(seen / seen.sum(axis=1, keepdims=True))
