"""Packed machines: places on grids, a part of their own, what it says of the loss, and what other languages read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from streamsvm.config import ModelConfig, SvmConfig
from streamsvm.coreset import Moments
from streamsvm.errors import InvalidMessage
from streamsvm.learning import naming, train
from streamsvm.model import message as codec, packing as grids
from streamsvm.model.kernels import RbfKernel
from streamsvm.model.machine import KernelMachine, Model, Packing, Scaler
from streamsvm.model.packing import FEW, FINE, MOST, Grid
from streamsvm.model.version import Version
from streamsvm.points import Points
from streamsvm.svm import decisions, fewer_terms, primal_objective
from tests.golden import model as golden

COUNT = 400


def columns(seed: int = 0) -> Any:
    """Return columns of every kind: constant, one-hot, counts, spread out, and with an outlier far away."""
    random = np.random.default_rng(seed)
    far = random.standard_normal(COUNT)
    far[7] = 1e7
    return np.column_stack(
        (
            np.full(COUNT, 0.3),
            np.where(random.random(COUNT) < 0.1, 2.9, -1.0 / 3.0),
            0.1 * random.integers(0, 200, COUNT) - 7.0,
            random.standard_normal(COUNT),
            far,
        )
    )


def version_of(machine: KernelMachine) -> Version:
    """Return the golden version with a machine of features that are taken as they are."""
    version, d = golden.handmade("rbf"), machine.support.shape[1]
    assert isinstance(version.model, Model)
    names = tuple(f"f{j}" for j in range(d))
    model = replace(version.model, scaler=Scaler.identity(d), machine=machine, feature_names=names)
    return replace(version, model=model, feature_names=names)


def made(gamma: float = 0.25) -> Version:
    """Return a version over all of `columns`."""
    Z = columns()
    dual = np.random.default_rng(1).standard_normal(COUNT)
    machine = KernelMachine(RbfKernel(gamma), Z, dual, 0.125)
    return version_of(machine.packed(Packing(Grid.of(Z, gamma), COUNT, 0.25, 0.25)))


def test_a_grid_has_the_bits_that_its_feature_needs() -> None:
    """None, one, those of its counts, those of its range, and at most sixteen."""
    Z, gamma = columns(), 4.0
    grid = Grid.of(Z, gamma)
    assert grid.bits.tolist()[:3] == [0, 1, 8]
    np.testing.assert_allclose(grid.rounded(Z)[:, :3], Z[:, :3], atol=1e-9)
    spread = np.ptp(Z[:, 3])
    assert grid.step[3] == pytest.approx(min(spread / FEW, FINE / 2.0))
    assert np.abs(grid.rounded(Z) - Z)[:, 3].max() <= grid.step[3] / 2.0 * (1.0 + 1e-9)
    assert (grid.bits[4], grid.step[4]) == (MOST.bit_length(), FINE / 2.0)
    others = np.arange(COUNT) != 7
    assert np.abs(grid.rounded(Z) - Z)[others, 4].max() <= grid.step[4] / 2.0 * (1.0 + 1e-9)
    assert grid.rounded(Z)[7, 4] > 200.0 * 0.5  # two hundred widths of the kernel
    np.testing.assert_array_equal(grid.rounded(grid.rounded(Z)), grid.rounded(Z))


def test_every_number_comes_back() -> None:
    """Places, coefficients, grid and losses."""
    version = made()
    read = codec.decode(codec.encode(version)).model.machine
    written = version.model.machine
    assert isinstance(read, KernelMachine)
    assert isinstance(written, KernelMachine)
    assert read.packing is not None
    assert written.packing is not None
    assert (read.packing.support_vectors, read.packing.error) == (COUNT, 0.25)
    np.testing.assert_array_equal(read.support, written.support)
    np.testing.assert_array_equal(read.dual, written.dual)
    assert read.packing.grid.vector_bytes == -(-int(written.packing.grid.bits.sum()) // 8)
    assert codec.encode(replace(version, model=replace(version.model, machine=read))) == codec.encode(version)


def test_few_bytes_do_not_become_many_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vector of no bits takes no byte, and as many numbers as there are features."""
    monkeypatch.setattr(grids, "MOST_ENTRIES", 5)
    with pytest.raises(InvalidMessage, match="6 entries; at most 5"):
        codec.decode(golden.path_of("rbf-packed").read_bytes())


def rows_of_table(count: int = 3_000, seed: int = 0) -> Points:
    """Return points of numbers and one-hot columns that interact."""
    random = np.random.default_rng(seed)
    X, kind = random.random((count, 3)), random.integers(0, 20, count)
    y = np.where(np.floor(4 * X[:, 0] + kind) + np.floor(4 * X[:, 1]), 1, -1)
    y = np.where((np.floor(4 * X[:, 0]) + np.floor(4 * X[:, 1]) + kind) % 2 > 0, y, -y)
    return Points(np.hstack([X, np.eye(20)[kind]]).astype(np.float32), y.astype(np.int8), np.ones(count))


OPTIONS = {"kernel": "rbf", "C": 10.0, "gamma": 0.5}


def test_a_machine_that_fits_is_published_whole() -> None:
    """Trained on points of a grid, it is what was trained but for coefficients of 32 bits, and says its errors."""
    points = rows_of_table()
    moments = Moments.zero(points.dimension).add(points)
    whole, packed = (
        train(points, moments, SvmConfig.model_validate(OPTIONS).settled(2, packed=packed)) for packed in (False, True)
    )
    machine = packed.model.machine
    assert isinstance(machine, KernelMachine)
    assert machine.packing is not None
    grid = machine.packing.grid
    assert grid.bits.tolist()[3:] == [1] * 20
    np.testing.assert_array_equal(grid.rounded(machine.support), machine.support)
    Z = grid.rounded(packed.model.scaler.transform(points.X))
    decision = machine.decide(Z)
    assert machine.packing.support_vectors == len(machine.dual)
    assert machine.packing.error == machine.packing.whole_error == np.mean((decision > 0.0) != (points.y > 0))
    norm = float(machine.dual @ replace(machine, intercept=0.0).decide(machine.support))
    boxes = np.full(len(points), 10.0)
    assert packed.fit.objective == pytest.approx(
        primal_objective(decision, points.y, boxes, norm, "squared_hinge"), rel=1e-6
    )
    aside = rows_of_table(seed=1)
    of_whole, own = (np.mean(one.model.predict_sign(aside.X) == aside.y) for one in (whole, packed))
    assert own > of_whole - 0.005
    assert len(codec.encode(version_of(machine))) - 9_000 < 12 * len(machine.dual) * 4 / 3 + 45 * 20


def test_a_machine_that_does_not_fit_says_what_it_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many support vectors as the record holds; both errors are those of the machines on the training set."""
    points = rows_of_table()
    moments = Moments.zero(points.dimension).add(points)
    config = SvmConfig.model_validate(OPTIONS).settled(2, packed=True)
    whole = train(points, moments, config).model.machine
    assert isinstance(whole, KernelMachine)
    monkeypatch.setattr(SvmConfig, "MESSAGE_BYTES", SvmConfig.FEATURE_BYTES * 23 + 6_000)
    small = train(points, moments, config)
    machine = small.model.machine
    assert isinstance(machine, KernelMachine)
    assert machine.packing is not None
    grid = machine.packing.grid
    assert 0.95 * 4_500 < len(machine.dual) * (grid.vector_bytes + 4) <= 4_500
    assert machine.packing.support_vectors == len(whole.dual) > len(machine.dual)
    Z = grid.rounded(small.model.scaler.transform(points.X))
    errors = [float(np.mean((one.decide(Z) > 0.0) != (points.y > 0))) for one in (whole, machine)]
    assert [machine.packing.whole_error, machine.packing.error] == pytest.approx(errors, abs=1e-3)
    assert small.fit.support_vectors == len(machine.dual)


def test_most_of_the_terms_are_projected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine of three quarters is nearer to the whole one than the same terms are without their neighbours'."""
    monkeypatch.setattr("streamsvm.svm.landmarks.MOST_FITTED", 100)
    monkeypatch.setattr("streamsvm.svm.landmarks.MOST_DIFFER", 1.0)
    points = rows_of_table()
    whole = train(points, Moments.zero(points.dimension).add(points), SvmConfig.model_validate(OPTIONS)).model.machine
    assert isinstance(whole, KernelMachine)
    most = 3 * len(whole.dual) // 4
    fewer = fewer_terms(whole, whole.support, points.y, points.weight, most)
    assert len(fewer.dual) == most
    kept = {row.tobytes(): dual for row, dual in zip(whole.support, whole.dual, strict=True)}
    only = replace(fewer, dual=np.array([kept[row.tobytes()] for row in fewer.support]))
    expected = decisions(whole, whole.support)
    off, without = (np.square(decisions(one, whole.support) - expected).mean() for one in (fewer, only))
    assert off < 0.5 * without


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_terms_that_others_do_not_express_are_not_projected(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many dense features three quarters of the terms would answer at random; a few fitted ones do not."""
    monkeypatch.setattr("streamsvm.svm.landmarks.MOST_FITTED", 300)
    random = np.random.default_rng(0)
    Z = random.standard_normal((1_500, 40))
    y = np.where(Z[:, 0] + Z[:, 1] * Z[:, 2] + random.standard_normal(1_500) > 0.0, 1, -1).astype(np.int8)
    points = Points(Z, y, np.ones(1_500))
    config = SvmConfig.model_validate({"kernel": "rbf", "loss": loss, "C": 1.0, "standardize": False})
    whole = train(points, Moments.zero(40).add(points), config).model.machine
    assert isinstance(whole, KernelMachine)
    fewer = fewer_terms(whole, Z, y, points.weight, 3 * len(whole.dual) // 4)
    aside = random.standard_normal((3_000, 40))
    assert np.mean((decisions(fewer, aside) > 0.0) != (decisions(whole, aside) > 0.0)) < 0.15


def test_a_default_machine_is_packed() -> None:
    """Of new incarnations with landmarks: as many support vectors as one record holds, whatever their bits."""
    config = ModelConfig.model_validate({"points": {"dimension": 54}, "svm": {"kernel": "rbf"}})
    assert (config.svm.packed, config.svm.landmarks) == (True, None)
    assert naming.largest_bytes(config) <= 1_000_000
    assert ModelConfig.of_canonical(config.canonical()).sha256() == config.sha256()
    few = ModelConfig.model_validate({"points": {"dimension": 54}, "svm": {"kernel": "rbf", "landmarks": 100}})
    assert naming.largest_bytes(few) < 100_000
    within = naming.terms_within(config, 500_000)
    most = ModelConfig.model_validate({"points": {"dimension": 54}, "svm": {"kernel": "rbf", "landmarks": within}})
    assert 495_000 < naming.largest_bytes(most) <= 500_000


@pytest.mark.parametrize(("C", "gamma"), [(5e6, 1e-7), (5e8, 1e-9)])
@pytest.mark.parametrize("landmarks", [None, 200])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_large_boxes_are_published_as_they_were_trained(C, gamma, landmarks, loss) -> None:
    """Rounded coefficients do not sum to 0: where that shows, the machine keeps 64 bits, and decides as before."""
    random = np.random.default_rng(0)
    X = random.standard_normal((1_500, 4))
    y = np.where(X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.4 * random.standard_normal(1_500) > 0.3, 1, -1).astype(np.int8)
    points = Points(X, y, np.ones(1_500))
    options = {"kernel": "rbf", "loss": loss, "C": C, "gamma": gamma, "landmarks": landmarks}
    moments = Moments.zero(4).add(points)
    whole, packed = (
        train(points, moments, SvmConfig.model_validate(options).settled(2, packed=packed)) for packed in (False, True)
    )
    assert packed.fit.objective <= whole.fit.objective * (1.0 + 1e-3)
    aside = random.standard_normal((3_000, 4))
    differ = packed.model.predict_sign(aside) != whole.model.predict_sign(aside)
    assert np.count_nonzero(differ) <= 15
    rounded = packed.model.machine
    assert isinstance(rounded, KernelMachine)
    Z = packed.model.scaler.transform(X)
    decision = rounded.decide(Grid.of(Z, gamma).rounded(Z))
    norm = float(rounded.dual @ replace(rounded, intercept=0.0).decide(rounded.support))
    assert packed.fit.objective == pytest.approx(primal_objective(decision, y, np.full(1_500, C), norm, loss), rel=1e-6)
