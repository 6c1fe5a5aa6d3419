"""A model of more than two labels: several machines over one scaler and, with kernels, one set of support vectors.

*One against the rest*: machine k tells label k, above 0, from all others; its decision value is that of the label.

*One against one*: a machine for each pair of labels (i, j), i < j, in the order (0, 1), (0, 2), ..., (1, 2), ...; above
0 it votes for j, else for i. A label's decision value is its votes and s / (3 |s| + 3), where s is the sum of the
values of its machines, as far as they speak for it: less than a third of a vote, so that it only decides between
equals.

The label with the greatest decision value is the answer; of equal ones the first. The machines are evaluated together:
a row is scaled once, and all of them are one product,
unless they are additive.

*Probabilities*: one against the rest, those of each label over their sum. One against one, p_k = 1 / (sum over j of
1 / r_kj - (K - 2)) over their sum, where r_kj is the probability of k in the pair (Price, Knerr, Personnaz and Dreyfus
1995), at least `LEAST_PROBABILITY`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.choices import Multiclass
from streamsvm.errors import ConfigurationError
from streamsvm.model.additive import AdditiveMachine
from streamsvm.model.features import check_decided, check_finite, features_of
from streamsvm.model.kernels import Float, RbfKernel
from streamsvm.model.machine import KernelMachine, LinearMachine, Machine, Model, Scaler, block_rows
from streamsvm.model.probability import Sigmoid


@dataclass(frozen=True, slots=True)
class LinearMachines:
    """f_k(z) = <coefficients_k, z> + intercept_k, over scaled features.

    Attributes
    ----------
    coefficients : ndarray of shape (n_classes, d), float64
    intercepts : ndarray of shape (n_classes,), float64
    """

    coefficients: Float
    intercepts: Float

    def decide(self, Z: Float) -> Float:
        """Return the decision values of scaled features, shape (n, n_machines)."""
        return np.asarray(Z @ self.coefficients.T + self.intercepts, dtype=np.float64)

    def machine(self, label: int) -> LinearMachine:
        """Return the machine of one label."""
        return LinearMachine(self.coefficients[label], float(self.intercepts[label]))


@dataclass(frozen=True, slots=True)
class KernelMachines:
    """f_k(z) = sum_i dual_ki k(support_i, z) + intercept_k, over scaled features.

    Attributes
    ----------
    kernel : RbfKernel
    support : ndarray of shape (s, d), float64
        Scaled support vectors of any of the machines.
    dual : ndarray of shape (n_classes, s), float64
        y_i a_i of each machine; 0 where a vector does not support it.
    intercepts : ndarray of shape (n_classes,), float64
    """

    kernel: RbfKernel
    support: Float
    dual: Float
    intercepts: Float

    def decide(self, Z: Float) -> Float:
        """Return the decision values of scaled features, shape (n, n_classes)."""
        values = np.empty((len(Z), len(self.intercepts)))
        rows = block_rows(len(self.support))
        for start in range(0, len(Z), rows):
            block = slice(start, start + rows)
            values[block] = self.kernel.gram(Z[block], self.support) @ self.dual.T + self.intercepts
        return values

    def machine(self, label: int) -> KernelMachine:
        """Return the machine of one label, with its own support vectors only."""
        own = np.flatnonzero(self.dual[label])
        return KernelMachine(self.kernel, self.support[own], self.dual[label][own], float(self.intercepts[label]))


@dataclass(frozen=True, slots=True)
class AdditiveMachines:
    """Additive machines over the same scaled features; each has knots and pairs of its own.

    Attributes
    ----------
    machines : tuple of AdditiveMachine
    """

    machines: tuple[AdditiveMachine, ...]

    @property
    def intercepts(self) -> Float:
        """Those of the machines, shape (n_machines,)."""
        return np.array([one.intercept for one in self.machines])

    def decide(self, Z: Float) -> Float:
        """Return the decision values of scaled features, shape (n, n_machines)."""
        return np.column_stack([one.decide(Z) for one in self.machines])

    def machine(self, label: int) -> AdditiveMachine:
        """Return the machine of one label."""
        return self.machines[label]


Machines = LinearMachines | KernelMachines | AdditiveMachines

LEAST_PROBABILITY: Final = 1e-9
"""Of a label in a pair, and of the other one."""


def pairs_of(classes: int) -> list[tuple[int, int]]:
    """Return the pairs of labels that the machines of one against one are of, in their order."""
    return list(combinations(range(classes), 2))


def machines_of(classes: int, scheme: Multiclass) -> int:
    """Return how many machines a model of so many labels has."""
    return classes if scheme == "one_vs_rest" else classes * (classes - 1) // 2


@cache
def _sides(classes: int) -> tuple[Float, Float]:
    """Return which machine of one against one is of which label, as the first and the second: shape (m, n_classes)."""
    first, second = np.array(pairs_of(classes)).T
    return np.eye(classes)[first], np.eye(classes)[second]


@dataclass(frozen=True, slots=True)
class ClassModel:
    """A scaler and several machines; `streamsvm.model.machine.Model` of more than two labels.

    Attributes
    ----------
    scaler : Scaler
    machine : LinearMachines, KernelMachines or AdditiveMachines
    classes : int
        Number of labels that it tells apart.
    scheme : "one_vs_one" or "one_vs_rest"
        What each machine tells apart: see the module.
    probabilities : tuple of Sigmoid, or None
        For each machine the function from its decision value to the probability of its label, or of the second of its
        pair; None where that was not asked for, or could not be fitted for every machine.
    feature_names : tuple of str
        Names of the features in their order; empty where they have none.
    """

    scaler: Scaler
    machine: Machines
    classes: int
    scheme: Multiclass
    probabilities: tuple[Sigmoid, ...] | None = None
    feature_names: tuple[str, ...] = ()
    threshold: ClassVar[None] = None
    border: ClassVar[float] = 0.0

    @property
    def machines(self) -> int:
        """Number of machines."""
        return len(self.machine.intercepts)

    @property
    def dimension(self) -> int:
        """Number of features."""
        return len(self.scaler.mean)

    def model(self, index: int) -> Model:
        """Return what one of the machines decides."""
        probability = None if self.probabilities is None else self.probabilities[index]
        return Model(self.scaler, self.machine.machine(index), probability, self.feature_names)

    def machine_values(self, X: Any) -> Float:
        """Return the decision value of each machine, shape (n, n_machines).

        Parameters
        ----------
        X : array_like of shape (n, d), mapping, sequence of mappings, or data frame
            As `Model.decision_function` takes it.

        Raises
        ------
        InvalidFeatures
            A `ValueError`: the shape, a name or an entry is not what the model knows; says which.
        """
        features = features_of(X, self.dimension, self.feature_names)
        Z = self.scaler.transform(features)
        flat = Z.ravel("K")
        with np.errstate(over="ignore", invalid="ignore"):  # finite where all entries are; else each is looked at
            all_finite = math.isfinite(flat @ flat)
        if not all_finite:
            check_finite(features, self.feature_names)
        return self.machine.decide(Z)

    def decision_function(self, X: Any) -> Float:
        """Return the decision value of each label, shape (n, n_classes); parameters and errors of `machine_values`."""
        return self.label_values(self.machine_values(X))

    def label_values(self, values: Float) -> Float:
        """Return the decision values of the labels by those of the machines."""
        return label_values(values, self.classes, self.scheme)

    def predict_codes(self, X: Any) -> NDArray[np.int8]:
        """Return the index of the label with the greatest decision value; raises as `decision_function` does."""
        return np.asarray(check_decided(self.decision_function(X)).argmax(axis=1), dtype=np.int8)

    def strength(self, decision: Float) -> Float:
        """Return one number for each row's decision: the value of the label that is the answer, shape (n,)."""
        return np.asarray(decision.max(axis=1), dtype=np.float64)

    def predict_proba(self, X: Any) -> Float:
        """Return the probability of each label, in the order of the labels, shape (n, n_classes).

        Of points as the stream brings them, their weights counted. The most probable label is not always the answer,
        which goes by decision values.

        Raises
        ------
        ConfigurationError
            If the model has none.
        InvalidFeatures
            As `decision_function` does.
        """
        return self.shares(check_decided(self.machine_values(X)))

    def shares(self, values: Float) -> Float:
        """Return the probability of each label by the machines' decision values, shape (n, n_classes).

        Raises
        ------
        ConfigurationError
            If the model has none.
        """
        if self.probabilities is None:
            raise ConfigurationError("the model has no probabilities", "Train with svm.probability = sigmoid.")
        columns = [function.of(values[:, index]) for index, function in enumerate(self.probabilities)]
        return shares_of(np.column_stack(columns), self.classes, self.scheme)


def label_values(values: Float, classes: int, scheme: Multiclass) -> Float:
    """Return the decision value of each label, shape (n, n_classes), by those of the machines: (n, n_machines)."""
    if scheme == "one_vs_rest":
        return values
    first, second = _sides(classes)
    votes = np.where(values > 0.0, 1.0, 0.0) @ second + np.where(values > 0.0, 0.0, 1.0) @ first
    sums = values @ (second - first)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(np.isnan(sums), np.nan, votes + sums / (3.0 * np.abs(sums) + 3.0)))


def shares_of(probability: Float, classes: int, scheme: Multiclass) -> Float:
    """Return the probability of each label, shape (n, n_classes), by those of the machines, shape (n, n_machines).

    Where all are 0 against the rest, they are equal.
    """
    of_labels = probability
    if scheme == "one_vs_one":
        first, second = _sides(classes)
        kept = np.clip(probability, LEAST_PROBABILITY, 1.0 - LEAST_PROBABILITY)
        of_labels = 1.0 / ((1.0 / kept) @ second + (1.0 / (1.0 - kept)) @ first - (classes - 2))
    total = of_labels.sum(axis=1, keepdims=True)
    even = np.full_like(of_labels, 1.0 / classes)
    return np.asarray(np.divide(of_labels, total, out=even, where=total > 0.0), dtype=np.float64)


def joined(models: Sequence[Model], classes: int, scheme: Multiclass) -> ClassModel:
    """Return one model of several, one a machine, in their order.

    Parameters
    ----------
    models : sequence of Model
        Of one scaler and kernel. Where one lacks a probability, the whole has none.
    classes : int
    scheme : "one_vs_one" or "one_vs_rest"
    """
    first = models[0]
    functions = [model.probability for model in models if model.probability is not None]
    probabilities = tuple(functions) if len(functions) == len(models) else None
    machines = _joined([model.machine for model in models])
    return ClassModel(first.scaler, machines, classes, scheme, probabilities, first.feature_names)


def _joined(machines: Sequence[Machine]) -> Machines:
    additive = tuple(machine for machine in machines if isinstance(machine, AdditiveMachine))
    if additive:
        return AdditiveMachines(additive)
    intercepts = np.array([machine.intercept for machine in machines])
    linear = [machine.coefficients for machine in machines if isinstance(machine, LinearMachine)]
    if linear:
        return LinearMachines(np.array(linear), intercepts)
    kernels = [machine for machine in machines if isinstance(machine, KernelMachine)]
    stacked = np.concatenate([machine.support for machine in kernels])
    support, places = np.unique(stacked, axis=0, return_inverse=True)
    places = places.reshape(-1)  # numpy 2.0 gave it another shape
    dual, start = np.zeros((len(kernels), len(support))), 0
    for label, machine in enumerate(kernels):
        stop = start + len(machine.support)
        np.add.at(dual[label], places[start:stop], machine.dual)  # equal points of one machine have one column
        start = stop
    return KernelMachines(kernels[0].kernel, support, dual, intercepts)


AnyModel = Model | ClassModel
"""What a version holds: of two labels a `Model`, of more a `ClassModel`."""
