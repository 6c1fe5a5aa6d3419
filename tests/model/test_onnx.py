"""ONNX models: onnxruntime decides as we do."""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import combinations, product
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import example, given, settings, strategies as st

from streamsvm.config import Label, ModelConfig, PointsConfig, SvmConfig
from streamsvm.errors import ConfigurationError
from streamsvm.ingest import label_of
from streamsvm.learning import naming
from streamsvm.model import message as codec
from streamsvm.model.additive import AdditiveMachine, Surface
from streamsvm.model.classes import ClassModel
from streamsvm.model.kernels import Float, RbfKernel
from streamsvm.model.machine import KernelMachine, LinearMachine, Model, Packing, Scaler
from streamsvm.model.packing import Grid
from streamsvm.model.probability import Sigmoid
from streamsvm.model.probes import probes_of
from streamsvm.model.version import Version
from streamsvm.registry import onnx_export as onnx_codec
from tests.golden import model as golden
from tests.model.test_probes import models

LARGEST_INPUT = 1e308


def version_of(model: Model, labels: tuple[Label, Label] = (-1, 1)) -> Version:
    return replace(golden.handmade("linear"), model=model, labels=labels, feature_names=())


def run(content: bytes, X: Float) -> dict[str, Any]:
    """Evaluate every output of an ONNX model, by one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"X": X}), strict=True))


@settings(max_examples=60, deadline=None)
@given(model=models())
def test_decision_values_at_probes_are_within_their_tolerance(model: Model) -> None:
    """Whatever the model's size, scale and spread."""
    found = probes_of(model)
    decision = run(onnx_codec.export(version_of(model)), found.X)["decision_function"]
    assert decision.dtype == np.float64
    assert decision.shape == (len(found.X),)
    assert (np.abs(decision - found.decision) <= found.tolerance).all()


@example(seed=0, dimension=24, kernel="rbf", support=10_000)
@example(seed=0, dimension=24, kernel="packed", support=10_000)
@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    dimension=st.integers(1, 30),
    kernel=st.sampled_from(["linear", "rbf", "packed", "additive"]),
    support=st.just(200),
)
def test_decision_values_of_ordinary_models_agree(seed: int, dimension: int, kernel: str, support: int) -> None:
    """Within 1e-9 of ours, relative to the size of the decision values, at points from the stream's range."""
    rng = np.random.default_rng(seed)
    model = ordinary(rng, dimension, kernel, support)
    X = model.scaler.mean + 2.0 * model.scaler.scale * rng.normal(size=(64, dimension))
    ours = model.decision_function(X)
    theirs = run(onnx_codec.export(version_of(model)), X)["decision_function"]
    np.testing.assert_allclose(theirs, ours, rtol=1e-9, atol=1e-9 * float(np.abs(ours).max()))


def ordinary(rng: np.random.Generator, dimension: int, kernel: str, support: int) -> Model:
    scaler = Scaler(rng.normal(size=dimension) * 5.0, rng.uniform(0.1, 10.0, dimension))
    if kernel == "linear":
        return Model(scaler, LinearMachine(rng.normal(size=dimension), 0.25))
    if kernel == "additive":
        return Model(scaler, additive(rng, dimension))
    vectors = rng.normal(size=(support, dimension))
    machine = KernelMachine(RbfKernel(1.0 / dimension), vectors, rng.normal(size=support), -0.25)
    if kernel == "packed":
        vectors[:, rng.random(dimension) < 0.3] = 0.7
        vectors[:, rng.random(dimension) < 0.3] = rng.integers(0, 2, (support, 1))
        machine = machine.packed(Packing(Grid.of(vectors, machine.kernel.gamma), support, 0.0, 0.0))
    return Model(scaler, machine)


def additive(rng: np.random.Generator, dimension: int) -> AdditiveMachine:
    """Return a machine of as many knots and pairs as a trainer may choose, or fewer; some features have none."""
    counts = rng.choice([0, 2, 3, 24], dimension)
    knots = tuple(np.sort(rng.normal(size=count)) for count in counts)
    surfaces = []
    for first, second in list(combinations(range(dimension), 2))[: 40 if rng.random() < 0.8 else 0]:
        rows, columns = (np.sort(rng.normal(size=rng.integers(2, 9))) for _ in range(2))
        surfaces.append(Surface(first, second, rows, columns, rng.normal(size=(len(rows), len(columns)))))
    return AdditiveMachine(knots, tuple(rng.normal(size=count) for count in counts), tuple(surfaces), 0.25)


@pytest.mark.parametrize("kind", ["additive", "additive-threshold", "additive-classes", "additive-rest"])
def test_curves_and_surfaces_agree_everywhere(kind: str) -> None:
    """At knots, between and beyond them, and where a scaled feature is infinite; labels and probabilities, too."""
    version = golden.handmade(kind)
    model, machines = version.model, getattr(version.model.machine, "machines", (version.model.machine,))
    knots = {part for one in machines for part in np.concatenate(one.knots)} | {-np.inf, np.inf, -3.0, 0.1, 3.0}
    Z = np.array(list(product(sorted(knots), repeat=3)))
    Z = np.concatenate([Z, 2.0 * np.random.default_rng(0).normal(size=(1_000, 3))])
    with np.errstate(over="ignore"):
        X = np.clip(model.scaler.mean + Z * model.scaler.scale, -LARGEST_INPUT, LARGEST_INPUT)
        found, ours = run(onnx_codec.export(version), X), model.decision_function(X)
        shares = model.predict_proba(X)
    np.testing.assert_allclose(found["decision_function"], ours, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(
        found["probability"], shares if isinstance(model, ClassModel) else shares[:, 1], atol=1e-12
    )
    codes = ours.argmax(axis=1) if isinstance(model, ClassModel) else (ours > model.border).astype(int)
    assert found["label"].tolist() == [version.labels[code] for code in codes]


@pytest.mark.parametrize("labels", [(-1, 1), (False, True), ("noise", "pulsar µ")])
def test_labels_are_those_of_the_records(labels: tuple[Label, Label]) -> None:
    """Numbers, truth values and text; a decision value of exactly 0 means the first."""
    model = Model(Scaler.identity(1), LinearMachine(np.array([1.0]), 0.0))
    X = np.array([[-1.0], [0.0], [1e-300], [2.0]])
    found = run(onnx_codec.export(version_of(model, labels)), X)["label"]
    assert found.tolist() == [label_of(float(x), labels) for x in X[:, 0]]


@pytest.mark.parametrize(
    "probability",
    [
        Sigmoid(-1.5, 0.25),
        Sigmoid(0.0, 700.0),
    ],
)
def test_probabilities_agree(probability: Sigmoid) -> None:
    """At ordinary decision values, and at the largest."""
    model = Model(Scaler.identity(1), LinearMachine(np.array([1.0]), 0.0), probability)
    X = np.concatenate((np.linspace(-5, 5, 101), [-1e300, 1e300, 0.1 + 0.2]))[:, None]
    found = run(onnx_codec.export(version_of(model)), X)["probability"]
    np.testing.assert_allclose(found, model.predict_proba(X)[:, 1], rtol=1e-9, atol=1e-12)


def test_a_version_without_probabilities_has_no_such_output() -> None:
    """An empty batch gives nothing; a machine without support vectors has its intercept to say."""
    model = Model(Scaler.identity(2), KernelMachine(RbfKernel(1.0), np.empty((0, 2)), np.empty(0), 0.5))
    found = run(onnx_codec.export(version_of(model)), np.ones((3, 2)))
    assert found.keys() == {"decision_function", "label"}
    assert found["decision_function"].tolist() == [0.5] * 3
    for kernel in ("linear", "rbf", "packed", "additive"):
        content = onnx_codec.export(version_of(ordinary(np.random.default_rng(0), 2, kernel, 3)))
        assert {name: part.tolist() for name, part in run(content, np.empty((0, 2))).items()} == {
            "decision_function": [],
            "label": [],
        }


@pytest.mark.parametrize("kernel", [*golden.KERNELS, "additive", "additive-classes", "additive-rest"])
def test_the_model_says_which_version_it_is(kernel: str) -> None:
    """Valid by the checker of ONNX itself, always the same bytes, plain operators; the metadata name the JSON."""
    version = golden.handmade(kernel)
    content = onnx_codec.export(version)
    made = onnx.load_from_string(content)
    onnx.checker.check_model(made, full_check=True)
    assert content == onnx_codec.export(version)
    assert {said.key: said.value for said in made.metadata_props} == {
        "streamsvm.name": "pulsar",
        "streamsvm.version": "42",
        "streamsvm.sha256": codec.sha256(codec.encode(version)),
        "streamsvm.features": '["mean", "kurtosis µ", "dm"]',
    }
    assert {node.domain for node in made.graph.node} == {""}
    other = onnx.load_from_string(onnx_codec.export(version, "ab" * 32))
    assert other.metadata_props[2].value == "ab" * 32


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks for ONNX without the package is told how to install it."""
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ConfigurationError, match=r"pip install '\.\[onnx\]'"):
        onnx_codec.export(golden.handmade("linear"))


@pytest.mark.parametrize("kernel", ["linear", "rbf", "packed", "additive"])
def test_it_is_smaller_than_the_largest_json(kernel: str) -> None:
    """So the bound that is checked at the start holds for both."""
    rng = np.random.default_rng(0)
    for dimension, support in ((1, 2), (8, 50), (40, 400)):
        config = ModelConfig(
            points=PointsConfig(dimension=dimension),
            coreset={"train_points": support, "reducer": "calibrated" if kernel == "packed" else "uniform"},
            svm=SvmConfig(kernel="rbf" if kernel == "packed" else kernel),
        )
        assert len(onnx_codec.export(version_of(ordinary(rng, dimension, kernel, support)))) < naming.largest_bytes(
            config
        )
