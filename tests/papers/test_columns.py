"""The cache of kernel columns: bounded, least recently used first out, and always what a fresh computation gives."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from streamsvm.model import Kernel, LinearKernel, RbfKernel
from streamsvm.papers.kernel_columns import COMPUTED, HITS, USED, KernelColumns, exponentials, fetch, make_columns

N = 12
KERNELS = [LinearKernel(), RbfKernel(0.3)]


def cache(kernel: Kernel, capacity: int, n: int = N, dimension: int = 3) -> KernelColumns:
    Z = np.random.default_rng(1).normal(size=(n, dimension))
    return make_columns(Z, kernel, capacity * n * 8)


def by_age(columns: KernelColumns) -> list[int]:
    """The cached columns, the least recently used first."""
    ends = len(columns.owner)
    found, slot = [], columns.newer[ends]
    while slot != ends:
        found.append(int(columns.owner[slot]))
        slot = columns.newer[slot]
    return found


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, N - 1), min_size=1, max_size=5, unique=True), max_size=30))
def test_the_least_recently_used_column_goes_first(batches: list[list[int]]) -> None:
    """Any sequence of batches leaves what a textbook LRU cache leaves, in the same order, and counts the same."""
    columns, model = cache(RbfKernel(0.3), capacity=5), OrderedDict[int, None]()
    hits = computed = 0
    for batch in batches:
        fetch(columns, np.array(batch))
        for i in [i for i in batch if i in model]:
            model.move_to_end(i)
            hits += 1
        for i in [i for i in batch if i not in model]:
            if len(model) == 5:
                model.popitem(last=False)
            model[i] = None
            computed += 1
        assert by_age(columns) == list(model)
    assert columns.counts[[USED, HITS, COMPUTED]].tolist() == [len(model), hits, computed]
    assert {i for i in range(N) if columns.slot[i] >= 0} == set(model)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_cached_columns_are_the_kernel_matrix(kernel: Kernel) -> None:
    """After evictions every cached column is the one that the kernel itself gives, to rounding."""
    columns = cache(kernel, capacity=4, n=2_500, dimension=7)
    for batch in ([0, 1, 2], [3, 4], [2, 9, 2_400], [0, 1]):
        fetch(columns, np.array(batch))
        for i in batch:
            held = columns.values[columns.slot[i]]
            np.testing.assert_allclose(held, kernel.gram(columns.Z[[i]], columns.Z)[0], rtol=1e-13, atol=1e-14)


def test_the_cache_takes_no_more_than_it_may() -> None:
    """Bytes of the values stay at or below the bound; more than the whole matrix is never taken."""
    for bound in (16 * N, 1_000, 10**9):
        columns = make_columns(np.zeros((N, 2)), LinearKernel(), bound)
        assert columns.values.nbytes <= min(bound, 8 * N * N)


def test_a_cache_too_small_for_one_direction_is_refused() -> None:
    """Fewer than two columns cannot make a step."""
    with pytest.raises(ValueError, match="no room for 2 columns"):
        make_columns(np.zeros((N, 2)), LinearKernel(), 16 * N - 1)


def test_exponentials_are_exact_to_rounding() -> None:
    """Within two units in the last place of numpy's, from 0 down to where the result vanishes; of the very distant the
    least power, without an overflow."""
    x = np.concatenate([[0.0, -1e-300, -708.0], -np.random.default_rng(0).exponential(30.0, 1_000)])
    y = np.concatenate([x, [-709.0, -1e5, -1e300]])
    exponentials(y, np.empty(len(y), np.int64))
    np.testing.assert_array_max_ulp(y[:-3], np.exp(x), maxulp=2)
    assert (y[-3:] == y[-1]).all()
    assert 0 < y[-1] < 1e-300
