"""A survey keeps the nearest rows and adds up the others, the same bits whatever the batches."""

from __future__ import annotations

import math

import numpy as np
import pytest

from streamsvm.certificate import Design, Survey
from streamsvm.choices import Loss
from streamsvm.model import AdditiveMachine, LinearMachine, Model, Scaler, Surface
from streamsvm.points import Points

SCALER = Scaler(np.array([1.0, -2.0, 0.5]), np.array([1.0, 3.0, 0.1]))
MACHINE = LinearMachine(np.array([0.7, -0.2, 0.05]), 0.3)


def stream(n: int, seed: int = 0) -> Points:
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, 3)) * SCALER.scale + SCALER.mean
    return Points(X, random.choice(np.array([-1, 1], np.int8), n), random.uniform(0.5, 2.0, n))


def surveyed(points: Points, keep: int, borders: list[int], *others: Points, loss: Loss = "hinge") -> Survey:
    """Return a survey of a partition, cut into batches, and of others, each in one."""
    survey, *more = surveys = [
        Survey(Design(Model(SCALER, MACHINE)), MACHINE, np.dtype(np.float64), keep, loss=loss)
        for _ in range(1 + len(others))
    ]
    for rows in np.split(np.arange(len(points)), borders):
        survey.add(points.take(rows))
    for one, part in zip(surveys[1:], others, strict=True):
        one.add(part)
    survey.join(more)
    return survey


def bits(survey: Survey) -> list[object]:
    arrays = survey.total, survey.losses, survey.reach, survey.lack, survey.mass, survey.energy, survey.sums
    return [survey.rows, survey.near.sha256(), *(array.tobytes() for array in arrays)]


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("n", [1, 127, 128, 129, 264, 266, 318, 1_000, 5_000])
def test_batches_leave_no_trace(n: int, loss: Loss) -> None:
    """Of 264, 266 and 318, rows that are put away follow the one that fills the memory of those in waiting."""
    points, random = stream(n), np.random.default_rng(n)
    whole = bits(surveyed(points, 64, [], loss=loss))
    assert bits(surveyed(points, 64, list(range(1, n)), loss=loss)) == whole
    for _ in range(5):
        assert bits(surveyed(points, 64, sorted(random.integers(0, n + 1, 7).tolist()), loss=loss)) == whole


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_batches_leave_no_trace_in_columns(loss: Loss) -> None:
    """Of an additive machine with a curve of each feature but one, and a surface."""
    knots, few = np.array([-1.0, 0.1, 0.5, 2.0]), np.array([-0.5, 0.7])
    curves = (np.array([1.0, 0.0, -2.0, 0.3]), np.array([0.5, 0.0, 0.1, 0.9]), np.empty(0))
    surface = Surface(0, 2, few, few, np.array([[0.1, -0.4], [0.3, 0.2]]))
    machine = AdditiveMachine((knots, knots, np.empty(0)), curves, (surface,), 0.2)
    design, points, random = Design(Model(SCALER, machine)), stream(1_000), np.random.default_rng(1)

    def of(borders: list[int]) -> Survey:
        survey = Survey(design, design.machine, np.dtype(np.float64), 64, loss=loss)
        for rows in np.split(np.arange(len(points)), borders):
            survey.add(points.take(rows))
        survey.join([])
        return survey

    whole = of([])
    decision = machine.decide(SCALER.transform(points.X))
    slack = np.maximum(0.0, 1.0 - points.y * decision)
    losses = points.weight @ (slack if loss == "hinge" else slack**2)
    assert whole.losses.sum() == pytest.approx(float(losses), rel=1e-12)
    for _ in range(5):
        assert bits(of(sorted(random.integers(0, 1_001, 7).tolist()))) == bits(whole)


def test_the_nearest_are_kept_and_the_others_are_all_there() -> None:
    points = stream(3_000)
    found = surveyed(points, 100, [])
    Z = SCALER.transform(points.X)
    slack = 1.0 - points.y * MACHINE.decide(Z)
    nearness = np.abs(slack) / np.sqrt(1.0 + (Z * Z).sum(axis=1))
    nearest = np.sort(np.argsort(nearness, kind="stable")[:100])
    assert np.array_equal(found.near.X, points.X[nearest])
    assert np.array_equal(found.near.weight, points.weight[nearest])
    others = np.setdiff1d(np.arange(3_000), nearest)
    assert found.mass.sum() == pytest.approx(points.weight[others].sum(), rel=1e-14)
    for j in range(3):
        wanted = math.fsum((points.weight[others] * Z[others, j]).tolist())
        assert found.sums[:, j].sum() == pytest.approx(wanted, abs=1e-10)
    for label, sign in enumerate((-1, 1)):
        own = points.y == sign
        hinge = math.fsum((points.weight * np.maximum(0.0, slack))[own].tolist())
        assert found.losses[label].sum() == pytest.approx(hinge, rel=1e-14)
        assert found.total[label].sum() == pytest.approx(math.fsum(points.weight[own].tolist()), rel=1e-15)


def test_strata_of_a_squared_hinge_have_its_value_and_gradient() -> None:
    """At the machine of the read, and where there is a loss: sums by slacks, whose scale each stratum may choose."""
    points = stream(3_000)
    found = surveyed(points, 100, [], loss="squared_hinge")
    Z = SCALER.transform(points.X)
    slack = np.maximum(0.0, 1.0 - points.y * MACHINE.decide(Z))
    kept = surveyed(points, 3_000, []).near.X[:, None] == found.near.X[None]
    others = ~kept.all(axis=2).any(axis=1)
    used = np.flatnonzero(found.mass[:, 0] > 0.0)
    mass, energy, sums = (values[used].sum(axis=-1) for values in (found.mass, found.energy, found.sums))
    y = np.where(used >= len(found.mass) // 2, 1, -1)
    means = sums / mass[:, None]
    upper, slacks = mass**2 / energy, np.maximum(0.0, 1.0 - y * MACHINE.decide(means))
    assert float(upper @ slacks**2) == pytest.approx(float((points.weight * slack**2)[others].sum()), rel=1e-9)
    gradient = (points.weight * slack * points.y)[others] @ Z[others]
    assert (upper * slacks * y) @ means == pytest.approx(gradient, rel=1e-9)
    for label, sign in enumerate((-1, 1)):
        own = points.y == sign
        whole = math.fsum((points.weight * slack**2)[own].tolist())
        assert found.losses[label].sum() == pytest.approx(whole, rel=1e-14)


def test_partitions_come_to_what_one_does() -> None:
    """Kept rows are the same, and sums but for their last bits."""
    points = stream(3_000)
    parts = [points.take(slice(0, 700)), points.take(slice(700, 720)), points.take(slice(720, 3_000))]
    whole, apart = surveyed(points, 100, []), surveyed(parts[0], 100, [], *parts[1:])
    assert np.array_equal(whole.near.X, apart.near.X)
    assert whole.rows == apart.rows == 3_000
    for name in ("total", "losses", "mass", "energy", "sums"):
        assert np.allclose(getattr(whole, name).sum(axis=-1), getattr(apart, name).sum(axis=-1), rtol=1e-13, atol=1e-11)
