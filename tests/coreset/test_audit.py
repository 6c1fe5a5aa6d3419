"""The audit sample: which rows it holds, whatever the batches, and what it estimates of the whole stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray
from scipy.stats import chisquare, ks_2samp

from streamsvm.config import ModelConfig, PointsConfig, SvmConfig
from streamsvm.coreset.audit import Reservoir, Sampled, estimate, merged, represented, reservoirs, shares
from streamsvm.points import NO_CODE, Points, Rows
from tests.config.sizes import sized
from tests.streams import gaussian, rows_of

Float = NDArray[np.float64]


def config_of(seed: int = 1, dimension: int = 3, labels: tuple[int, ...] = (0, 1), audit: int = 20) -> ModelConfig:
    points = PointsConfig(dimension=dimension, labels=labels, dtype="float64" if dimension == 1 else "float32")
    coreset = sized(leaf_rows=20, bucket_points=20, audit_points=audit)
    return ModelConfig(points=points, coreset=coreset, svm=SvmConfig(), seed=seed)


def drawn(rows: Rows, capacity: int, seed: int = 1, label: int = NO_CODE, labels: tuple[int, ...] = (0, 1)) -> Sampled:
    """Return the sample of one pass."""
    config = config_of(seed, rows.points.dimension, labels)
    reservoir = Reservoir(capacity, rows.partition, config, label)
    reservoir.add(rows)
    return reservoir.sample


def content(sample: Sampled) -> tuple[Any, ...]:
    return sample.points.sha256(), sample.priority.tobytes(), sample.threshold, sample.class_weight.tobytes()


def stream_of(loss: Float, y: NDArray[np.int8], weight: Float, partition: int = 0) -> Rows:
    """Return rows whose only feature is their loss."""
    return rows_of(Points(loss[:, None], y, weight), partition)


def of_losses(samples: Sequence[Sampled]) -> tuple[float, float, float]:
    return estimate(samples, np.concatenate([part.points.X[:, 0] for part in samples]).astype(np.float64))


def known_stream(case: str, weighted: bool, n: int = 5_000) -> Rows:
    random = np.random.default_rng(5)
    share, chance, large = {"rare": 0.02}.get(case, 1 / 3), random.random(n), random.exponential(1.0, n)
    y = np.where(random.random(n) < share, 1, -1).astype(np.int8)
    loss = {
        "rare": np.where(y > 0, large, np.where(chance < 0.02, large / 2, 0.0)),
        "few losses": np.where(chance < 0.02, large, 0.0),
        "every row": np.abs(1.0 + 0.3 * random.normal(size=n)),
    }[case]
    return stream_of(loss, y, 10.0 ** random.uniform(-1.0, 1.0, n) if weighted else np.ones(n))


def truth(rows: Rows) -> float:
    return float(rows.points.weight @ rows.points.X[:, 0])


@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 120), capacity=st.integers(1, 30), data=st.data())
def test_borders_of_batches_and_restarts_change_no_bit(n: int, capacity: int, data: st.DataObject) -> None:
    """Any batches, with another reservoir that goes on from the sample after each, give the sample of one pass."""
    accepted = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    borders = sorted(data.draw(st.lists(st.integers(0, n), max_size=5)))
    rows, sample = rows_of(gaussian(n), accepted=accepted), None
    for begin, end in pairwise([0, *borders, n]):
        reservoir = Reservoir(capacity, 0, config_of())
        reservoir.sample = sample or reservoir.sample
        reservoir.add(rows.slice(begin, end))
        sample = reservoir.sample
    assert sample is not None
    assert content(sample) == content(drawn(rows, capacity))
    assert len(sample.points) == min(capacity, int(accepted.sum()))


def test_a_sample_that_was_handed_out_never_changes() -> None:
    """Neither later rows nor changes of the rows that were offered reach it."""
    rows, reservoir = rows_of(gaussian(200)), Reservoir(20, 0, config_of())
    reservoir.add(rows.slice(0, 100))
    sample = reservoir.sample
    before = content(sample)
    reservoir.add(rows.slice(100, 200))
    rows.points.X[:] = 7.0
    rows.points.weight[:] = 7.0
    assert content(sample) == before
    assert content(reservoir.sample) != before


@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 200), capacity=st.integers(1, 30))
def test_the_greatest_priorities_are_held(n: int, capacity: int) -> None:
    """In the order of the log; the threshold is the greatest of the others, and 0 if there is none."""
    rows = rows_of(gaussian(n))
    everything, sample = drawn(rows, n), drawn(rows, capacity)
    order = np.argsort(-everything.priority)
    held = np.sort(order[:capacity])
    np.testing.assert_array_equal(sample.priority, everything.priority[held])
    np.testing.assert_array_equal(sample.points.X, rows.points.X[held])
    assert sample.threshold == (everything.priority[order[capacity]] if n > capacity else 0.0)


def test_a_row_is_drawn_by_its_place_alone() -> None:
    """Another seed, partition, offset or row in the record draws others; the point has no part in it."""
    rows = rows_of(gaussian(400))
    found = {
        "same": drawn(rows, 20),
        "points": drawn(rows_of(gaussian(400, seed=9).reweighted(rows.points.weight)), 20),
        "seed": drawn(rows, 20, seed=2),
        "partition": drawn(rows_of(gaussian(400), 1), 20),
        "offset": drawn(rows_of(gaussian(400), first_offset=1), 20),
        "row": drawn(rows_of(gaussian(400), record_rows=np.full(100, 4)), 20),
    }
    priority = {name: sample.priority.tobytes() for name, sample in found.items()}
    assert priority.pop("points") == priority["same"]
    assert len(set(priority.values())) == len(priority)


@pytest.mark.parametrize("by", ["offset", "row"])
def test_every_place_of_the_stream_is_drawn_as_often(by: str) -> None:
    """Of equal weights each tenth of the stream has a tenth of the samples of many seeds."""
    n = 2_000
    points = Points(np.arange(n, dtype=np.float64)[:, None], np.ones(n, np.int8), np.ones(n))
    rows = rows_of(points, record_rows=None if by == "offset" else np.array([n]))
    places = np.concatenate([drawn(rows, 50, seed).points.X[:, 0] for seed in range(400)])
    assert chisquare(np.bincount((places // (n // 10)).astype(int), minlength=10)).pvalue > 1e-3


def test_two_labels_have_half_each_and_more_share_one() -> None:
    """A sample that would leave a label one point is not halved; a rare label is known whole."""
    assert [shares(capacity, 2) for capacity in (0, 1, 3)] == [{}, {NO_CODE: 1}, {NO_CODE: 3}]
    assert shares(7, 2) == {-1: 4, 1: 3}
    assert shares(7, 3) == {NO_CODE: 7}
    y = np.where(np.arange(4_000) % 200, -1, 1).astype(np.int8)
    rows, each = stream_of((y > 0).astype(np.float64), y, np.ones(4_000)), reservoirs(0, config_of(dimension=1))
    for reservoir in each:
        reservoir.add(rows)
    negative, positive = (reservoir.sample for reservoir in each)
    assert (set(negative.points.y), set(positive.points.y)) == ({-1}, {1})
    assert (negative.class_weight.tolist(), positive.class_weight.tolist()) == ([3_980.0, 0.0], [0.0, 20.0])
    alone = drawn(replace(rows, accepted=y > 0), 10)
    assert content(alone) == content(positive)


def test_merged_samples_are_those_of_one_pass() -> None:
    """Of two ranges of a log and their sample together: where all thresholds are that of the whole, to the last bit."""
    rows = rows_of(gaussian(600))
    for seed in range(30):
        parts = [drawn(rows.slice(*ends), 40, seed) for ends in ((0, 200), (200, 600))]
        both, whole = merged(parts, 40), drawn(rows, 40, seed)
        kept = whole.priority > both.threshold
        assert both.threshold == max(whole.threshold, *(part.threshold for part in parts))
        np.testing.assert_array_equal(both.points.X, whole.points.X[kept])
        np.testing.assert_array_equal(both.priority, whole.priority[kept])
        np.testing.assert_allclose(both.class_weight, whole.class_weight, rtol=1e-12)


@pytest.mark.parametrize("factor", [1.0, 0.25])
def test_merged_samples_estimate_like_one_of_both(factor: float) -> None:
    """Over seeds the estimates have the distribution of those by one pass over both, the older part decayed or not."""
    rows = known_stream("every row", weighted=True, n=3_000)
    rows.points.X[:1_000] *= 3.0
    decayed = rows.points.reweighted(np.where(np.arange(3_000) < 1_000, factor, 1.0) * rows.points.weight)
    whole, found = replace(rows, points=decayed), []
    for seed in range(400):
        parts = [drawn(rows.slice(0, 1_000), 60, seed).scaled(factor), drawn(rows.slice(1_000, 3_000), 60, seed)]
        found.append((of_losses([merged(parts, 60)])[0], of_losses([drawn(whole, 60, seed + 1_000)])[0]))
    assert ks_2samp(*np.array(found).T).pvalue > 1e-3
    for each in np.array(found).T:
        assert each.mean() == pytest.approx(truth(whole), abs=4 * each.std() / 20)


@pytest.mark.parametrize("by_label", [False, True])
def test_estimates_are_right_on_average(by_label: bool) -> None:
    """Over seeds the mean is the sum over all rows of two partitions, weighted, to within four standard errors."""
    weight = 10.0 ** np.random.default_rng(1).uniform(-1, 1, 2_000)
    loss, y = np.random.default_rng(2).exponential(1.0, 2_000), np.where(np.arange(2_000) % 5, -1, 1).astype(np.int8)
    loss[y > 0] *= 4
    streams = [stream_of(loss[part], y[part], weight[part], p) for p, part in enumerate((slice(500), slice(500, None)))]
    labels = (-1, 1) if by_label else (NO_CODE,)
    found = [of_losses([drawn(rows, 60, seed, own) for rows in streams for own in labels])[0] for seed in range(500)]
    assert np.mean(found) == pytest.approx(weight @ loss, abs=4 * np.std(found) / np.sqrt(500))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("case", ["rare", "few losses", "every row"])
def test_the_interval_covers_the_truth(case: str, weighted: bool) -> None:
    """Of 400 seeds at least 92 in a hundred, but not all: with few losses and with many."""
    rows = known_stream(case, weighted)
    ends = np.array([of_losses([drawn(rows, 300, seed)]) for seed in range(400)])
    assert 0.92 <= ((ends[:, 1] <= truth(rows)) & (truth(rows) <= ends[:, 2])).mean() <= 0.995


def test_each_of_several_labels_is_a_stratum() -> None:
    """What points stand for adds up to the exact weight of each label; one with hardly a point shares another's."""
    points = gaussian(3_000)
    y = np.where(np.arange(3_000) == 77, 3, np.arange(3_000) % 3).astype(np.int8)
    rows = rows_of(Points(points.X, y, points.weight))
    sample = drawn(rows, 200, labels=(0, 1, 2, 3))
    exact = np.bincount(y, points.weight, 4)
    np.testing.assert_allclose(sample.class_weight, exact)
    stands = np.bincount(sample.points.y, represented([sample]), 4)
    assert stands.sum() == pytest.approx(exact.sum())
    assert np.isclose(stands, exact).sum() >= 2
    two = sample.against_the_rest(1)
    np.testing.assert_allclose(two.class_weight, [exact.sum() - exact[1], exact[1]])
    pair = sample.of_pair(0, 2)
    assert (len(pair.points), set(pair.points.y)) == (np.isin(sample.points.y, (0, 2)).sum(), {-1, 1})
    assert represented([pair]).sum() == pytest.approx(exact[0] + exact[2])


@settings(max_examples=200, deadline=None)
@given(
    loss=st.lists(st.floats(0, 1e6), min_size=2, max_size=40),
    exponent=st.floats(-15, 15),
    threshold=st.floats(0, 100),
    left=st.floats(0, 1e6),
)
def test_the_interval_is_finite_and_has_the_estimate(
    loss: list[float], exponent: float, threshold: float, left: float
) -> None:
    """Whatever the losses, the scale of the weights and what the sample leaves out; and `represented` says the same."""
    n, unit = len(loss), 10.0**exponent
    y = np.array([1 if i % 3 else -1 for i in range(n)], np.int8)
    points = Points(np.array(loss)[:, None], y, unit * (1.0 + np.arange(n) % 7))
    own = np.bincount((y > 0).astype(int), points.weight, 2) + left * unit
    sample = Sampled(points, threshold * unit, own, np.full(n, np.inf))
    total, low, high = estimate([sample], np.array(loss))
    assert 0.0 <= low <= total <= high < np.inf
    assert represented([sample]) @ np.array(loss) == pytest.approx(total, rel=1e-9)


def test_rows_that_lose_weight_leave_an_unbiased_sample() -> None:
    """A sample whose heavy rows count less from now on estimates the weighted total of the rows as they now count."""
    rows, found = known_stream("every row", weighted=True, n=2_000), []
    points = rows.points.reweighted(np.minimum(rows.points.weight, 2.0))
    own = np.array([points.weight[points.y < 0].sum(), points.weight[points.y > 0].sum()])
    for seed in range(400):
        sample = drawn(rows, 60, seed)
        lighter = sample.points.reweighted(np.minimum(sample.points.weight, 2.0))
        found.append(of_losses([sample.relearned(lighter, own)])[0])
    assert np.mean(found) == pytest.approx(truth(replace(rows, points=points)), abs=float(np.std(found)) / 5)
