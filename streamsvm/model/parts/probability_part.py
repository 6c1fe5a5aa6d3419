"""The part `probability`: how the decision value of each machine becomes a probability.

``{"method": "sigmoid", "a": -1.7, "b": 0.2}`` means 1 / (1 + exp(a f + b)), of two labels for the second one. `probes`
are the probabilities at the decision values of the message's probes: one of two labels, else of each label.
"""

from __future__ import annotations

import math
from typing import Final, Literal

import msgspec

from streamsvm.errors import InvalidMessage
from streamsvm.model.arrays import table
from streamsvm.model.classes import ClassModel
from streamsvm.model.parts.draft import Draft
from streamsvm.model.parts.part import MessagePart
from streamsvm.model.probability import Sigmoid
from streamsvm.model.probes import probes_of
from streamsvm.model.version import Version

LARGEST_BYTES: Final = 64 + 2 * 26
"""Of a function: most characters of a float64 in JSON, with its comma, are 26."""


class SigmoidForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Platt's two numbers."""

    method: Literal["sigmoid"]
    a: float
    b: float


class ProbabilityPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="part", tag="probability"):
    """A function for each machine, and the probabilities of each probe."""

    functions: list[SigmoidForm]
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


def _functions_of(version: Version) -> tuple[Sigmoid, ...] | None:
    model = version.model
    if isinstance(model, ClassModel):
        return model.probabilities
    return None if model.probability is None else (model.probability,)


def encoded(probability: Sigmoid) -> SigmoidForm:
    """Return a function as JSON has it."""
    return SigmoidForm("sigmoid", probability.a, probability.b)


def decoded(form: SigmoidForm) -> Sigmoid:
    """Return the function that JSON stands for.

    Raises
    ------
    InvalidMessage
        If a coefficient is not finite.
    """
    if not (math.isfinite(form.a) and math.isfinite(form.b)):
        raise InvalidMessage(f"the sigmoid's coefficients a = {form.a} and b = {form.b} are not valid")
    return Sigmoid(form.a, form.b)


PART: Final = MessagePart(ProbabilityPart, encode, decode)
