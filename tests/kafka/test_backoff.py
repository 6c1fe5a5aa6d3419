"""The waits between attempts: growing, spread, never above their ceiling."""

import pytest
from hypothesis import given, strategies as st

from streamsvm.errors import ConfigurationError
from streamsvm.kafka.backoff import Backoff


def test_waits_double_up_to_the_ceiling_begin_anew_after_a_success_and_are_spread_by_jitter() -> None:
    """The caller's number in [0, 1) moves a wait by the share that was asked for."""
    backoff = Backoff(first_s=0.1, ceiling_s=1.0, jitter=0)
    assert [backoff.next_s(0.5) for _ in range(6)] == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0])
    backoff.reset()
    assert backoff.next_s(0.5) == pytest.approx(0.1)
    waits = [Backoff(first_s=1, jitter=0.2).next_s(unit) for unit in (0.0, 0.5, 1.0)]
    assert waits == pytest.approx([0.8, 1.0, 1.2])


@given(
    first_s=st.floats(1e-3, 10),
    factor=st.floats(1, 1e4),
    jitter=st.floats(0, 0.99),
    units=st.lists(st.floats(0, 1), min_size=1, max_size=2000),
)
def test_no_wait_is_longer_than_the_ceiling_or_none_at_all(
    first_s: float, factor: float, jitter: float, units: list[float]
) -> None:
    """However long it goes on failing, each wait is positive and at most the ceiling."""
    backoff = Backoff(first_s, first_s * factor, jitter)
    for unit in units:
        assert 0 < backoff.next_s(unit) <= first_s * factor


@pytest.mark.parametrize(
    ("first_s", "ceiling_s", "jitter"), [(0, 1, 0), (2, 1, 0), (1, 2, 1), (1, 2, -0.1), (1, float("inf"), 0)]
)
def test_a_backoff_that_makes_no_sense_is_refused(first_s: float, ceiling_s: float, jitter: float) -> None:
    """Waits that would vanish or be negative are an error at once."""
    with pytest.raises(ConfigurationError, match="backoff"):
        Backoff(first_s, ceiling_s, jitter)
