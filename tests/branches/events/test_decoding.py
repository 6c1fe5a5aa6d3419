"""Raw events in JSON as points: which are accepted, why the others are not, and that neighbours decide nothing."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from streamsvm.branches.events.features.columns import columns_of
from streamsvm.branches.events.options import points_of
from streamsvm.config import PointsConfig
from streamsvm.ingest import REASONS, Decoded, PointDecoder
from tests.branches.events.payments import SHELF, encoded, in_avro
from tests.branches.events.recipes import payment, payments
from tests.ingest.rows import AVRO, Raw, whys

RECIPE = payments()
POINTS = points_of(RECIPE)


def decoder(*, labeled: bool = True, **options: Any) -> PointDecoder:
    return PointDecoder(PointsConfig(**POINTS, **options), labeled=labeled, recipe=RECIPE)


def decoded(values: list[bytes], *, labeled: bool = True, **options: Any) -> Decoded:
    records = [Raw(value, offset=offset) for offset, value in enumerate(values)]
    return decoder(labeled=labeled, **options).decode(records)


def test_a_point_is_what_the_recipe_makes_of_the_event() -> None:
    """Columns, sign, weight; in float64 the very numbers of the recipe."""
    events = [payment(index) | {"weight": index + 1} for index in range(50)]
    found = decoded(encoded(*events), dtype="float64")
    (rows,) = found.rows
    assert rows.accepted.all()
    np.testing.assert_array_equal(rows.points.X, columns_of(RECIPE).of_events(events).X)
    assert rows.points.y.tolist() == [1 if event["is_fraud"] else -1 for event in events]
    assert rows.points.weight.tolist() == [index + 1.0 for index in range(50)]
    absent = sum(event["card"]["country"] is None for event in events)
    assert found.absences.events == 50
    assert found.absences.by_field["card.country"] == absent > 0


def test_an_array_of_events_is_as_many_rows() -> None:
    """The same points as one by one; a bad row rejects only itself."""
    events = [payment(index) for index in range(9)]
    events[4] = {**events[4], "amount": "1"}
    (together,) = decoded([json.dumps(events).encode()]).rows
    apart = decoded(encoded(*events))
    assert together.accepted.tolist() == apart.rows[0].accepted.tolist() == [index != 4 for index in range(9)]
    good = together.accepted
    assert together.points.take(good).sha256() == apart.rows[0].points.take(good).sha256()
    assert together.row.tolist() == list(range(9))


@pytest.mark.parametrize(
    ("change", "reason", "what"),
    [
        ({"is_fraud": None}, "missing_field", "is_fraud is missing"),
        ({"is_fraud": 1}, "unknown_label", "is_fraud is 1; events.label means false as negative and true as positive"),
        ({"is_fraud": "true"}, "unknown_label", "is_fraud is 'true'; events.label means"),
        ({"is_fraud": []}, "unknown_label", "is_fraud is []; events.label means"),
        ({"weight": 0}, "invalid_weight", "weight is 0.0"),
        ({"weight": "1"}, "wrong_type", "weight is '1', not a number"),
        ({"amount": None}, "missing_field", "amount is missing"),
        ({"amount": "12"}, "wrong_type", "amount is '12', not a number"),
        ({"risk": 1e60}, "not_finite", "the feature risk is 1e+60, beyond the range of points.dtype"),
        ({"card": 5}, "wrong_type", "card.country cannot be read: card is a number, not an object"),
    ],
)
def test_a_rejection_names_the_field(change: dict[str, Any], reason: str, what: str) -> None:
    """With a reason that the metric knows, whether the event comes by itself or in an array."""
    bad = payment(1) | change
    good = payment(2)
    ((_, why, told),) = whys(decoded(encoded(good, bad, good)))
    assert (why, told[: len(what)]) == (reason, what)
    assert why in REASONS
    array = decoded([json.dumps([good, bad, good]).encode()])
    assert [one[1:] for one in whys(array)] == [(why, told)]
    assert array.rejected[0].rejections[0].row == 1


def test_events_to_score_need_no_label_and_keep_their_id() -> None:
    """The id by the field that the recipe names, text or an integer."""
    events = [payment(index) for index in range(4)]
    for event in events:
        del event["is_fraud"]
    events[1]["id"], events[2]["id"], events[3]["id"] = 7, None, 1.5
    found = decoded(encoded(*events), labeled=False)
    assert found.ids == ["p0", 7, None, None]
    assert whys(found) == [(3, "wrong_type", "id is 1.5, not text or an integer of at most 63 bits")]


@pytest.mark.parametrize("labeled", [True, False])
def test_avro_records_are_the_events_that_they_would_be_in_json(labeled: bool) -> None:
    """Nested records, unions with null, enums and arrays, one event a record or many, with the same points and ids."""
    events = [{"risk": None, "weight": None, **payment(index)} for index in range(40)]
    reader = PointDecoder(PointsConfig(**POINTS), labeled=labeled, recipe=RECIPE, schemas=SHELF)
    values = [*(in_avro(1, event) for event in events[:20]), in_avro(2, events[20:])]
    found = reader.decode([Raw(value, offset, headers=AVRO) for offset, value in enumerate(values)])
    expected = decoded([*encoded(*events[:20]), json.dumps(events[20:]).encode()], labeled=labeled)
    assert not found.rejected
    assert found.rows[0].points.sha256() == expected.rows[0].points.sha256()
    assert found.ids == expected.ids
    assert found.absences == expected.absences
