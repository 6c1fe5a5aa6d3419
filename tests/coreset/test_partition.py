"""Partitions: nothing depends on batches, neighbours or restarts, and nothing is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streamsvm.config import ModelConfig
from streamsvm.coreset import partition as module
from streamsvm.coreset.buckets import label_weights
from streamsvm.coreset.outliers import RowBound
from streamsvm.coreset.partition import Partition, lightest_neighbours
from streamsvm.points import Points, Position, Rows, id_hashes
from tests.coreset.streams import batches, config_of, flat, learned, mixture, rows_of
from tests.streams import id_hash

N = 3_600
STREAMS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "two labels": ({}, {}),
    "four labels": ({"labels": 4}, {}),
    "weights": ({"decades": 6.0}, {"class_weight": "balanced"}),
    "float64": ({"dtype": "float64"}, {}),
    "four labels, weights, float64": ({"labels": 4, "decades": 3.0, "dtype": "float64"}, {"class_weight": "balanced"}),
    "many features": ({"d": 40}, {}),
}
CASES = ("plain", "weights", "late", "one label", "constant", "one-hot", "duplicates", "balanced", "tails", "sorted")


def example(name: str, *, changes: bool = False) -> tuple[Rows, ModelConfig]:
    """Return a stream's rows, a tenth of them rejected, and a configuration; it changes within a screened leaf."""
    stream, options = STREAMS[name]
    d, labels = stream.get("d", 3), stream.get("labels", 2)
    points = mixture(N, d, labels, seed=1, **{key: stream[key] for key in stream if key not in ("d", "labels")})
    if changes:
        points.X[N // 2 :] += np.where(np.arange(N // 2) % 3 == 0, 80.0, 0.0).astype(points.X.dtype)[:, None]
        points.weight[N // 2 :] *= 30.0
    accepted = np.random.default_rng(2).random(N) > 0.1
    points.X[~accepted] = np.nan
    return rows_of(points, accepted), config_of(d, labels, dtype=stream.get("dtype", "float32"), **options)


@pytest.mark.parametrize("changes", [False, True])
@pytest.mark.parametrize("name", STREAMS)
def test_batches_change_no_bit(name: str, changes: bool) -> None:
    """Every array of the state is the same to the last byte, where leaves are screened, thinned, and merged."""
    rows, config = example(name, changes=changes)
    partition, thinned, begun = Partition(0, Position(0), config), 0, set()
    for batch in batches(rows, partition, 137):
        partition.add(batch)
        found = partition.state().screen
        thinned = max(thinned, 0 if found is None else found.thinned)
        begun |= {partition.sealed} if found is not None else set()
    assert len(begun) > 2
    assert partition.sealed > len(partition.buckets)
    assert not changes or thinned
    whole = flat(partition.state())
    for size in (1, 2, 3, 7, 4_096):
        assert flat(learned(rows, config, size).state()) == whole, size


@pytest.mark.parametrize("name", ["two labels", "four labels, weights, float64"])
def test_neighbours_change_no_bit(name: str) -> None:
    """A partition alone is the same as beside 15 others that take turns with it; each has numbers of its own."""
    rows, config = example(name)
    alone = flat(learned(rows, config, number=5).state())
    all_ = [Partition(number, Position(0), config) for number in range(16)]
    for turn in zip(*(batches(rows, partition, 211) for partition in all_), strict=True):
        for partition, batch in zip(all_, turn, strict=True):
            partition.add(batch)
    assert flat(all_[5].state()) == alone
    assert len({str(flat(partition.state())["state.buckets.0.points.X"]) for partition in all_}) == 16


@pytest.mark.parametrize("name", ["two labels", "four labels, weights, float64"])
def test_a_restored_partition_goes_on_to_the_same_bytes(name: str) -> None:
    """From any row, in a leaf that is screened or not; and a state that was handed out never changes."""
    rows, config = example(name, changes=True)
    whole, leaf = flat(learned(rows, config).state()), config.coreset.leaf_rows
    partition, states = Partition(0, Position(0), config), []
    cuts = [1, leaf - 1, leaf, leaf + 1, *np.random.default_rng(3).integers(2 * leaf, N, 12).tolist(), N - 1, N]
    for start, stop in pairwise([0, *sorted(set(cuts))]):
        for batch in batches(rows.slice(0, stop), partition, 97, start):
            partition.add(batch)
        state = partition.state()
        states.append((stop, state, flat(state)))
    assert {state.screen is None for _, state, _ in states} == {False, True}
    for stop, state, then in states:
        other = Partition(0, Position(0), config)
        other.restore(state)
        assert flat(other.state()) == then
        for batch in batches(rows, other, 1_000, stop):
            other.add(batch)
        assert flat(other.state()) == whole, stop
    for _, state, then in states:
        assert flat(state) == then


@pytest.mark.parametrize("structure", ["tree", "counter"])
@pytest.mark.parametrize("name", ["two labels", "four labels, weights, float64"])
def test_every_point_that_is_held_knows_its_row(name: str, structure: str) -> None:
    """After screens, thinning, reductions and a restart, in buckets, leaf and audit sample: place, id and features."""
    rows, config = example(name, changes=True)
    ids = [None if i % 5 == 0 else i if i % 2 else f"row {i}" for i in range(N)]
    rows = replace(rows, id_hash=id_hashes(ids, "m"))
    config = config.model_copy(update={"coreset": config.coreset.model_copy(update={"structure": structure})})
    half, partition = learned(rows.slice(0, N // 2), config), Partition(0, Position(0), config)
    partition.restore(half.state())
    for batch in batches(rows, partition, 97, N // 2):
        partition.add(batch)
    state = partition.state()
    held = [*(bucket.points for bucket in state.buckets), state.leaf, *(sample.points for sample in state.audit)]
    for points in held:
        at = points.places[:, 0] * 3 + points.places[:, 1]
        assert (np.diff(at) > 0).all()
        assert rows.accepted[at].all()
        assert (points.y == rows.points.y[at]).all()
        beyond = (at >= N // 2) & ((at - N // 2) % 3 == 0)  # those that are outliers at first
        assert np.count_nonzero((rows.points.X[at] != points.X)[~beyond]) <= 0.01 * points.X.size
        assert points.places[:, 2].tolist() == [id_hash(ids[i], "m") for i in at]
    assert sum(map(len, held)) > 400


def sealed_exactly(points: Points, config: ModelConfig, accepted: NDArray[np.bool_] | None = None) -> Partition:
    """Learn points; at every seal assert that rows, positions, and each label's weight are those of all rows so far.

    Rows count as the bound of what was sealed before has them.
    """
    rows, labels = rows_of(points, accepted), config.points.classes
    partition, bound, seen, leaf, seals = Partition(0, Position(0), config), None, points.take(slice(0, 0)), [], 0
    for batch in batches(rows, partition, 1_000):
        leaf.append(batch.points.take(batch.accepted))
        partition.add(batch)
        state = partition.state()
        if state.sealed == seals:
            continue
        seals, done, own, leaf = state.sealed, state.whole.rows, Points.union(leaf), []
        if len(own):
            seen = Points.union([seen, (bound or RowBound.of_first_leaf(own)).draw_in(own)])
            bound = RowBound.of(state.whole.moments)
        ends = [bucket.extent.start for bucket in state.buckets] + [partition.position]
        assert (ends[0], ends[-1]) == (Position(0), rows.position_after(done - 1))
        assert [bucket.extent.end for bucket in state.buckets] == ends[1:]
        held = sum(label_weights(bucket.points, labels) for bucket in state.buckets)
        np.testing.assert_allclose(held, label_weights(seen, labels), rtol=1e-9)
        np.testing.assert_allclose(state.whole.moments.class_weight, label_weights(seen, labels), rtol=1e-9)
        assert state.whole.moments.count == len(seen)
        assert all((bucket.points.weight > 0.0).all() for bucket in state.buckets)
        assert max(len(bucket.points) for bucket in state.buckets) <= config.coreset.bucket_points
        assert len(state.buckets) <= config.coreset.sizes.buckets
    whole = partition.state().whole
    parts = Points.union([points.take(slice(0, 0)), *partition.state().parts()])
    np.testing.assert_allclose(label_weights(parts, labels), whole.moments.class_weight, rtol=1e-9)
    assert (whole.rows, seals > 3) == (len(points), True)
    return partition


@pytest.mark.parametrize("labels", [2, 4])
@pytest.mark.parametrize("case", CASES)
def test_nothing_is_lost_at_any_seal(case: str, labels: int) -> None:
    d = 60 if case == "one-hot" else 3
    points = mixture(7_000, d, labels, seed=3, decades=6.0 if case == "weights" else 0.0)
    if case == "late":
        points.y[:5_000][points.y[:5_000] == points.y.max()] = points.y.min()
    elif case == "one label":
        points.y[:5_000] = points.y.min()
    elif case == "constant":
        points.X[:, 1:] = [0.1, 1e6]
    elif case == "one-hot":
        points.X[:] = np.eye(d)[np.random.default_rng(4).integers(0, d, 7_000)]
    elif case == "duplicates":
        points = points.take(np.arange(7_000) % 11)
    elif case == "tails":
        points.X[:] = np.random.default_rng(5).standard_cauchy((7_000, 3)) ** 3
    elif case == "sorted":
        points = points.take(np.argsort(points.y, kind="stable"))
    config = config_of(d, labels, class_weight="balanced" if case == "balanced" else "none")
    assert sealed_exactly(points, config)._screen is not None


@pytest.mark.parametrize("rejected", [slice(0, 7_000), slice(0, 3_000), slice(1_000, 5_000), slice(1_080, 1_320)])
def test_leaves_without_an_accepted_row_lose_nothing(rejected: slice) -> None:
    """The first ones, ones between, and all."""
    accepted = np.ones(7_000, np.bool_)
    accepted[rejected] = False
    points = mixture(7_000)
    points.X[~accepted], points.weight[~accepted] = np.nan, np.nan
    sealed_exactly(points, config_of(3), accepted)


@pytest.mark.parametrize("labels", [2, 4])
def test_samples_by_weight_lose_nothing(labels: int) -> None:
    """Without pilots, too, each label keeps its weight."""
    config = config_of(3, labels)
    sections = config.coreset.model_copy(update={"reducer": "uniform"})
    sections._sizes = config.coreset.sizes
    uniform = config.model_copy(update={"coreset": sections})
    partition = sealed_exactly(mixture(4_000, labels=labels), uniform)
    assert partition.observed.by_weight == partition.observed.reductions > 0


def test_a_merge_that_loses_weight_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be published of it."""
    reduce = module.reduce

    def losing(points: Points, m: int, *others: Any) -> Points:
        kept = reduce(points, m, *others)
        return kept.reweighted(kept.weight * (1.0 - 1e-4))

    monkeypatch.setattr(module, "reduce", losing)
    with pytest.raises(AssertionError):
        learned(rows_of(mixture(4_000)), config_of(3))


def test_a_label_that_never_comes_changes_no_choice() -> None:
    """Of three labels, of which the last one never comes, the same rows are kept as of two, until pilots drift apart.

    Their weights differ by what the ridge of the calibration leaves, since every total stands there twice.
    """
    points = mixture(2_400, 3, 2, seed=6)
    as_three = Points(points.X, (points.y > 0).astype(np.int8), points.weight)
    options = {"leaf": 240, "bucket": 240}
    two = learned(rows_of(points), config_of(3, 2, **options)).state()
    three = learned(rows_of(as_three), config_of(3, 3, **options)).state()
    assert two.screen is not None
    assert three.screen is not None
    assert two.sealed == three.sealed > 4
    for one, other in zip([*two.buckets, two], [*three.buckets, three], strict=True):
        own, same = (each.leaf if hasattr(each, "leaf") else each.points for each in (one, other))
        np.testing.assert_array_equal(same.X, own.X)
        np.testing.assert_array_equal(same.y, own.y > 0)
        np.testing.assert_allclose(same.weight, own.weight, rtol=1e-4)


def test_the_lightest_neighbours_merge() -> None:
    """Of equal ones the oldest."""
    assert lightest_neighbours([5.0, 1.0, 1.0, 3.0]) == 1
    assert lightest_neighbours([2.0, 2.0, 2.0]) == 0


def test_an_open_leaf_says_the_times_of_its_first_and_last_row_that_have_one() -> None:
    rows, config = rows_of(mixture(100)), config_of(3)
    extent = learned(rows, config, 7).state().extent
    times = rows.time_ms[rows.time_ms >= 0]
    assert (extent.first_time_ms, extent.last_time_ms) == (times[0], times[-1])
    nothing = replace(rows.slice(0, 3), times=rows.times.take(np.zeros(3, np.int64)))
    assert learned(nothing, config).state().extent.last_time_ms == -1


@pytest.mark.parametrize("reducer", ["calibrated", "uniform"])
def test_the_buckets_of_a_counter_are_the_digits_of_its_leaves(reducer: str) -> None:
    """Sealed leaves in binary, the highest digit first: a bucket of 2^i leaves where digit i is 1."""
    config = config_of(3, leaf=20, bucket=15, structure="counter", reducer=reducer)
    rows, partition = rows_of(mixture(700)), Partition(0, Position(0), config)
    for batch in batches(rows, partition, 20):
        partition.add(batch)
        leaves = partition.sealed
        held = [bucket.extent.rows // 20 for bucket in partition.buckets]
        assert held == [1 << digit for digit in reversed(range(6)) if leaves >> digit & 1]
        assert all(len(bucket.points) <= 15 for bucket in partition.buckets)


OF_A_PROCESS = """
import hashlib
from streamsvm.coreset.state import Names, encode_state
from tests.coreset.streams import config_of, learned, mixture, rows_of

for d, labels in ((3, 2), (24, 2), (40, 2), (3, 4)):
    state = learned(rows_of(mixture(2_500, d, labels)), config_of(d, labels)).state()
    print(hashlib.sha256(encode_state(state, Names(1, "", ""))).hexdigest())
"""


def test_another_processor_changes_no_bit() -> None:
    """Whatever kernels and threads the library of linear algebra takes."""
    found = set()
    for kernels, threads in (("Haswell", "1"), ("Sandybridge", "2"), ("Prescott", "1")):
        own = {**os.environ, "OPENBLAS_CORETYPE": kernels, "OPENBLAS_NUM_THREADS": threads}
        command = [sys.executable, "-c", OF_A_PROCESS]
        found.add(subprocess.run(command, env=own, capture_output=True, text=True, check=True).stdout)
    assert len(found) == 1
