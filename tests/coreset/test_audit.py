"""The audit sample: which rows it holds, whatever the batches, and how often its interval covers the truth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from streamsvm.coreset.audit_sample import EVERY_LABEL, LABELS, Reservoir, Sampled, shares
from streamsvm.coreset.estimate import estimate, represented
from streamsvm.points import Points, Rows
from tests.coreset.known_losses import covered, estimated, known_stream, sampled, sampled_by_label, stream_of
from tests.streams import gaussian, rows_of

FLOAT32 = np.dtype(np.float32)


def reservoir(capacity: int = 20, partition: int = 0, seed: int = 1) -> Reservoir:
    return Reservoir(capacity, partition, seed, 3, FLOAT32)


def held_bytes(held: Reservoir) -> tuple[str, bytes, float]:
    state = held.state()
    return state.points.sha256(), state.priority.tobytes(), state.threshold


def rows(n: int, **options: object) -> Rows:
    return rows_of(gaussian(n), **options)  # type: ignore[arg-type]


@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 120), capacity=st.integers(1, 30), data=st.data())
def test_batches_and_restarts_do_not_matter(n: int, capacity: int, data: st.DataObject) -> None:
    """Any batches, with a restart from saved state between each two, hold the same points in the same places."""
    accepted = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    borders = sorted(data.draw(st.lists(st.integers(0, n), max_size=5)))
    whole, cut_up = reservoir(capacity), reservoir(capacity)
    stream = rows(n, accepted=accepted)
    whole.add(stream)
    for start, stop in zip([0, *borders], [*borders, n], strict=True):
        state = cut_up.state()
        cut_up = reservoir(capacity)
        cut_up.restore(state)
        cut_up.add(stream.slice(start, stop))
    assert held_bytes(cut_up) == held_bytes(whole)
    assert len(whole) == min(capacity, int(accepted.sum()))


@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 200), capacity=st.integers(1, 30))
def test_the_greatest_priorities_are_held(n: int, capacity: int) -> None:
    """As many as there is room for; the threshold is the greatest of the others, and 0 if there is none."""
    stream = rows(n)
    everything, held = reservoir(n), reservoir(capacity)
    everything.add(stream)
    held.add(stream)
    order = np.argsort(-everything.state().priority)
    np.testing.assert_array_equal(np.sort(held.state().priority)[::-1], everything.state().priority[order][:capacity])
    assert held.state().threshold == (everything.state().priority[order[capacity]] if n > capacity else 0.0)
    assert {row.tobytes() for row in held.points.X} == {row.tobytes() for row in stream.points.X[order[:capacity]]}


def test_a_row_is_drawn_by_its_coordinates() -> None:
    """Another seed, partition, offset or row in the record draws others; the point itself has no part in it."""
    stream = rows(400)
    other_points = rows_of(gaussian(400, seed=9).reweighted(stream.points.weight))
    drawn = {}
    for name, held, offered in (
        ("same", reservoir(), stream),
        ("points", reservoir(), other_points),
        ("seed", reservoir(seed=2), stream),
        ("partition", reservoir(partition=1), stream),
        ("offset", reservoir(), rows(400, first_offset=1)),
        ("row", reservoir(), rows(400, record_rows=np.full(100, 4))),
    ):
        held.add(offered)
        drawn[name] = held.state().priority.tobytes()
    assert drawn.pop("points") == drawn["same"]
    assert len(set(drawn.values())) == len(drawn)


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 200), capacity=st.integers(1, 30), label=st.sampled_from(LABELS))
def test_a_labels_sample_is_that_of_its_rows_alone(n: int, capacity: int, label: int) -> None:
    """The other label's rows might as well have been rejected."""
    stream = rows(n)
    own, alone = Reservoir(capacity, 0, 1, 3, FLOAT32, label), reservoir(capacity)
    own.add(stream)
    alone.add(replace(stream, accepted=stream.accepted & (stream.points.y == label)))
    assert held_bytes(own) == held_bytes(alone)
    assert set(own.points.y) <= {label}


@pytest.mark.parametrize("label", [0, 1, 6, 127])
def test_the_codes_of_several_labels_are_no_sentinel(label: int) -> None:
    """The first of several labels has code 0: its sample, too, is drawn from its own rows alone."""
    stream = rows(200)
    stream.points.y[:] = np.resize(np.array([0, 1, 6, 127], np.int8), 200)
    own, every = Reservoir(200, 0, 1, 3, FLOAT32, label), reservoir(200)
    own.add(stream)
    every.add(stream)
    assert (set(own.points.y), len(own), len(every)) == ({label}, 50, 200)


@pytest.mark.parametrize(
    ("capacity", "by_label", "told"),
    [
        (0, True, {}),
        (1, True, {EVERY_LABEL: 1}),
        (3, True, {EVERY_LABEL: 3}),
        (4, True, {-1: 2, 1: 2}),
        (7, True, {-1: 4, 1: 3}),
        (8, True, {-1: 4, 1: 4}),
        (7, False, {EVERY_LABEL: 7}),
    ],
)
def test_a_sample_is_halved_by_label(capacity: int, by_label: bool, told: dict[int, int]) -> None:
    """Unless it is to be common, or too small; together never more than there is room for."""
    assert shares(capacity, by_label) == told


def test_a_rare_label_is_known_far_better_by_label() -> None:
    """Of 4,000 rows 20 are positive: a common sample of 100 holds half of one on average, halves hold them all."""
    y = np.where(np.arange(4_000) % 200, -1, 1).astype(np.int8)
    stream = stream_of((y > 0).astype(np.float64), y, np.ones(4_000))
    common = [int((sampled(stream, 100, seed).points.y > 0).sum()) for seed in range(200)]
    assert np.mean(common) == pytest.approx(0.5, abs=0.2)
    for seed in range(20):
        negative, positive = sampled_by_label(stream, 100, seed)
        assert (len(negative.points), len(positive.points), positive.threshold) == (50, 20, 0.0)
        assert estimated([negative, positive]).total == pytest.approx(stream.truth)


@pytest.mark.parametrize("by", ["offset", "row"])
def test_every_place_of_the_stream_is_drawn_as_often(by: str) -> None:
    """Of equal weights, each tenth of the stream holds a tenth of the samples of many seeds (chi-square, 9 degrees)."""
    n = 2_000
    points = Points(np.arange(n, dtype=np.float64)[:, None], np.ones(n, np.int8), np.ones(n))
    stream = rows_of(points, record_rows=None if by == "offset" else np.array([n]))
    counts = np.zeros(10)
    for seed in range(400):
        held = Reservoir(50, 0, seed, 1, np.dtype(np.float64))
        held.add(stream)
        counts += np.bincount((held.points.X[:, 0] // (n // 10)).astype(int), minlength=10)
    expected = counts.sum() / 10
    assert ((counts - expected) ** 2 / expected).sum() < 27.9


@pytest.mark.long(keep=("heavy-True-*", "fraud-*", "htru2-False-*"))  # the hardest streams
@pytest.mark.parametrize("by_label", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("case", ["htru2", "gaussian", "fraud", "few losses", "heavy", "every point"])
def test_the_interval_covers_the_truth(case: str, weighted: bool, by_label: bool) -> None:
    """Of 1,000 seeds at least 930 do, with few losses and with great ones, whether or not it is drawn by label."""
    assert covered(known_stream(case, weighted), 500, 1_000, by_label) >= 0.93


def test_the_estimate_is_right_on_average() -> None:
    """Over seeds its mean is the truth, to within three standard errors, weighted and over two partitions."""
    weight = 10.0 ** np.random.default_rng(1).uniform(-1, 1, 4_000)
    loss, y = np.random.default_rng(2).exponential(1.0, 4_000), np.where(np.arange(4_000) % 5, -1, 1).astype(np.int8)
    loss[y > 0] *= 4
    one, other = (
        stream_of(loss[part], y[part], weight[part], p) for p, part in enumerate((slice(3_000), slice(3_000, None)))
    )
    found = [estimated([sampled(one, 60, seed), sampled(other, 60, seed)]).total for seed in range(600)]
    assert np.mean(found) == pytest.approx(one.truth + other.truth, abs=3 * np.std(found) / np.sqrt(600))


def test_a_short_stream_is_known_exactly() -> None:
    """While every point is held, the estimate is the truth and the interval has no width."""
    stream = stream_of(np.array([0.0, 2.0, 0.5]), np.array([1, -1, 1], np.int8), np.array([1.0, 3.0, 0.5]))
    assert estimated([sampled(stream, 3, 0)]) == (6.25, 6.25, 6.25)


def sample_of(
    loss: NDArray[np.float64], y: list[int], weight: list[float], threshold: float, totals: list[float]
) -> Sampled:
    points = Points(loss[:, None], np.array(y, np.int8), np.array(weight))
    return Sampled(points, threshold, np.array(totals))


def test_labels_count_by_their_exact_weight() -> None:
    """The mean loss of a label times what its certain points leave of its weight; those count as they are."""
    loss = np.array([1.0, 3.0, 0.0, 2.0, 10.0])
    sample = sample_of(loss, [1, 1, -1, -1, -1], [1.0, 1.0, 1.0, 1.0, 9.0], 8.0, [109.0, 50.0])
    total, low, high = estimate([sample], loss)
    assert total == pytest.approx(90.0 + 100.0 * 1.0 + 50.0 * 2.0)
    assert 90.0 <= low < total < high


@pytest.mark.parametrize(
    ("y", "weight", "totals", "expected"),
    [
        ([1, -1, -1], [1.0, 1.0, 1.0], [60.0, 40.0], 100.0 * 2.0),
        ([-1, -1, -1], [1.0, 1.0, 1.0], [60.0, 40.0], 100.0 * 2.0),
        ([-1, -1, -1], [1.0, 1.0, 1.0], [60.0, 0.0], 60.0 * 2.0),
        ([1, -1, -1], [9.0, 9.0, 9.0], [18.5, 9.0], 9.0 * 6.0),
    ],
)
def test_labels_with_hardly_a_point_are_pooled(
    y: list[int], weight: list[float], totals: list[float], expected: float
) -> None:
    """One point or none of a label, one label only, only certain points: defined, and inside the interval."""
    loss = np.array([1.0, 2.0, 3.0])
    total, low, high = estimate([sample_of(loss, y, weight, 5.0, totals)], loss)
    assert total == pytest.approx(expected)
    assert low <= total < high


@pytest.mark.parametrize("capacity", [1, 2, 5, 40, 500])
def test_what_points_stand_for_adds_up_to_the_stream(capacity: int) -> None:
    """Over partitions, some of them held whole: each label's weight is exact where it can be, the total always, and
    the losses so weighted are the estimate."""
    parts = []
    for partition, n in enumerate((300, 30, 1_000)):
        stream, own = rows(n, partition=partition), reservoir(capacity, partition)
        own.add(stream)
        y, weight = stream.points.y, stream.points.weight
        parts.append(own.sampled(np.array([weight[y < 0].sum(), weight[y > 0].sum()])))
    weight, y = represented(parts), np.concatenate([part.points.y for part in parts])
    assert (weight > 0.0).all()
    whole = np.sum([part.class_weight for part in parts], axis=0)
    assert weight.sum() == pytest.approx(whole.sum())
    if capacity >= 40:
        np.testing.assert_allclose([weight[y < 0].sum(), weight[y > 0].sum()], whole)
    loss = np.random.default_rng(0).exponential(size=len(y))
    assert weight @ loss == pytest.approx(estimate(parts, loss).total)


def test_no_loss_seen_is_not_no_loss() -> None:
    """A sample without a loss gives 0, and an upper end above what one point on the boundary would add."""
    total, low, high = estimate([sample_of(np.zeros(50), [1] * 50, [1.0] * 50, 20.0, [0.0, 1_000.0])], np.zeros(50))
    assert (total, low) == (0.0, 0.0)
    assert high > 1_000.0 / 50.0


@settings(max_examples=200, deadline=None)
@given(
    loss=st.lists(st.floats(0, 1e6), min_size=2, max_size=40),
    exponent=st.floats(-15, 15),
    threshold=st.floats(0, 100),
    left=st.floats(0, 1e6),
)
def test_the_interval_is_finite_and_holds_the_estimate(
    loss: list[float], exponent: float, threshold: float, left: float
) -> None:
    """Whatever the losses, the scale of the weights and what the sample leaves out."""
    n, unit = len(loss), 10.0**exponent
    y = [1 if i % 3 else -1 for i in range(n)]
    weight = [unit * (1 + i % 7) for i in range(n)]
    totals = [sum(u for u, label in zip(weight, y, strict=True) if label == sign) + left * unit for sign in (-1, 1)]
    total, low, high = estimate([sample_of(np.array(loss), y, weight, threshold * unit, totals)], np.array(loss))
    assert 0.0 <= low <= total <= high < np.inf
