"""Drift is found where a mean or a share moves and stays, and in no stream that only goes on as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from scipy.signal import lfilter

from streamsvm.coreset.drift import Drift, History, drift
from streamsvm.points import Points
from tests.coreset.streams import Float, flat, mixture

N = 200_000
AT = 100_000  # where a change begins
Random = np.random.Generator


def labeled(X: Float, share: Float | float, random: Random) -> Points:
    y = np.where(random.random(N) < share, 1, -1)
    return Points(X.astype(np.float32, order="C"), y.astype(np.int8), np.ones(N))


def gaussian(random: Random, share: Float | float = 0.2) -> Points:
    return labeled(random.standard_normal((N, 5)), share, random)


def calendar(random: Random) -> Points:
    """A day has 300 to 500,000 rows, more by day than by night in half of the streams."""
    time = random.uniform(0, 7) + np.arange(N) / np.exp(random.uniform(np.log(300), np.log(500_000)))
    if random.random() < 0.5:
        time += random.uniform(0.0, 0.9) * np.sin(2 * np.pi * time) / (2 * np.pi)
    whole = (np.floor, np.positive)[random.integers(2)]
    hour, weekday = whole(24 * (time % 1)), whole(time % 7)
    columns = [turn(2 * np.pi * cycle) for cycle in (hour / 24, weekday / 7) for turn in (np.sin, np.cos)]
    columns += [weekday >= 5, hour, np.floor(weekday), random.standard_normal(N)]
    return labeled(np.stack(columns, axis=1), 0.2, random)


def cycles(random: Random) -> Points:
    """Means follow cycles of 300 to 2,000,000 rows under noise."""
    time = np.arange(N) / np.exp(random.uniform(np.log(300), np.log(2_000_000)))
    columns = [size * np.sin(2 * np.pi * (time + random.random())) for size in (0.2, 0.5, 1.0, 2.0, 4.0)]
    return labeled(np.stack(columns, axis=1) + random.standard_normal((N, 5)), 0.2, random)


def rare(random: Random) -> Points:
    X = (random.random((N, 6)) < 1 / 5_000) * random.exponential(np.ones((N, 6)))
    return labeled(np.hstack([X[:, :3], X[:, 3:] > 0]), random.choice([0.002, 0.1]), random)


def one_hot(random: Random) -> Points:
    return labeled(np.eye(12)[random.choice(12, N, p=random.dirichlet(np.full(12, 0.3)))], 0.2, random)


def heavy_tails(random: Random) -> Points:
    X = random.standard_t(2, (N, 4))
    X[:, 2], X[:, 3] = np.abs(X[:, 2]), random.pareto(1.1, N)
    return replace(labeled(X, 0.3, random), weight=random.pareto(1.5, N) + 1.0)


def autocorrelated(random: Random) -> Points:
    X = random.standard_normal((N, 4))
    for at, rho in enumerate((0.999, 0.999, 0.9, 0.9999)):
        X[:, at] = lfilter([np.sqrt(1 - rho**2)], [1.0, -rho], X[:, at], zi=[rho * random.standard_normal()])[0]
    return labeled(X, 1 / (1 + np.exp(2 - X[:, 0])), random)


def bursts(random: Random) -> Points:
    """Up to 3,000 rows of one label, every 3,000 to 100,000 rows."""
    share, at = np.full(N, random.uniform(0.02, 0.3)), 0
    gap, length = np.exp(random.uniform(np.log([3_000, 50]), np.log([100_000, 3_000]))).astype(int)
    while (at := at + int(random.exponential(gap))) < N:
        share[at : at + length] = random.choice([0.0, 1.0])
        at += length
    points = gaussian(random, share)
    return replace(points, X=points.X + (points.y > 0)[:, None])


STATIONARY = (gaussian, calendar, cycles, rare, one_hot, heavy_tails, autocorrelated, bursts)


def mean_moves(random: Random) -> Points:
    points = gaussian(random)
    points.X[AT:, 2] += 1.0
    return points


def feature_begins(random: Random) -> Points:
    points = mean_moves(random)
    points.X[:AT, 2] = 0.0
    return points


def share_moves(random: Random) -> Points:
    return gaussian(random, np.where(np.arange(N) < AT, 0.1, 0.3))


def mean_creeps(random: Random) -> Points:
    points = gaussian(random)
    points.X[AT:, 2] += np.linspace(0.0, 1.0, N - AT)
    return points


def words(points: Points) -> Iterator[tuple[int, Drift]]:
    history = History.zero(points.dimension)
    for start in range(0, N, 2_000):
        history = history.add(points.take(slice(start, start + 2_000)))
        if (found := drift(history)) is not None:
            yield start + 2_000, found


@pytest.mark.parametrize("seeds", [2, 100])
@pytest.mark.parametrize("stream", STATIONARY)
@pytest.mark.long(keep=("*-2",))
def test_nothing_is_said_of_a_stream_that_goes_on_as_it_was(stream: Callable[[Random], Points], seeds: int) -> None:
    assert [seed for seed in range(seeds) if any(words(stream(np.random.default_rng(seed))))] == []


@pytest.mark.parametrize("seeds", [2, 20])
@pytest.mark.parametrize(
    ("stream", "delay"), [(mean_moves, 32_000), (feature_begins, 26_000), (share_moves, 32_000), (mean_creeps, 60_000)]
)
@pytest.mark.long(keep=("*-2",))
def test_a_change_that_stays_is_found_and_named(stream: Callable[[Random], Points], delay: int, seeds: int) -> None:
    for seed in range(seeds):
        at, found = next(words(stream(np.random.default_rng(seed))))
        assert (found.feature, found.label) == ((None, 1) if stream is share_moves else (2, None))
        assert AT < at <= AT + delay
        assert found.now - found.before > found.deviations * (0.3 if stream is share_moves else 0.9) > 0.03


def test_what_stays_is_new_once() -> None:
    """Nothing is said any more when the oldest blocks have it, too."""
    said = [at for at, _ in words(mean_moves(np.random.default_rng(0)))]
    assert AT + 20_000 < said[0] < said[-1] < N - 20_000


@pytest.mark.parametrize("size", [777, 5_000])
def test_a_history_is_of_all_rows_whatever_the_batches(size: int) -> None:
    """Its size does not grow, and its moments are those of all rows."""
    points, batched = mixture(150_000, labels=4), History.zero(3, 4)
    for start in range(0, 150_000, size):
        batched = batched.add(points.take(slice(start, start + size)))
    assert flat(batched) == flat(History.zero(3, 4).add(points))  # type: ignore[arg-type]
    assert (batched.rows, len(batched), batched.part.count) == (4_096, 36, 150_000 - 36 * 4_096)
    means = points.X[: 36 * 4_096].reshape(36, 4_096, 3).mean(axis=1, dtype=float)
    np.testing.assert_allclose(batched.mean, means)
