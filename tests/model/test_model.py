"""Model messages: exact, checked, and bounded in size."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import jsonschema
import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig, SvmConfig
from streamsvm.coreset import Moments
from streamsvm.errors import InvalidMessage
from streamsvm.learning import naming, train
from streamsvm.model import message as codec
from streamsvm.model.kernels import RbfKernel
from streamsvm.model.machine import KernelMachine, Scaler
from streamsvm.model.parts import probability_part
from streamsvm.model.probability import Sigmoid
from streamsvm.model.version import PartitionCut, Version
from streamsvm.points import Points
from tests.golden import every_model, model as golden
from tests.golden.checkpoint import as_json
from tests.schemas import model_schema
from tests.streams import gaussian

VALIDATOR = jsonschema.Draft202012Validator(model_schema())


def version_of(kernel: str = "linear", number: int = 3, points: Points | None = None) -> Version:
    """Return a golden version whose machine was trained, and says no probabilities."""
    points = points or gaussian(80)
    config = ModelConfig(points=PointsConfig(dimension=points.dimension), svm=SvmConfig(kernel=kernel, C=1.0))
    trained = train(points, Moments.zero(points.dimension).add(points), config.svm)
    made = replace(golden.handmade(kernel), name="m", number=number, labels=(-1, 1), feature_names=())
    lineage = msgspec.structs.replace(
        made.lineage, configuration=config.canonical(), configuration_sha256=config.sha256(), links=()
    )
    return replace(made, model=trained.model, fit=trained.fit, lineage=lineage)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_a_version_survives_its_bytes(kernel: str) -> None:
    """Decoding gives the same decision values to the last bit, and encoding again the same bytes."""
    version = version_of(kernel)
    value = codec.encode(version)
    back = codec.decode(value, codec.sha256(value))
    X = gaussian(50, seed=2).X
    assert back.model.decision_function(X).tobytes() == version.model.decision_function(X).tobytes()
    assert codec.encode(back) == value
    assert (back.fit, back.lineage, back.stream) == (version.fit, version.lineage, version.stream)
    assert back.audit == version.audit


@pytest.mark.parametrize("kind", every_model.KINDS)
def test_golden_bytes(kind: str) -> None:
    """The kept bytes mean what was written down, and are what is written of a branch's version made by hand."""
    value = golden.path_of(kind).read_bytes()
    read = codec.decode(value)
    assert as_json(read) == golden.meaning_of(kind)
    assert codec.encode(every_model.handmade(kind)) == codec.encode(read)
    if "rbf" in kind or "packed" in kind:
        assert_equal_but_for_exponentials(codec.encode(read), value)
    else:
        assert codec.encode(read) == value
    VALIDATOR.validate(json.loads(value))


def assert_equal_but_for_exponentials(written: bytes, kept: bytes) -> None:
    """Compare but for the last bits of the probes, which are those of this processor's exponential function."""
    new, old = json.loads(written), json.loads(kept)
    for of in (lambda value: value["probes"], lambda value: golden.parts_of(value)["probability"]):
        for name in {"decision", "tolerance", "probes"} & of(old).keys():
            np.testing.assert_allclose(of(new).pop(name), of(old).pop(name), rtol=1e-14, atol=0.0)
    assert json.dumps(new) == json.dumps(old)


def hostile(support: list[float], dual: list[float], gamma: float, scale: list[float]) -> bytes:
    """Write an RBF version whose numbers are any; its probes are what they give, 0 where that is not finite."""
    version = version_of("rbf")
    machine = KernelMachine(RbfKernel(gamma), np.reshape(support, (-1, 3)), np.array(dual), 0.25)
    scaler = Scaler(version.model.scaler.mean, np.array(scale))
    plain = json.loads(codec.encode(replace(version, model=replace(version.model, scaler=scaler, machine=machine))))
    for name in ("decision", "tolerance"):
        plain["probes"][name] = [[0.0 if one is None else one for one in row] for row in plain["probes"][name]]
    return json.dumps(plain).encode()


MAGNITUDES = st.floats(-1.0, 1.0) | st.builds(
    lambda sign, power: sign * 10.0**power, st.floats(-1, 1), st.floats(-320, 308)
)


@example(support=[0.5, 0.8969545914236638, 0.7150428461750562, 0, 0, 0], dual=[0, 1], gamma=1e8, scale=[1, 1, 1])
@settings(max_examples=500, deadline=None)
@given(
    support=st.lists(MAGNITUDES, min_size=6, max_size=6),
    dual=st.lists(MAGNITUDES, min_size=2, max_size=2),
    gamma=MAGNITUDES.map(abs),
    scale=st.lists(MAGNITUDES.map(abs), min_size=3, max_size=3),
)
def test_a_model_that_cannot_be_evaluated_is_refused(
    support: list[float], dual: list[float], gamma: float, scale: list[float]
) -> None:
    """Squares that overflow, terms that swallow others: what is accepted answers alike in any batch, and is encoded."""
    try:
        version = codec.decode(hostile(support, dual, gamma, scale))
    except InvalidMessage:
        return
    X = version.model.scaler.mean + version.model.scaler.scale * np.array([[0.0] * 3, [1.0] * 3, [-2.0, 0.5, 0.0]])
    alone = np.array([version.model.decision_function(x[None])[0] for x in X])
    machine, Z = version.model.machine, (X - version.model.scaler.mean) / version.model.scaler.scale
    longest = np.square(machine.support).sum(axis=1).max()
    with np.errstate(over="ignore"):  # a kernel value is at most 1, so terms differ by no more than twice their sizes
        expanding = np.minimum(1.0 + 1e-5 * machine.kernel.gamma * (np.square(Z).sum(axis=1) + longest), 2e9)
    tolerance = 1e-9 * (np.abs(machine.dual).sum() * expanding + abs(machine.intercept))
    assert (np.abs(version.model.decision_function(X) - alone) <= tolerance).all()
    assert codec.decode(codec.encode(version)).model.machine.dual.tobytes() == version.model.machine.dual.tobytes()


@pytest.mark.parametrize("entry", [1e160, 1e300])
def test_support_vectors_whose_squares_overflow_are_refused(entry: float) -> None:
    """Whatever their probes are."""
    value = hostile([0.5, 0.0, entry, 0.0, 0.5, 0.0], [1.0, -1.0], 0.5, [1.0, 1.0, 1.0])
    with pytest.raises(InvalidMessage, match="an entry of support_vectors is 1e"):
        codec.decode(value)


@settings(max_examples=200, deadline=None)
@given(at=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_a_changed_byte_never_passes_the_hash(at: int, byte: int) -> None:
    """Any single change is caught by the SHA-256 of the header."""
    value = VALUE
    at %= len(value)
    changed = value[:at] + bytes([byte]) + value[at + 1 :]
    if changed != value:
        with pytest.raises(InvalidMessage, match="SHA-256"):
            codec.decode(changed, codec.sha256(value))


VALUE = codec.encode(version_of())


@settings(max_examples=100, deadline=None)
@given(length=st.integers(0, 5_000))
def test_a_cut_off_message_is_refused(length: int) -> None:
    """Every proper prefix is refused, hash or no hash."""
    if length < len(VALUE):
        with pytest.raises(InvalidMessage):
            codec.decode(VALUE[:length])


def test_headers_carry_the_hash_and_the_time() -> None:
    """The clock's things are outside the value."""
    digest = codec.sha256(codec.encode(version_of()))
    headers = dict(codec.headers(digest, datetime(2026, 1, 2, tzinfo=UTC), {"streamsvm.session": "s"}))
    assert headers == {
        "content-type": b"application/json",
        "streamsvm.schema": b"urn:streamsvm:schema:model:1",
        "streamsvm.sha256": digest.encode(),
        "streamsvm.time": b"2026-01-02T00:00:00+00:00",
        "streamsvm.session": b"s",
    }


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("n", [10, 400])
def test_the_size_bound_holds(kernel: str, n: int) -> None:
    """No message of a configuration is larger than foreseen, and the advice for a limit fits into it."""
    points = gaussian(n, dimension=40)
    config = ModelConfig(
        points=PointsConfig(dimension=40),
        coreset=CoresetConfig(train_points=n),
        svm=SvmConfig(kernel=kernel, C=1e-3),
    )
    version = version_of(kernel, points=points)
    lineage = msgspec.structs.replace(
        version.lineage, configuration=config.canonical(), cut=(PartitionCut(0, 2**62, 2**30, 2**30),) * 64
    )
    machine = version.model.machine
    assert len(machine.dual) <= n if isinstance(machine, KernelMachine) else True
    value = codec.encode(replace(version, lineage=lineage))
    bound = naming.largest_bytes(config)
    assert len(value) <= bound
    if kernel == "rbf":
        within = naming.terms_within(config, bound - 200)
        some = [
            naming.largest_bytes(config.model_copy(update={"svm": config.svm.model_copy(update={"landmarks": count})}))
            for count in (within, within + 1)
        ]
        assert some[0] <= bound - 200 < some[1]
        assert 0 < within < n
        assert naming.terms_within(config, 10) == 0


def test_the_size_bound_counts_probabilities() -> None:
    """The largest function there can be fits into what is foreseen for it at the start."""
    most = -2.2250738585072014e-308
    assert len(msgspec.json.encode(probability_part.encoded(Sigmoid(most, most)))) <= probability_part.LARGEST_BYTES
