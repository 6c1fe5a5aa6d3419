"""Raw events in scikit-learn's estimators: the same columns, labels and models as of a trainer."""

from __future__ import annotations

import json
import pickle
from datetime import time, timedelta
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from streamsvm import CoresetSVC, EventVectorizer
from streamsvm.branches.events.features.columns import columns_of
from streamsvm.branches.events.features.recipe import Recipe
from streamsvm.branches.events.options import recipe_from
from streamsvm.model import InvalidFeatures
from tests.branches.events.recipes import EVENTS, PAYMENTS, payment, payments
from tests.ingest.rows import Raw

pytestmark = pytest.mark.filterwarnings("ignore::streamsvm.estimators.stream.CoresetWarning")

FLAT: dict[str, Any] = {
    "amount": {"as": "number", "missing": {"constant": 1.5}},
    "channel": {"as": "category", "values": ["web", "app"], "missing": "indicator"},
    "vip": "flag",
    "ts": "time",
}


def raw(events: list[dict[str, Any]]) -> list[Raw]:
    """Return events as records of a topic."""
    return [Raw(json.dumps(event).encode(), at) for at, event in enumerate(events)]


def test_labels_may_be_given_and_may_be_any() -> None:
    """Those of the label's field give the same model; others stand for themselves, of more classes, too."""
    events = [payment(index) for index in range(600)]
    machine = CoresetSVC(features=payments()).fit(events)
    given = CoresetSVC(features=payments()).fit(events, [event["is_fraud"] for event in events])
    assert given.training_set_sha256_ == machine.training_set_sha256_
    assert given.model_config == machine.model_config
    others = CoresetSVC(features=payments()).fit(events, [event["channel"] for event in events])
    assert others.classes_.tolist() == ["app", "till", "web"]
    assert (others.predict(events) == [event["channel"] for event in events]).mean() > 0.99
    assert isinstance(others.model_config.recipe, Recipe)
    assert others.model_config.recipe.label is None


def test_the_positive_label_may_come_first_in_the_alphabet() -> None:
    """Positive stays positive, as in the version that a trainer publishes."""
    recipe = recipe_from({"amount": "number"}, {"label": {"field": "y", "negative": ["ok"], "positive": ["bad"]}})
    events = [{"amount": float(at), "y": "bad" if at > 50 else "ok"} for at in range(100)]
    machine = CoresetSVC(features=recipe).fit(events)
    assert machine.classes_.tolist() == ["ok", "bad"]
    assert machine.decision_function([{"amount": 99}])[0] > 0
    assert machine.predict([{"amount": 99}, {"amount": 1}]).tolist() == ["bad", "ok"]
    again = CoresetSVC(features=recipe).fit(events, [event["y"] for event in events])
    np.testing.assert_array_equal(again.decision_function(events), machine.decision_function(events))


@pytest.mark.parametrize("make_frame", [pd.DataFrame, pa.Table.from_pylist])
def test_data_frames_are_events(make_frame: Any) -> None:
    """Missing values included, as a list of mappings is."""
    times = pd.Timestamp("2026-03-01T12:30:00")
    events = [
        {"amount": 2.5, "channel": "web", "vip": True, "ts": times},
        {"amount": None, "channel": None, "vip": False, "ts": times},
    ]
    plain = [{**event, "ts": times.isoformat()} for event in events]
    made = EventVectorizer(FLAT)
    np.testing.assert_array_equal(made.transform(make_frame(events)), made.transform(plain))
    assert made.transform(plain)[1, 0] == 1.5


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b"web", ""),
        ("größer".encode("latin-1"), "event 0: channel cannot be read: it is bytes that are not text in UTF-8"),
        (time(12, 5), "event 0: channel "),
        (timedelta(hours=1), "event 0: channel "),
    ],
)
@pytest.mark.parametrize("make_frame", [list, pd.DataFrame, pa.Table.from_pylist])
def test_a_value_that_json_has_not_is_its_text_or_refused(make_frame: Any, value: object, said: str) -> None:
    """Bytes are the text that the same event in JSON has; by the field otherwise."""
    made, events = EventVectorizer({"channel": FLAT["channel"]}), make_frame([{"channel": value}])
    if not said:
        np.testing.assert_array_equal(made.transform(events), made.transform([{"channel": "web"}]))
        return
    with pytest.raises(InvalidFeatures, match=said):
        made.transform(events)


@pytest.mark.parametrize("names", [["amount", "amount"], ["amount", "channel", "channel"]])
@pytest.mark.parametrize(
    "make_frame",
    [lambda rows, names: pd.DataFrame(rows, columns=names), lambda rows, names: pa.table([*rows.T], names)],
    ids=["pandas", "pyarrow"],
)
def test_two_columns_of_one_name_are_refused(make_frame: Any, names: list[str]) -> None:
    """By the name, also where no feature takes it."""
    frame = make_frame(np.ones((2, len(names))), names)
    with pytest.raises(InvalidFeatures, match=f"two columns are named {names[-1]}. Rename"):
        EventVectorizer({"amount": "number"}).transform(frame)


def test_a_vectorizer_stands_before_any_estimator() -> None:
    """In a pipeline and its copies, in cross-validation, pickled, with names of columns."""
    events = [payment(index) for index in range(400)]
    y = [event["is_fraud"] for event in events]
    pipeline = make_pipeline(EventVectorizer(PAYMENTS), LogisticRegression(max_iter=5_000))
    assert cross_val_score(clone(pipeline), events, y, cv=3, scoring="roc_auc").mean() > 0.8
    fitted = pipeline.fit(events, y)
    copied = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copied.predict_proba(events), fitted.predict_proba(events))
    assert tuple(pipeline[0].get_feature_names_out()) == columns_of(payments()).names


def test_what_a_trainer_rejects_is_refused() -> None:
    """By field, when learning and when predicting; so are a recipe that changes, and no labels at all."""
    events = [payment(index) for index in range(50)]
    machine = CoresetSVC(features=payments()).fit(events)
    with pytest.raises(InvalidFeatures, match="event 1: amount is 'x', not a number"):
        machine.predict([events[0], {**events[1], "amount": "x"}])
    with pytest.raises(InvalidFeatures, match="event 50: amount is missing"):
        CoresetSVC(features=payments()).fit([*events, {}])
    with pytest.raises(InvalidFeatures, match="is_fraud is 'maybe'"):
        CoresetSVC(features=payments()).fit([*events, {**events[0], "is_fraud": "maybe"}])
    with pytest.raises(ValueError, match="y is missing"):
        CoresetSVC(features=PAYMENTS).fit(events)
    with pytest.raises(ValueError, match="changed in mid-stream: features"):
        machine.set_params(features=recipe_from(PAYMENTS, {**EVENTS, "weight": None})).partial_fit(events)
    with pytest.raises(ValueError, match="a list of mappings or a data frame, but a list of list"):
        CoresetSVC(features=payments()).fit([[1.0, 2.0]])
    with pytest.raises(ValueError, match="cannot be read"):
        CoresetSVC(features="nowhere.toml").fit(events)
