"""How a counter divides a budget: never more than it, nearly all of it, and what is given stays as it is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from streamsvm.papers.counter_sizes import LONGEST_STREAM, SIZES


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
        assert sum(digits) * bucket + leaf <= SIZES.points(fan_in, leaf, bucket)


@given(memory=st.integers(200, 10**7), fan_in=st.integers(2, 8))
def test_a_counter_fits_its_budget_and_uses_it(memory: int, fan_in: int) -> None:
    """A bucket a percent larger would not fit."""
    leaf, bucket = SIZES.of_budget(memory, fan_in, None, None)
    assert leaf == 2 * bucket
    if bucket:
        assert SIZES.points(fan_in, leaf, bucket) <= memory
    more = bucket + max(1, bucket // 50)
    assert SIZES.points(fan_in, 2 * more, more) > memory


def test_what_is_given_stays() -> None:
    """Fitting or not: whoever asks says so."""
    assert SIZES.of_budget(10, 2, 100, 50) == (100, 50)
    leaf, bucket = SIZES.of_budget(10_000, 2, 100, None)
    assert leaf == 100
    assert SIZES.points(2, leaf, bucket) <= 10_000
