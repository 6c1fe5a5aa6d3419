"""The exact bias for fixed scores."""

from __future__ import annotations

import numpy as np
import pytest

from streamsvm.svm.bias import best_intercept


def loss(b: float, scores: np.ndarray, y: np.ndarray, upper: np.ndarray) -> float:
    return float(upper @ np.maximum(0.0, 1.0 - y * (scores + b)))


@pytest.mark.parametrize("seed", range(20))
def test_no_breakpoint_is_better(seed: int) -> None:
    """A piecewise linear convex loss is least at a breakpoint, and none beats the one returned."""
    random = np.random.default_rng(seed)
    y = np.where(random.random(40) < 0.3, 1, -1).astype(np.int8)
    y[:2] = [1, -1]
    scores, upper = random.normal(size=40), 10.0 ** random.uniform(-6, 6, 40)
    found = loss(best_intercept(scores, y, upper), scores, y, upper)
    assert found <= min(loss(b, scores, y, upper) for b in y - scores) * (1 + 1e-12)


def test_the_middle_of_an_interval_is_taken() -> None:
    """Two separated points leave b free between their margins: the middle puts the border half-way."""
    assert best_intercept(np.array([3.0, -1.0]), np.array([1, -1], np.int8), np.ones(2)) == -1.0


def test_equal_weights_far_apart_are_flat_despite_rounding() -> None:
    """Weights that cancel but for rounding count as cancelling."""
    y = np.array([1, 1, 1, -1, -1, -1], np.int8)
    upper = np.array([0.1, 0.2, 0.3, 0.3, 0.2, 0.1])
    assert best_intercept(5.0 * y, y, upper) == 0.0
