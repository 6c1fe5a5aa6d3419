"""The part `probability`: how the decision value of each machine becomes a probability.

``{"method": "sigmoid", "a": -1.7, "b": 0.2}`` means 1 / (1 + exp(a f + b)); ``{"method": "isotonic", "x": [...],
"y": [...]}`` is linear between the points (x, y) and constant beyond them. Of two labels both are of the second one.
`probes` are the probabilities at the decision values of the message's probes: one of two labels, else of each label.

Invariant: what is decoded is a function from every finite decision value into 0 to 1, an isotonic one never decreasing.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec
import numpy as np

from streamsvm.errors import InvalidMessage
from streamsvm.model.arrays import table
from streamsvm.model.classes import ClassModel
from streamsvm.model.parts.draft import Draft
from streamsvm.model.parts.part import MessagePart
from streamsvm.model.probability import MOST_KNOTS, Isotonic, Probability, Sigmoid
from streamsvm.model.probes import probes_of
from streamsvm.model.version import Version

NUMBER_BYTES: Final = 26
"""Most characters of a float64 in JSON, with its comma."""


class SigmoidForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="method", tag="sigmoid"):
    """Platt's two numbers."""

    a: float
    b: float


class IsotonicForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="method", tag="isotonic"):
    """Knots, 1 to `MOST_KNOTS` of them."""

    x: list[float]
    y: list[float]


class ProbabilityPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="part", tag="probability"):
    """A function for each machine, and the probabilities of each probe."""

    functions: list[SigmoidForm | IsotonicForm]
    probes: list[list[float]]


def encode(version: Version) -> ProbabilityPart | None:
    """Return the part; None where a version has no probabilities."""
    functions = _functions_of(version)
    if functions is None:
        return None
    shares = probes_of(version.model).probability
    assert shares is not None
    return ProbabilityPart(list(map(encoded, functions)), shares.reshape(len(shares), -1).tolist())


def decode(part: ProbabilityPart, draft: Draft) -> None:
    """Add the functions, and what they give at the probes.

    Raises
    ------
    InvalidMessage
        If there are not as many functions as machines, one is not valid, or a probe lacks a probability.
    """
    if len(part.functions) != draft.machines:
        raise InvalidMessage(f"probability has {len(part.functions)} functions for {draft.machines} machines")
    draft.functions = tuple(map(decoded, part.functions))
    entries = 1 if draft.scheme is None else len(draft.labels)
    draft.shares = table(part.probes, draft.probes, entries, "probability.probes", "labels")


def _functions_of(version: Version) -> tuple[Probability, ...] | None:
    model = version.model
    if isinstance(model, ClassModel):
        return model.probabilities
    return None if model.probability is None else (model.probability,)


def encoded(probability: Probability) -> SigmoidForm | IsotonicForm:
    """Return a function as JSON has it."""
    if isinstance(probability, Sigmoid):
        return SigmoidForm(probability.a, probability.b)
    return IsotonicForm(probability.x.tolist(), probability.y.tolist())


def decoded(form: SigmoidForm | IsotonicForm) -> Probability:
    """Return the function that JSON stands for.

    Raises
    ------
    InvalidMessage
        If it is not a valid function, or decreases.
    """
    if isinstance(form, SigmoidForm):
        if not (math.isfinite(form.a) and math.isfinite(form.b)):
            raise InvalidMessage(f"the sigmoid's coefficients a = {form.a} and b = {form.b} are not valid")
        return Sigmoid(form.a, form.b)
    x, y = np.array(form.x, dtype=np.float64), np.array(form.y, dtype=np.float64)
    if not (len(x) == len(y) and 1 <= len(x) <= MOST_KNOTS):
        raise InvalidMessage(
            f"probability.x has {len(x)} knots and probability.y {len(y)}; both must have the same number, 1 to "
            f"{MOST_KNOTS}"
        )
    if not (np.isfinite(x).all() and (np.diff(x) > 0.0).all()):
        raise InvalidMessage("probability.x is not strictly ascending")
    if not ((np.diff(y) >= 0.0).all() and y[0] >= 0.0 and y[-1] <= 1.0):
        raise InvalidMessage("probability.y is not ascending, or not within 0 to 1")
    return Isotonic(x, y)


def largest_bytes(method: str | None) -> int:
    """Return a bound on the bytes of a function under a configured method."""
    return 64 + (2 * MOST_KNOTS if method == "isotonic" else 2) * NUMBER_BYTES


PART: Final = MessagePart(ProbabilityPart, encode, decode)
