"""ONNX models of raw events: onnxruntime makes the columns that a recipe makes, and rejects what it rejects."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import onnxruntime
import pytest

from streamsvm.branches.events.features.columns import columns_of
from streamsvm.branches.events.features.recipe import Category, Recipe
from streamsvm.branches.events.options import recipe_from
from streamsvm.errors import ConfigurationError
from streamsvm.model.machine import LinearMachine, Model, Scaler
from streamsvm.model.probability import Isotonic, Sigmoid
from streamsvm.model.version import Version
from streamsvm.registry import onnx_copy
from tests.branches.events.recipes import payments
from tests.golden import model as golden

EVENTS = 10_000
FEATURES: dict[str, Any] = {
    "amount": {"as": "number", "log1p": True},
    "risk": {"as": "number", "missing": "indicator", "unit": 0.3, "clip": [-1, 1]},
    "age": {"as": "number", "field": "customer.age", "missing": {"constant": 40}, "clip": [0, 100], "unit": 10},
    "years": {"as": "number", "field": "customer.age", "buckets": [20, 40.5, 60], "missing": "indicator"},
    "country": {"as": "category", "field": "card.country", "values": ["DE", "FR"], "missing": "indicator"},
    "channel": {"as": "category", "values": ["web", "app", "7", "true"]},
    "brand": {"as": "category", "values": ["visa", "amex"], "missing": {"constant": "amex"}},
    "kind": {"as": "category", "values": ["visa"], "missing": {"constant": "none"}},
    "vip": "flag",
    "known": {"as": "flag", "missing": "indicator"},
    "sure": {"as": "flag", "missing": {"constant": True}},
    "where": {"as": "cross", "of": ["country", "known"]},
    "rich": {"as": "cross", "of": ["amount", "risk"]},
}
LEAVES = ("amount", "risk", "customer.age", "card.country", "channel", "brand", "kind", "vip", "known", "sure")


def version_of(recipe: Recipe) -> Version:
    """Return a version of a recipe, each column of which counts."""
    names = columns_of(recipe).names
    chance = np.random.default_rng(4)
    scaler = Scaler(chance.normal(size=len(names)), chance.uniform(0.5, 2.0, len(names)))
    model = Model(scaler, LinearMachine(chance.normal(size=len(names)), 0.25), Sigmoid(-1.5, 0.1), names)
    return replace(golden.handmade("linear"), model=model, recipe=recipe, feature_names=names)


def event(chance: random.Random) -> dict[str, Any]:
    """Return a made-up event, some of whose fields are missing, strange or out of range."""

    def missing(value: Any, share: float = 0.2) -> Any:
        return None if chance.random() < share else value

    return {
        "amount": missing(chance.choice([0.0, -3.5, 1e-9, chance.expovariate(0.01), 1e100, 1e101]), 0.02),
        "risk": missing(chance.gauss(0, 1)),
        "customer": {"age": missing(chance.choice([20, 40.5, 39, 60, 300, chance.randint(-5, 99)]))},
        "card": missing({"country": missing(chance.choice(["DE", "FR", "US", ""]))}),
        "channel": missing(chance.choice(["web", "app", 7, True, "other"]), 0.02),
        "brand": missing(chance.choice(["visa", "amex", "x"])),
        "kind": missing(chance.choice(["visa", "x"])),
        "vip": missing(chance.choice([True, False, 0, 1]), 0.02),
        "known": missing(chance.random() < 0.5),
        "sure": missing(chance.choice([True, False, 2]) if chance.random() < 0.1 else False),
    }


def inputs_of(events: list[dict[str, Any]], recipe: Recipe) -> dict[str, Any]:
    """Return events as the graph takes them."""
    texts = {feature.field for feature in recipe.of_fields if isinstance(feature, Category)}
    given: dict[str, Any] = {}
    for name in LEAVES:
        path = tuple(name.split("."))
        values = []
        for inside in events:
            value: Any = inside
            for step in path:
                value = None if value is None else value.get(step)
            values.append(value)
        if path in texts:
            spelled = {True: "true", False: "false", None: "(missing)"}
            told = [v if type(v) is str else spelled[v] if v is None or type(v) is bool else str(v) for v in values]
            given[name] = np.array(told, dtype=object)
        else:
            given[name] = np.array([np.nan if value is None else float(value) for value in values])
    return given


def run(content: bytes, given: dict[str, Any]) -> dict[str, Any]:
    """Evaluate every output of a graph, by one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, given), strict=True))


@pytest.mark.parametrize("probability", ["sigmoid", "isotonic"])
def test_ten_thousand_raw_events_score_alike(probability: str) -> None:
    """Within 1e-12 of what a decision value is summed of; what the recipe rejects is NaN."""
    recipe = recipe_from(FEATURES, {})
    version = version_of(recipe)
    if probability == "isotonic":
        knots = Isotonic(np.array([-2.0, 0.5, 3.0]), np.array([0.1, 0.4, 0.9]))
        version = replace(version, model=replace(version.model, probability=knots))
    chance = random.Random(3)
    events = [event(chance) for _ in range(EVENTS)]
    made = columns_of(recipe).of_events(events)
    ours = version.model.decision_function(made.X)
    found = run(onnx_copy.export(version, events=True), inputs_of(events, recipe))
    rejected = np.isin(np.arange(EVENTS), list(made.faults))
    assert 100 < rejected.sum() < EVENTS // 2
    np.testing.assert_array_equal(found["rejected"], rejected)
    assert np.isnan(found["decision_function"][rejected]).all()
    assert np.isnan(found["probability"][rejected]).all()
    machine, scaler = version.model.machine, version.model.scaler
    assert isinstance(machine, LinearMachine)
    summed = np.abs((made.X - scaler.mean) / scaler.scale * machine.coefficients).sum(axis=1)
    apart = np.abs(found["decision_function"] - ours)[~rejected]
    assert (apart <= 1e-12 * np.maximum(1.0, summed[~rejected])).all()
    proba = version.model.predict_proba(made.X)[:, 1]
    np.testing.assert_allclose(found["probability"][~rejected], proba[~rejected], rtol=0, atol=1e-9)
    sign = version.model.predict_sign(made.X)[~rejected] > 0
    np.testing.assert_array_equal(found["label"][~rejected], np.array(version.labels, object)[sign.astype(int)])


def test_what_onnx_cannot_evaluate_is_refused_by_name() -> None:
    """Hashes, times, numbers as text, and a field that is text here and a number there; and a version of points."""
    with pytest.raises(ConfigurationError, match=r"pulsar@42 has merchant \(hash\), ts \(time\)"):
        onnx_copy.export(version_of(payments()), events=True)
    text = recipe_from({"a": {"as": "number", "parse": "text"}}, {})
    with pytest.raises(ConfigurationError, match=r"a \(a number with parse\)"):
        onnx_copy.export(version_of(text), events=True)
    both = recipe_from({"a": "number", "b": {"as": "category", "field": "a", "values": ["1"]}}, {})
    with pytest.raises(ConfigurationError, match=r"b \(a field that is both text and number\)"):
        onnx_copy.export(version_of(both), events=True)
    with pytest.raises(ConfigurationError, match=r"the recipe of .* is not given"):
        onnx_copy.export(golden.handmade("linear"), events=True)
