"""The interior-point start of the linear kernel: within its bounds, balanced, and near the optimum at any box."""

from __future__ import annotations

import numpy as np
import pytest

from streamsvm.svm.central import STEPS, near_optimum
from streamsvm.svm.kernels import Float
from tests.svm.problems import Case


def start(box: float, limit: int = STEPS) -> tuple[Float, Float, Float, Float, Float, int]:
    problem, _ = Case("htru2", 1_000, "linear", box, 3.0).make()
    y = problem.y.astype(np.float64)
    bound = y * problem.upper
    low, high = np.minimum(bound, 0.0), np.maximum(bound, 0.0)
    Z = problem.Z - problem.Z.mean(axis=0)
    b, steps = near_optimum(Z, y, low, high, 1e-3, limit)
    return b, Z @ (Z.T @ b) - y, low, high, problem.upper, steps


@pytest.mark.parametrize("box", [1e-2, 1.0, 1e2, 1e4])
def test_it_ends_near_the_optimum(box: float) -> None:
    """The violation is a small multiple of the tolerance, whatever the boxes, in fewer steps than the bound."""
    b, F, low, high, _, steps = start(box)
    gap = F[b > low].max() - F[b < high].min()
    assert gap < 1e-2
    assert steps < STEPS


@pytest.mark.parametrize("limit", [0, 1, 7, STEPS])
@pytest.mark.parametrize("box", [1.0, 1e4])
def test_wherever_it_stops_it_is_feasible(box: float, limit: int) -> None:
    """Bounds hold exactly, the sum is 0 to rounding."""
    b, _, low, high, upper, steps = start(box, limit)
    assert steps <= limit
    assert (low <= b).all()
    assert (b <= high).all()
    assert abs(b.sum()) <= 1e-12 * upper.sum()
