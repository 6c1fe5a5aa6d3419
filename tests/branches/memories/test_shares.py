"""Shares of horizons: they sum to 1, follow who was right, and can come back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from streamsvm.branches.memories.shares import NEW, SHARED, Shares

SPAN = 10


def begun(borders: tuple[int, ...] = (0, 40, 60, 70), end: int = 80) -> Shares:
    return Shares().moved(borders, end, SPAN)


@settings(max_examples=60, deadline=None)
@given(errors=st.lists(st.lists(st.floats(0, 200), min_size=6, max_size=6), max_size=12))
def test_shares_sum_to_one_whatever_the_errors(errors: list[list[float]]) -> None:
    """After any errors, and after borders went and came; none is ever 0."""
    shares = begun()
    for found in errors:
        shares = shares.judged(found[:4], (found[4], found[5]), 80, SPAN)
        assert sum(shares.by_border(80, SPAN)) == pytest.approx(1.0)
        assert min(shares.starts) >= SHARED / 4 - 1e-12
    moved = shares.moved((0, 60, 80), 90, SPAN)
    assert sum(moved.by_border(90, SPAN)) == pytest.approx(1.0)
    assert moved.starts[-1] == NEW


def test_who_is_right_wins_and_can_come_back() -> None:
    """The newest border after a change; the oldest again when the old world returns."""
    shares = begun()
    for _ in range(10):
        shares = shares.judged([30.0, 30.0, 5.0, 5.0], (20.0, 5.0), 80, SPAN)
    assert sum(shares.by_border(80, SPAN)[2:]) > 0.85
    for _ in range(6):
        shares = shares.judged([2.0, 25.0, 25.0, 25.0], (10.0, 10.0), 80, SPAN)
    assert shares.by_border(80, SPAN)[0] > 0.6


def test_slots_are_the_shortest_horizons_of_powers_of_two() -> None:
    """Of 1, 2, 4 and 8 spans; where none is long enough, everything."""
    shares = Shares(slots=(0.4, 0.3, 0.2, 0.1), borders=(0, 40, 60, 70), starts=(1.0, 0.0, 0.0, 0.0))
    assert shares.by_slots(80, SPAN) == [0.1, 0.2, 0.3, 0.4]
    assert begun((0,), 10).by_border(10, SPAN) == [1.0]
