"""The structure that forgets: two buckets a level, each a function of its own range; what is dropped, what decays."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from streamsvm.branches.memories.dyadic import FOLDED, Dyadic
from streamsvm.branches.memories.forgetting import (
    Decay,
    Everything,
    ForgettingRule,
    Stretch,
    TimeDecay,
    TimeWindow,
    Window,
    latest,
)
from streamsvm.config import doubling_buckets, windowed_buckets
from streamsvm.coreset import Bucket, Leaf, Learned, Reservoir, UniformReducer, merged
from streamsvm.points import Position
from tests.streams import DIMENSION, gaussian, rows_of

SPAN = 6


def grown(
    spans: int,
    forgetting: ForgettingRule,
    *,
    most: int = 40,
    first: int = 0,
    seed: int = 3,
    times: tuple[int, ...] = (),
) -> Dyadic:
    """Return what holds the spans from `first` on, of a stream of so many."""
    structure = Dyadic(
        0,
        seed,
        4,
        UniformReducer(),
        span_rows=SPAN,
        open_points=SPAN,
        audit_points=(5,),
        most=most,
        forgetting=forgetting,
    )
    rows = rows_of(gaussian(spans * SPAN + 1))
    leaf = Leaf(rows.position_after(first * SPAN - 1) if first else Position(0), SPAN, DIMENSION, np.dtype(np.float32))
    before = Learned.nothing(2)
    for index in range(spans):
        part = rows.slice(index * SPAN, index * SPAN + SPAN)
        if index < first:
            other = Leaf(Position(index * SPAN), SPAN, DIMENSION, np.dtype(np.float32))
            other.add(part)
            before = before.join(other.extent.learned)
            continue
        structure.learned = before if index == first else structure.learned
        leaf.add(part)
        sample = Reservoir(5, 0, seed, DIMENSION, np.dtype(np.float32))
        sample.add(part)
        time = (times[index],) * 2 if times else (-1, -1)
        points, extent = leaf.seal()
        structure.insert(points, extent, audit=(sample.state(),), times=time)
    return structure


def content(bucket: Bucket) -> tuple[object, ...]:
    held = tuple((one.points.sha256(), one.priority.tobytes(), one.threshold) for one in bucket.audit)
    moments = bucket.extent.moments
    totals = moments.class_weight.tobytes() + moments.mean.tobytes() + moments.square.tobytes()
    return bucket.level, bucket.index, bucket.points.sha256(), bucket.extent.start, bucket.extent.end, totals, held


@settings(max_examples=30, deadline=None)
@given(spans=st.integers(1, 70))
def test_every_dyadic_suffix_is_held(spans: int) -> None:
    """One or two buckets a level tile the log: a border lies within twice of any number of spans from its end."""
    buckets = grown(spans, Everything()).buckets
    levels = [bucket.level for bucket in buckets]
    assert levels == sorted(levels, reverse=True)
    assert all(1 <= levels.count(level) <= 2 for level in range(1, levels[0] + 1))
    assert buckets[0].extent.start == Position(0)
    assert sum(bucket.extent.rows for bucket in buckets) == spans * SPAN
    suffixes = np.cumsum([bucket.extent.rows for bucket in reversed(buckets)]) / SPAN
    for length in range(1, spans + 1):
        assert (suffixes >= length).any()
        assert suffixes[suffixes >= length].min() <= 2 * length
    assert len(buckets) <= doubling_buckets(spans * SPAN, SPAN)


@settings(max_examples=30, deadline=None)
@given(spans=st.integers(2, 60), data=st.data())
def test_a_bucket_is_a_function_of_its_own_range(spans: int, data: st.DataObject) -> None:
    """Who begins to read at any bucket's start, and is told what came before, holds the same bytes from there on."""
    rule = Window(40 * SPAN)
    whole = grown(spans, rule)
    at = data.draw(st.integers(0, len(whole.buckets) - 1))
    before = whole.buckets[at].before
    assert before is not None
    late = grown(spans, rule, first=before.rows // SPAN)
    assert list(map(content, late.buckets)) == list(map(content, whole.buckets[at:]))
    assert late.learned.class_weight.tobytes() == whole.learned.class_weight.tobytes()


@settings(max_examples=25, deadline=None)
@given(spans=st.integers(1, 150), window=st.integers(8, 60))
def test_a_window_holds_its_rows_and_less_than_a_grain_more(spans: int, window: int) -> None:
    """Buckets that lie before it are gone; what was learned is not; nothing is folded within the bound of buckets."""
    structure = grown(spans, Window(window * SPAN), most=windowed_buckets(window * SPAN, SPAN))
    held = sum(bucket.extent.rows for bucket in structure.buckets)
    assert min(spans, window) * SPAN <= held <= (window + window // 8 + 1) * SPAN
    assert structure.learned.rows == spans * SPAN
    assert all(bucket.level != FOLDED for bucket in structure.buckets)
    factors = structure.forgetting.factors([Stretch(one.extent.rows, one.times) for one in structure.buckets], -1)
    counted = sum(factor * one.extent.rows for factor, one in zip(factors, structure.buckets, strict=True))
    assert counted == pytest.approx(min(spans, window) * SPAN)


@settings(max_examples=25, deadline=None)
@given(spans=st.integers(1, 90), half_life=st.integers(1, 40))
def test_decayed_weight_is_exact(spans: int, half_life: int) -> None:
    """Each span counts by its own age, whatever was merged: the totals are those of a loop over all spans."""
    rule = Decay(half_life * SPAN)
    structure = grown(spans, rule)
    factors = rule.factors([Stretch(one.extent.rows, one.times) for one in structure.buckets], -1)
    found = sum(factor * one.points.weight.sum() for factor, one in zip(factors, structure.buckets, strict=True))
    weight = gaussian(spans * SPAN + 1).weight[: spans * SPAN].reshape(spans, SPAN).sum(axis=1)
    assert found == pytest.approx((weight * 0.5 ** (np.arange(spans)[::-1] / half_life)).sum(), rel=1e-6)


def test_too_many_buckets_become_one_at_the_oldest_end() -> None:
    """Memory is bounded however long the stream is; weights stay exact."""
    structure = grown(200, Everything(), most=6)
    assert len(structure.buckets) <= 6
    assert structure.buckets[0].level == FOLDED
    assert sum(one.points.weight.sum() for one in structure.buckets) == pytest.approx(
        structure.learned.class_weight.sum()
    )


@settings(max_examples=30, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=5),
    capacity=st.integers(1, 30),
    factor=st.floats(0.01, 1.0),
)
def test_merged_samples_are_the_sample_of_all_rows(sizes: list[int], capacity: int, factor: float) -> None:
    """The same rows, priorities and threshold as of one reservoir that saw all rows, where each part was as large."""
    points = gaussian(sum(sizes))
    rows, borders = rows_of(points), np.cumsum([0, *sizes])
    parts = []
    for begin, end in pairwise(borders):
        part = Reservoir(capacity, 0, 1, DIMENSION, np.dtype(np.float32))
        part.add(rows.slice(int(begin), int(end)))
        parts.append(part.state().scaled(factor))
    whole = Reservoir(capacity, 0, 1, DIMENSION, np.dtype(np.float32))
    whole.add(rows)
    held, expected = merged(parts, capacity), whole.state().scaled(factor)
    assert sorted(held.priority) == sorted(expected.priority)
    assert held.threshold == expected.threshold
    assert held.points.weight.sum() == pytest.approx(expected.points.weight.sum())


def test_a_window_of_time_forgets_by_the_times_of_rows() -> None:
    """What ends before it is dropped, what reaches into it counts by its share, and idle time changes nothing."""
    times = tuple(1_000 * index for index in range(40))
    structure = grown(40, TimeWindow(10_000.0), times=times)
    ends = [bucket.times[1] for bucket in structure.buckets]
    assert min(ends) > 29_000
    stretches = [Stretch(one.extent.rows, one.times) for one in structure.buckets]
    factors = structure.forgetting.factors(stretches, 39_000)
    assert factors[-1] == 1.0
    assert 0.0 < factors[0] <= 1.0
    assert structure.forgetting.factors(stretches, 39_000) == factors


def test_times_that_run_backwards_count_as_the_latest_before_them() -> None:
    """A stretch is as late as the latest one before it; without times nothing is forgotten."""
    assert latest([Stretch(1, (5, 9)), Stretch(1, (2, 3)), Stretch(1, (-1, -1)), Stretch(1, (4, 12))]) == [9, 9, 9, 12]
    rule = TimeWindow(5.0)
    assert rule.factors([Stretch(1, (-1, -1)), Stretch(1, (-1, -1))], -1) == [1.0, 1.0]
    assert rule.expired([Stretch(1, (-1, -1)), Stretch(1, (-1, -1))]) == 0
    assert rule.expired([Stretch(1, (9, 9)), Stretch(1, (2, 2)), Stretch(1, (20, 20))]) == 2
    assert TimeDecay(2.0).factors([Stretch(1, (8, 8)), Stretch(1, (3, 3)), Stretch(1, (10, 10))], 10) == [0.5, 0.5, 1.0]


def test_a_span_of_the_far_future_leaves_itself_and_what_follows() -> None:
    """Everything before it has expired; the rows after it count as its own time, so they are not lost."""
    rule = TimeWindow(1_000.0)
    far = 4_070_908_800_000
    stretches = [Stretch(6, (10, 10)), Stretch(6, (far, far)), Stretch(6, (20, 20)), Stretch(6, (30, 30))]
    assert rule.expired(stretches) == 1
    assert rule.factors(stretches, far) == [0.0, 1.0, 1.0, 1.0]
