"""Probes: a few inputs with the decision values that a model has there, by which a reader checks what it made of it.

A program in another language parses arrays, scales features and evaluates a kernel by its own code; before it serves a
version it scores the version's probes and compares. The points are a pure function of the model: some of its support
vectors, and a fixed low-discrepancy sequence over four standard deviations, each rounded to about a tenth of a standard
deviation so that it reads well. For a linear machine no point of the stream is among them.

The expected values do not come from the code that serves: they are summed term by term, without linear algebra, and
correctly rounded by `math.fsum`.

Invariant: a sound evaluation in float64 of the same formula, in whatever order, is within the tolerance given for each
probe: `RELATIVE` of the sum of the absolute terms. Not of the value itself, which may be their difference; and an RBF
term counts more where gamma (|z|^2 + |s|^2) is beyond 1e5: expanding the squared distance, as fast code does, loses
that many digits.

A model that has probabilities gives that of each probe, too, as it follows from the decision value *as it is given
here* and not from the reader's own: where an isotonic function is steep, the tolerance of the one would be the whole
range of the other. Evaluated so, it is within `RELATIVE`, or that share of |a f| + |b| where a sigmoid's terms are
beyond 1.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from typing import Final

import numpy as np

from streamsvm.errors import InvalidMessage
from streamsvm.model.kernels import Float
from streamsvm.model.machine import LinearMachine, Machine, Model
from streamsvm.model.probability import Isotonic, Probability

COUNT: Final = 8
LEAST: Final = 2
MOST_ENTRIES: Final = 4_096
"""Of all probes together, unless `LEAST` of them have more: a message of many features stays small."""
RELATIVE: Final = 1e-9
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
    decision : ndarray of shape (m,), float64
    tolerance : ndarray of shape (m,), float64
        How far a reader's decision value may be from it.
    probability : ndarray of shape (m,), float64, or None
        Of the second label, at `decision`; None where the model has none.
    """

    X: Float
    decision: Float
    tolerance: Float
    probability: Float | None = None


def count_of(dimension: int) -> int:
    """Return how many probes a model of so many features has."""
    return max(LEAST, min(COUNT, MOST_ENTRIES // dimension))


def probes_of(model: Model) -> Probes:
    """Choose probes for a model and evaluate it there; what is not finite comes from a model that is not."""
    return _evaluated(model, _points(model))


def check_own(model: Model, given: Probes | None) -> None:
    """Compare a model with the probes that came with it, and with those of its own choice where they are others.

    Whoever made the message chose the probes in it, and the oldest messages have none: where its own do not hold, the
    model cannot be evaluated soundly in float64, whatever the message says.

    Raises
    ------
    InvalidMessage
        As `check` does.
    """
    if given is not None:
        check(model, given)
    if given is None or not np.array_equal(given.X, _points(model)):
        check(model, probes_of(model))


def check(model: Model, given: Probes) -> None:
    """Compare a model, as it serves, with the probes that came with it.

    Raises
    ------
    InvalidMessage
        If a decision value or a probability differs by more than the tolerance, or the tolerance itself is not what it
        must be.
    """
    own = _evaluated(model, given.X)
    with np.errstate(over="ignore", invalid="ignore"):
        served = model.decision_function(given.X)
    for index in range(len(given.X)):
        expected, tolerance = float(given.decision[index]), float(own.tolerance[index])
        if not abs(float(served[index]) - expected) <= tolerance:
            raise InvalidMessage(
                f"probe {index}: this build computes the decision value {served[index]!s}, but the message says "
                f"{expected!s}; they differ by more than {tolerance:.3g}"
            )
        if not math.isfinite(tolerance):
            raise InvalidMessage(f"probe {index}: the model's terms overflow at this point")
        if not math.isclose(float(given.tolerance[index]), tolerance, rel_tol=_ROUNDING):
            raise InvalidMessage(f"probe {index}: the tolerance is {given.tolerance[index]!s}, not {tolerance!s}")
    _check_probability(model.probability, given)


def _check_probability(function: Probability | None, given: Probes) -> None:
    if given.probability is None:
        return
    if function is None:
        raise InvalidMessage("the probes have probabilities, but the model has none")
    served = function.of(given.decision)
    for index, (f, expected) in enumerate(zip(given.decision.tolist(), given.probability.tolist(), strict=True)):
        terms = 1.0 if isinstance(function, Isotonic) else max(1.0, abs(function.a * f) + abs(function.b))
        if not abs(float(served[index]) - expected) <= RELATIVE * terms:
            raise InvalidMessage(
                f"probe {index}: this build computes the probability {served[index]!s}, but the message says "
                f"{expected!s}"
            )


def _points(model: Model) -> Float:
    """Return raw points, shape (m, d): every second one by a support vector, where there are some."""
    dimension = model.dimension
    Z = _sequence(count_of(dimension), dimension)
    if not isinstance(model.machine, LinearMachine) and len(support := model.machine.support):
        chosen = np.unique(np.linspace(0, len(support) - 1, len(Z) // 2).astype(np.int64))
        Z[: 2 * len(chosen) : 2] = support[chosen]
    mean, scale = model.scaler.mean, model.scaler.scale
    with np.errstate(over="ignore", invalid="ignore"):
        X = mean + scale * Z
        X = np.where(np.isfinite(X), X, mean)
    decimals = [_decimals(float(entry)) for entry in scale]
    return np.array([[_rounded(float(entry), decimals[j]) for j, entry in enumerate(row)] for row in X])


def _sequence(count: int, dimension: int) -> Float:
    """Return scaled points, shape (count, dimension), over [-2, 2): fractional parts of i^2 times the golden ratio.

    The square keeps the entries of one feature apart, whatever the number of features is.
    """
    steps = np.arange(1, count * dimension + 1, dtype=np.float64) ** 2 * _GOLDEN
    return np.asarray(2 * _REACH * (steps % 1.0) - _REACH).reshape(count, dimension)


def _decimals(scale: float) -> int:
    """Return after how many decimals a number is rounded to a hundredth to a tenth of `scale`."""
    return 1 - math.floor(math.log10(scale)) if 0.0 < scale < math.inf else 0


def _rounded(entry: float, decimals: int) -> float:
    try:
        return round(entry, decimals) + 0.0  # no -0.0
    except (OverflowError, ValueError):
        return entry


def _evaluated(model: Model, X: Float) -> Probes:
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        Z, intercept = model.scaler.transform(X), model.machine.intercept
        terms, weights = _terms(model.machine, Z)
        decision = [_sum([*one, intercept]) for one in terms.tolist()]
        size = (np.abs(terms) * weights).sum(axis=1) + abs(intercept)
        tolerance = np.array([_short(RELATIVE * one) for one in size.tolist()])
    return Probes(X, np.array(decision), tolerance, _probabilities(model.probability, decision))


def _probabilities(function: Probability | None, decision: list[float]) -> Float | None:
    """Return the probability at each decision value, to twelve decimals, which are the same on every processor."""
    if function is None:
        return None
    at = _on_knots if isinstance(function, Isotonic) else _on_sigmoid
    return np.array([math.nan if math.isnan(f) else round(at(function, f), 12) for f in decision])


def _on_sigmoid(function: Probability, f: float) -> float:
    assert not isinstance(function, Isotonic)
    z = function.a * f + function.b
    shrunk = math.exp(-abs(z))
    return (shrunk if z > 0.0 else 1.0) / (1.0 + shrunk)


def _on_knots(function: Probability, f: float) -> float:
    assert isinstance(function, Isotonic)
    x, y = function.x.tolist(), function.y.tolist()
    right = bisect_right(x, f)
    if right in (0, len(x)):
        return float(y[min(right, len(x) - 1)])
    share = (f - x[right - 1]) / (x[right] - x[right - 1])
    return float(y[right - 1] + share * (y[right] - y[right - 1]))


def _terms(machine: Machine, Z: Float) -> tuple[Float, Float]:
    """Return what adds up to each decision value but for the intercept, and how much each term's rounding counts."""
    if isinstance(machine, LinearMachine):
        return Z * machine.coefficients, np.ones((1, 1))
    gamma, support = machine.kernel.gamma, machine.support
    distances = np.array([np.square(support - z).sum(axis=1) for z in Z])
    norms = np.square(Z).sum(axis=1)[:, None] + np.square(support).sum(axis=1)
    return machine.dual * np.exp(-gamma * distances), 1.0 + _EXPANSION * gamma * norms


def _short(tolerance: float) -> float:
    """Round to three digits, which read well and are the same on every processor, nearly always."""
    return float(f"{tolerance:.2e}")


def _sum(terms: list[float]) -> float:
    try:
        return math.fsum(terms)
    except (OverflowError, ValueError):
        return math.nan
