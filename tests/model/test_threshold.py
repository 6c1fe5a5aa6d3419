"""The threshold in a message: a part without which the labels would be others."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from streamsvm.config import ModelConfig, PointsConfig, SvmConfig
from streamsvm.learning import naming
from streamsvm.model import message as codec, threshold as part
from streamsvm.model.threshold import described
from streamsvm.registry import Loaded, onnx_export
from streamsvm.verification.differences import differences
from tests.golden import model as golden


def value_of(kernel: str = "linear") -> Any:
    return json.loads(golden.path_of(f"{kernel}-threshold").read_bytes())


@pytest.mark.parametrize("kernel", golden.KERNELS)
def test_without_a_threshold_there_is_no_part(kernel: str) -> None:
    """The rest is the same, byte for byte."""
    version = golden.handmade(f"{kernel}-threshold")
    plain = codec.encode(replace(version, model=replace(version.model, threshold=None)))
    assert plain == codec.encode(golden.handmade(kernel))
    value = value_of(kernel)
    value["parts"] = [part for part in value["parts"] if part["part"] != "threshold"]
    assert codec.encode(codec.decode(json.dumps(value).encode())) == plain


def test_it_fits_into_the_bound_of_a_message() -> None:
    """With the longest numbers there are."""
    longest = part.Judged(*(-2.2250738585072014e-308,) * 3)
    threshold = msgspec.structs.replace(
        golden.THRESHOLDS["rbf"],
        value=-2.2250738585072014e-308,
        asked=(2.2250738585072014e-308,) * 2,
        points=2**53,
        positives=2**53,
        precision=longest,
        recall=longest,
        alarm_rate=longest,
        cost=longest,
    )
    assert len(msgspec.json.encode(threshold)) <= part.LARGEST_BYTES
    points = PointsConfig(dimension=2)
    plain, asked = ModelConfig(points=points), ModelConfig(points=points, svm=SvmConfig(target={"recall": 0.9}))
    assert naming.largest_bytes(asked) >= naming.largest_bytes(plain) + part.LARGEST_BYTES


@pytest.mark.parametrize("kernel", golden.KERNELS)
def test_labels_are_those_above_the_threshold(kernel: str) -> None:
    """Of a loaded version and of its ONNX export; decision values are as they were."""
    ort = pytest.importorskip("onnxruntime")
    version = golden.handmade(f"{kernel}-threshold")
    model = replace(version.model, scaler=type(version.model.scaler).identity(3))
    X = np.random.default_rng(0).normal(scale=3.0, size=(500, 3))
    decision = model.decision_function(X)
    threshold = msgspec.structs.replace(golden.THRESHOLDS[kernel], value=float(np.quantile(decision, 0.7)))
    version = replace(version, model=replace(model, threshold=threshold))
    loaded = Loaded(version=version, sha256="", offset=0, loaded_at=0.0)
    np.testing.assert_array_equal(loaded.decision_function(X), decision)
    told = loaded.predict(X)
    assert told.tolist() == ["yes" if one > threshold.value else "no" for one in decision]
    assert 0.25 < (told == "yes").mean() < 0.35
    session = ort.InferenceSession(onnx_export.export(version))
    assert session.run(["label"], {"X": X})[0].tolist() == told.tolist()


def test_a_version_that_lost_its_threshold_differs() -> None:
    """And one that has another value of it."""
    version = golden.handmade("linear-threshold")
    whole = codec.encode(version)
    lost = codec.encode(replace(version, model=replace(version.model, threshold=None)))
    assert differences(whole, whole) == ()
    assert any("threshold" in one for one in differences(lost, whole))
    moved = msgspec.structs.replace(golden.THRESHOLDS["linear"], value=0.25)
    other = codec.encode(replace(version, model=replace(version.model, threshold=moved)))
    assert any("threshold.value" in one for one in differences(other, whole))


def test_it_is_told_in_a_sentence() -> None:
    """What was asked for, what is expected of it, and what is missing."""
    assert described(golden.THRESHOLDS["linear"]) == (
        "-0.3333, chosen for recall 0.9: expected recall 0.91 (0.86 to 0.94), precision 0.81, alarms 25 %"
    )
    assert described(golden.THRESHOLDS["rbf"]).startswith(
        "0, not chosen for cost 50 of a missed positive and 1 of a false alarm: the audit sample holds 0 positive "
        "points of 7, too few (raise coreset.points); expected cost 0 per weight (0 to 0.1)"
    )
    missed = msgspec.structs.replace(golden.THRESHOLDS["linear"], figure="precision", asked=0.95, met=False)
    assert described(missed) == (
        "-0.3333, chosen for precision 0.95, which is not met: expected precision 0.81 (0.75 to 0.88), recall 0.91, "
        "alarms 25 %"
    )
