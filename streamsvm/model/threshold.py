"""The threshold of a version: above which decision value it answers the second label, and what that is expected to be.

A version has one only if `svm.cost` or `svm.target` is configured; without one the threshold is 0. How it is chosen and
judged: `streamsvm.svm.threshold`. It is a part of a version's value, and so of its hash.

Invariant: the threshold is finite, and each figure lies within its interval.
"""

from __future__ import annotations

import math
from typing import Final, Literal

import msgspec

from streamsvm.errors import InvalidMessage

Figure = Literal["precision", "recall", "alarm_rate", "cost"]
NUMBER_BYTES: Final = 26
"""Most characters of a float64 in JSON, with its comma."""


class Judged(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A figure with its 95 % interval; low <= value <= high."""

    value: float
    low: float
    high: float


class Threshold(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Above which decision value a version answers the second label; all figures are by weight.

    Attributes
    ----------
    value : float
    figure : "precision", "recall", "alarm_rate" or "cost"
        What was asked for.
    asked : float, or tuple of two float
        The value asked for; of the cost, that of a missed positive point and that of a false alarm.
    chosen : bool
        Whether the audit sample held enough points to choose by; else the value is 0.
    met : bool
        Whether the half of the audit sample that judges allows that what was asked for is met: the interval holds it,
        or lies beyond it. A cost is met whenever it is chosen.
    points, positives : int
        Of the audit sample.
    precision : Judged or None
        Of what is answered with the second label, the share that has it; None where nothing is.
    recall : Judged or None
        Of what has the second label, the share that is answered so; None where nothing has it.
    alarm_rate : Judged or None
        The share that is answered with the second label; None without a point.
    cost : Judged or None
        Mean cost per weight; None unless costs are configured, or without a point.
    """

    value: float
    figure: Figure
    asked: float | tuple[float, float]
    chosen: bool
    met: bool
    points: int
    positives: int
    precision: Judged | None
    recall: Judged | None
    alarm_rate: Judged | None
    cost: Judged | None

    @property
    def judged(self) -> Judged | None:
        """What is expected of the figure of the target."""
        found: Judged | None = getattr(self, self.figure)
        return found


LARGEST_BYTES: Final = 512 + 15 * NUMBER_BYTES
"""A bound on the bytes of a threshold in a message."""


def check(threshold: Threshold) -> Threshold:
    """Return a threshold that a message brought, if it makes sense.

    Raises
    ------
    InvalidMessage
        If a number is not finite, an interval does not hold its value, or what was asked for has no meaning.
    """
    costs = isinstance(threshold.asked, tuple)
    targets = threshold.asked if isinstance(threshold.asked, tuple) else (threshold.asked,)
    if costs != (threshold.figure == "cost") or not all(0.0 < one < math.inf for one in targets):
        raise InvalidMessage(f"threshold.asked is {threshold.asked} for {threshold.figure}")
    if not costs and targets[0] >= 1.0:
        raise InvalidMessage(f"threshold.asked is {targets[0]}, which is not a share")
    if not math.isfinite(threshold.value) or not 0 <= threshold.positives <= threshold.points:
        raise InvalidMessage(
            f"the threshold {threshold.value} of {threshold.points} points, {threshold.positives} of them positive, is "
            "not valid"
        )
    for name in ("precision", "recall", "alarm_rate", "cost"):
        one: Judged | None = getattr(threshold, name)
        if one is not None and not (math.isfinite(one.high) and 0.0 <= one.low <= one.value <= one.high):
            raise InvalidMessage(f"threshold.{name} is {one.value}, which is not within {one.low} to {one.high}")
    return threshold


def wanted(figure: Figure, target: float | tuple[float, float]) -> str:
    """Return the target in words: "recall 0.9"."""
    if isinstance(target, tuple):
        return f"cost {target[0]:g} of a missed positive and {target[1]:g} of a false alarm"
    return f"alarms {_percent(target)}" if figure == "alarm_rate" else f"{figure} {target:g}"


def described(threshold: Threshold) -> str:
    """Return a threshold in a sentence, without the word itself: "0.31, chosen for recall 0.9: expected recall ..."."""
    goal = wanted(threshold.figure, threshold.asked)
    if not threshold.chosen:
        return (
            f"0, not chosen for {goal}: the audit sample holds {threshold.positives:,} positive points of "
            f"{threshold.points:,}, too few (raise coreset.points); {expected(threshold)}"
        )
    missed = "" if threshold.met else ", which is not met"
    return f"{threshold.value:.4g}, chosen for {goal}{missed}: {expected(threshold)}"


def expected(threshold: Threshold) -> str:
    """Return what is expected at a threshold, the figure of the target first, with its interval."""
    order: list[Figure] = ["precision", "recall", "alarm_rate", "cost"]
    order.sort(key=lambda figure: figure != threshold.figure)
    parts = []
    for figure in order:
        one: Judged | None = getattr(threshold, figure)
        if one is not None:
            parts.append(_figure(figure, one, with_interval=figure == threshold.figure))
    return "expected " + ", ".join(parts) if parts else "nothing can be expected without an audit sample"


def _figure(figure: Figure, judged: Judged, *, with_interval: bool) -> str:
    if figure == "alarm_rate":
        text = f"alarms {_percent(judged.value)}"
        return f"{text} ({_percent(judged.low)} to {_percent(judged.high)})" if with_interval else text
    if figure == "cost":
        return f"cost {judged.value:.3g} per weight ({judged.low:.3g} to {judged.high:.3g})"
    text = f"{figure} {judged.value:.2f}"
    return f"{text} ({judged.low:.2f} to {judged.high:.2f})" if with_interval else text


def _percent(share: float) -> str:
    return f"{100.0 * share:.2g} %" if share < 0.995 else f"{100.0 * share:.4g} %"
