"""Kernel values and objectives far from the origin."""

from __future__ import annotations

import numpy as np
import pytest

from streamsvm.model import LinearKernel, RbfKernel
from streamsvm.svm.objective import optimality
from tests.svm.problems import Case


@pytest.mark.parametrize("shift", [1e3, 1e6])
def test_rbf_values_do_not_depend_on_the_origin(shift: float) -> None:
    """Both sets moved together give the same values, but for the rounding of the moved features themselves."""
    random = np.random.default_rng(0)
    A, B = random.normal(size=(20, 4)), random.normal(size=(30, 4))
    moved = RbfKernel(0.5).gram(A + shift, B + shift)
    np.testing.assert_allclose(moved, RbfKernel(0.5).gram(A, B), atol=1e-15 * shift)


def test_optimality_does_not_depend_on_the_origin() -> None:
    """A linear problem moved far away, its intercept moved with it, has the same objectives and gap."""
    problem, _ = Case("gaussian", 200, "linear", 1.0, 0.0).make()
    alpha = problem.upper * np.where(problem.y > 0, 1.0, (problem.y > 0).sum() / (problem.y < 0).sum())
    w = problem.Z.T @ (problem.y * alpha)
    near = optimality(problem.Z, problem.y, problem.upper, alpha, 0.5, LinearKernel())
    far = optimality(problem.Z + 1e5, problem.y, problem.upper, alpha, 0.5 - 1e5 * w.sum(), LinearKernel())
    assert far.primal == pytest.approx(near.primal, rel=1e-7)
    assert far.dual == pytest.approx(near.dual, rel=1e-7)
    assert far.kkt_gap == pytest.approx(near.kkt_gap, rel=1e-7)
