"""Reducers: no bias, whatever the sampler; fixed size and exact weight for the uniform one."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from streamsvm.config import SvmConfig
from streamsvm.coreset.moments import Moments
from streamsvm.coreset.reducers.base import (
    Pilot,
    Purpose,
    Reducer,
    UniformReducer,
    generator,
    inclusion_probabilities,
    order_by_margin,
    systematic,
)
from streamsvm.coreset.reducers.calibrated import CalibratedReducer
from streamsvm.coreset.sensitivity import mean_bound
from streamsvm.learning import linear_pilot
from streamsvm.papers import SensitivityReducer, draws, importance_sample, lemma_bound, occurrences
from streamsvm.points import Points
from tests.streams import gaussian

REPETITIONS = 3_000
REDUCERS: dict[str, Reducer] = {
    "uniform": UniformReducer(),
    "sensitivity": SensitivityReducer(),
    "sensitivity, the lemma's bound": SensitivityReducer(lemma_bound),
    "ordered by margin, not calibrated": CalibratedReducer(calibrated=False),
}


def pilot_for(points: Points, penalty: float = 1.0) -> Pilot:
    """Return a pilot on unscaled features with the closed-form bound, which is poor and certified."""
    d = points.dimension
    bound = mean_bound(points.X.astype(np.float64), points.y, points.weight, penalty)
    return Pilot(
        penalty=penalty, mean=np.zeros(d), scale=np.ones(d), coefficients=np.zeros(d), intercept=0.0, lower_bound=bound
    )


@cache
def deviations(reducer: str) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return exact hinge losses at 20 random w, their mean estimates over all repetitions, and the standard errors.

    A 21st figure is the total weight.
    """
    points = gaussian(120, seed=5)
    pilot = pilot_for(points)
    W = np.random.default_rng(9).normal(size=(20, 4))
    losses = np.maximum(0.0, 1.0 - points.y * (points.X @ W[:, :3].T + W[:, 3]).T)
    losses = np.vstack([losses, np.ones(120)])
    order = {x.tobytes(): index for index, x in enumerate(points.X)}
    estimates = np.empty((REPETITIONS, 21))
    for repetition in range(REPETITIONS):
        kept = REDUCERS[reducer].reduce(points, 30, generator(repetition, Purpose.NODE, (0, 0, 0)), pilot)
        estimates[repetition] = losses[:, [order[x.tobytes()] for x in kept.X]] @ kept.weight
    return losses @ points.weight, estimates.mean(axis=0), estimates.std(axis=0, ddof=1) / np.sqrt(REPETITIONS)


def bias_in_standard_errors(reducer: str, planted: float) -> float:
    """Return the largest bias of the estimated hinge losses, in standard errors of the mean."""
    exact, mean, error = (figures[:20] for figures in deviations(reducer))
    return float(np.abs((mean * (1 + planted) - exact) / (error * (1 + planted))).max())


@pytest.mark.long(keep=("uniform", "sensitivity"))
@pytest.mark.parametrize("reducer", REDUCERS)
def test_estimates_have_no_bias(reducer: str) -> None:
    """The mean of 3,000 samples' hinge losses is the full one within 4.5 standard errors at 20 random w; so is that of
    the total weight, which independent draws keep on average only. A bias of two per cent would be far outside."""
    assert bias_in_standard_errors(reducer, 0.0) < 4.5
    assert min(bias_in_standard_errors(reducer, planted) for planted in (-0.02, 0.02)) > 4.5
    exact, mean, error = (float(figures[20]) for figures in deviations(reducer))
    assert abs(mean - exact) < max(4.5 * error, 1e-9 * exact)
    assert reducer == "uniform" or error > 1e-6 * exact


@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 300), m=st.integers(1, 100), seed=st.integers(0, 2**64 - 1), spread=st.floats(0, 12))
@pytest.mark.parametrize("reducer", ["uniform", "sensitivity"])
def test_size_order_and_sign(reducer: str, n: int, m: int, seed: int, spread: float) -> None:
    """At most m points in log order, none twice, weights positive and finite, over weights of up to twelve orders; the
    uniform reducer returns exactly m, of the total weight."""
    points = gaussian(n)
    points = points.reweighted(10.0 ** (spread * np.random.default_rng(1).random(n)))
    pilot, random = pilot_for(points, 1.0 / points.weight.sum()), generator(seed, Purpose.NODE, (0, 0, 0))
    reduced = REDUCERS[reducer].reduce(points, m, random, pilot)
    assert len(reduced) <= min(n, m)
    rows = [points.X.tolist().index(x) for x in reduced.X.tolist()]
    assert rows == sorted(set(rows))
    assert (reduced.weight > 0).all()
    assert np.isfinite(reduced.weight).all()
    if n <= m:
        assert reduced.sha256() == points.sha256()
    if reducer == "uniform":
        assert len(reduced) == min(n, m)
        assert reduced.weight.sum() == pytest.approx(points.weight.sum(), rel=1e-9)


def test_repeated_draws_of_one_point_are_merged() -> None:
    """Every draw adds u t / (m gamma): the weights are whole multiples of it, and the multiples add up to m."""
    points, m = gaussian(20), 200
    gamma = np.linspace(0.1, 1.0, 20)
    drawn = importance_sample(points, gamma, m, generator(1, Purpose.NODE, (0, 0, 0)))
    index = [points.X.tolist().index(x) for x in drawn.X.tolist()]
    times = drawn.weight * m * gamma[index] / (points.weight[index] * gamma.sum())
    np.testing.assert_allclose(times, np.round(times), rtol=1e-9)
    assert round(times.sum()) == m


def test_frequencies_follow_the_sensitivities() -> None:
    """Over 200,000 draws each point comes in its share q, within 4.5 standard errors."""
    gamma, m = np.array([0.001, 0.2, 1.0, 0.05, 0.5]), 200_000
    q = gamma / gamma.sum()
    share = occurrences(gamma, m, generator(2, Purpose.NODE, (0, 0, 0))) / m
    assert (np.abs(share - q) < 4.5 * np.sqrt(q * (1 - q) / m)).all()


def test_an_index_without_a_share_is_never_drawn() -> None:
    """Not at the ends either, whatever the number."""
    numbers = np.array([0.0, 0.5, np.nextafter(1.0, 0.0)])
    assert set(draws(np.array([0.0, 0.1, 0.0, 0.3, 0.0]), numbers).tolist()) <= {1, 3}


TWENTY = gaussian(20)
DEGENERATE = {
    "one label": Points(TWENTY.X, np.ones(20, np.int8), TWENTY.weight),
    "one place, both labels": Points(np.ones((20, 3), np.float32), TWENTY.y, TWENTY.weight),
    "one place a label": Points(np.repeat(TWENTY.y[:, None], 3, 1).astype(np.float32), TWENTY.y, TWENTY.weight),
    "constant features": Points(np.zeros((20, 3), np.float32), TWENTY.y, TWENTY.weight),
    "a single point of one label": Points(TWENTY.X, np.where(np.arange(20), 1, -1).astype(np.int8), TWENTY.weight),
    "twelve orders of weight": TWENTY.reweighted(10.0 ** np.linspace(-6, 6, 20)),
}


@pytest.mark.parametrize("name", DEGENERATE)
@pytest.mark.parametrize("m", [1, 5])
def test_degenerate_sets_have_an_answer(name: str, m: int) -> None:
    """At most m points, at least one, their weights positive and finite, whatever the set."""
    points = DEGENERATE[name]
    for seed in range(20):
        random = generator(seed, Purpose.NODE, (0, 0, 0))
        reduced = SensitivityReducer().reduce(points, m, random, pilot_for(points))
        assert 1 <= len(reduced) <= m
        assert np.isfinite(reduced.weight).all()
        assert (reduced.weight > 0).all()


def test_without_a_positive_optimum_weight_decides() -> None:
    """One label only: the sample is the uniform reducer's, bit for bit."""
    points = DEGENERATE["one label"]
    one, other = (generator(4, Purpose.NODE, (0, 0, 0)) for _ in range(2))
    made = SensitivityReducer().reduce(points, 5, one, pilot_for(points))
    assert made.sha256() == UniformReducer().reduce(points, 5, other, None).sha256()


def test_outliers_are_drawn_more_often() -> None:
    """A far point comes in most samples, where sampling by weight keeps it in one of ten."""
    X = gaussian(1_000, seed=4).X.copy()
    X[17] += 100.0
    points = Points(X, gaussian(1_000, seed=4).y, np.ones(1_000))
    pilot = linear_pilot(points, 1_000.0, Moments.zero(3).add(points), SvmConfig())
    times = dict.fromkeys(("uniform", "sensitivity"), 0)
    for name, seed in itertools.product(times, range(20)):
        reduced = REDUCERS[name].reduce(points, 100, generator(seed, Purpose.NODE, (0, 0, 0)), pilot)
        times[name] += X[17].tolist() in reduced.X.tolist()
    assert times["sensitivity"] >= 10
    assert times["uniform"] <= 5


def test_the_union_of_coresets_is_a_coreset_of_the_union() -> None:
    """Parts reduced one by one estimate the whole without bias, at a model that no part knows."""
    parts = [gaussian(100, seed=seed) for seed in (1, 2, 3)]
    w = np.array([0.4, -0.3, 0.9])
    exact = sum(_loss(part, w) for part in parts)
    estimates = []
    for seed in range(600):
        reduced = [
            SensitivityReducer().reduce(part, 25, generator(seed, Purpose.NODE, (0, 0, index)), pilot_for(part))
            for index, part in enumerate(parts)
        ]
        estimates.append(_loss(Points.union(reduced), w))
    assert abs(np.mean(estimates) - exact) < 4.5 * np.std(estimates, ddof=1) / np.sqrt(600)


def _loss(points: Points, w: NDArray[np.float64]) -> float:
    return float(points.weight @ np.maximum(0.0, 1.0 - points.y * (points.X @ w)))


def test_certain_points_keep_their_weight() -> None:
    """A point heavier than its share is kept for sure, as it is."""
    weight = np.array([100.0, 1.0, 1.0, 1.0, 1.0])
    inclusion = inclusion_probabilities(weight, 3)
    np.testing.assert_allclose(inclusion, [1.0, 0.5, 0.5, 0.5, 0.5])
    points = Points(np.arange(5, dtype=np.float32)[:, None], np.ones(5, np.int8), weight)
    reduced = UniformReducer().reduce(points, 3, generator(0, Purpose.NODE, (0, 0, 0)), None)
    assert reduced.weight.tolist() == [100.0, 2.0, 2.0]


def test_generators_of_different_nodes_differ() -> None:
    """Seed, purpose and each counter word change the numbers; the same key repeats them."""
    keys = [
        (0, 1, (0, 0, 0)),
        (1, 1, (0, 0, 0)),
        (0, 2, (0, 0, 0)),
        (0, 1, (1, 0, 0)),
        (0, 1, (0, 1, 0)),
        (0, 1, (0, 0, 1)),
    ]
    drawn = [generator(seed, Purpose(purpose), counter).random(4).tolist() for seed, purpose, counter in keys]
    assert len({tuple(numbers) for numbers in drawn}) == len(keys)
    assert generator(*keys[0][:1], Purpose.NODE, (0, 0, 0)).random(4).tolist() == drawn[0]


@settings(max_examples=100, deadline=None)
@given(
    margin=st.lists(st.floats() | st.sampled_from([0.0, -0.0, 1.0, np.nan, -np.nan]), max_size=60),
    seed=st.integers(0, 2**32),
)
def test_points_are_ordered_by_label_margin_and_place(margin: list[float], seed: int) -> None:
    """As `numpy.lexsort` orders them: zeros of both signs are equal, and what is not a number comes last."""
    y, values = np.random.default_rng(seed).integers(-1, 3, len(margin)).astype(np.int8), np.array(margin, np.float64)
    np.testing.assert_array_equal(order_by_margin(y, values), np.lexsort((values, y)))


@settings(max_examples=100, deadline=None)
@given(n=st.integers(2, 200), seed=st.integers(0, 2**32), start=st.floats(0.0, 1.0, exclude_max=True))
def test_those_points_are_drawn_whose_interval_holds_a_step(n: int, seed: int, start: float) -> None:
    """In the given order; they come back in that of the log."""
    random = np.random.default_rng(seed)
    m, order = int(random.integers(1, n)), random.permutation(n)
    inclusion = inclusion_probabilities(np.exp(random.normal(size=n)), m)
    borders = np.cumsum(inclusion[order]) * (m / inclusion[order].cumsum()[-1])
    expected = order[np.searchsorted(borders, start + np.arange(m), side="right").clip(max=n - 1)]
    np.testing.assert_array_equal(systematic(inclusion, order, m, start), np.sort(expected))
