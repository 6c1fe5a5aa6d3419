"""What a model looks at: how much of its answers each feature decides.

A linear machine says it itself: over standardised features its coefficients are comparable, and a feature's share is
that of its coefficient's size among all. A kernel machine is asked: the values of one feature are exchanged at random
among the points of a sample, and its importance is what the ranking loses by that, the fall of the AUC (permutation
importance). Two features that say the same hide one another: each can be lost without harm.

Invariants: the same model and sample give the same figures, bit for bit; the work is bounded whatever the number of
features, points and support vectors (`MOST_KERNEL_VALUES`).

Sources: Breiman 2001 (permutation importance); Fisher, Rudin and Dominici 2019 (of any model).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.model.machine import KernelMachine, LinearMachine, Model
from streamsvm.points import Points
from streamsvm.quality.skill import auc

Float = NDArray[np.float64]

REPEATS: Final = 4
"""Exchanges of each feature, whose falls are averaged."""
MOST_KERNEL_VALUES: Final = 16_000_000
"""Of one call: a quarter of a second."""
LEAST_POINTS: Final = 200
"""Points that are asked about at least; where that would take too many kernel values, fewer features are looked at."""
LEAST_OF_A_LABEL: Final = 10
"""Points of each label without which nothing is said."""


@dataclass(frozen=True, slots=True)
class Importance:
    """How much each feature decides.

    Attributes
    ----------
    value : ndarray of shape (d,), float64
        Coefficient over standardised features, positive where a greater value speaks for the second label; or, of a
        kernel machine, the fall of the AUC. NaN for features that were not looked at.
    share : ndarray of shape (d,), float64
        Of all, from 0 to 1, summing to 1, or all 0: of the coefficients' sizes, or of the positive falls.
    signed : bool
        Whether `value` is a coefficient.
    points : int
        Points of the sample that were asked about; 0 for a linear machine.
    """

    value: Float
    share: Float
    signed: bool
    points: int


def importance(model: Model, sample: Points | None) -> Importance | None:
    """Return what a model looks at.

    Parameters
    ----------
    model : Model
    sample : Points or None
        Of a kernel machine: labeled points, each with the weight that it stands for, none of which need be in the
        training set.

    Returns
    -------
    Importance or None
        None of a kernel machine without a sample, or with fewer than `LEAST_OF_A_LABEL` points of a label.
    """
    if isinstance(model.machine, LinearMachine):
        size = np.abs(model.machine.coefficients)
        return Importance(model.machine.coefficients, _shares(size), signed=True, points=0)
    if sample is None:
        return None
    machine, dimension = model.machine, model.dimension
    most = MOST_KERNEL_VALUES // (REPEATS * max(1, len(machine.support)))
    n = min(len(sample), max(LEAST_POINTS, most // dimension))
    drawn = sample.take(np.linspace(0, len(sample) - 1, n).astype(np.intp))
    y = drawn.y > 0
    if min(int(y.sum()), int((~y).sum())) < LEAST_OF_A_LABEL:
        return None
    Z = model.scaler.transform(drawn.X)
    weight = np.asarray(drawn.weight, np.float64)
    falls = _falls(machine, Z, y, weight, _chosen(Z, y, weight, max(1, most // n)))
    return Importance(falls, _shares(np.maximum(np.nan_to_num(falls), 0.0)), signed=False, points=n)


def _falls(machine: KernelMachine, Z: Float, y: NDArray[np.bool_], weight: Float, chosen: NDArray[np.intp]) -> Float:
    """Return by how much the AUC falls, on average, when a feature is exchanged; NaN if not chosen."""
    random = np.random.Generator(np.random.PCG64(0))
    orders = [random.permutation(len(Z)) for _ in range(REPEATS)]
    whole = auc(y, weight, machine.decide(Z), 0.0).value
    falls = np.full(Z.shape[1], np.nan)
    for feature in chosen:
        own = Z[:, feature].copy()
        lost = 0.0
        for order in orders:
            Z[:, feature] = own[order]
            lost += whole - auc(y, weight, machine.decide(Z), 0.0).value
        Z[:, feature] = own
        falls[feature] = lost / REPEATS
    return falls


def _chosen(Z: Float, y: NDArray[np.bool_], weight: Float, most: int) -> NDArray[np.intp]:
    """Return the features to look at, ascending: all, or those in whose means the labels differ most."""
    if Z.shape[1] <= most:
        return np.arange(Z.shape[1])
    means = [np.average(Z[own], axis=0, weights=weight[own]) for own in (y, ~y)]
    return np.sort(np.argsort(-np.abs(means[0] - means[1]), kind="stable")[:most])


def _shares(size: Float) -> Float:
    total = float(size.sum())
    return size / total if total > 0.0 else np.zeros_like(size)
