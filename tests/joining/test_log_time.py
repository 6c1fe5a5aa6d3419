"""The time of a log: a function of its records alone, whatever was read at once, and no wrong clock moves it."""

from __future__ import annotations

import random
from typing import Literal

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

from streamsvm.joining.joiner import Joiner
from streamsvm.joining.log_time import AHEAD_MS, ENOUGH, LATEST_MS, OF, Ahead, decided
from streamsvm.points import Position
from tests.joining.reference import Feature, Label, times
from tests.joining.test_joiner import FLOAT, drained, feature_rows, label_rows, rules, told

Log = Literal["features", "labels"]
MINUTE, HOUR = 60_000, 3_600_000
NOW = 1_800_000_000_000
WRONG = NOW * 1_000
"""The same moment in microseconds."""


def known(stamps: list[int], *, closed: bool = False) -> list[int]:
    """Return the times of records of one row each, read at once."""
    return list(decided(np.array(stamps, np.int64), np.ones(len(stamps), np.bool_), -1, closed=closed).time_ms.tolist())


STAMPS = st.lists(
    st.one_of(
        st.integers(-1, 90_000), st.integers(NOW, NOW + 5 * MINUTE), st.sampled_from([WRONG, 2**63 - 1, NOW + HOUR])
    ).map(lambda stamp: min(stamp, LATEST_MS)),
    max_size=40,
)


@settings(max_examples=400, deadline=None)
@example([NOW, -1, 0, 0, 0, 0], 0)
@given(STAMPS, st.integers(0, 1 << 32))
def test_times_are_those_of_the_plain_rule_in_whatever_portions_records_of_several_rows_come(
    stamps: list[int], seed: int
) -> None:
    """Each record has one to three rows, which count once; what is not known yet is known when more is read."""
    chance = random.Random(seed)
    sizes = [chance.randint(1, 3) for _ in stamps]
    rows = np.repeat(np.array(stamps, np.int64), sizes)
    last = np.zeros(len(rows), np.bool_)
    last[np.cumsum(sizes, dtype=int) - 1] = True
    ends = [0, *np.cumsum(sizes).tolist()]
    found, now, read, done = list[int](), -1, 0, 0
    while read < len(stamps):
        read = min(len(stamps), read + chance.randint(1, 6))
        part = slice(done, ends[read])
        more = decided(rows[part], last[part], now).time_ms.tolist()
        found += more
        done, now = done + len(more), found[-1] if found else -1
    assert found == [time for time, size in zip(times(stamps), sizes, strict=False) for _ in range(size)]
    assert len(decided(rows, last, -1, closed=True).time_ms) == len(rows)
    assert len(stamps) - len(times(stamps)) <= 2 * OF


def test_records_less_than_a_minute_apart_are_known_at_once() -> None:
    """The time is the greatest timestamp so far, as far as a minute at a time.

    A start of four records waits for a fifth, as the first one has to be confirmed, too.
    """
    stamps = [10, 5, AHEAD_MS, 2 * AHEAD_MS, 7]
    assert known(stamps) == [10, 10, AHEAD_MS, 2 * AHEAD_MS, 2 * AHEAD_MS]
    assert known([NOW] * 4) == []
    assert known([NOW] * ENOUGH) == [NOW] * ENOUGH


def test_times_beyond_reason_are_bounded_where_they_are_confirmed() -> None:
    """So that a horizon can be added to them."""
    assert known([2**63 - 1] * ENOUGH) == [LATEST_MS] * ENOUGH


def test_one_wrong_clock_in_two_records_of_nine_moves_nothing_wherever_it_stands() -> None:
    """Neither at the start, where it has the time of the first right record, nor before the end."""
    right = [NOW + 1_000 * number for number in range(60)]
    for place in range(len(right) - OF):
        for wrong in (WRONG, NOW + HOUR, 2**63 - 1):
            stamps = list(right)
            stamps[place] = stamps[place + 2] = wrong
            expected = list(right)
            for at in (place, place + 2):
                expected[at] = expected[at - 1] if at else right[1]
            assert known(stamps) == expected


def test_a_record_an_hour_has_its_own_time_once_four_more_are_there() -> None:
    """Nothing of a slow partition is under a time of before."""
    stamps = [NOW + HOUR * number for number in range(20)]
    assert known(stamps) == stamps[:-4]
    assert known(stamps, closed=True) == stamps


def test_records_of_many_rows_count_once() -> None:
    """A record's own rows do not confirm it."""
    stamps, last = np.repeat([NOW, WRONG, *[NOW] * 9], 9), np.tile([False] * 8 + [True], 11)
    found = decided(stamps, last, NOW)
    assert set(found.time_ms.tolist()) == {NOW}
    assert (found.ahead, found.newest) == (1, 9)


N = 1_000


@pytest.mark.parametrize(("log", "other"), [("features", "labels"), ("labels", "features")])
@pytest.mark.parametrize("wrong", [NOW + 55 * MINUTE, WRONG])
@pytest.mark.parametrize("place", [0, 300])
def test_one_timestamp_ahead_costs_no_label_and_is_named(log: Log, other: Log, wrong: int, place: int) -> None:
    """Of a thousand rows whose labels come a minute later all are joined, with a horizon of ten minutes."""
    features = [Feature(i, NOW + 1_000 * i, str(i)) for i in range(N)]
    labels = [Label(i, NOW + MINUTE + 1_000 * i, str(i), 1 if i % 2 else -1) for i in range(N)]
    if log == "features":
        features[place] = Feature(place, wrong, str(place))
    else:
        labels[place] = Label(place, wrong, str(place), labels[place].sign)
    end = NOW + 60 * MINUTE
    features += [Feature(N + more, end, None) for more in range(ENOUGH)]
    joiner = Joiner(0, rules(horizon_ms=10 * MINUTE), 1, FLOAT, Position(0), Position(0))
    joiner.add_labels(label_rows(labels))
    joiner.add_features(feature_rows(features))
    points, letters = drained(joiner)
    assert [(key, sign) for _, _, key, sign in points] == [(str(i), 1 if i % 2 else -1) for i in range(N)]
    assert told(letters) == []
    so_far = (NOW + (log == "labels") * MINUTE) + 1_000 * (place - 1 if place else 1)
    assert joiner.ahead(log) == (1, Ahead(place, wrong, so_far))
    assert joiner.ahead(other) == (0, None)
