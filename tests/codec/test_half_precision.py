"""Machines in half precision: a part of their own, a quarter of the bytes, and what rounding does to a machine."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamsvm.config import ModelConfig, SvmConfig
from streamsvm.coreset.moments import Moments
from streamsvm.errors import InvalidMessage
from streamsvm.learning import naming
from streamsvm.learning.training import train
from streamsvm.model import message as codec
from streamsvm.model.kernels import RbfKernel
from streamsvm.model.machine import KernelMachine, Model, Scaler, in_half
from streamsvm.model.version import Version
from streamsvm.points import Points
from streamsvm.svm.objective import primal_objective
from tests.brokers.jvm import CannotRun
from tests.golden import model as golden
from tests.interop.inputs import answers_by


def value_of(kind: str = "rbf-half") -> Any:
    return json.loads(golden.path_of(kind).read_bytes())


def made(support: Any, dual: Any, gamma: float = 0.25) -> Version:
    """Return the golden version with another machine, of three features that are taken as they are."""
    version = golden.handmade("rbf-half")
    machine = KernelMachine(RbfKernel(gamma), np.asarray(support, float), np.asarray(dual, float), 0.125).halved()
    assert isinstance(version.model, Model)
    return replace(version, model=replace(version.model, scaler=Scaler.identity(3), machine=machine))


@pytest.mark.parametrize("kind", ["rbf-half", "events-half"])
def test_without_its_part_it_is_refused(kind: str) -> None:
    """16 bits are never read as 64: the part is not one that a reader may pass over."""
    value = value_of(kind)
    value["parts"] = [part for part in value["parts"] if part["part"] != "half_precision"]
    with pytest.raises(InvalidMessage, match=r"not base64 of float64 values|do not fit"):
        codec.decode(json.dumps(value).encode())


@pytest.mark.parametrize(
    ("kind", "what"), [("linear", "is for rbf machines"), ("rbf-classes", "is for two labels"), ("rbf", "float16|fit")]
)
def test_with_its_part_another_machine_is_refused(kind: str, what: str) -> None:
    """Linear ones, those of more than two labels, and one in double precision."""
    value = value_of(kind)
    value["parts"] = sorted([*value["parts"], {"part": "half_precision"}], key=lambda part: part["part"])
    with pytest.raises(InvalidMessage, match=what):
        codec.decode(json.dumps(value).encode())


def test_every_number_comes_back() -> None:
    """Signs, the least and the greatest of both kinds of float, and a hundred more."""
    half, single = np.finfo(np.float16), np.finfo(np.float32)
    drawn = np.random.default_rng(3).normal(size=(100, 3))
    rows = [[0.0, -0.0, 1.0], [float(half.max), -float(half.max), float(half.smallest_subnormal)], [1e-9, 1e9, -1e300]]
    dual = np.append([1.0, -float(single.max) / 2e30, float(single.smallest_subnormal)], drawn[:, 0])
    version = made(np.concatenate((rows, drawn)), dual)
    machine = version.model.machine
    assert isinstance(machine, KernelMachine)
    assert machine.support[2].tolist() == [0.0, float(half.max), -float(half.max)]
    read = codec.decode(codec.encode(version)).model.machine
    assert isinstance(read, KernelMachine)
    assert read.precision == "half"
    np.testing.assert_array_equal(read.support, machine.support)
    np.testing.assert_array_equal(np.signbit(read.support), np.signbit(machine.support))
    np.testing.assert_array_equal(read.dual, machine.dual)
    assert machine.halved().support.tobytes() == machine.support.tobytes()


def test_what_float32_does_not_hold_stays_whole() -> None:
    """Rather a large message than another machine."""
    machine = KernelMachine(RbfKernel(1.0), np.zeros((1, 3)), np.array([1e39]), 0.0)
    assert machine.halved() is machine


@pytest.mark.parametrize(
    ("field", "to", "what"),
    [
        ("support_vectors", "AAAA", "not base64 of float16 values|do not fit"),
        ("support_vectors", "A", "not base64 of float16 values"),
        ("dual_coefficients", "AAA=", "not base64 of float32 values"),
        ("dual_coefficients", "", "do not fit 0 dual coefficients"),
        ("support_vectors", base64.b64encode(b"\x00\x7c" * 6).decode(), "support_vectors is not finite"),
        ("dual_coefficients", base64.b64encode(b"\x00\x00\xc0\x7f" * 2).decode(), "dual_coefficients is not finite"),
        ("precision", "double", "precision"),
        ("gamma", 2.5, "probe 0"),
        ("kernel", "linear", "unknown field `gamma`"),
    ],
)
def test_what_is_wrong_is_named(field: str, to: Any, what: str) -> None:
    """Nothing is served that was read as something else."""
    value = value_of()
    value["model"][field] = to
    with pytest.raises(InvalidMessage, match=what):
        codec.decode(json.dumps(value).encode())


def test_a_trained_machine_is_rounded_before_it_is_measured() -> None:
    """Its objective is that of what is published, near that of what was solved, and its message far smaller."""
    random = np.random.default_rng(0)
    X = random.normal(size=(600, 22)).astype(np.float32)
    y = np.where(X[:, 0] * X[:, 1] + 0.3 * random.normal(size=600) > 0.0, 1, -1).astype(np.int8)
    points = Points(X, y, np.ones(600))
    moments = Moments.zero(22).add(points)
    whole, half = (
        train(points, moments, SvmConfig(kernel="rbf", C=3.0, precision=precision)) for precision in ("double", "half")
    )
    machine = half.model.machine
    assert isinstance(machine, KernelMachine)
    assert isinstance(whole.model.machine, KernelMachine)
    assert machine.precision == "half"
    np.testing.assert_array_equal(machine.support, machine.support.astype(np.float16))
    np.testing.assert_array_equal(machine.dual, machine.dual.astype(np.float32))
    decision = machine.decide(half.model.scaler.transform(X))
    np.testing.assert_allclose(decision, whole.model.machine.decide(half.model.scaler.transform(X)), atol=5e-3)
    gram = machine.kernel.gram(machine.support, machine.support)
    norm = float(machine.dual @ gram @ machine.dual)
    assert half.fit.objective == pytest.approx(primal_objective(decision, y, np.full(600, 3.0), norm), rel=1e-9)
    assert half.fit.objective == pytest.approx(whole.fit.objective, rel=1e-3)
    assert (half.fit.kkt_gap, half.fit.dual_objective) == (whole.fit.kkt_gap, whole.fit.dual_objective)
    value, larger = (codec.encode(made_of(one.model.machine)) for one in (half, whole))
    assert len(value) - 9_000 < 0.3 * len(larger)


def test_a_machine_of_rounded_points_is_published_as_it_was_trained() -> None:
    """Where rounding afterwards would make another machine, double precision is kept; rounded points need half."""
    random = np.random.default_rng(0)
    X = random.random((3_000, 2)).astype(np.float32)
    y = np.where(np.floor(X * 10).sum(axis=1) % 2 > 0, 1, -1).astype(np.int8)
    y[random.random(3_000) < 0.15] *= -1
    points = Points(X, y, np.ones(3_000))
    moments = Moments.zero(2).add(points)
    options = {"kernel": "rbf", "C": 100.0, "gamma": 40.0}
    whole, after, first = (
        train(points, moments, SvmConfig.model_validate(options | more))
        for more in ({}, {"precision": "half"}, {"precision": "half", "round_first": True})
    )
    machine, kept = first.model.machine, after.model.machine
    assert isinstance(machine, KernelMachine)
    assert isinstance(kept, KernelMachine)
    assert (machine.precision, kept.precision) == ("half", "double")
    np.testing.assert_array_equal(machine.support, machine.support.astype(np.float16))
    assert first.fit.dual_objective is not None
    assert whole.fit.dual_objective is not None
    gaps = [one.fit.objective - (one.fit.dual_objective or 0.0) for one in (whole, after, first)]
    assert after.fit == whole.fit
    norm = float(kept.dual @ replace(kept.halved(), intercept=0.0).decide(kept.halved().support))
    rounded = primal_objective(kept.halved().decide(whole.model.scaler.transform(X)), y, np.full(len(y), 100.0), norm)
    assert rounded - (whole.fit.dual_objective or 0.0) > 10.0 * gaps[2]
    assert gaps[2] < 2e-3 * first.fit.objective
    assert first.fit.dual_objective == pytest.approx(whole.fit.dual_objective, rel=0.02)


@pytest.mark.parametrize(("C", "gamma"), [(5e6, 1e-7), (5e8, 1e-9)])
@pytest.mark.parametrize("landmarks", [None, 200])
@pytest.mark.parametrize("round_first", [False, True])
def test_large_boxes_are_published_as_they_were_trained(C, gamma, landmarks, round_first) -> None:
    """Rounded coefficients do not sum to 0: the machine has another intercept, or 64 bits, and decides as before."""
    random = np.random.default_rng(0)
    X = random.standard_normal((1_500, 4))
    y = np.where(X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.4 * random.standard_normal(1_500) > 0.3, 1, -1).astype(np.int8)
    points = Points(X, y, np.ones(1_500))
    moments, options = Moments.zero(4).add(points), {"kernel": "rbf", "C": C, "gamma": gamma, "landmarks": landmarks}
    whole, half = (
        train(points, moments, SvmConfig.model_validate(options | more))
        for more in ({}, {"precision": "half", "round_first": round_first})
    )
    assert half.fit.objective <= whole.fit.objective * (1.0 + 1e-3)
    aside = random.standard_normal((3_000, 4))
    differ = half.model.predict_sign(aside) != whole.model.predict_sign(aside)
    assert np.count_nonzero(differ) <= 15
    rounded = half.model.machine
    assert isinstance(rounded, KernelMachine)
    Z = half.model.scaler.transform(X)
    decision = rounded.decide(in_half(Z) if round_first else Z)
    norm = float(rounded.dual @ replace(rounded, intercept=0.0).decide(rounded.support))
    assert half.fit.objective == pytest.approx(primal_objective(decision, y, np.full(1_500, C), norm), rel=1e-6)


def made_of(machine: Any) -> Version:
    """Return the golden version with a machine of 22 features."""
    version = golden.handmade("rbf")
    names = tuple(f"f{j}" for j in range(22))
    assert isinstance(version.model, Model)
    model = replace(version.model, scaler=Scaler.identity(22), machine=machine, feature_names=names)
    return replace(version, model=model, feature_names=names)


def test_half_precision_has_room_for_more_than_double() -> None:
    """Nearly four times the support vectors in the same message."""
    config = ModelConfig.model_validate({"points": {"dimension": 22}, "svm": {"kernel": "rbf", "precision": "half"}})
    double = ModelConfig.model_validate({"points": {"dimension": 22}, "svm": {"kernel": "rbf", "precision": "double"}})
    assert (config.svm.precision, config.svm.landmarks) == ("half", 12_423)
    assert double.svm.landmarks == 3_521
    assert naming.largest_bytes(config) <= 1_000_000
    assert ModelConfig.of_canonical(config.canonical()).sha256() == config.sha256() != double.sha256()


def test_every_language_reads_it(tmp_path: Path) -> None:
    """Node.js and Java make 16 and 32 bits to the numbers that Python does: least, greatest and drawn ones."""
    drawn = np.random.default_rng(1).normal(size=(20, 3))
    support = np.concatenate((drawn, [[6e-8, -3e-5, 6.1e-5], [65_504.0, 1.0, -0.0]]))
    value = codec.encode(made(support, np.append(drawn[:, 0], [1e-40, -2.5]), 1e-4))
    points = {"near": "[0.1, -0.2, 0.3]", "far": "[60000.0, 1.0, 0.0]", "zero": "[0.0, 0.0, 0.0]"}
    for kind in ("drawn", "rbf-half"):
        given = value if kind == "drawn" else golden.path_of(kind).read_bytes()
        try:
            found = answers_by(tmp_path, given, points)
        except CannotRun as missing:
            pytest.skip(f"no readers in other languages: {missing}")
        for language, told in found.items():
            for one, own in zip(told, found["Python"], strict=True):
                assert "decision" in one, (kind, language, one)
                assert one["decision"] == pytest.approx(own["decision"], rel=1e-12, abs=1e-12), (kind, language)
                assert one["label"] == own["label"], (kind, language)
