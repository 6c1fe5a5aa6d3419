"""k-means++: weighted means as centres, and seeds by D^2."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings, strategies as st

from streamsvm.coreset import Purpose, generator
from streamsvm.papers.clustering import Clusters, cluster
from streamsvm.papers.sampling import Float


def clustered(Z: Float, weight: Float, k: int, seed: int = 0, lloyd_steps: int = 3) -> Clusters:
    return cluster(Z, weight, k, generator(seed, Purpose.NODE, (0, 0, 0)), lloyd_steps)


def groups(count: int = 4, each: int = 50) -> Float:
    """Return `count` tight groups, far from one another, in the plane."""
    random = np.random.default_rng(0)
    centres = 100.0 * np.column_stack([np.cos(np.arange(count)), np.sin(np.arange(count))])
    return np.repeat(centres, each, axis=0) + random.normal(size=(count * each, 2))


@settings(max_examples=80, deadline=None)
@given(
    n=st.integers(1, 80),
    distinct=st.integers(1, 80),
    most=st.integers(1, 14),
    seed=st.integers(0, 2**32),
    spread=st.floats(0, 12),
)
def test_centres_are_weighted_means(n: int, distinct: int, most: int, seed: int, spread: float) -> None:
    """Every cluster is its points' weighted mean; none is empty; never more than k or than distinct points."""
    random = np.random.default_rng(seed)
    Z = random.normal(size=(min(n, distinct), 3))[random.integers(0, min(n, distinct), n)]
    weight = 10.0 ** (spread * random.random(n))
    made = clustered(Z, weight, most, seed)
    k = len(made.weight)
    assert 1 <= k <= min(most, len(np.unique(Z, axis=0)))
    assert sorted(set(made.of.tolist())) == list(range(k))
    for index in range(k):
        own = made.of == index
        np.testing.assert_allclose(made.weight[index], weight[own].sum(), rtol=1e-12)
        mean = np.average(Z[own], axis=0, weights=weight[own])
        np.testing.assert_allclose(made.centre[index], mean, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(made.distance[own], np.linalg.norm(Z[own] - mean, axis=1), atol=1e-9)


def test_the_same_numbers_give_the_same_clusters() -> None:
    """Deterministic, and the seed decides."""
    Z, weight = np.random.default_rng(1).normal(size=(300, 4)), np.ones(300)
    one, same, other = (clustered(Z, weight, 6, seed) for seed in (1, 1, 2))
    assert one.distance.tobytes() == same.distance.tobytes()
    assert one.distance.tobytes() != other.distance.tobytes()


def test_groups_are_found() -> None:
    """Four far groups with k = 4 are four clusters, for nearly every seed."""
    Z = groups()
    found = [clustered(Z, np.ones(200), 4, seed) for seed in range(20)]
    right = [
        len({tuple(made.of[i * 50 : i * 50 + 50]) for i in range(4)}) == 4 and made.distance.max() < 10
        for made in found
    ]
    assert sum(right) >= 18


def test_lloyd_lowers_the_distances() -> None:
    """Steps after seeding do what they are for."""
    Z, weight = np.random.default_rng(1).normal(size=(400, 2)), np.random.default_rng(2).uniform(0.5, 2, 400)
    costs = [float(weight @ clustered(Z, weight, 6, 3, steps).distance ** 2) for steps in (0, 1, 5)]
    assert costs == sorted(costs, reverse=True)
    assert costs[0] > costs[2]
