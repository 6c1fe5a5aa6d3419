"""How a budget is divided: never more than it, nearly all of it, and what is given stays as it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streamsvm.memory import (
    chain_points,
    chain_sizes,
    largest_budget,
    smallest_budget,
    tree_points,
    tree_sizes,
)


@given(memory=st.integers(200, 10**7), buckets=st.integers(2, 16))
def test_a_tree_uses_its_budget(memory: int, buckets: int) -> None:
    """All but what does not divide, whichever of its sizes is given."""
    for given_sizes in ((None, None), (memory // 3, None), (None, memory // (2 * buckets))):
        leaf, bucket = tree_sizes(memory, buckets, *given_sizes)
        assert tree_points(buckets, leaf, bucket) <= memory
        if given_sizes[1] is None:
            assert tree_points(buckets, leaf, bucket) > memory - buckets - 1
    assert tree_sizes(memory, buckets, 5, 7) == (5, 7)


@given(memory=st.integers(10, 10**7), share=st.floats(0.1, 0.9))
def test_a_chain_uses_all_of_its_budget(memory: int, share: float) -> None:
    """Whichever of its sizes is given."""
    assert chain_points(*chain_sizes(memory, share, None, None)) == memory
    assert chain_points(*chain_sizes(memory, share, memory // 3, None)) == memory
    assert chain_points(*chain_sizes(memory, share, None, memory // 3)) == memory
    assert chain_sizes(memory, share, 5, 7) == (5, 7)


@pytest.mark.parametrize("border", [16, 17, 1_000, (1 << 30) - 1])
def test_budgets_are_found_at_their_border(border: int) -> None:
    """The last that fits, the first that is possible; neither is taken where there is none."""
    assert largest_budget(lambda budget: budget <= border) == border
    assert smallest_budget(lambda budget: budget >= border) == border
    assert largest_budget(lambda _: False) is None
