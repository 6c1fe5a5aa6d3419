"""The part of a model message that says how a decision value becomes a probability.

``{"method": "sigmoid", "a": -1.7, "b": 0.2}`` means 1 / (1 + exp(a f + b)); ``{"method": "isotonic", "x": [...],
"y": [...]}`` is linear between the points (x, y) and constant beyond them. Both are of the second label.

Invariant: what is decoded is a function from every finite decision value into 0 to 1, an isotonic one never decreasing.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec
import numpy as np

from streamsvm.errors import InvalidMessage
from streamsvm.model.probability import MOST_KNOTS, Isotonic, Probability, Sigmoid

NUMBER_BYTES: Final = 26
"""Most characters of a float64 in JSON, with its comma."""


class SigmoidPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="method", tag="sigmoid"):
    """Platt's two numbers."""

    a: float
    b: float


class IsotonicPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="method", tag="isotonic"):
    """Knots, 1 to `MOST_KNOTS` of them."""

    x: list[float]
    y: list[float]


ProbabilityPart = SigmoidPart | IsotonicPart


def encode(probability: Probability | None) -> ProbabilityPart | None:
    """Return a function as a part of a message; null stands for none."""
    if probability is None:
        return None
    if isinstance(probability, Sigmoid):
        return SigmoidPart(probability.a, probability.b)
    return IsotonicPart(probability.x.tolist(), probability.y.tolist())


def decode(part: ProbabilityPart | None) -> Probability | None:
    """Return the function that a part of a message stands for.

    Raises
    ------
    InvalidMessage
        If the part is not a valid function, or decreases.
    """
    if part is None:
        return None
    if isinstance(part, SigmoidPart):
        if not (math.isfinite(part.a) and math.isfinite(part.b)):
            raise InvalidMessage(f"the sigmoid's coefficients a = {part.a} and b = {part.b} are not valid")
        return Sigmoid(part.a, part.b)
    x, y = np.array(part.x, dtype=np.float64), np.array(part.y, dtype=np.float64)
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
    """Return a bound on the bytes of the part under a configured method."""
    return 64 + (2 * MOST_KNOTS if method == "isotonic" else 2) * NUMBER_BYTES
