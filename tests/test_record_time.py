"""The time of a stream by its records."""

from __future__ import annotations

import numpy as np
import pytest

from streamsvm.quality.record_time import BLOCK, RecordTime


def time_of(times: np.ndarray, portion: int) -> int:
    told = RecordTime()
    for first in range(0, len(times), portion):
        told.note(times[first : first + portion])
    return told.time_ms


@pytest.mark.parametrize("portion", [1, 7, BLOCK, 1_000])
def test_the_time_is_a_function_of_the_rows_and_not_of_the_portions(portion: int) -> None:
    """Whatever was read at once."""
    times = np.random.default_rng(3).integers(0, 10_000, 5 * BLOCK + 13)
    blocks = times[: 5 * BLOCK].reshape(5, BLOCK)
    assert time_of(times, portion) == int(np.median(blocks, axis=1).max())


def test_a_few_records_of_a_wrong_clock_move_nothing() -> None:
    """Fewer than half of each block; where half of one agrees, the time is theirs."""
    times = np.arange(3 * BLOCK)
    times[::3] = 1 << 50
    assert 2 * BLOCK < time_of(times, 50) < 3 * BLOCK
    times[: BLOCK // 2 + 1] = 1 << 50
    assert time_of(times, 50) == 1 << 50


def test_the_time_is_unknown_before_the_first_block_and_does_not_run_backwards() -> None:
    """-1, and what it was."""
    told = RecordTime()
    told.note(np.full(BLOCK - 1, 500))
    assert told.time_ms == -1
    told.note(np.full(1, 500))
    assert told.time_ms == 500
    told.note(np.full(BLOCK, 400))
    assert told.time_ms == 500
