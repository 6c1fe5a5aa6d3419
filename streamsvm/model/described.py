"""What a version may say its points are."""

from __future__ import annotations

from typing import Final

Label = bool | int | str
"""A label as it stands in the records."""
MOST_FEATURES: Final = 100_000


def label_fault(negative: Label, positive: Label) -> str:
    """Say why two labels cannot be used together; empty if they can."""
    if (type(negative), negative) == (type(positive), positive):
        return f"holds the same label twice: {negative!r}"
    if type(negative) is not type(positive):
        return f"mixes two types: {negative!r} and {positive!r}"
    return ""


def points_fault(dimension: int, labels: tuple[Label, Label], feature_names: tuple[str, ...]) -> str:
    """Say why there are no points of so many features, such labels and names; empty if there are."""
    if not 1 <= dimension <= MOST_FEATURES:
        return f"dimension is {dimension}; it must be 1 to {MOST_FEATURES:,}"
    if fault := label_fault(*labels):
        return f"labels {fault}"
    if feature_names and len(feature_names) != dimension:
        return f"feature_names has {len(feature_names)} names, dimension is {dimension}"
    return ""
