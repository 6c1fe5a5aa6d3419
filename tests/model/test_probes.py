"""Probes: whoever evaluates a model soundly agrees with them, whoever does not is told."""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from streamsvm.errors import InvalidMessage
from streamsvm.model import message as model_codec, probes
from streamsvm.model.kernels import Float, RbfKernel
from streamsvm.model.machine import KernelMachine, LinearMachine, Machine, Model, Scaler
from streamsvm.model.probability import Sigmoid
from streamsvm.model.probes import count_of
from streamsvm.model.threshold import NUMBER_BYTES
from tests.model.test_model import version_of

FINITE = {"allow_nan": False, "allow_infinity": False}


@st.composite
def models(draw: st.DrawFn) -> Model:
    """Draw a model of any size, scale and spread that a trainer might come to, and many that it would not."""
    dimension, points = draw(st.integers(1, 40)), draw(st.integers(0, 60))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    mean = rng.normal(size=dimension) * 10.0 ** draw(st.integers(-9, 9))
    scaler = Scaler(mean, 10.0 ** rng.uniform(-9, 9, dimension))
    return Model(scaler, _machine(draw, rng, dimension, points))


def _machine(draw: st.DrawFn, rng: np.random.Generator, dimension: int, points: int) -> Machine:
    intercept = draw(st.floats(-1e6, 1e6, **FINITE))
    size = 10.0 ** draw(st.integers(-6, 6))
    if draw(st.booleans()):
        return LinearMachine(rng.normal(size=dimension) * size, intercept)
    spread = 10.0 ** draw(st.floats(-2, 5, **FINITE))
    gamma = 10.0 ** draw(st.floats(-4, 2, **FINITE)) / dimension
    return KernelMachine(
        RbfKernel(gamma), rng.normal(size=(points, dimension)) * spread, rng.normal(size=points) * size, intercept
    )


def decided_otherwise(model: Model, X: Float) -> Float:
    """Evaluate a model as another program might: the square expanded about the origin, everything in another order."""
    Z = ((X - model.scaler.mean) / model.scaler.scale)[:, ::-1]
    machine = model.machine
    if isinstance(machine, LinearMachine):
        return np.array([machine.intercept + sum((z * machine.coefficients[::-1]).tolist()) for z in Z])
    S = machine.support[:, ::-1]
    squared = (Z**2).sum(1)[:, None] + (S**2).sum(1) - 2.0 * Z @ S.T
    return np.exp(-machine.kernel.gamma * np.maximum(squared, 0.0))[:, ::-1] @ machine.dual[::-1] + machine.intercept


def probabilities() -> st.SearchStrategy[Sigmoid]:
    """Sigmoids of any steepness."""
    numbers = st.floats(-1e6, 1e6, **FINITE)
    return st.builds(Sigmoid, numbers, numbers)


@settings(max_examples=300, deadline=None)
@given(model=models(), probability=probabilities())
def test_the_probability_that_serves_is_the_one_of_the_probes(model: Model, probability: Sigmoid) -> None:
    """Two evaluations that share no code agree; the expected ones are probabilities."""
    able = replace(model, probability=probability)
    found = probes.probes_of(able)
    assert found.probability is not None
    assert ((found.probability >= 0.0) & (found.probability <= 1.0)).all()
    probes.check(able, found)


@pytest.mark.parametrize("probability", [Sigmoid(-2.0, 0.5)])
def test_another_probability_is_refused(probability: Sigmoid) -> None:
    """One that is turned round, and one of a model that has none; the first messages have none to be checked."""
    model = Model(Scaler(np.zeros(2), np.ones(2)), LinearMachine(np.array([1.0, 0.5]), 0.1), probability)
    found = probes.probes_of(model)
    assert found.probability is not None
    with pytest.raises(InvalidMessage, match="probe 0: this build computes the probability"):
        probes.check(model, replace(found, probability=1.0 - found.probability))
    with pytest.raises(InvalidMessage, match="the probes have probabilities, but the model has none"):
        probes.check(replace(model, probability=None), found)
    probes.check(model, replace(found, probability=None))
    probes.check(replace(model, probability=None), replace(found, probability=None))


@settings(max_examples=300, deadline=None)
@given(model=models())
def test_sound_evaluations_are_within_the_tolerance(model: Model) -> None:
    """Ours, which is checked, and one in another order; the points are finite and always the same."""
    found = probes.probes_of(model)
    probes.check(model, found)
    assert np.isfinite(found.X).all()
    assert (np.abs(decided_otherwise(model, found.X) - found.decision) <= found.tolerance).all()
    assert found.X.tobytes() == probes.probes_of(model).X.tobytes()


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("dimension", [1, 8, 21, 600, 3_000])
def test_any_part_gone_wrong_shows(kernel: str, dimension: int) -> None:
    """A coefficient, a support vector's entry, a mean, a scale or two features exchanged: some probe tells."""
    rng = np.random.default_rng(dimension)
    scaler = Scaler(rng.normal(size=dimension), rng.uniform(0.5, 2.0, dimension))
    model = Model(scaler, made(kernel, rng, dimension))
    found = probes.probes_of(model)
    at = int(rng.integers(dimension))
    for spoilt in spoilt_at(model, at):
        with pytest.raises(InvalidMessage, match="probe"):
            probes.check(spoilt, found)


def made(kernel: str, rng: np.random.Generator, dimension: int) -> Machine:
    if kernel == "linear":
        return LinearMachine(rng.normal(size=dimension), 0.5)
    return KernelMachine(RbfKernel(1.0 / dimension), rng.normal(size=(30, dimension)), rng.normal(size=30), 0.5)


def spoilt_at(model: Model, at: int) -> list[Model]:
    scaler, machine = model.scaler, model.machine
    mean, scale = scaler.mean.copy(), scaler.scale.copy()
    mean[at] += 1e-3
    scale[at] *= 1.001
    swapped = np.roll(np.arange(model.dimension), 1)
    spoilt = [Model(Scaler(mean, scaler.scale), machine), Model(Scaler(scaler.mean, scale), machine)]
    if model.dimension > 1:
        spoilt.append(Model(Scaler(scaler.mean[swapped], scaler.scale[swapped]), machine))
    if isinstance(machine, LinearMachine):
        coefficients = machine.coefficients.copy()
        coefficients[at] *= 1.001
        return [*spoilt, Model(scaler, LinearMachine(coefficients, machine.intercept))]
    support = machine.support.copy()
    support[7, at] += 1e-3
    return [*spoilt, Model(scaler, KernelMachine(machine.kernel, support, machine.dual, machine.intercept))]


@pytest.mark.parametrize("dimension", [1, 2, 3, 8, 13, 21, 55, 144, 233])
def test_probes_of_a_linear_model_differ_in_every_feature(dimension: int) -> None:
    """No feature stands nearly still over the probes."""
    model = Model(Scaler.identity(dimension), LinearMachine(np.ones(dimension), 0.0))
    X = probes.probes_of(model).X
    assert len(X) == 8
    assert (np.ptp(X, axis=0) > 0.8).all()


def test_probes_are_few_and_read_well() -> None:
    """Their number falls with the number of features; a tenth of a standard deviation is their last digit."""
    assert [probes.count_of(dimension) for dimension in (1, 512, 1_000, 100_000)] == [8, 8, 4, 2]
    model = Model(Scaler(np.array([1e6, 0.0]), np.array([1.0, 3e-4])), LinearMachine(np.ones(2), 0.0))
    for first, second in probes.probes_of(model).X:
        assert round(first, 1) == first
        assert round(second, 5) == second


@settings(max_examples=100, deadline=None)
@given(model=models())
def test_probes_take_no_more_than_foreseen(model: Model) -> None:
    """In JSON, their names and brackets included."""
    found = probes.probes_of(model)
    part = {
        "probes": {
            "x": found.X.tolist(),
            "decision": found.decision[:, None].tolist(),
            "tolerance": found.tolerance[:, None].tolist(),
        }
    }
    foreseen = probes.count_of(model.dimension) * (model.dimension + 3) * NUMBER_BYTES
    assert len(msgspec.json.encode(part)) <= foreseen


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_model_that_is_not_finite_has_probes_that_are_not(bad: float) -> None:
    """It is for the message's reader to refuse it; making the message does not fail."""
    rng = np.random.default_rng(0)
    for machine in (
        LinearMachine(np.array([bad, 1.0]), 0.0),
        LinearMachine(np.array([bad, -bad]), 0.0),
        KernelMachine(RbfKernel(1.0), rng.normal(size=(3, 2)), np.array([bad, 1.0, -bad]), 0.0),
        KernelMachine(RbfKernel(1.0), np.array([[bad, 0.0]]), np.ones(1), bad),
    ):
        assert not np.isfinite(probes.probes_of(Model(Scaler.identity(2), machine)).decision).any()
    wild = Model(Scaler(np.array([bad]), np.array([bad])), LinearMachine(np.ones(1), 0.0))
    assert not np.isfinite(probes.probes_of(wild).decision).any()


@pytest.mark.parametrize("dimension", [1, 3, 700, 5_000])
def test_more_probes_than_a_model_has_are_refused_before_they_are_evaluated(
    dimension: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two thousand of them against thirty thousand support vectors took seconds and gigabytes."""
    model = Model(Scaler(np.zeros(dimension), np.ones(dimension)), LinearMachine(np.ones(dimension), 0.5))
    plain = json.loads(model_codec.encode(replace(version_of(), model=model)))
    monkeypatch.setattr(model_codec, "check_own", _unreached)
    for count in (count_of(dimension) + 1, 2_000):
        plain["probes"] = {"x": [[0.0] * dimension] * count, "decision": [[0.0]] * count, "tolerance": [[0.0]] * count}
        with pytest.raises(InvalidMessage, match=f"there are {count} probes"):
            model_codec.decode(json.dumps(plain).encode())


def _unreached(*arguments: object) -> None:
    raise AssertionError(arguments)
