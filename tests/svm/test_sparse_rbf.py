"""The RBF kernel over sparse rows, against scikit-learn's function."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics.pairwise import rbf_kernel

from streamsvm.model import RbfKernel
from streamsvm.svm import rbf
from streamsvm.svm.rbf import CsrRbfBlocks
from streamsvm.svm.stda import solve
from tests.svm.problems import problem_of

Z = np.random.default_rng(0).normal(size=(60, 7)) * (np.random.default_rng(1).random((60, 7)) < 0.4)


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize("values", [1, 100, 1 << 20])
def test_sums_are_those_of_the_whole_matrix(kind, values, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the number of values that are made at a time."""
    monkeypatch.setattr(rbf, "CSR_VALUES", values)
    blocks, K = CsrRbfBlocks(kind(Z), 0.2), rbf_kernel(Z, gamma=0.2)
    members, targets = np.array([4, 9, 31]), np.array([0, 7, 9, 58])
    change = np.array([0.5, -2.0, 1.0])
    F = np.ones(len(Z))
    blocks.add(members, change, F)
    np.testing.assert_allclose(F, 1.0 + change @ K[members], atol=1e-12)
    scores = blocks.scores(members, change, targets)
    np.testing.assert_allclose(scores, change @ K[np.ix_(members, targets)], atol=1e-12)
    np.testing.assert_allclose(blocks.gram(members), K[np.ix_(members, members)], atol=1e-12)
    assert blocks.computed == len(members)


def test_values_of_sparse_rows_are_checked() -> None:
    """NaN, and numbers whose squares overflow, are refused in sparse rows as in dense ones."""
    y = np.where(np.arange(len(Z)) % 2 > 0, 1, -1).astype(np.int8)
    for wrong in (np.nan, 1e200):
        rows = sparse.csr_array(Z)
        rows.data[3] = wrong
        problem = problem_of(rows, y, 0.3, RbfKernel(1.0))
        with pytest.raises(ValueError, match="a feature is NaN, infinite, or beyond"):
            solve(problem)
