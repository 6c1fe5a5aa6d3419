"""How a budget is divided: never more than it, nearly all of it, and what is given stays as it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsvm.memory import (
    LONGEST_STREAM,
    chain_points,
    chain_sizes,
    counter_points,
    counter_sizes,
    largest_budget,
    smallest_budget,
    tree_points,
    tree_sizes,
)


@given(fan_in=st.integers(2, 16), leaf=st.integers(1, 10**6), bucket=st.integers(1, 10**6))
def test_a_counter_never_holds_more_than_is_said(fan_in: int, leaf: int, bucket: int) -> None:
    """Counted bucket by bucket, as the counter merges them, over streams that end at the worst moments."""
    levels = 0
    while leaf * fan_in**levels < LONGEST_STREAM:
        levels += 1
    for sealed in (fan_in**levels - 1, LONGEST_STREAM // leaf):
        digits = []
        while sealed:
            sealed, digit = divmod(sealed, fan_in)
            digits.append(digit)
        assert sum(digits) * bucket + leaf <= counter_points(fan_in, leaf, bucket)


@given(memory=st.integers(200, 10**7), fan_in=st.integers(2, 8))
def test_a_counter_fits_its_budget_and_uses_it(memory: int, fan_in: int) -> None:
    """A bucket a percent larger would not fit."""
    leaf, bucket = counter_sizes(memory, fan_in, None, None)
    assert leaf == 2 * bucket
    if bucket:
        assert counter_points(fan_in, leaf, bucket) <= memory
    more = bucket + max(1, bucket // 50)
    assert counter_points(fan_in, 2 * more, more) > memory


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


def test_what_is_given_stays() -> None:
    """Fitting or not: whoever asks says so."""
    assert counter_sizes(10, 2, 100, 50) == (100, 50)
    leaf, bucket = counter_sizes(10_000, 2, 100, None)
    assert leaf == 100
    assert counter_points(2, leaf, bucket) <= 10_000


@pytest.mark.parametrize("border", [16, 17, 1_000, (1 << 30) - 1])
def test_budgets_are_found_at_their_border(border: int) -> None:
    """The last that fits, the first that is possible; neither is taken where there is none."""
    assert largest_budget(lambda budget: budget <= border) == border
    assert smallest_budget(lambda budget: budget >= border) == border
    assert largest_budget(lambda _: False) is None
