"""What a metric is: name, meaning, unit, labels, and what to do when it moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class Definition:
    """One metric.

    Attributes
    ----------
    name : str
        As Prometheus shows it, without the `_total` of a counter.
    kind : str
    meaning : str
        What it counts, with its unit.
    advice : str
        What to do when it moves.
    labels : tuple of str
    buckets : tuple of float
        Of a histogram.
    bulk : bool
        Whether it is a histogram that takes many observations in one step, `observe_all`.
    """

    name: str
    kind: Kind
    meaning: str
    advice: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    bulk: bool = False
