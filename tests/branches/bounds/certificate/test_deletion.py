"""How far the machine without some points can be: LIBSVM, trained without them, is never farther."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.svm import SVC

from streamsvm.branches.bounds.certificate.deletion import Reach, reach, rescaled
from streamsvm.model.machine import LinearMachine, Scaler
from tests.streams import gaussian

ORACLE = 1e-5
"""What LIBSVM's own tolerance, 1e-7, may move its coefficients by, for objectives of the order of 1 to 100.

At 1e-8 rounding lets one fit in a hundred turn in circles for seconds.
"""


def trained(Z: np.ndarray, y: np.ndarray, upper: np.ndarray) -> tuple[LinearMachine, np.ndarray]:
    """Return LIBSVM's machine and its multipliers."""
    svc = SVC(kernel="linear", C=1.0, tol=1e-7).fit(Z, y, sample_weight=upper)
    alpha = np.zeros(len(y))
    alpha[svc.support_] = np.abs(svc.dual_coef_[0])
    return LinearMachine(svc.coef_[0], float(svc.intercept_[0])), alpha


def problem(seed: int, n: int, d: int) -> tuple[np.random.Generator, np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 2, 1, -1).astype(np.int8)
    X = random.standard_normal((n, d)) * 10 ** random.uniform(-1, 1, d) + random.uniform(0, 1.5) * y[:, None]
    return random, X, y, random.uniform(0.2, 2.0, n)


def scaler_of(X: np.ndarray, u: np.ndarray) -> Scaler:
    mean = np.average(X, axis=0, weights=u)
    return Scaler(mean, np.sqrt(np.average((X - mean) ** 2, axis=0, weights=u)))


@given(
    st.integers(0, 2**32 - 1),
    st.integers(8, 30),
    st.integers(1, 4),
    st.floats(0.0, 0.7),
    st.floats(5e-3, 1.0),
    st.sampled_from(["own", "none", "half", "too much"]),
)
def test_retraining_stays_within_reach(seed: int, n: int, d: int, share: float, alpha: float, given_alpha: str) -> None:
    """Random deletions, whole classes but one point included; the scaler and C change with what is left."""
    random, X, y, u = problem(seed, n, d)
    before = scaler_of(X, u)
    present, multipliers = trained(before.transform(X), y, u / (alpha * u.sum()))
    left = random.random(n) >= share
    left[random.integers(0, n // 2) * 2 + np.array([0, 1])] = True
    after = scaler_of(X[left], u[left] + 1e-9)
    if (after.scale < 1e-6).any():
        return
    Z, upper = after.transform(X[left]), u[left] / (alpha * u[left].sum())
    known = {"own": 1.0, "none": 0.0, "half": 0.5, "too much": 1e3}[given_alpha] * multipliers[left]
    moved = rescaled(present, before, after)
    found = reach(Z, y[left], upper, moved, known)
    again, _ = trained(Z, y[left], upper)
    slack = ORACLE * (1.0 + found.objective)
    assert np.linalg.norm(again.coefficients - found.centre) <= found.radius + slack
    assert np.linalg.norm(again.coefficients - moved.coefficients) <= found.distance + slack
    loss = upper @ np.maximum(0.0, 1.0 - y[left] * (Z @ again.coefficients + again.intercept))
    least = again.coefficients @ again.coefficients / 2 + loss
    assert found.objective - least <= found.gap + slack
    low, high = found.difference(Z[0], Z[-1])
    assert low - slack * 10 <= again.coefficients @ (Z[0] - Z[-1]) <= high + slack * 10


def reach_without(share: float, *, seed: int = 3) -> tuple[Reach, float]:
    """Return the reach of a deletion, and how far the machine really moved."""
    # Another seed: whose label is drawn by the numbers that decide who is left, leaves one label.
    random, points = np.random.default_rng(seed + 100), gaussian(400, seed)
    X, y, u = points.X.astype(np.float64), points.y, points.weight
    scaler = scaler_of(X, u)
    Z, upper = scaler.transform(X), u / (1e-2 * u.sum())
    present, multipliers = trained(Z, y, upper)
    left = random.random(400) >= share
    again, _ = trained(Z[left], y[left], upper[left])
    found = reach(Z[left], y[left], upper[left], present, multipliers[left])
    return found, float(np.linalg.norm(again.coefficients - present.coefficients))


def test_nothing_deleted_is_no_distance() -> None:
    """The present machine is the optimum then; the bound says so to the solver's tolerance."""
    found, moved = reach_without(0.0)
    assert moved == 0.0
    assert found.distance <= 1e-3


def test_the_bound_says_something() -> None:
    """Of one point in a hundred: a small part of the coefficients' length, and more of more points."""
    few, some, many = (reach_without(share) for share in (0.01, 0.1, 0.4))
    assert few[0].distance < some[0].distance < many[0].distance
    assert few[0].distance < 0.2 * np.linalg.norm(few[0].centre)
    assert all(moved <= found.distance for found, moved in (few, some, many))


def test_another_scaler_gives_the_same_answers() -> None:
    random, X, _, u = problem(1, 30, 3)
    before, after = scaler_of(X, u), Scaler(np.array([1.0, -2.0, 0.5]), np.array([2.0, 0.1, 7.0]))
    machine = LinearMachine(random.standard_normal(3), 0.7)
    moved = rescaled(machine, before, after)
    np.testing.assert_allclose(
        before.transform(X) @ machine.coefficients + machine.intercept,
        after.transform(X) @ moved.coefficients + moved.intercept,
        rtol=1e-9,
        atol=1e-9,
    )


def test_what_does_not_fit_is_refused() -> None:
    Z, y, upper = np.zeros((2, 3)), np.array([1, -1], np.int8), np.ones(2)
    machine = LinearMachine(np.zeros(3), 0.0)
    with pytest.raises(ValueError, match="do not fit"):
        reach(Z, y, upper, machine, np.zeros(3))
    with pytest.raises(ValueError, match="not finite"):
        reach(Z, y, np.array([1.0, np.nan]), machine, np.zeros(2))


QUICK = range(300)
MORE = [range(first, first + 1_000) for first in range(0, 10_000, 1_000)]
"""10,000 in all."""


@pytest.mark.long(keep=(f"{QUICK.start}-{QUICK.stop}",))
@pytest.mark.parametrize("seeds", [QUICK, *MORE], ids=lambda seeds: f"{seeds.start}-{seeds.stop}")
def test_the_bound_holds_in_random_deletions(seeds: range, capsys: pytest.CaptureFixture[str]) -> None:
    """One point to a third of them, at random or those nearest the margin; how tight the bound is, is printed."""
    tightness = []
    for seed in seeds:
        random, X, y, u = problem(seed, 40, 3)
        scaler = scaler_of(X, u)
        Z, upper = scaler.transform(X), u / (10 ** random.uniform(-1.5, 0.0) * u.sum())
        present, multipliers = trained(Z, y, upper)
        margin = y * (Z @ present.coefficients + present.intercept)
        order = np.argsort(np.abs(1.0 - margin)) if seed % 2 else random.permutation(40)
        left = np.ones(40, np.bool_)
        left[order[: random.integers(1, 14)]] = False
        if len(set(y[left].tolist())) < 2:
            continue
        again, _ = trained(Z[left], y[left], upper[left])
        found = reach(Z[left], y[left], upper[left], present, multipliers[left])
        moved = float(np.linalg.norm(again.coefficients - present.coefficients))
        assert moved <= found.distance + ORACLE * (1.0 + found.objective), seed
        tightness.append(moved / found.distance)
    assert len(tightness) > len(seeds) * 0.99
    quartiles = np.quantile(tightness, [0.25, 0.5, 0.75])
    with capsys.disabled():
        print(f"\n{len(tightness):,} deletions: moved / bound, quartiles {np.round(quartiles, 3).tolist()}")
    assert quartiles[1] > 0.05
