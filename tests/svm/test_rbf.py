"""Kernel values by tiles: sums as from the whole matrix, and a bound on float32's error that holds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics.pairwise import rbf_kernel

from streamsvm.model import Float, RbfKernel
from streamsvm.svm import rbf, stda
from streamsvm.svm.rbf import CsrRbfBlocks, RbfBlocks, layout_of, rbf_sums
from tests.svm.problems import problem_of

POINTS = 700
"""More than a tile, and no whole number of tiles."""


def dense(dimension: int) -> Float:
    return np.random.default_rng(dimension).normal(size=(POINTS, dimension))


def one_hot(dimension: int) -> Float:
    """Standardised: sparse around its common values only."""
    X = (np.random.default_rng(dimension).uniform(size=(POINTS, dimension)) < 0.1).astype(np.float64)
    return np.asarray((X - X.mean(axis=0)) / X.std(axis=0), dtype=np.float64)


SETS = {"few": dense(1), "some": dense(22), "many": dense(200), "one-hot": one_hot(40), "far": dense(5) * 100.0}
FEW = np.random.default_rng(0).normal(size=(60, 7)) * (np.random.default_rng(1).random((60, 7)) < 0.4)
WIDTH = {"few": 1.0, "some": 0.05, "many": 0.005, "one-hot": 0.02, "far": 1e-4}


@pytest.fixture(params=list(SETS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_one_hot_features_are_stored_as_sparse() -> None:
    """The sets of this module take both ways to the products."""
    assert {key: layout_of(Z, 1.0).sparse for key, Z in SETS.items()} == {key: key == "one-hot" for key in SETS}


@pytest.mark.parametrize("targets", [np.arange(POINTS), np.arange(0, POINTS, 3), np.arange(5, 400)])
def test_sums_are_those_of_the_whole_matrix(name: str, targets: np.ndarray) -> None:
    """Whether the targets hold all, some or none of the members: float64 sums as by numpy's exponential."""
    Z, gamma = SETS[name], WIDTH[name]
    members = np.arange(0, POINTS, 3)
    weights = np.random.default_rng(1).normal(size=len(members))
    sums = rbf_sums(Z, members, weights, targets, layout_of(Z, gamma))
    expected = RbfKernel(gamma).gram(Z[targets], Z)[:, members] @ weights
    np.testing.assert_allclose(sums, expected, rtol=0, atol=1e-11)


def test_sums_over_no_members_are_zero() -> None:
    """A problem solved by zeros has no support vectors."""
    none = np.arange(0)
    sums = rbf_sums(SETS["some"], none, np.empty(0), np.arange(9), layout_of(SETS["some"], 1.0))
    np.testing.assert_array_equal(sums, np.zeros(9))


@pytest.mark.parametrize("count", [1, 3, 16, 350, POINTS])
def test_a_blocks_matrix_is_the_kernels(name: str, count: int) -> None:
    """Within float32's rounding of the exponents, and exactly 1 on the diagonal."""
    Z, gamma = SETS[name], WIDTH[name]
    members = np.random.default_rng(2).permutation(POINTS)[:count] if count < POINTS else np.arange(POINTS)
    K = RbfBlocks(Z, gamma, np.float32).gram(members)
    np.testing.assert_array_equal(np.diag(K), np.ones(count))
    np.testing.assert_allclose(K, RbfKernel(gamma).gram(Z[members], Z[members]), rtol=0, atol=1e-4)


def test_running_sums_stay_within_their_bound(name: str) -> None:
    """After many changes of float32 columns no sum is farther from the true one than is claimed, and the claim is near.

    Points whose members change again and again count every change.
    """
    Z, gamma = SETS[name], WIDTH[name]
    blocks = RbfBlocks(Z, gamma, np.float32)
    random = np.random.default_rng(3)
    b, moved, F = np.zeros(POINTS), np.zeros(POINTS), np.zeros(POINTS)
    for _ in range(5):
        members = random.permutation(POINTS)[:90]
        change = random.exponential(10.0, 90)
        blocks.add(members, change, F)
        b[members] += change
        moved[members] += np.abs(change)
    error = np.abs(F - rbf_sums(Z, np.arange(POINTS), b, np.arange(POINTS), blocks.layout))
    bound = blocks.uncertainty(np.arange(POINTS), moved)
    assert (error <= bound).all()
    assert error.max() > 1e-5 * bound.max()


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize("values", [1, 100, 1 << 20])
def test_sums_over_sparse_rows_are_those_of_the_whole_matrix(kind, values, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the number of values that are made at a time."""
    monkeypatch.setattr(rbf, "CSR_VALUES", values)
    blocks, K = CsrRbfBlocks(kind(FEW), 0.2), rbf_kernel(FEW, gamma=0.2)
    members, targets = np.array([4, 9, 31]), np.array([0, 7, 9, 58])
    change = np.array([0.5, -2.0, 1.0])
    F = np.ones(len(FEW))
    blocks.add(members, change, F)
    np.testing.assert_allclose(F, 1.0 + change @ K[members], atol=1e-12)
    scores = blocks.scores(members, change, targets)
    np.testing.assert_allclose(scores, change @ K[np.ix_(members, targets)], atol=1e-12)
    np.testing.assert_allclose(blocks.gram(members), K[np.ix_(members, members)], atol=1e-12)
    assert blocks.computed == len(members)


def test_values_of_sparse_rows_are_checked() -> None:
    """NaN, and numbers whose squares overflow, are refused in sparse rows as in dense ones."""
    y = np.where(np.arange(len(FEW)) % 2 > 0, 1, -1).astype(np.int8)
    for wrong in (np.nan, 1e200):
        rows = sparse.csr_array(FEW)
        rows.data[3] = wrong
        problem = problem_of(rows, y, 0.3, RbfKernel(1.0))
        with pytest.raises(ValueError, match="a feature is NaN, infinite, or beyond"):
            stda.solve(problem)
