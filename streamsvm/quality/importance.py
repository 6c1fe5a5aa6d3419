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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.model.classes import ClassModel, LinearMachines
from streamsvm.model.machine import KernelMachine, LinearMachine, Model
from streamsvm.points import Points
from streamsvm.quality.skill import auc

Float = NDArray[np.float64]

REPEATS: Final = 2
"""Exchanges of each feature, whose falls are averaged."""
MOST_KERNEL_VALUES: Final = 32_000_000
"""Of one call: half a second."""
BLOCK_ROWS: Final = 128
"""Points whose kernel values are held at once: a few megabytes."""
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


def importance_of_machines(model: ClassModel) -> Importance | None:
    """Return what a model of more than two labels looks at: the mean size of a feature's coefficients; None of kernels.

    A share is of the mean over the machines, each of whose coefficients count alike; it has no side.
    """
    if not isinstance(model.machine, LinearMachines):
        return None
    size = np.abs(model.machine.coefficients).mean(axis=0)
    return Importance(size, _shares(size), signed=False, points=0)


def _falls(machine: KernelMachine, Z: Float, y: NDArray[np.bool_], weight: Float, chosen: NDArray[np.intp]) -> Float:
    """Return by how much the AUC falls, on average, when a feature is exchanged; NaN if not chosen."""
    random = np.random.Generator(np.random.PCG64(0))
    orders = [random.permutation(len(Z)) for _ in range(REPEATS)]
    whole = auc(y, weight, machine.decide(Z), 0.0).value
    values = _exchanged(machine, Z, chosen, orders)
    falls = np.full(Z.shape[1], np.nan)
    falls[chosen] = [np.mean([whole - auc(y, weight, one, 0.0).value for one in several]) for several in values]
    return falls


def _exchanged(machine: KernelMachine, Z: Float, chosen: NDArray[np.intp], orders: Sequence[NDArray[np.intp]]) -> Float:
    """Return decision values where a feature comes from the rows in another order, shape (features, orders, n).

    An exchange moves one coordinate, so the squared distances are worked out once.
    """
    values = np.empty((len(chosen), len(orders), len(Z)))
    square = np.einsum("ij,ij->i", machine.support, machine.support)
    for start in range(0, len(Z), BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        apart = np.einsum("ij,ij->i", Z[rows], Z[rows])[:, None] + square - 2.0 * (Z[rows] @ machine.support.T)
        for place, feature in enumerate(chosen):
            own, support = Z[rows, feature], machine.support[:, feature]
            for turn, order in enumerate(orders):
                new = Z[order[rows], feature]
                moved = apart + (new**2 - own**2)[:, None] - np.outer(2.0 * (new - own), support)
                near = np.exp(-machine.kernel.gamma * np.maximum(moved, 0.0))
                values[place, turn, rows] = near @ machine.dual + machine.intercept
    return values


def _chosen(Z: Float, y: NDArray[np.bool_], weight: Float, most: int) -> NDArray[np.intp]:
    """Return the features to look at, ascending: all, or those in whose means the labels differ most."""
    if Z.shape[1] <= most:
        return np.arange(Z.shape[1])
    means = [np.average(Z[own], axis=0, weights=weight[own]) for own in (y, ~y)]
    return np.sort(np.argsort(-np.abs(means[0] - means[1]), kind="stable")[:most])


def _shares(size: Float) -> Float:
    total = float(size.sum())
    return size / total if total > 0.0 else np.zeros_like(size)
