"""The benchmark of what forgets counts recoveries from the change, and reports every contender and length."""

from __future__ import annotations

import numpy as np

from tests.benchmarks.changing import sea
from tests.benchmarks.forgetting import CHANGES, LEAF, SMOOTH, of_lengths, recoveries, with_many_changes


def test_a_recovery_is_counted_from_the_change() -> None:
    """A contender that is wrong for 300 rows and right afterwards is back where 200 rows hold two errors at most."""
    right = np.ones(4_000, np.bool_)
    right[1_000:1_300] = False
    assert recoveries(right, [1_000, 3_000]) == [300 - SMOOTH // 100, 0]
    right[1_000:2_000] = False
    assert recoveries(right, [1_000]) == [1_000 - SMOOTH // 100]


def test_changes_are_off_the_borders_of_leaves() -> None:
    """Twelve of them, none where a leaf begins."""
    ((name, stream),) = with_many_changes({})
    assert name == "SEA"
    assert len(stream[2]) == CHANGES
    assert all(change % LEAF for change in stream[2])


def test_a_long_stream_is_told_at_its_end() -> None:
    """With what was held at most, by the memories that are asked for."""
    X, y, _ = sea(2_000)
    (row,) = of_lengths(X, y, 2_000, ["adaptive"])
    assert row["memory"] == "adaptive"
    assert row["rows"] == 2_000
    assert 0 < row["most_points_held"] <= 2_000 + 100  # rows of a leaf, and a span's audit sample
    assert row["rss_mib"] > 0.0
