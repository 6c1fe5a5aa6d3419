"""Partitions that forget, beside plain loops over all of their rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pytest

from streamsvm.config import ModelConfig, PointsConfig, SvmConfig
from streamsvm.coreset.memories import SHARED, by_age, latest
from streamsvm.coreset.partition import Partition, PartitionState
from streamsvm.coreset.state import Names, check_partition, decode_state, encode_state
from streamsvm.points import LookedUp, Points, Position, Rows
from tests.config.sizes import sized
from tests.streams import DIMENSION, gaussian, rows_of

NAMES = Names(1, "id", "learned")
FAR_MS = 4_070_908_800_000
MEMORIES: list[dict[str, Any]] = [
    {"memory": "all"},
    {"memory": "window", "window": 512},
    {"memory": "window", "window": "1.3s"},
    {"memory": "decay", "half_life": 64, "span_rows": 64},
    {"memory": "decay", "half_life": "0.7s", "span_rows": 64},
    {"memory": "adaptive", "span_rows": 64},
]


def config_of(memory: dict[str, Any], labels: tuple[int, ...] = (0, 1), **coreset: Any) -> ModelConfig:
    sizes = {"leaf_rows": 16, "bucket_points": 12, "audit_points": 20, **memory, **coreset}
    points = PointsConfig(dimension=DIMENSION, labels=labels)
    return ModelConfig(points=points, coreset=sized(**sizes), svm=SvmConfig(), seed=5)


def learn(partition: Partition, rows: Rows, borders: Sequence[int] = ()) -> Partition:
    """Return a partition that has learned rows in batches between the borders, and those of its leaves."""
    for begin, end in pairwise([0, *borders, len(rows)]):
        while begin < end:
            part = rows.slice(begin, min(end, begin + partition.missing))
            partition.add(part)
            begin += len(part)
    return partition


def learned(config: ModelConfig, rows: Rows, borders: Sequence[int] = ()) -> Partition:
    return learn(Partition(0, Position(0), config), rows, borders)


def now_of(state: PartitionState, config: ModelConfig) -> int:
    """Return the latest time of a partition."""
    assert state.memory is not None
    return latest(state.memory.stretches(config.coreset, state.buckets, state.own))[-1]


def counted(state: PartitionState, config: ModelConfig) -> Points:
    """Return what counts, under its weights in a cut."""
    return Points.union(state.parts(state.factors(config.coreset, now_of(state, config))))


def unit(n: int, seed: int = 0) -> Points:
    return gaussian(n, seed).reweighted(np.ones(n))


def timed(points: Points, time_ms: Any) -> Rows:
    return replace(rows_of(points), times=LookedUp.of(np.asarray(time_ms, np.int64)))


def three_labels(n: int) -> Points:
    points = gaussian(n)
    return Points(points.X, np.digitize(points.X[:, 0], [-0.7, 0.5]).astype(np.int8), points.weight)


@pytest.mark.parametrize("labels", [2, 3])
@pytest.mark.parametrize("memory", MEMORIES)
def test_batches_and_restarts_change_no_byte(memory: dict[str, Any], labels: int) -> None:
    """Batches of any size, and a new partition from the bytes of a state at any row, end in the same bytes."""
    config, random, n = config_of(memory, tuple(range(labels))), np.random.default_rng(labels), 600
    rows = rows_of(gaussian(n) if labels == 2 else three_labels(n), accepted=random.random(n) > 0.1)
    whole = encode_state(learned(config, rows).state(), NAMES)
    assert encode_state(learned(config, rows, range(1, n)).state(), NAMES) == whole
    has_screened = False
    for at in [1, 16, 100, 448, *random.integers(1, n, 2).tolist()]:
        state = learned(config, rows.slice(0, at), sorted(random.integers(0, at, 3).tolist())).state()
        check_partition(state, config)
        has_screened |= state.screen is not None
        again = Partition(0, Position(0), config)
        again.restore(decode_state(encode_state(state, NAMES))[1])
        assert encode_state(learn(again, rows.slice(at, n)).state(), NAMES) == whole
    assert has_screened or "span_rows" not in memory


@pytest.mark.parametrize("n", [40, 512, 1_536, 1_543, 1_999])
def test_a_window_has_exactly_the_newest_rows(n: int) -> None:
    """Without reductions: a suffix of the log; all rows count alike but for one bucket, which counts by its share."""
    window, points = 512, unit(n)
    config = config_of({"memory": "window", "window": window}, bucket_points=64)
    partition = learned(config, rows_of(points))
    found = counted(partition.state(), config)
    np.testing.assert_array_equal(found.X, points.X[-len(found) :])
    assert found.weight.sum() == pytest.approx(min(n, window))
    inside = found.weight == 1.0
    assert inside[-(min(n, window) - window // 8) :].all()
    assert len(set(found.weight[~inside])) <= 1
    assert len(found) <= min(n, window + window // 8)
    assert partition.points_held <= window + window // 8 + 16


def plain_spans(rows: Rows, span: int, leaf: int) -> list[int]:
    """Return how late each span of rows is, and the open one, if that has five times: a loop over all of them."""
    times = []
    for begin in range(0, len(rows), span):
        own = [time for time in rows.time_ms[begin : begin + span][:: span // leaf].tolist() if time >= 0]
        is_full = begin + span <= len(rows)
        times.append(sorted(own)[(len(own) - 1) // 2] if len(own) >= (1 if is_full else 5) else -1)
    return list(accumulate(times, max))


def strange_times(n: int) -> dict[str, list[int]]:
    """Return times that run on, stand still for long, run backwards, are missing, or are of the far future."""
    even = [1_000 + 10 * row for row in range(n)]
    return {
        "even": even,
        "a pause": [time + 600 * (row >= n // 2) for row, time in enumerate(even)],
        "a jump past everything": [time + 10**6 * (row >= n - 100) for row, time in enumerate(even)],
        "backwards": [time - 4_000 * (n // 3 <= row < n // 2) for row, time in enumerate(even)],
        "missing": [-1 if 400 < row < 700 or row % 3 == 0 or row > n - 90 else time for row, time in enumerate(even)],
        "some of the far future": [FAR_MS if row % 17 == 0 or row == n - 1 else time for row, time in enumerate(even)],
        "none": [-1] * n,
    }


@pytest.mark.parametrize("times", strange_times(1))
def test_a_window_of_time_has_the_rows_of_its_time(times: str) -> None:
    """A row counts by when its span was: wholly inside 1, a grain outside not at all, between them by a share."""
    n, window, span = 1_553, 1_300.0, 16
    config = config_of({"memory": "window", "window": "1.3s"}, bucket_points=n)
    points = unit(n)
    rows = timed(points, strange_times(n)[times])
    state = learned(config, rows).state()
    found = counted(state, config)
    late = plain_spans(rows, span, 16)
    assert now_of(state, config) == late[-1]
    begin, weight = late[-1] - window, dict(zip(map(bytes, found.X), found.weight, strict=True))
    for number, (before, own) in enumerate(pairwise([-1, *late])):
        factors = {weight.get(bytes(x), 0.0) for x in points.X[number * span : (number + 1) * span]}
        first = max(before, 0)
        if own < 0 or first >= begin + window / 8:
            assert factors == {1.0}
        elif own <= begin - window / 8:
            assert factors == {0.0}
        else:
            assert len(factors) == 1
            assert 0.0 <= factors.pop() <= 1.0


def test_times_that_run_backwards_count_as_the_latest_before_them() -> None:
    """By hand: also of a bucket that is partly inside; a span of the far future leaves itself and what follows."""
    window = config_of({"memory": "window", "window": "1s"}).coreset
    decay = config_of({"memory": "decay", "half_life": "2s"}).coreset
    assert by_age(window, [(6, (10, 10)), (6, (1_000, 1_000)), (6, (20, 1_400))], 1_800) == [0.0, 1.0, 1.0]
    assert by_age(window, [(6, (10, 10)), (6, (20, 1_400))], 1_800) == [0.0, 600 / 1_380]
    assert by_age(window, [(6, (9, 9)), (6, (FAR_MS, FAR_MS)), (6, (20, 20)), (6, (-1, -1))], FAR_MS) == [0, 1, 1, 1]
    assert by_age(decay, [(1, (8, 8)), (1, (3, 3)), (1, (2_008, 2_008))], 2_008) == [0.5, 0.5, 1.0]


def test_a_jump_in_time_drops_all_that_was_before() -> None:
    """Points before it are no longer held, once a span after it is full; totals still count them."""
    config = config_of({"memory": "window", "window": "1.3s"}, bucket_points=64, audit_points=0)
    rows = timed(unit(1_560), strange_times(1_560)["a jump past everything"])
    before, after = learned(config, rows.slice(0, 1_460)), learned(config, rows)
    assert before.points_held > 128
    assert after.points_held <= 112
    assert after.state().learned.rows == 1_560


@pytest.mark.parametrize("bucket_points", [12, 4_096])
@pytest.mark.parametrize("n", [300, 1_280, 1_999])
def test_weights_halve_with_each_half_life_of_rows(n: int, bucket_points: int) -> None:
    """The weight of each label is that of a loop over all spans, whatever was merged and reduced."""
    config = config_of({"memory": "decay", "half_life": 96}, bucket_points=bucket_points)
    points, state = gaussian(n), learned(config, rows_of(gaussian(n))).state()
    found = counted(state, config)
    last = n - n // 16 * 16
    # A span ends at a multiple of 16; its rows count by those that came after its end.
    after = np.maximum(0, last + (n - last) - (np.arange(n) // 16 + 1) * 16)
    expected = [points.weight[points.y == sign] @ 0.5 ** (after[points.y == sign] / 96) for sign in (-1, 1)]
    np.testing.assert_allclose([found.weight[found.y == sign].sum() for sign in (-1, 1)], expected, rtol=1e-9)
    factors = state.factors(config.coreset, -1)
    np.testing.assert_allclose(state.moments(factors).class_weight, expected, rtol=1e-9)


@pytest.mark.parametrize("times", ["even", "a pause", "some of the far future", "none"])
def test_weights_halve_with_each_half_life_of_time(times: str) -> None:
    """The same where age is from a span's median row to the latest; rows of the year 2099 change nothing."""
    n, points = 1_560, gaussian(1_560)
    config = config_of({"memory": "decay", "half_life": "2s"}, span_rows=64)
    rows = timed(points, strange_times(n)[times])
    state = learned(config, rows).state()
    late = np.array(plain_spans(rows, 64, 16))
    age = np.where(late < 0, 0, late[-1] - late)[np.arange(n) // 64]
    assert counted(state, config).weight.sum() == pytest.approx(points.weight @ 0.5 ** (age / 2_000), rel=1e-9)


def test_what_has_decayed_for_long_is_dropped_and_totals_still_count_it() -> None:
    """Rows, points, the weight of each label and the times are of everything, and memory does not grow."""
    n = 16 * 600
    accepted = np.random.default_rng(1).random(n) > 0.2
    points, config = gaussian(n), config_of({"memory": "decay", "half_life": 16}, bucket_points=64)
    rows, partition, most = rows_of(points, accepted=accepted), Partition(0, Position(0), config), 0
    for begin in range(0, n, 16):
        partition.add(rows.slice(begin, begin + 16))
        most = max(most, partition.points_held)
    state = partition.state()
    assert sum(bucket.extent.rows for bucket in state.buckets) < 16 * 100
    assert most <= 64 * config.coreset.sizes.buckets
    assert partition.observed.reductions > partition.observed.by_weight == 0
    whole = state.learned
    assert (whole.rows, whole.count) == (n, accepted.sum())
    assert (whole.first_time_ms, whole.last_time_ms) == (rows.time_ms[0], rows.time_ms[-1])
    kept = points.take(accepted)
    np.testing.assert_allclose(whole.class_weight, [kept.weight[kept.y == sign].sum() for sign in (-1, 1)], rtol=1e-12)


@pytest.mark.parametrize("memory", MEMORIES[1:5])
def test_what_came_before_the_oldest_row_changes_nothing(memory: dict[str, Any]) -> None:
    """One that begins to read there, and is told what was learned before, has the same buckets, screen and totals."""
    config, rows = config_of(memory), rows_of(gaussian(6_001))
    state = learned(config, rows).state()
    assert state.memory is not None
    now = now_of(state, config)
    begin, before = state.memory.oldest(config.coreset, state.buckets, state.own, now)
    assert 0 < before.rows < 6_001
    assert before.rows + state.memory.newest(config.coreset, state.buckets, state.own, now)[0][0] == 6_001
    assert (begin, before) in [(bucket.extent.start, bucket.before) for bucket in state.buckets]
    for at, bucket in enumerate(state.buckets[:3]):
        start = bucket.extent.start
        late = learn(Partition(0, start, config, bucket.before), rows.slice(rows.index_of(start), 6_001)).state()
        expected = encode_state((state.buckets[at:], state.memory, state.screen), NAMES)
        assert encode_state((late.buckets, late.memory, late.screen), NAMES) == expected
    odd = 5 * config.coreset.span_rows
    before = learned(config, rows.slice(0, odd)).state().learned
    late = learn(Partition(0, Position(odd), config, before), rows.slice(odd, 6_001)).state()
    assert all(bucket.before and bucket.before.rows % bucket.extent.rows == 0 for bucket in late.buckets)


def shared(v: Any, errors: Any, rate: float) -> Any:
    v = v * np.exp(-rate * (errors - errors.min()))
    return (1.0 - SHARED) * v / v.sum() + SHARED / len(v)


def test_shares_are_those_of_a_plain_fixed_share() -> None:
    """Slots, starts and mix follow the errors of each expert, and of both mixtures, on each leaf before it is learned.

    A leaf of 32 rows, which is a span here, counts its errors as they are.
    """
    config, n, span = config_of({"memory": "adaptive", "span_rows": 32}, leaf_rows=32, bucket_points=60), 1_600, 32
    points, partition = turned(n), Partition(0, Position(0), config)
    slots, starts, mix, borders = np.ones(1), np.ones(1), np.full(2, 0.5), np.zeros(1, int)
    for end in range(0, n, span):
        leaf = points.take(slice(end, end + span))
        if end:
            memory = partition.state().memory
            assert memory is not None
            assert memory.horizons is not None
            decision = leaf.X.astype(float) @ memory.horizons.w[:, 0, :-1].T + memory.horizons.w[:, 0, -1]
            place = [max(0, (borders <= end - span * 2**slot).sum() - 1) for slot in range(len(slots))]
            mixed = [decision[:, place] @ slots, decision @ starts]
            u = leaf.weight * span / leaf.weight.sum()
            wrong = (np.column_stack([decision, *mixed]) > 0.0) != (leaf.y > 0)[:, None]
            errors = u @ wrong
            slots, starts = shared(slots, errors[place], 0.2), shared(starts, errors[:-2], 0.5)
            mix = shared(mix, errors[-2:], 0.5)
        partition.add(rows_of(points).slice(end, end + span))
        state, end = partition.state(), end + span
        assert state.memory is not None
        found = state.memory.horizons
        assert found is not None
        kept = np.array([dict(zip(borders, starts, strict=True)).get(border, np.nan) for border in found.borders])
        new = np.isnan(kept) & (end > span)
        starts = np.where(new, 0.05, (1.0 - 0.05 * new.sum()) * kept / kept[~new].sum())
        count = 1 + math.ceil(math.log2(end / span))
        slots = np.append(slots, [1.0 / (slot + 1) for slot in range(len(slots), count)])
        slots, borders = slots / slots.sum(), found.borders
        np.testing.assert_allclose(found.slots, slots, rtol=1e-9)
        np.testing.assert_allclose(found.starts, starts, rtol=1e-9)
        np.testing.assert_allclose(found.mix, mix, rtol=1e-9)


def turned(n: int) -> Points:
    """Return points whose rule turns round in the middle."""
    points = gaussian(n, 3)
    return Points(points.X, np.where(np.arange(n) < n // 2, points.y, -points.y).astype(np.int8), points.weight)


def test_shares_follow_a_change_and_keep_the_weight() -> None:
    """Horizons since the rule turned have nearly all; a bucket counts by the shares of the horizons that hold it."""
    n = 3_200
    points, config = turned(n), config_of({"memory": "adaptive", "span_rows": 32}, leaf_rows=32, bucket_points=60)
    state = learned(config, rows_of(points)).state()
    assert state.memory is not None
    newest = state.memory.newest(config.coreset, state.buckets, state.own, -1)
    assert sum(share for _, share in newest) == pytest.approx(1.0)
    assert sum(share for rows, share in newest if rows <= n // 2) > 0.8
    found = counted(state, config)
    assert found.weight.sum() == pytest.approx(points.weight.sum(), rel=1e-9)
    rows = np.array([bucket.extent.rows for bucket in state.buckets])
    weight = np.array([points.weight[at - own : at].sum() for at, own in zip(rows.cumsum(), rows, strict=True)])
    expected = [
        sum(share / weight[at:].sum() for at, (_, share) in enumerate(newest) if at <= bucket) * weight.sum()
        for bucket in range(len(rows))
    ]
    np.testing.assert_allclose(state.factors(config.coreset, -1)[:-1], expected, rtol=1e-9)


@pytest.mark.parametrize("memory", MEMORIES)
def test_one_label_and_leaves_without_a_valid_row_are_no_fault(memory: dict[str, Any]) -> None:
    """Everything is counted, and what counts has one label."""
    points, accepted, config = gaussian(900), np.ones(900, np.bool_), config_of(memory)
    accepted[:40] = accepted[200:300] = False
    rows = rows_of(Points(points.X, np.ones(900, np.int8), points.weight), accepted=accepted)
    state = learned(config, rows).state()
    check_partition(state, config)
    assert (state.learned.rows, state.learned.count) == (900, 760)
    assert state.learned.class_weight.tolist() == [0.0, pytest.approx(points.weight[accepted].sum())]
    nothing = learned(config, rows_of(points, accepted=np.zeros(900, np.bool_))).state()
    assert (nothing.learned.rows, nothing.learned.count) == (900, 0)


@pytest.mark.parametrize("memory", MEMORIES)
def test_a_sample_by_weight_keeps_the_weight_of_each_label(memory: dict[str, Any]) -> None:
    """Of `uniform`, where no pilot calibrates anything."""
    config, points = config_of(memory, reducer="uniform"), gaussian(900)
    state = learned(config, rows_of(points)).state()
    own, found = state.whole.moments.class_weight, Points.union(state.parts())
    np.testing.assert_allclose([found.weight[found.y == sign].sum() for sign in (-1, 1)], own, rtol=1e-9)


def test_a_state_without_what_a_memory_needs_is_refused() -> None:
    """A bucket that does not say what was learned before it, or a state of another memory."""
    config, rows = config_of(MEMORIES[1]), rows_of(gaussian(300))
    state = learned(config, rows).state()
    lacking = replace(state, buckets=(replace(state.buckets[0], before=None), *state.buckets[1:]))
    for wrong in (lacking, learned(config_of({"memory": "all"}), rows).state()):
        with pytest.raises(Exception, match="not that of this model"):
            check_partition(wrong, config)
