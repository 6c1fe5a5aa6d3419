"""Reduction: with which probability a point stays, and which totals are met exactly after it."""

from __future__ import annotations

import numpy as np
import pytest

from streamsvm.coreset.buckets import label_weights
from streamsvm.coreset.pilot import again
from streamsvm.coreset.reduce import LEAST, MOST, Observed, Totals, _every_label, _moved, inclusion, reduce, systematic
from streamsvm.points import Points
from tests.coreset.streams import Float, measure, mixture


def plain_inclusion(size: Float, m: int) -> Float:
    """Return min(1, c size) with sum m, c by bisection."""
    low, high = 0.0, 1.0
    while np.minimum(1.0, high * size).sum() < m:
        high *= 2.0
    for _ in range(200):
        c = (low + high) / 2.0
        low, high = (c, high) if np.minimum(1.0, c * size).sum() < m else (low, c)
    return np.minimum(1.0, high * size)


@pytest.mark.parametrize("seed", range(20))
def test_inclusion_is_what_bisection_finds(seed: int) -> None:
    random = np.random.default_rng(seed)
    size, m = 10.0 ** random.uniform(-seed / 3, seed / 3, 200), int(random.integers(1, 199))
    pi = inclusion(size, m)
    assert pi.sum() == pytest.approx(m, rel=1e-12)
    np.testing.assert_allclose(pi, plain_inclusion(size, m), rtol=1e-9)


def test_systematic_sampling_has_its_probabilities_and_a_fixed_size() -> None:
    """Over starts that divide [0, 1) evenly, each point is drawn in the share of starts that its pi says."""
    random, starts = np.random.default_rng(5), 2_000
    pi = inclusion(10.0 ** random.uniform(-1, 1, 40), 12)
    order = random.permutation(40)
    drawn = [systematic(pi, order, 12, (at + 0.5) / starts) for at in range(starts)]
    assert all(len(np.unique(one)) == 12 for one in drawn)
    assert all((np.diff(one) > 0).all() for one in drawn)
    # The starts that draw a point are an interval modulo 1: counted on a grid, it is off by less than two steps.
    assert np.abs(np.bincount(np.concatenate(drawn), minlength=40) / starts - pi).max() < 2.0 / starts


def test_systematic_sampling_spreads_along_the_order() -> None:
    """Of each stretch of the order as many points are drawn as its pi sum to, up to one."""
    pi = inclusion(10.0 ** np.random.default_rng(6).uniform(-1, 1, 300), 60)
    order = np.random.default_rng(7).permutation(300)
    chosen = np.isin(order, systematic(pi, order, 60, 0.37))
    assert np.abs(np.cumsum(chosen) - np.cumsum(pi[order])).max() <= 1.0


@pytest.mark.parametrize("extra", [0, 1, 20])
def test_every_label_gets_a_point(extra: int) -> None:
    """However light it is, and with as few points as labels."""
    for seed in range(200):
        random = np.random.default_rng(seed)
        labels = int(random.integers(2, 9))
        label = np.concatenate([np.arange(labels), random.integers(0, labels, 60)])
        m = labels + extra
        pi = inclusion(_every_label(10.0 ** random.uniform(-9, 9, len(label)), label, m), m)
        chosen = systematic(pi, np.argsort(label, kind="stable"), m, random.random())
        assert len(np.unique(label[chosen])) == labels
        assert len(np.unique(chosen)) == m


@pytest.mark.parametrize("seed", range(8))
def test_calibration_moves_weights_the_least(seed: int) -> None:
    """Factors are 1 and a sum of multiples of columns, clipped to the box: so no others are nearer to 1 (KKT)."""
    random = np.random.default_rng(seed)
    weight, A = random.uniform(0.5, 3.0, 30), np.column_stack([np.ones(30), random.standard_normal((30, 4))])
    # Of a larger sample's kind, and leaning along a column: factors reach either end of the box in half of the cases.
    totals = (weight * np.clip(random.normal(1.0 + 0.75 * seed * A[:, 1], 0.2 + 0.15 * seed), LEAST, MOST)) @ A
    moved, miss = _moved(weight, np.ascontiguousarray(A.T), totals)
    factor = moved / weight
    free = (factor > LEAST + 1e-9) & (factor < MOST - 1e-9)
    multipliers = np.linalg.lstsq(A[free], factor[free] - 1.0)[0]
    assert miss < 1e-9
    np.testing.assert_allclose(moved @ A, totals, atol=1e-6 * np.abs(totals).max())
    np.testing.assert_allclose(factor, np.clip(1.0 + A @ multipliers, LEAST, MOST), rtol=1e-7)


def test_totals_that_no_weights_meet_are_missed_and_said_to_be() -> None:
    """No weights are returned that are worse than the given ones."""
    weight, A = np.ones(10), np.ones((10, 1))
    moved, miss = _moved(weight, np.ascontiguousarray(A.T), np.array([100.0]))
    assert miss == pytest.approx(0.4)
    np.testing.assert_allclose(moved, MOST)
    assert _moved(weight, np.ones((2, 10)), np.array([9.0, 11.0]))[1] <= 0.1


@pytest.mark.parametrize(("labels", "d"), [(2, 3), (2, 40), (4, 3)])
@pytest.mark.parametrize("decades", [0.0, 6.0])
@pytest.mark.parametrize("class_weight", ["none", "balanced"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_a_reduction_meets_the_totals(labels: int, d: int, decades: float, class_weight: str, loss: str) -> None:
    """Of labels, of slopes on either side of each problem, and of gradients: all to 1e-6."""
    points = mixture(3_000, d, labels, decades=decades)
    found, observed = measure(points, labels, class_weight=class_weight, loss=loss), Observed()
    kept = reduce(points, 500, found, np.random.default_rng(1), labels, observed)
    assert (len(kept), observed.strained, observed.uncalibrated, observed.by_weight) == (500, 0, 0, 0)
    assert (kept.weight > 0.0).all()
    of_all, of_kept = Totals.of(found), Totals.of(again(kept, found.pilot))
    if labels == 2:  # by its definition
        slack = np.maximum(0.0, 1.0 - found.margin[0])
        steep = (slack > 0.0) if loss == "hinge" else 2.0 * slack
        v = points.weight * found.pilot.class_weight[found.label] * steep
        np.testing.assert_allclose(of_all.gradient[0], (v * points.y) @ found.rows[:, :-1], rtol=1e-9)
        np.testing.assert_allclose(of_all.active[0], [v[points.y < 0].sum(), v[points.y > 0].sum()], rtol=1e-9)
    np.testing.assert_allclose(of_kept.label, of_all.label, rtol=1e-12)
    np.testing.assert_allclose(of_kept.active, of_all.active, rtol=1e-6)
    size = Totals.of(again(kept, found.pilot)).active.sum(axis=1)[:, None]
    assert np.abs((of_kept.gradient - of_all.gradient) / size).max() < 1e-6


def test_with_few_points_the_mean_takes_the_place_of_gradients() -> None:
    """With fewer than two a total, and with fewer again only labels are met."""
    points = mixture(3_000, 10, 4)
    found, observed = measure(points, 4), Observed()
    kept = reduce(points, 60, found, np.random.default_rng(1), 4, observed)
    assert observed.strained == 0
    mean = Totals.of(again(kept, found.pilot)).mean
    np.testing.assert_allclose(mean, Totals.of(found).mean, atol=1e-6 * kept.weight.sum())
    few = reduce(points, 16, found, np.random.default_rng(1), 4, observed)
    assert observed.uncalibrated == 1
    np.testing.assert_allclose(label_weights(few, 4), label_weights(points, 4), rtol=1e-12)


@pytest.mark.parametrize("labels", [2, 4])
def test_without_a_pilot_the_weight_of_each_label_stays(labels: int) -> None:
    """Also that of a label that has a single light point."""
    points = mixture(2_000, labels=labels, decades=4.0)
    light = points.y == points.y.max()
    points = points.take(~light | (np.cumsum(light) == 1))
    observed = Observed()
    kept = reduce(points, 50, None, np.random.default_rng(2), labels, observed)
    assert (len(kept), observed.by_weight) == (50, 1)
    np.testing.assert_allclose(label_weights(kept, labels), label_weights(points, labels), rtol=1e-12)


def test_a_label_that_never_comes_changes_no_choice() -> None:
    """Two labels are one problem, and of three the first two are its mirror images: the same points are kept.

    Each total stands there twice, so that weights differ by what the ridge of the calibration leaves.
    """
    points = mixture(3_000, 4, 2, decades=2.0)
    as_three = Points(points.X, (points.y > 0).astype(np.int8), points.weight)
    two, three = measure(points), measure(as_three, 3)
    np.testing.assert_allclose(three.worth, two.worth, rtol=1e-9)
    one = reduce(points, 200, two, np.random.default_rng(9), 2, Observed())
    other = reduce(as_three, 200, three, np.random.default_rng(9), 3, Observed())
    np.testing.assert_array_equal(other.X, one.X)
    np.testing.assert_array_equal(other.y, one.y > 0)
    np.testing.assert_allclose(other.weight, one.weight, rtol=1e-5)
