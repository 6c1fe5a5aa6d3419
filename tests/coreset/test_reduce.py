"""The uniform reducer: fixed size, exact weight, no bias."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsvm.coreset.reduce import Purpose, UniformReducer, generator, inclusion_probabilities
from streamsvm.points import Points
from tests.streams import gaussian


@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 300), m=st.integers(1, 100), seed=st.integers(0, 2**64 - 1), spread=st.floats(0, 12))
def test_size_weight_and_order(n: int, m: int, seed: int, spread: float) -> None:
    """At most m points, total weight kept, log order kept, over weights of up to twelve orders."""
    points = gaussian(n)
    points = points.reweighted(10.0 ** (spread * np.random.default_rng(1).random(n)))
    reduced = UniformReducer().reduce(points, m, generator(seed, Purpose.NODE, (0, 0, 0)), None)
    assert len(reduced) == min(n, m)
    assert reduced.weight.sum() == pytest.approx(points.weight.sum(), rel=1e-9)
    rows = [points.X.tolist().index(x) for x in reduced.X.tolist()]
    assert rows == sorted(set(rows))
    assert (reduced.weight > 0).all()


def bias_in_standard_errors(planted: float) -> float:
    """Return the largest bias of the estimated hinge loss over 20 random w, in standard errors of its mean."""
    points, repetitions = gaussian(120, seed=5), 3_000
    W = np.random.default_rng(9).normal(size=(20, 4))
    hinge = np.maximum(0.0, 1.0 - points.y * (points.X @ W[:, :3].T + W[:, 3]).T)
    exact = hinge @ points.weight
    estimates = np.empty((repetitions, 20))
    order = {x.tobytes(): index for index, x in enumerate(points.X)}
    for repetition in range(repetitions):
        kept = UniformReducer().reduce(points, 30, generator(repetition, Purpose.NODE, (0, 0, 0)), None)
        index = [order[x.tobytes()] for x in kept.X]
        estimates[repetition] = hinge[:, index] @ kept.weight * (1 + planted)
    error = estimates.std(axis=0, ddof=1) / np.sqrt(repetitions)
    return float(np.abs((estimates.mean(axis=0) - exact) / error).max())


def test_estimates_have_no_bias() -> None:
    """The mean of 3,000 samples' hinge losses is the full one within 4.5 standard errors at 20 random w."""
    assert bias_in_standard_errors(0.0) < 4.5


def test_a_bias_of_two_percent_would_be_found() -> None:
    """The check can fail: a sampler 2 % off is far outside."""
    assert bias_in_standard_errors(0.02) > 4.5


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
