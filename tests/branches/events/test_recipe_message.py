"""The recipe in a message: a part of its own, checked before anybody scores by it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from streamsvm.branches.events.event_features import features_of_either, features_of_events
from streamsvm.branches.events.features.columns import columns_of
from streamsvm.branches.events.features.examples import disagreement, examples_of
from streamsvm.branches.events.options import points_of, recipe_from
from streamsvm.config import ModelConfig, PointsConfig
from streamsvm.errors import ConfigurationError
from streamsvm.learning import naming
from streamsvm.model import InvalidFeatures, message as codec
from streamsvm.registry import Loaded
from streamsvm.verification.differences import differences
from tests.branches.events import golden
from tests.branches.events.recipes import payment, payments
from tests.branches.events.test_interop import version as of_payments
from tests.golden.model import KERNELS
from tests.ingest import test_reasons as reasons


def loaded(kernel: str = "linear") -> Loaded:
    return Loaded(version=golden.handmade_of_events(kernel), sha256="", offset=0, loaded_at=0.0)


def test_examples_are_checked_as_far_as_they_go() -> None:
    """No more than a few, and each column within a hair."""
    columns = columns_of(payments())
    given = examples_of(payments(), columns)
    assert len(given) == 4
    assert disagreement(columns, given) == ""
    for name in given[0].columns:
        nudged = {**given[0].columns, name: given[0].columns[name] + 1e-10 * max(1.0, abs(given[0].columns[name]))}
        wrong = (msgspec.structs.replace(given[0], columns=nudged), *given[1:])
        assert f"example 0: this build computes {name}" in disagreement(columns, wrong)
    stray = (msgspec.structs.replace(given[0], columns={"surplus": 1.0}), *given[1:])
    assert disagreement(columns, stray) == "example 0: the recipe has no column 'surplus'"


def test_it_fits_into_the_bound_of_a_message() -> None:
    """Recipe and examples are counted to the byte."""
    recipe = payments()
    points = PointsConfig(**points_of(recipe))
    plain, asked = ModelConfig(points=points), ModelConfig(points=points, features=recipe)
    added = len(recipe.canonical()) + len(msgspec.json.encode(examples_of(recipe, columns_of(recipe))))
    assert naming.largest_bytes(asked) >= naming.largest_bytes(plain) + added


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_loaded_version_scores_a_raw_event(kernel: str) -> None:
    """As it scores the columns that the recipe makes of it."""
    version = loaded(kernel)
    for example in examples_of(golden.RECIPE, columns_of(golden.RECIPE)):
        x = np.array([[example.columns.get(name, 0.0) for name in version.version.feature_names]])
        np.testing.assert_array_equal(version.features([example.event]), x)
        answer = version.score(example.event)
        assert answer.score == version.decision_function(x)[0]
        assert answer.label == version.predict(x)[0]
        assert answer.probability == version.predict_proba(x)[0, 1]


def frames_of(events: list[dict[str, Any]]) -> list[Any]:
    """Return events as people hold them: mappings, a frame of pandas, its records, a table of pyarrow."""
    frame = pd.DataFrame(events)
    return [events, frame, frame.to_dict("records"), pa.Table.from_pylist(events)]


@pytest.mark.parametrize("form", range(4))
def test_raw_events_are_predicted_in_every_form(form: int) -> None:
    """With missing values, which a frame writes as NaN: the answers are those of the columns."""
    version = loaded()
    events = [example.event for example in examples_of(golden.RECIPE, columns_of(golden.RECIPE))]
    events[0] = {**events[0], "mode": None}
    X = version.features(events)
    given = frames_of(events)[form]
    np.testing.assert_array_equal(version.decision_function(given), version.decision_function(X))
    np.testing.assert_array_equal(version.predict_proba(given), version.predict_proba(X))
    assert version.predict(given).tolist() == version.predict(X).tolist()
    columns = pd.DataFrame(X, columns=list(version.version.feature_names))
    for named in (columns, columns.to_dict("records")):
        np.testing.assert_array_equal(version.decision_function(named), version.decision_function(X))


@pytest.mark.parametrize("missing", [None, math.nan, np.nan, np.float64("nan"), pd.NA, pd.NaT])
def test_what_means_missing_in_a_frame_means_it_in_a_mapping(missing: Any) -> None:
    """At the top and within: `frame.to_dict("records")` is what everybody writes first."""
    columns = columns_of(recipe_from({"a": {"as": "category", "values": ["x"], "missing": "indicator"}}, {}))
    expected = columns.of_events([{"a": None}]).X
    np.testing.assert_array_equal(features_of_events(columns, [{"a": missing}]), expected)
    within = columns_of(
        recipe_from({"a": {"as": "category", "field": "b.c", "values": ["x"], "missing": "indicator"}}, {})
    )
    np.testing.assert_array_equal(features_of_events(within, [{"b": {"c": missing}}]), expected)


def test_names_that_fit_fields_and_columns_are_refused_where_it_matters() -> None:
    """A logarithm taken, or not taken, in silence would be another model."""
    same, other = (columns_of(recipe_from({"a": {"as": "number", "log1p": log}}, {})) for log in (False, True))
    frame = pd.DataFrame({"a": [1.0, 2.0], "label": ["x", "y"]})
    for given in (frame, frame.to_dict("records")):
        np.testing.assert_array_equal(features_of_either(same, given), [[1.0], [2.0]])
        with pytest.raises(InvalidFeatures, match="'a' are names of fields and of the version's columns"):
            features_of_either(other, given)


def test_reasons_name_the_fields_of_which_columns_count_together() -> None:
    """A category, a hash, a time and an indicator are one fact each; a cross is of two fields."""
    version, event = of_payments(), payment(3)
    (why,) = reasons.loaded(version).explain([event], 100)
    whole = {"amount", "risk", "customer.age", "items[0].price", "card.country", "channel", "merchant", "vip", "ts"}
    assert {one.field for one in why.fields} == whole | {"card.country x channel"}
    assert why.rest == 0.0
    (x,) = reasons.loaded(version).features([event])
    allowed = 1e-12 * reasons.summed(version, x)
    assert reasons.total(why) == pytest.approx(reasons.loaded(version).score(event).score, rel=0, abs=allowed)
    country = next(one.adds for one in why.fields if one.field == "card.country")
    columns = reasons.loaded(version).columns
    assert columns is not None
    expected = reasons.terms(version, x)[columns.places["country"]].sum()
    assert country == pytest.approx(expected, rel=1e-12)


def test_an_event_that_cannot_be_scored_says_which_field() -> None:
    """And a version that learned points says that it needs features."""
    with pytest.raises(InvalidFeatures, match=r"event 0: signal\.mean is missing\. Send the field"):
        loaded().score({"mode": "b"})
    plain = Loaded(version=golden.handmade("linear"), sha256="", offset=0, loaded_at=0.0)
    with pytest.raises(ConfigurationError, match="has no recipe, because it learned points"):
        plain.score({"x": 1})


def test_a_version_that_lost_its_recipe_differs() -> None:
    """The comparison of a recomputed version looks at every part."""
    version = golden.handmade_of_events("linear")
    whole, lost = codec.encode(version), codec.encode(replace(version, recipe=None))
    assert any("recipe" in one for one in differences(lost, whole))
    assert differences(whole, whole) == ()
