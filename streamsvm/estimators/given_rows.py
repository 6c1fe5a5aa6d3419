"""Rows as a caller of a `CoresetSVC` gave them, and which of them a stream refuses."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamsvm.ingest.decoder import LARGEST_FEATURE, LARGEST_WEIGHT, SMALLEST_WEIGHT
from streamsvm.model.kernels import Float


class GivenRows(NamedTuple):
    """Rows of positive weight as a caller gave them; `rows` are their numbers there."""

    features: NDArray[Any]
    labels: NDArray[Any]
    weight: Float
    rows: NDArray[np.intp]
    classes: Any


def check_sizes(features: NDArray[Any], weight: Float, rows: NDArray[np.intp], stored: str) -> None:
    """Refuse numbers whose squares or products overflow, as a trainer does.

    `rows` are their rows as given, `stored` is the type in which the stream keeps features.
    """
    wrong = (weight < SMALLEST_WEIGHT) | (weight > LARGEST_WEIGHT)
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"sample_weight[{rows[row]}] is {weight[row]:g}; a weight must be 0 or from {SMALLEST_WEIGHT:g} to "
            f"{LARGEST_WEIGHT:g}: scale the weights"
        )
    check_features(features, rows, stored)


def check_features(features: NDArray[Any], rows: NDArray[np.intp], stored: str) -> None:
    """Refuse features that the stored type does not hold, or whose squares overflow."""
    far = np.abs(features) > LARGEST_FEATURE[stored]
    if far.any():
        row, column = (int(at) for at in np.unravel_index(int(far.argmax()), far.shape))
        raise ValueError(
            f"X[{rows[row]}, {column}] is {features[row, column]:g}; a feature must be at most "
            f"{LARGEST_FEATURE[stored]:g} in magnitude, as this stream is kept as {stored}: scale the features"
        )
