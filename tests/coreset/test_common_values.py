"""Rows with a common value in each column: the same sums and lengths as numpy's, at any sparsity."""

from __future__ import annotations

import numpy as np
import pytest

from streamsvm.common_values import DENSE, FEW, add_sparse_gram, apart, common_values, fill_sparse_lengths


def rows_of(n: int, d: int, share: float, seed: int) -> np.ndarray:
    """Return standardised one-hot features and a number, and then a 1."""
    random = np.random.default_rng(seed)
    X = (random.random((n, d)) < share).astype(np.float64)
    X[:, 0] = random.normal(size=n)
    X = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 0.1)
    return np.ascontiguousarray(np.column_stack([X, np.ones(n)]))


@pytest.mark.parametrize("share", [0.0, 0.01, 0.1, 0.2])
@pytest.mark.parametrize("n", [3, 400])
def test_sums_and_lengths_are_those_of_all_entries(share: float, n: int) -> None:
    """Products of rows, and their lengths by a root, are those that numpy makes of every entry."""
    rows = rows_of(n, 40, share, n)
    others, weight = apart(rows), np.random.default_rng(1).random(n)
    weight[::3] = 0.0
    assert len(others.common) == 41
    matrix = np.zeros((41, 41))
    add_sparse_gram(rows, others, weight, matrix)
    expected = np.einsum("i,ij,ik->jk", weight, rows, rows)
    np.testing.assert_allclose(np.tril(matrix), np.tril(expected), rtol=1e-12, atol=1e-12 * np.abs(expected).max())
    root = np.random.default_rng(2).normal(size=(44, 7))
    length = np.empty(n)
    fill_sparse_lengths(rows, others, root, length)
    np.testing.assert_allclose(length, np.linalg.norm(rows @ root[:41], axis=1), rtol=1e-9)


def test_entries_are_found_where_rows_differ() -> None:
    """Each row's columns are those that do not have the common value."""
    rows = rows_of(300, 30, 0.1, 5)
    others = apart(rows)
    for i, row in enumerate(rows):
        found = others.column[others.start[i] : others.start[i + 1]]
        assert found.tolist() == np.flatnonzero(row != others.common).tolist()


def test_dense_rows_have_no_common_values() -> None:
    """Numbers, few columns, and columns with too many other values are dense."""
    random = np.random.default_rng(3)
    assert not len(common_values(random.normal(size=(500, 30))))
    assert not len(common_values(np.zeros((500, FEW))))
    assert not len(common_values((random.random((500, 30)) < 1.5 * DENSE).astype(np.float64)))
    dense = apart(random.normal(size=(50, 30)))
    assert [len(part) for part in dense] == [0, 0, 0]


def test_neighbours_that_differ_do_not_hide_common_values() -> None:
    """Rows with other values stand between rows without one, so that as many neighbours differ as can."""
    rows = np.zeros((500, 20))
    rows[::4] = np.arange(1.0, 21.0)
    assert len(common_values(np.ascontiguousarray(rows[: 4 * 32]))) == 20
