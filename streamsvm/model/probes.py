"""Probes: a few inputs with the decision values that a model has there, by which a reader checks what it made of it.

A program in another language parses arrays, scales features and evaluates a kernel by its own code; before it serves a
version it scores the version's probes and compares. The points are a pure function of the model: some of its support
vectors, and a fixed low-discrepancy sequence over four standard deviations, each rounded to about a tenth of a standard
deviation so that it reads well. For a linear machine no point of the stream is among them.

The expected values do not come from the code that serves: they are summed term by term, without linear algebra, and
correctly rounded by `math.fsum`.

Invariant: a sound evaluation in float64 of the same formula, in whatever order, is within the tolerance given for each
probe: `RELATIVE` of the sum of the absolute terms. Not of the value itself, which may be their difference; and an RBF
term counts more where gamma (|z|^2 + max |s|^2) is beyond 1e5: expanding the squared distance, as fast code does, loses
that many digits, also where it moves all points by the mean of the support vectors first.

A model that has probabilities gives that of each probe, too, as it follows from the decision value *as it is given
here* and not from the reader's own. Evaluated so, it is within `RELATIVE`, or that share of |a f| + |b| where these
terms are beyond 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from streamsvm.errors import InvalidMessage
from streamsvm.model.classes import AnyModel, ClassModel, KernelMachines, shares_of
from streamsvm.model.kernels import Float
from streamsvm.model.machine import KernelMachine, Machine
from streamsvm.model.probability import Sigmoid

COUNT: Final = 8
LEAST: Final = 2
MOST_ENTRIES: Final = 4_096
"""Of all probes together, unless `LEAST` of them have more: a message of many features stays small."""
RELATIVE: Final = 1e-9
_SHARES: Final = 10.0
"""By what a probability that is made of several may differ more."""
_EXPANSION: Final = 1e-5
_ROUNDING: Final = 0.02
_REACH: Final = 2.0
_GOLDEN: Final = (math.sqrt(5.0) - 1.0) / 2.0


@dataclass(frozen=True, slots=True)
class Probes:
    """Points and what a model says of them.

    Attributes
    ----------
    X : ndarray of shape (m, d), float64
        Raw features.
    decision : ndarray of shape (m,), or (m, n_machines), float64
    tolerance : ndarray of shape (m,), or (m, n_machines), float64
        How far a reader's decision value may be from it.
    probability : ndarray of shape (m,), or (m, n_classes), float64, or None
        Of the second label, or of each of more than two, at `decision`; None where the model has none.
    """

    X: Float
    decision: Float
    tolerance: Float
    probability: Float | None = None


def count_of(dimension: int) -> int:
    """Return how many probes a model of so many features has."""
    return max(LEAST, min(COUNT, MOST_ENTRIES // dimension))


def probes_of(model: AnyModel) -> Probes:
    """Choose probes for a model and evaluate it there; what is not finite comes from a model that is not."""
    return _evaluated(model, _points(model))


def check_own(model: AnyModel, given: Probes) -> None:
    """Compare a model with the probes that came with it, and with those of its own choice where they are others.

    The author of a message chose the probes in it: where the model's own do not hold, it cannot be evaluated soundly
    in float64, whatever the message says.

    Raises
    ------
    InvalidMessage
        As `check` does.
    """
    check(model, given)
    if not np.array_equal(given.X, _points(model)):
        check(model, probes_of(model))


def check(model: AnyModel, given: Probes) -> None:
    """Compare a model, as it serves, with the probes that came with it.

    Raises
    ------
    InvalidMessage
        If a decision value or a probability differs by more than the tolerance, or the tolerance itself is not what it
        must be.
    """
    own = _evaluated(model, given.X)
    with np.errstate(over="ignore", invalid="ignore"):
        served = model.machine_values(given.X) if isinstance(model, ClassModel) else model.decision_function(given.X)
    if isinstance(model, ClassModel):
        for index in range(model.machines):
            _check_decisions(served[:, index], _column(given, index), own.tolerance[:, index], f" of machine {index}")
        _check_shares(model, given)
        return
    _check_decisions(served, given, own.tolerance, "")
    _check_probability(model.probability, given)


def _column(probes: Probes, label: int) -> Probes:
    return Probes(probes.X, probes.decision[:, label], probes.tolerance[:, label])


def _check_decisions(served: Float, given: Probes, tolerances: Float, which: str) -> None:
    for index in range(len(given.X)):
        expected, tolerance = float(given.decision[index]), float(tolerances[index])
        if not abs(float(served[index]) - expected) <= tolerance:
            raise InvalidMessage(
                f"probe {index}{which}: this build computes the decision value {served[index]!s}, but the message says "
                f"{expected!s}; they differ by more than {tolerance:.3g}"
            )
        if not math.isfinite(tolerance):
            raise InvalidMessage(f"probe {index}{which}: the model's terms overflow at this point")
        if not math.isclose(float(given.tolerance[index]), tolerance, rel_tol=_ROUNDING):
            raise InvalidMessage(
                f"probe {index}{which}: the tolerance is {given.tolerance[index]!s}, not {tolerance!s}"
            )


def _check_shares(model: ClassModel, given: Probes) -> None:
    if given.probability is None:
        return
    if model.probabilities is None:
        raise InvalidMessage("the probes have probabilities, but the model has none")
    served = model.shares(given.decision)
    terms = np.column_stack([_sizes(one, given.decision[:, k]) for k, one in enumerate(model.probabilities)])
    wrong = np.argwhere(~(np.abs(served - given.probability) <= _SHARES * RELATIVE * terms.max(axis=1, keepdims=True)))
    if len(wrong):
        index, label = (int(at) for at in wrong[0])
        raise InvalidMessage(
            f"probe {index} of label {label}: this build computes the probability {served[index, label]!s}, but the "
            f"message says {given.probability[index, label]!s}"
        )


def _sizes(function: Sigmoid, decision: Float) -> Float:
    """Return by what the rounding of a probability's argument counts."""
    return np.maximum(1.0, np.abs(function.a * decision) + abs(function.b))


def _check_probability(function: Sigmoid | None, given: Probes) -> None:
    if given.probability is None:
        return
    if function is None:
        raise InvalidMessage("the probes have probabilities, but the model has none")
    served = function.of(given.decision)
    for index, (f, expected) in enumerate(zip(given.decision.tolist(), given.probability.tolist(), strict=True)):
        terms = float(_sizes(function, np.array([f]))[0])
        if not abs(float(served[index]) - expected) <= RELATIVE * terms:
            raise InvalidMessage(
                f"probe {index}: this build computes the probability {served[index]!s}, but the message says "
                f"{expected!s}"
            )


def _points(model: AnyModel) -> Float:
    """Return raw points, shape (m, d): every second one by a support vector, where there are some."""
    dimension = model.dimension
    Z = _sequence(count_of(dimension), dimension)
    of_kernel = isinstance(model.machine, KernelMachine | KernelMachines)
    if of_kernel and len(support := model.machine.support):  # type: ignore[union-attr]
        chosen = np.unique(np.linspace(0, len(support) - 1, len(Z) // 2).astype(np.int64))
        Z[: 2 * len(chosen) : 2] = support[chosen]
    mean, scale = model.scaler.mean, model.scaler.scale
    with np.errstate(over="ignore", invalid="ignore"):
        X = mean + scale * Z
        X = np.where(np.isfinite(X), X, mean)
    # Rounded to a hundredth to a tenth of the scale.
    decimals = [1 - math.floor(math.log10(one)) if 0.0 < one < math.inf else 0 for one in scale.tolist()]
    return np.array([[_rounded(float(entry), decimals[j]) for j, entry in enumerate(row)] for row in X])


def _sequence(count: int, dimension: int) -> Float:
    """Return scaled points, shape (count, dimension), over [-2, 2): fractional parts of i^2 times the golden ratio.

    The square keeps the entries of one feature apart, whatever the number of features is.
    """
    steps = np.arange(1, count * dimension + 1, dtype=np.float64) ** 2 * _GOLDEN
    return np.asarray(2 * _REACH * (steps % 1.0) - _REACH).reshape(count, dimension)


def _rounded(entry: float, decimals: int) -> float:
    try:
        return round(entry, decimals) + 0.0  # no -0.0
    except (OverflowError, ValueError):
        return entry


def _evaluated(model: AnyModel, X: Float) -> Probes:
    if isinstance(model, ClassModel):
        return _evaluated_of_classes(model, X)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        Z, intercept = model.scaler.transform(X), model.machine.intercept
        decision, tolerance = [], []
        for terms, weights in _terms(model.machine, Z):
            decision.append(_sum([*terms.tolist(), intercept]))
            exact = RELATIVE * (float((np.abs(terms) * weights).sum()) + abs(intercept))
            tolerance.append(float(f"{exact:.2e}"))  # reads well and is the same on every processor, nearly always
    return Probes(X, np.array(decision), np.array(tolerance), _probabilities(model.probability, decision))


def _evaluated_of_classes(model: ClassModel, X: Float) -> Probes:
    parts = [_evaluated(replace(model.model(label), probability=None), X) for label in range(model.machines)]
    decision = np.column_stack([part.decision for part in parts])
    tolerance = np.column_stack([part.tolerance for part in parts])
    if model.probabilities is None:
        return Probes(X, decision, tolerance)
    columns = [
        _likelihoods(function, decision[:, label].tolist()) for label, function in enumerate(model.probabilities)
    ]
    return Probes(
        X, decision, tolerance, np.round(shares_of(np.column_stack(columns), model.classes, model.scheme), 12)
    )


def _probabilities(function: Sigmoid | None, decision: list[float]) -> Float | None:
    """Return the probability at each decision value, to twelve decimals, which are the same on every processor."""
    if function is None:
        return None
    return np.array([round(found, 12) for found in _likelihoods(function, decision)])


def _likelihoods(function: Sigmoid, decision: list[float]) -> list[float]:
    return [math.nan if math.isnan(f) else _on_sigmoid(function, f) for f in decision]


def _on_sigmoid(function: Sigmoid, f: float) -> float:
    z = function.a * f + function.b
    shrunk = math.exp(-abs(z))
    return (shrunk if z > 0.0 else 1.0) / (1.0 + shrunk)


def _terms(machine: Machine, Z: Float) -> Iterator[tuple[Float, Float | float]]:
    """Yield what adds up to each decision value but for the intercept, and how much each term's rounding counts.

    One point after the other: of a kernel machine there is a term for each support vector, and a message may bring
    millions.
    """
    if not isinstance(machine, KernelMachine):
        yield from ((terms, 1.0) for terms in machine.terms(Z))
        return
    gamma, support = machine.kernel.gamma, machine.support
    longest = np.square(support).sum(axis=1).max(initial=0.0)
    for z, norm in zip(Z, np.square(Z).sum(axis=1), strict=True):
        distances = np.square(support - z).sum(axis=1)
        yield machine.dual * np.exp(-gamma * distances), 1.0 + _EXPANSION * gamma * (norm + longest)


def _sum(terms: list[float]) -> float:
    try:
        return math.fsum(terms)
    except (OverflowError, ValueError):
        return math.nan
