"""The compiled reader of JSON events: whatever it accepts, a full parser reads with the same values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path as File
from typing import Any

import numpy as np
from hypothesis import given, settings, strategies as st

from streamsvm.branches.events.event_scan import EventScanner
from streamsvm.branches.events.features.fields import Coded, FieldValues, Instants, listed
from streamsvm.branches.events.field_slots import MOST_DISTINCT
from streamsvm.branches.events.json_fields import FieldsDecoder
from streamsvm.field_paths import Path
from tests.examples import examples

PATHS: tuple[Path, ...] = (("a",), ("ts",), ("card", "country"), ("card", "issuer", "name"), ("card", "é"), ("amount",))
MOST = 8_000


def scanned(values: Sequence[bytes | None], paths: Sequence[Path] = PATHS, times: Sequence[Path] = ()) -> Any:
    """Return which records were read, and the fields of those."""
    size = np.array([len(value or b"") for value in values], np.int64)
    found = EventScanner(paths).scan(values, size, MOST)
    assert found is not None
    read, slots = found
    return read.tolist(), slots.fields(paths, times)


def test_few_distinct_texts_are_coded_and_many_are_listed() -> None:
    """The texts are the same in both, missing ones too."""
    for count, times in ((3, 2), (MOST_DISTINCT, 1), (MOST_DISTINCT + 1, 1), (3 * MOST_DISTINCT, 2), (1_500, 1)):
        texts = [f"value {index % count} {'x' * (index % 20)}" for index in range(count)] * times
        values = [json.dumps({"a": text}).encode() for text in texts] + [b"{}"]
        _, fields = scanned(values)
        assert isinstance(fields[("a",)], Coded) == (count <= max(MOST_DISTINCT, len(values) // 2))
        assert list(listed(fields[("a",)])) == [*texts, None]


WAYS = json.loads(File(__file__).with_name("times.json").read_text())
TIMES, NO_TIMES = WAYS["read at once"], WAYS["left as texts"]


def _instants(texts: Sequence[str | None]) -> FieldValues:
    values = [json.dumps({} if text is None else {"ts": text}).encode() for text in texts]
    read, fields = scanned(values, times=[("ts",)])
    assert all(read)
    found: FieldValues = fields[("ts",)]
    assert list(listed(found)) == list(texts)
    return found


def test_times_are_what_the_standard_library_reads() -> None:
    """In every way of writing that is read at once, with missing ones between; other ways are left as texts."""
    texts = [*TIMES, None]
    found = _instants(texts)
    assert isinstance(found, Instants)
    expected = [datetime.fromisoformat(text) for text in TIMES]
    assert found.local.tolist() == [*(one.tzinfo is None for one in expected), False]
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    for micros, one in zip(found.micros.tolist(), expected, strict=False):
        apart = (one if one.tzinfo else one.replace(tzinfo=UTC)) - epoch
        assert micros == (apart.days * 86_400 + apart.seconds) * 1_000_000 + apart.microseconds
    for wrong in NO_TIMES:
        assert not isinstance(_instants([TIMES[0], wrong]), Instants), wrong


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1)), min_size=1, max_size=5))
def test_any_time_is_what_the_standard_library_reads(times: list[datetime]) -> None:
    """Of any day of the calendar."""
    found = _instants([time.isoformat() for time in times])
    assert isinstance(found, Instants)
    assert [datetime(1970, 1, 1) + np.timedelta64(micros, "us").item() for micros in found.micros.tolist()] == times


FIELDS: tuple[Path, ...] = (
    ("a",),
    ("card", "country"),
    ("card", "issuer", "name"),
    ("card", "é"),
    ("items", 0, "price"),
    ("items", 2),
    ("mixed",),
    ("mixed", "inside"),
)
GOOD = b'{"a": 1.5, "card": {"country": "DE", "issuer": {"name": "x"}}, "items": [{"price": 2}, 3, null], "z": [{}]}'


def test_two_records_are_never_read_as_one() -> None:
    """Halves of an object, of an array, of a text, and blank records that would hide a surplus; too long ones."""
    assert FieldsDecoder(FIELDS).read([GOOD], len(GOOD)) is not None
    assert FieldsDecoder(FIELDS).read([GOOD], len(GOOD) - 1) is None
    for first, second in (
        (b'{"a": [1', b"2]}"),
        (b'{"a": 1},{"z": [1', b"2]}"),
        (b'{"a": 1', b"}"),
        (b'{"a": "x', b'y"}'),
        (b" ", b'{"a": 1}'),
    ):
        assert FieldsDecoder(FIELDS).read([first, second], MOST) is None
        assert FieldsDecoder(FIELDS).read([GOOD, first, second, GOOD], MOST) is None
