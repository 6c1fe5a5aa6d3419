"""Features that stay as they are, and far from the origin: every reader decides by the plane that was trained."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from streamsvm.branches.events.features.recipe import Number, Recipe
from streamsvm.config import SvmConfig
from streamsvm.coreset import Moments
from streamsvm.learning import train
from streamsvm.model import Float, Version, message as codec
from streamsvm.points import Points
from streamsvm.registry import onnx_export
from tests.branches.events.test_interop import answers_of, version_of
from tests.model.test_onnx import run

OFFSETS = (1e5, 1e6, 1e7, 1e8, 1e9)
NAMES = ("a", "b", "c")
LEARNED, ASKED = 700, 500
LEAST_ACCURACY = 0.92
"""At the origin it is 0.934."""


def rows() -> tuple[Float, Float]:
    """Return rows around the origin and their labels, to be learned and then to be asked about."""
    chance = np.random.default_rng(7)
    Z = chance.normal(size=(LEARNED + ASKED, 3))
    return Z, np.where(Z @ [1.0, -2.0, 0.5] + 0.5 * chance.normal(size=len(Z)) > 0.0, 1.0, -1.0)


def version(offset: float, kernel: str) -> Version:
    """Return a version of the rows at an offset, with a recipe that takes the numbers as they are."""
    Z, y = (part[:LEARNED] for part in rows())
    points = Points(Z + offset, y.astype(np.int8), np.ones(LEARNED))
    svm = SvmConfig(C=1.0, kernel=kernel, gamma=0.3, standardize=False).settled(2, packed=kernel == "rbf")
    made = train(points, Moments.zero(3).add(points), svm)
    recipe = Recipe(features=tuple(Number(name=name, field=(name,)) for name in NAMES))
    of_recipe = version_of(recipe, np.ones(len(NAMES)))
    return replace(of_recipe, model=replace(made.model, feature_names=NAMES))


def accuracy(decision: Float) -> float:
    return float(np.mean((decision > 0.0) == (rows()[1][LEARNED:] > 0.0)))


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("offset", OFFSETS)
def test_python_and_onnx_are_as_good_as_at_the_origin(offset: float, kernel: str) -> None:
    """By a version's bytes, and their export in ONNX."""
    made = version(offset, kernel)
    X = rows()[0][LEARNED:] + offset
    read = codec.decode(codec.encode(made)).model.decision_function(X)
    graph = run(onnx_export.export(made), X)["decision_function"]
    assert accuracy(read) >= LEAST_ACCURACY
    assert accuracy(graph) >= LEAST_ACCURACY
    np.testing.assert_allclose(graph, read, rtol=0, atol=1e-9)


@pytest.mark.parametrize("language", ["Node.js", "Java"])
def test_other_languages_are_as_good_as_at_the_origin(tmp_path: Path, language: str) -> None:
    """Raw events, by a linear version: the numbers that Python gets."""
    for offset in OFFSETS:
        made = version(offset, "linear")
        X = rows()[0][LEARNED:] + offset
        events = [dict(zip(NAMES, x, strict=True)) for x in X.tolist()]
        answers = answers_of(language, tmp_path, codec.encode(made), events)
        decision = np.array([answer["decision"] for answer in answers])
        assert accuracy(decision) >= LEAST_ACCURACY
        np.testing.assert_allclose(decision, made.model.decision_function(X), rtol=0, atol=1e-9)
