"""What a version may say its points are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

Label = bool | int | str
"""A label as it stands in the records."""
RARE: Final = 0.1
"""Share of the rarer label below which balanced class weights are proposed."""
MOST_FEATURES: Final = 100_000
MOST_LABELS: Final = 128
"""A point keeps the index of its class in a signed byte."""


def label_fault(labels: Sequence[Label]) -> str:
    """Return why labels cannot be used together; empty if they can."""
    if not 2 <= len(labels) <= MOST_LABELS:
        return f"holds {len(labels)} {'label' if len(labels) == 1 else 'labels'}; there must be 2 to {MOST_LABELS}"
    first, seen = labels[0], set[Label]()
    for label in labels:
        if type(label) is not type(first):
            return f"mixes two types: {first!r} and {label!r}"
        if label in seen:
            return f"holds the same label twice: {label!r}"
        seen.add(label)
    return ""


def points_fault(dimension: int, labels: tuple[Label, ...], feature_names: tuple[str, ...]) -> str:
    """Return why there are no points of so many features, such labels and names; empty if there are."""
    if not 1 <= dimension <= MOST_FEATURES:
        return f"dimension is {dimension}; it must be 1 to {MOST_FEATURES:,}"
    if fault := label_fault(labels):
        return f"labels {fault}"
    if feature_names and len(feature_names) != dimension:
        return f"feature_names has {len(feature_names)} names, dimension is {dimension}"
    return ""
