"""Kernels by products of matrices, against scikit-learn's functions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel

from streamsvm.model.kernels import RbfKernel
from streamsvm.papers.foreign import LibsvmSolver
from streamsvm.papers.stda_solver import PaperStdaSolver
from streamsvm.svm.block import product_kernels
from streamsvm.svm.block.product_kernels import PolynomialKernel, ProductBlocks
from streamsvm.svm.problem import Problem
from streamsvm.svm.solvers import StdaSolver

Z = np.random.default_rng(0).normal(size=(60, 7)) * (np.random.default_rng(1).random((60, 7)) < 0.4)
KINDS = [np.asarray, sparse.csr_array, sparse.csr_matrix]


@pytest.mark.parametrize("degree", range(8))
@pytest.mark.parametrize("kind", KINDS)
def test_polynomial_values_are_powers(degree, kind) -> None:
    """Every whole degree, dense and sparse, 0 included."""
    found = PolynomialKernel(degree, 0.3, 0.5).gram(kind(Z[:9]), kind(Z))
    np.testing.assert_allclose(found, (0.3 * (Z[:9] @ Z.T) + 0.5) ** degree, rtol=1e-12)


@pytest.mark.parametrize("kernel", [PolynomialKernel(3, 2.0, 1.0), RbfKernel(0.2)], ids=["poly", "rbf"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("values", [1, 100, 1 << 20])
def test_sums_are_those_of_the_whole_matrix(kernel, kind, values, monkeypatch: pytest.MonkeyPatch) -> None:
    """In units of the scale, whatever the number of values that are made at a time; the largest is at most 1."""
    monkeypatch.setattr(product_kernels, "VALUES", values)
    blocks = ProductBlocks(kind(Z), kernel)
    K = (
        rbf_kernel(Z, gamma=0.2)
        if isinstance(kernel, RbfKernel)
        else polynomial_kernel(Z, degree=3, gamma=2.0, coef0=1.0)
    ) / blocks.scale
    members, targets = np.array([4, 9, 31]), np.array([0, 7, 9, 58])
    change = np.array([0.5, -2.0, 1.0])
    F = np.ones(len(Z))
    blocks.add(members, change, F)
    np.testing.assert_allclose(F, 1.0 + change @ K[members], atol=1e-12)
    np.testing.assert_allclose(
        blocks.scores(members, change, targets), change @ K[np.ix_(members, targets)], atol=1e-12
    )
    np.testing.assert_allclose(blocks.gram(members), K[np.ix_(members, members)], atol=1e-12)
    assert 0.5 < blocks.largest <= 1.0
    assert blocks.largest == pytest.approx(K.diagonal().max())
    assert np.log2(blocks.scale) % 1.0 == 0.0
    assert blocks.computed == len(members)


def problem(points, kernel) -> Problem:
    """A problem of two overlapping clouds."""
    y = np.where(np.arange(len(Z)) % 2 > 0, 1, -1).astype(np.int8)
    return Problem(Z=points, y=y, upper=np.full(len(Z), 0.3), kernel=kernel, tolerance=1e-6, max_iterations=10**6)


@pytest.mark.parametrize("kind", KINDS)
def test_boxes_hold_exactly_in_units_of_the_scale(kind) -> None:
    """Variables at their bound are the bound, although the solver works in other units."""
    found = StdaSolver().solve(problem(kind(Z), PolynomialKernel(3, 2.0, 1.0)))
    assert found.converged
    assert found.alpha is not None
    assert ((found.alpha >= 0.0) & (found.alpha <= 0.3)).all()
    assert (found.alpha == 0.3).any()


@pytest.mark.parametrize("solver", [PaperStdaSolver(), LibsvmSolver()])
def test_other_solvers_refuse_a_polynomial(solver) -> None:
    """They name themselves and what they support."""
    with pytest.raises(ValueError, match="supports the linear and the RBF kernel only"):
        solver.solve(problem(Z, PolynomialKernel(3, 2.0, 1.0)))


def test_values_of_sparse_rows_are_checked() -> None:
    """NaN, and numbers whose squares overflow, are refused in sparse rows as in dense ones."""
    for wrong in (np.nan, 1e200):
        rows = sparse.csr_array(Z)
        rows.data[3] = wrong
        with pytest.raises(ValueError, match="a feature is NaN, infinite, or beyond"):
            StdaSolver().solve(problem(rows, RbfKernel(1.0)))
