"""Readers in Python, Node.js and Java score the same points, and refuse the same ones."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from tests.brokers.jvm import CannotRun
from tests.golden.model import KERNELS, THRESHOLDS, path_of
from tests.interop.inputs import POINTS, answers, answers_by

MU = "kurtosis µ"
"""A name of a feature that is not of ASCII."""
SCORED = {"in order", "integers", "by name", "by name, another order"}
OTHERWISE = {"true"}
"""Python counts booleans as numbers, as numpy does."""


def test_every_language_scores_and_refuses_alike(tmp_path: Path) -> None:
    """Shapes, names in another order, missing and unknown ones, null, infinity and text."""
    try:
        found = answers(tmp_path)
    except CannotRun as missing:
        pytest.skip(f"no readers in other languages: {missing}")
    decision = found["Python"][0]["decision"]
    for language, told in found.items():
        assert len(told) == len(POINTS), language
        for name, one in zip(POINTS, told, strict=True):
            if name in SCORED:
                assert one["decision"] == pytest.approx(decision, rel=1e-12), (language, name)
            elif language != "Python" or name not in OTHERWISE:
                assert re.search(r"3 features|\(n, 3\)|not the version's|finite number|not a number", one["error"]), one


def test_every_language_labels_at_the_threshold(tmp_path: Path) -> None:
    """Just beneath a point's decision value and just above it, as the part `threshold` says."""
    try:
        plain = answers(tmp_path)
    except CannotRun as missing:
        pytest.skip(f"no readers in other languages: {missing}")
    decision = plain["Python"][0]["decision"]
    said = {
        shift: answers(tmp_path, msgspec.structs.replace(THRESHOLDS["linear"], value=decision + shift))
        for shift in (-1e-3, 1e-3)
    }
    for language in plain:
        beneath, above = (said[shift][language][0] for shift in (-1e-3, 1e-3))
        assert beneath["decision"] == above["decision"] == pytest.approx(decision, rel=1e-12), language
        assert beneath["label"] != above["label"], language
        assert beneath["label"] == said[-1e-3]["Python"][0]["label"], language


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_language_reads_the_golden_bytes_of_four_labels(tmp_path: Path, kernel: str) -> None:
    """The probes of a message with the part `classes`, K decision values a point, and the label of the greatest."""
    points = {
        "near": "[0.1, -2.5, 1e6]",
        "far": "[5.0, -2.4, -3e38]",
        "by name": f'{{"mean": -9, "{MU}": -2.6, "dm": 0}}',
    }
    try:
        found = answers_by(tmp_path, path_of(f"{kernel}-classes").read_bytes(), points)
    except CannotRun as missing:
        pytest.skip(f"no readers in other languages: {missing}")
    expected = found["Python"]
    assert kernel == "rbf" or len({one["label"] for one in expected}) > 1
    for language, told in found.items():
        for one, own in zip(told, expected, strict=True):
            assert one["decision"] == pytest.approx(own["decision"], rel=1e-12, abs=1e-12), language
            assert one["label"] == own["label"], language
