"""Times of rows: looked up only where they are asked for, and the same however the rows came."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from streamsvm.coreset.leaf import Leaf
from streamsvm.points import Points, Position, Times
from tests.streams import rows_of

TIMES = [-1, 30, 10, 90, -1, 20, -1]


def test_only_the_ends_are_looked_up() -> None:
    """Of rows whose ends have a time."""
    asked: list[int] = []

    def look_up(at: NDArray[np.int64]) -> NDArray[np.int64]:
        asked.extend(at.tolist())
        return at + 100

    times = Times(look_up, np.arange(50)).take(slice(10, 20))
    assert times.ends() == (110, 119)
    assert asked == [10, 19]
    assert times.known().tolist() == list(range(110, 120))


@pytest.mark.parametrize(
    ("time_ms", "ends"), [(TIMES, (30, 20)), ([-1, -1], (-1, -1)), ([5], (5, 5)), ([-1], (-1, -1))]
)
def test_the_ends_are_those_of_rows_that_have_a_time(time_ms: list[int], ends: tuple[int, int]) -> None:
    assert Times.of(np.array(time_ms)).ends() == ends
    assert Times.union([Times.of(np.array([part])) for part in time_ms]).ends() == ends


@pytest.mark.parametrize("batch", [1, 2, 3, 7])
def test_a_leaf_has_the_times_of_its_first_and_last_row(batch: int) -> None:
    """However many rows come at a time; a row with a wrong clock between them does not count."""
    n = len(TIMES)
    rows = rows_of(Points(np.ones((n, 1)), np.ones(n, np.int8), np.ones(n)))
    rows = replace(rows, times=Times.of(np.array(TIMES)))
    leaf = Leaf(Position(0), 8, 1, np.dtype(np.float64))
    for start in range(0, n, batch):
        leaf.add(rows.slice(start, min(start + batch, n)))
    assert (leaf.extent.first_time_ms, leaf.extent.last_time_ms) == (30, 20)
    assert leaf.extent.rows == n
