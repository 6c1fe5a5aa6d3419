"""Small problems over a given kernel matrix: the optimum, by measures of their own."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from streamsvm.drop_in.small import classes_of, solve_pairs, solve_small
from streamsvm.model.kernels import LinearKernel, RbfKernel
from streamsvm.svm.block.product_kernels import PolynomialKernel
from streamsvm.svm.objective import optimality

MANY = 100_000


def problem(C, m=150):
    """Return overlapping points, labels and bounds that differ."""
    random = np.random.default_rng(3)
    Z = random.normal(size=(m, 4))
    y = np.where(Z[:, 0] + random.normal(size=m) > 0.3, 1.0, -1.0)
    return Z, y, C * random.uniform(0.1, 2.0, m)


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0, 1e5])
@pytest.mark.parametrize("tolerance", [1e-3, 1e-6])
def test_the_gap_from_scratch_meets_the_tolerance(C, tolerance) -> None:
    """Bounds and the equality hold, and the KKT gap over kernel values made elsewhere is what was asked for."""
    Z, y, upper = problem(C)
    solution = solve_small(rbf_kernel(Z, gamma=0.3), y, upper, tolerance, MANY)
    assert solution.converged
    assert solution.alpha is not None
    assert (solution.alpha >= 0.0).all()
    assert (solution.alpha <= upper).all()
    assert abs(y @ solution.alpha) <= 1e-12 * upper.sum()
    signs = y.astype(np.int8)
    assert optimality(Z, signs, upper, solution.alpha, solution.intercept, RbfKernel(0.3)).kkt_gap <= 1.01 * tolerance


def test_the_machine_is_that_of_libsvm() -> None:
    """LIBSVM, over the same matrix, finds the same decision values."""
    Z, y, upper = problem(1.0)
    K = rbf_kernel(Z, gamma=0.3)
    solution = solve_small(K, y, upper, 1e-8, MANY)
    assert solution.alpha is not None
    theirs = SVC(kernel="precomputed", C=1.0, tol=1e-8).fit(K, y, sample_weight=upper)
    np.testing.assert_allclose(
        K @ (y * solution.alpha) + solution.intercept, theirs.decision_function(K), rtol=0, atol=1e-6
    )


def test_few_steps_are_not_convergence() -> None:
    """At the limit the solution is feasible, says how many steps it took, and does not count as converged."""
    Z, y, upper = problem(100.0)
    solution = solve_small(rbf_kernel(Z, gamma=0.3), y, upper, 1e-6, 5)
    assert not solution.converged
    assert solution.iterations == 5


@pytest.mark.parametrize("kernel", [LinearKernel(), RbfKernel(0.3), PolynomialKernel(3, 0.2, 1.0)], ids=repr)
def test_every_pair_is_libsvms(kernel) -> None:
    """Dual variables and intercepts of all pairs stand where SVC has them; a pair that is left out stays open."""
    random = np.random.default_rng(5)
    sizes = np.array([20, 45, 33])
    begin = np.append(0, np.cumsum(sizes))
    label = np.repeat([0, 1, 2], sizes)
    Z = random.normal(size=(len(label), 3)) + label[:, None] + 4.0
    upper = random.uniform(0.5, 2.0, len(label))
    limits = np.triu(np.full((3, 3), MANY), 1)
    dual, intercepts, _ = solve_pairs(classes_of(Z.copy(), begin, upper, kernel), 1e-9, limits)
    options = {"kernel": "linear"} if isinstance(kernel, LinearKernel) else {"kernel": "rbf", "gamma": 0.3}
    if isinstance(kernel, PolynomialKernel):
        options = {"kernel": "poly", "gamma": 0.2, "coef0": 1.0}
    theirs = SVC(**options, tol=1e-9, decision_function_shape="ovo").fit(Z, label, sample_weight=upper)
    found = np.zeros_like(dual)
    found[:, theirs.support_] = theirs.dual_coef_
    solved = np.isfinite(intercepts[np.triu_indices(3, 1)])
    assert solved.any()
    for at, (i, j) in enumerate(((0, 1), (0, 2), (1, 2))):
        if solved[at]:
            # LIBSVM's kernel values are float32.
            assert intercepts[i, j] == pytest.approx(theirs.intercept_[at], rel=2e-5)
            np.testing.assert_allclose(dual[j - 1, label == i], found[j - 1, label == i], atol=1e-4)
            np.testing.assert_allclose(dual[i, label == j], found[i, label == j], atol=1e-4)
    limits[0, 2] = 0
    fewer, left, steps = solve_pairs(classes_of(Z.copy(), begin, upper, kernel), 1e-9, limits)
    assert np.isnan(left[0, 2])
    assert steps[0, 2] == 0
    assert not fewer[1, label == 0].any()
    np.testing.assert_array_equal(fewer[0, label == 0], dual[0, label == 0])
