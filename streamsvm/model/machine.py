"""What a trained machine is: a scaler and a decision function, nothing that needs the solver."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.errors import ConfigurationError
from streamsvm.model.additive import AdditiveMachine
from streamsvm.model.features import check_decided, check_finite, features_of
from streamsvm.model.kernels import Float, RbfKernel
from streamsvm.model.packing import Grid
from streamsvm.model.probability import Sigmoid
from streamsvm.model.threshold import Threshold
from streamsvm.points import Features

LARGEST_SINGLE: Final = float(np.finfo(np.float32).max)
BLOCK_ROWS: Final = 1024
"""Most rows scored at a time by a kernel machine."""
BLOCK_BYTES: Final = 1 << 26
"""Most bytes of the kernel values of rows that are scored at a time, unless one row has more."""


def block_rows(columns: int) -> int:
    """Return how many rows are scored at a time, where each has so many float64 values."""
    return max(1, min(BLOCK_ROWS, BLOCK_BYTES // (8 * max(1, columns))))


@dataclass(frozen=True, slots=True)
class Scaler:
    """Standardisation: z = (x - mean) / scale.

    Attributes
    ----------
    mean, scale : ndarray of shape (d,), float64
        `scale` is positive; 1 where a feature is constant.
    """

    mean: Float
    scale: Float

    def transform(self, X: Features) -> Float:
        """Return the scaled features, float64."""
        Z: Float = np.asarray(X, dtype=np.float64) - self.mean
        Z /= self.scale
        return Z

    @staticmethod
    def identity(dimension: int) -> Scaler:
        """Leave every feature as it is."""
        return Scaler(np.zeros(dimension), np.ones(dimension))

    @staticmethod
    def standard(mean: Float, variance: Float) -> Scaler:
        """Scale to unit variance; a feature whose variance is nothing but rounding of its mean counts as constant."""
        rounding = 10.0 * np.finfo(np.float64).eps * np.abs(mean)
        deviation = np.sqrt(np.maximum(variance, 0.0))
        return Scaler(mean, np.where(deviation > rounding, deviation, 1.0))


@dataclass(frozen=True, slots=True)
class LinearMachine:
    """f(z) = <coefficients, z> + intercept, over scaled features.

    Attributes
    ----------
    coefficients : ndarray of shape (d,), float64
    intercept : float
    """

    coefficients: Float
    intercept: float

    def decide(self, Z: Float) -> Float:
        """Return the decision values of scaled features, shape (n,)."""
        return np.asarray(Z @ self.coefficients + self.intercept, dtype=np.float64)

    def terms(self, Z: Float) -> Float:
        """Return what each feature adds, shape (n, d)."""
        return Z * self.coefficients


@dataclass(frozen=True, slots=True)
class Packing:
    """How a kernel machine is written in few bits, and what it cost to make it so small.

    Attributes
    ----------
    grid : Grid
        On which its support vectors lie.
    support_vectors : int
        Of the machine that was trained.
    whole_error, error : float
        Share of the training set, each point counted as in the training, that the trained machine answers wrongly, and
        that this one does.
    """

    grid: Grid
    support_vectors: int
    whole_error: float
    error: float


@dataclass(frozen=True, slots=True)
class KernelMachine:
    """f(z) = sum_i dual_i k(support_i, z) + intercept, over scaled features.

    Attributes
    ----------
    kernel : RbfKernel
    support : ndarray of shape (s, d), float64
        Scaled support vectors.
    dual : ndarray of shape (s,), float64
        y_i a_i.
    intercept : float
    packing : Packing or None
        Of a packed machine: support vectors lie on a grid, and every entry of `dual` is a float32 value.
    """

    kernel: RbfKernel
    support: Float
    dual: Float
    intercept: float
    packing: Packing | None = None

    def packed(self, packing: Packing) -> KernelMachine:
        """Return this machine on a grid; itself without a term, or where a dual coefficient is beyond float32."""
        if not len(self.dual) or float(np.abs(self.dual).max()) > LARGEST_SINGLE:
            return self
        support, dual = packing.grid.rounded(self.support), in_single(self.dual)
        return replace(self, support=support, dual=dual, packing=packing)

    def decide(self, Z: Float) -> Float:
        """Return the decision values of scaled features, shape (n,)."""
        values, kernel = np.empty(len(Z)), self.kernel.around(self.support)
        rows = block_rows(len(self.dual))
        for start in range(0, len(Z), rows):
            block = slice(start, start + rows)
            values[block] = kernel.gram(Z[block]) @ self.dual + self.intercept
        return values


def in_single(dual: Float) -> Float:
    """Return numbers rounded to float32 values, as float64."""
    return dual.astype(np.float32).astype(np.float64)


Machine = LinearMachine | KernelMachine | AdditiveMachine


@dataclass(frozen=True, slots=True)
class Model:
    """A scaler and a machine: everything that scoring needs.

    Attributes
    ----------
    scaler : Scaler
    machine : LinearMachine, KernelMachine or AdditiveMachine
    probability : Sigmoid or None
        Maps a decision value to the label's probability; None where that was not asked for, or could not be fitted.
    feature_names : tuple of str
        Names of the features in their order; empty where they have none.
    threshold : Threshold or None
        Above which decision value the answer is the second label; None: above 0.
    """

    scaler: Scaler
    machine: Machine
    probability: Sigmoid | None = None
    feature_names: tuple[str, ...] = ()
    threshold: Threshold | None = None

    @property
    def classes(self) -> int:
        """Number of labels that it separates."""
        return 2

    @property
    def border(self) -> float:
        """The decision value above which the answer is the second label."""
        return 0.0 if self.threshold is None else self.threshold.value

    @property
    def dimension(self) -> int:
        """Number of features."""
        return len(self.scaler.mean)

    def decision_function(self, X: Any) -> Float:
        """Score raw features.

        Parameters
        ----------
        X : array_like of shape (n, d), mapping, sequence of mappings, or data frame
            Rows of finite numbers. A mapping of the features' names to numbers is one row, of names to columns several;
            names may come in any order, and have to be those of the model.

        Returns
        -------
        ndarray of shape (n,), float64
            Above `border` for the second configured label. Infinite or NaN only where a feature is beyond 1e100 or so.

        Raises
        ------
        InvalidFeatures
            A `ValueError`: the shape, a name or an entry is not what the model knows; says which.
        """
        features = features_of(X, self.dimension, self.feature_names)
        Z = self.scaler.transform(features)
        decision = self.machine.decide(Z)
        # What is not finite in a row shows in a linear machine's score, but not in a kernel's: it is 0 far away. A sum
        # of squares is a fraction of the time of `np.isfinite`, and finite where all is.
        checked = decision if isinstance(self.machine, LinearMachine) else Z.ravel("K")
        with np.errstate(over="ignore", invalid="ignore"):  # then each entry is looked at
            all_finite = math.isfinite(checked @ checked)
        if not all_finite:
            check_finite(features, self.feature_names)
        return decision

    def predict_sign(self, X: Any) -> NDArray[np.int8]:
        """Return +1 where the decision value is above `border`, else -1; raises as `decision_function` does."""
        return np.where(check_decided(self.decision_function(X)) > self.border, 1, -1).astype(np.int8)

    def predict_codes(self, X: Any) -> NDArray[np.int8]:
        """Return the answer to each row as `Points.y` has labels: here a sign; see `predict_sign`."""
        return self.predict_sign(X)

    def strength(self, decision: Float) -> Float:
        """Return one number for each row's decision: here the decision value itself."""
        return decision

    def predict_proba(self, X: Any) -> Float:
        """Return the probability of the first and of the second configured label, shape (n, 2).

        Of points as the stream brings them, their weights counted: a class weight, by which the machine was trained,
        does not change how often a label is. A probability of exactly 0.5 and the decision value `border` are two
        borders.

        Raises
        ------
        ConfigurationError
            If the model has none.
        InvalidFeatures
            As `decision_function` does.
        """
        if self.probability is None:
            raise ConfigurationError("the model has no probabilities", "Train with svm.probability = sigmoid.")
        positive = self.probability.of(check_decided(self.decision_function(X)))
        return np.column_stack((1.0 - positive, positive))
