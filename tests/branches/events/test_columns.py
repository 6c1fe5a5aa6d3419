"""What each kind of feature makes of a field, against scikit-learn, the standard library and arithmetic."""

from __future__ import annotations

import hashlib
import json
import math
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder

from streamsvm.branches.events.features.columns import columns_of
from streamsvm.branches.events.features.zones import ZoneTable
from streamsvm.branches.events.options import rules_of_zone
from tests.branches.events.recipes import evaluated, payments, row


def test_a_number_is_clipped_divided_and_only_then_taken_as_its_logarithm() -> None:
    """The order counts; a negative number keeps its sign."""
    feature = {"a": {"as": "number", "clip": [-50, 200], "unit": 10, "log1p": True}}
    assert row(feature, {"a": 1000})["a"] == pytest.approx(math.log1p(20.0), rel=1e-15)
    assert row(feature, {"a": -30.0})["a"] == pytest.approx(-math.log1p(3.0), rel=1e-15)


def test_buckets_are_those_of_scikit_learn() -> None:
    """A value on a border belongs to the bucket that begins there."""
    values = [-1.0, 0.0, 0.5, 1.0, 2.5, 3.0, 99.0]
    binned = KBinsDiscretizer(n_bins=4, encode="onehot-dense", strategy="uniform")
    binned.fit(np.array([[-1.0], [3.0]]))
    borders = [0.0, 1.0, 2.0]
    binned.bin_edges_[0] = np.array([-1.0, *borders, 99.0])
    made = evaluated({"a": {"as": "number", "buckets": borders}}, *({"a": value} for value in values))
    np.testing.assert_array_equal(made.X, binned.transform(np.array(values)[:, np.newaxis]))
    assert columns_of_names({"a": {"as": "number", "buckets": [1, 2.5]}}) == ("a<1", "a[1,2.5)", "a>=2.5")


def columns_of_names(features: dict[str, Any]) -> tuple[str, ...]:
    """Return the names of columns."""
    return tuple(row(features, {"a": 0}))


def test_a_category_is_scikit_learns_one_hot_encoding_with_a_column_for_the_rest() -> None:
    """The same columns where the value is in the vocabulary; all others share one."""
    values = ["DE", "FR", "US", "DE", "ZZ"]
    encoder = OneHotEncoder(categories=[["DE", "FR", "US"]], handle_unknown="ignore", sparse_output=False)
    expected = encoder.fit_transform(np.array(values)[:, np.newaxis].astype(object)[:4])
    made = evaluated({"c": {"as": "category", "values": ["DE", "FR", "US"]}}, *({"c": value} for value in values))
    np.testing.assert_array_equal(made.X[:4, :3], expected)
    np.testing.assert_array_equal(made.X[4], [0, 0, 0, 1])


@pytest.mark.parametrize(("value", "text"), [(1, "1"), (1.0, "1"), ("1", "1"), (True, "true"), (-0.0, "0")])
def test_integers_and_truths_are_categories_by_their_text(value: object, text: str) -> None:
    """So a column of a CSV, of Parquet and a JSON number mean the same."""
    assert row({"c": {"as": "category", "values": [text]}}, {"c": value})[f"c={text}"] == 1.0


@given(st.text(), st.integers(0, 2**32 - 1), st.integers(1, 10))
def test_a_hash_is_the_documented_one(text: str, seed: int, bits: int) -> None:
    """Column and sign by SHA-256 of the seed and the text, as any language has it."""
    digest = hashlib.sha256(f"{seed}:{text}".encode()).digest()
    made = evaluated({"h": {"as": "hash", "bits": bits, "seed": seed}}, {"h": text}).X[0]
    assert np.flatnonzero(made).tolist() == [int.from_bytes(digest[:4], "big") & (2**bits - 1)]
    assert made.sum() == (-1.0 if digest[4] & 1 else 1.0)


ZONES = ("Europe/Berlin", "America/St_Johns", "Africa/Casablanca", "Australia/Lord_Howe", "Asia/Kathmandu")


@pytest.mark.parametrize("zone", ZONES)
@given(st.integers(0, 3_155_760_000 - 1))
def test_a_zones_table_gives_the_offsets_that_the_standard_library_gives(zone: str, seconds: int) -> None:
    """At every second of the hundred years that it covers."""
    expected = datetime.fromtimestamp(seconds, ZoneInfo(zone)).utcoffset()
    table = ZoneTable(rules_of_zone(zone))
    assert expected is not None
    assert table.offset_at(np.array([seconds])).tolist() == [expected.total_seconds()]


@given(st.datetimes(datetime(1971, 1, 1), datetime(2069, 1, 1)))
def test_a_time_without_an_offset_is_one_of_the_zones_clocks(local: datetime) -> None:
    """Where the clocks show it once, it is the time that the standard library means."""
    zone = ZoneInfo("Europe/Berlin")
    expected = local.replace(tzinfo=zone)
    if expected.replace(fold=0).utcoffset() != expected.replace(fold=1).utcoffset():
        return  # shown twice, or skipped
    feature = {"t": {"as": "time", "parts": ["age"], "since": "epoch", "zone": "Europe/Berlin"}}
    made = row(feature, {"t": local.isoformat(), "epoch": "1970-01-01T00:00:00Z"})
    assert made["t.age"] == pytest.approx((expected - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(days=1), abs=1e-9)


@given(st.datetimes(datetime(1971, 1, 1), datetime(2069, 1, 1), timezones=st.just(UTC)))
def test_the_parts_of_a_time_are_those_of_the_zones_clocks(time: datetime) -> None:
    """Sine and cosine of the minute of the day, the day of the week and the month, of the standard library's clocks."""
    local = time.astimezone(ZoneInfo("America/New_York"))
    made = row(
        {"t": {"as": "time", "parts": ["month", "hour", "weekday"], "zone": "America/New_York"}},
        {"t": time.isoformat()},
    )
    turns = {
        "hour": (local.hour * 60 + local.minute) / 1440,
        "weekday": local.weekday() / 7,
        "month": (local.month - 1) / 12,
    }
    for part, turn in turns.items():
        assert made[f"t.{part}.sin"] == pytest.approx(math.sin(2 * math.pi * turn), abs=1e-12)
        assert made[f"t.{part}.cos"] == pytest.approx(math.cos(2 * math.pi * turn), abs=1e-12)


@pytest.mark.parametrize("ending", ["", ".5", ".250", ".123456", "Z", ".5Z", ".250Z", ".123456Z"])
@given(times=st.lists(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)), min_size=1, max_size=5))
def test_times_that_are_written_alike_are_read_as_among_others(ending: str, times: list[datetime]) -> None:
    """A batch of one shape takes a way of its own, which gives the same."""
    feature = {"t": {"as": "time", "parts": ["hour", "age"], "since": "epoch", "zone": "Europe/Berlin"}}
    events = [{"t": f"{time.replace(microsecond=0).isoformat()}{ending}", "epoch": "1970-01-01"} for time in times]
    alike = evaluated(feature, *events)
    mixed = evaluated(feature, *events, {"t": "2026-01-31", "epoch": "1970-01-01T00:00Z"})
    assert not alike.faults
    assert not mixed.faults
    np.testing.assert_array_equal(alike.X, mixed.X[:-1])


@pytest.mark.parametrize("wrong", ["2026-02-29T00:00:00Z", "2026-13-01T00:00:00Z", "2026-01-00T00:00:00Z",
    "2026-01-01T24:00:00Z", "2026-01-01T00:60:00Z", "2026-01-01T00:00:60Z", "0000-01-01T00:00:00Z",
    "2026-01-01T00:00:0xZ", "2026/01/01T00:00:00Z", "२026-01-01T00:00:00Z"])  # fmt: skip
def test_a_wrong_time_among_times_that_are_written_alike_is_found(wrong: str) -> None:
    """And rejects only its own event."""
    made = evaluated({"t": "time"}, *({"t": text} for text in ("2024-02-29T00:00:00Z", wrong, "2024-12-31T23:59:59Z")))
    assert list(made.faults) == [1]


def test_a_counted_time_is_the_one_that_the_text_says() -> None:
    """Seconds, milliseconds and microseconds since the epoch."""
    text = row({"t": {"as": "time"}}, {"t": "2026-03-01T12:34:56.5+01:00"})
    for format_, factor in (("s", 1), ("ms", 1_000), ("us", 1_000_000)):
        counted = row({"t": {"as": "time", "format": format_}}, {"t": 1772364896.5 * factor})
        assert counted == text


@pytest.mark.parametrize("kind", ["number", "category", "hash", "flag", "time"])
@pytest.mark.parametrize("event", [{}, {"a": None}, {"a": {}}, {"a": {"b": None}}, {"a": None, "b": 1}])
def test_a_missing_field_is_what_the_recipe_says(kind: str, event: dict[str, Any]) -> None:
    """Absent or null, at any depth: rejected with the field's path, or a column of its own while the others are 0."""
    options: dict[str, Any] = {"field": "a.b", "as": kind}
    options |= {"category": {"values": ["x"]}, "hash": {"bits": 2}}.get(kind, {})
    made = evaluated({"f": options}, event)
    assert [fault.reason for fault in made.faults.values()] == ["missing_field"]
    assert made.faults[0].what == "a.b is missing"
    assert dict(made.absent) == {("a", "b"): 1}
    indicated = row({"f": {**options, "missing": "indicator"}}, event)
    assert {name: value for name, value in indicated.items() if value} == {"f=(missing)": 1.0}


def test_a_constant_stands_for_a_missing_value() -> None:
    """As if the event had it, so that it is clipped and divided as well."""
    number = {"f": {"as": "number", "unit": 2, "missing": {"constant": 5}}}
    assert row(number, {}) == row(number, {"f": 5}) == {"f": 2.5}
    category = {"f": {"as": "category", "values": ["x"], "missing": {"constant": "x"}}}
    assert row(category, {}) == row(category, {"f": "x"})
    flag = {"f": {"as": "flag", "missing": {"constant": True}}}
    assert row(flag, {}) == {"f": 1.0}


WRONG = [
    *json.loads(Path(__file__).with_name("wrong.json").read_text()),
    ("number", math.inf, "not_finite", "a.b is inf, beyond what can be learned"),
    ("number", 10**400, "not_finite", f"a.b is 1{'0' * 56}..., beyond"),
    pytest.param("number", 10**5000, "not_finite", "a.b is an integer of thousands of digits, beyond", id="digits"),
]


@pytest.mark.parametrize(("kind", "value", "reason", "what"), WRONG)
def test_a_wrong_value_rejects_its_own_event_and_says_which_field(
    kind: str, value: object, reason: str, what: str
) -> None:
    """The events beside it are evaluated as if it were not there."""
    good = {"number": 1.5, "category": "x", "hash": "x", "flag": True, "time": "2026-01-31T12:00:00Z"}[kind]
    options: dict[str, Any] = {"field": "a.b", "as": kind}
    options |= {"category": {"values": ["x"]}, "hash": {"bits": 2}}.get(kind, {})
    made = evaluated({"f": options}, {"a": {"b": good}}, {"a": {"b": value}}, {"a": {"b": good}})
    assert list(made.faults) == [1]
    assert made.faults[1].reason == reason
    assert what in made.faults[1].what
    np.testing.assert_array_equal(made.X[[0, 2]], evaluated({"f": options}, *2 * [{"a": {"b": good}}]).X)


@pytest.mark.parametrize(
    ("field", "event", "what"),
    [
        ("a.b", {"a": 5}, "a.b cannot be read: a is a number, not an object"),
        ("a.b.c", {"a": {"b": []}}, "a.b.c cannot be read: a.b is an array, not an object"),
        ("a[0]", {"a": {"0": 1}}, "a[0] cannot be read: a is an object, not an array"),
    ],
)
def test_a_place_that_cannot_exist_is_a_wrong_type(field: str, event: dict[str, Any], what: str) -> None:
    """It is not merely missing: the event has another shape, even where missing values are allowed."""
    made = evaluated({"f": {"as": "number", "field": field, "missing": "indicator"}}, event)
    assert made.faults[0].reason == "wrong_type"
    assert made.faults[0].what == what


def test_no_events_are_a_matrix_without_rows() -> None:
    """As a batch of nothing but broken records has."""
    assert columns_of(payments()).of_events([]).X.shape == (0, columns_of(payments()).dimension)
