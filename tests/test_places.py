"""Numbers of headers and keys: what is returned fits into an int64, and no bytes raise."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given, strategies as st

from streamsvm.errors import InvalidMessage
from streamsvm.ingest import dead_letter
from streamsvm.model import Alias, decode_alias, encode_alias, version_number
from streamsvm.places import OFFSETS, PARTITIONS, Place, place_of, source_of, time_of, whole_number
from streamsvm.verification import incarnation_in

NOT_NUMBERS = (b"", b"-1", b"+1", b" 1", b"1_0", b"0x1", b"1.0", "\u0661".encode(), b"9" * 20, b"9" * 5_000, b"\xff")


def test_what_is_no_number_of_a_place_is_none() -> None:
    """Whatever Python's own reading makes of it; and so it is wherever such a number is read."""
    for text in NOT_NUMBERS:
        assert whole_number(text) is None
        assert whole_number(text.decode(errors="replace")) is None
        assert place_of(b"t", text, b"1") is None
        assert place_of(b"t", b"1", text) is None
        assert source_of([("streamsvm.source", b"t/" + text + b"/1")]) is None
        assert version_number(b"m@" + text, "m") is None
        assert incarnation_in({"streamsvm.incarnation": text}) is None


@given(st.binary() | st.from_regex(rb"[0-9]{1,25}(/[0-9]{1,25}){0,3}", fullmatch=True))
def test_what_is_read_is_in_its_range(text: bytes) -> None:
    """Of any bytes."""
    number = whole_number(text)
    assert number is None or 0 <= number < OFFSETS
    place = source_of([("streamsvm.source", text)])
    if place is not None:
        assert 0 <= place.partition < PARTITIONS
        assert 0 <= place.offset < OFFSETS


def test_the_ends_of_the_ranges_are_read() -> None:
    """The number after the largest offset is an int64, too; keys of the coresets topic have leading zeros."""
    assert source_of([("streamsvm.source", b"a/b/2147483647/9223372036854775806")]) == Place(
        "a/b", PARTITIONS - 1, OFFSETS - 1
    )
    assert source_of([("streamsvm.source", b"t/2147483648/1")]) is None
    assert source_of([("streamsvm.source", b"t/1/9223372036854775807")]) is None
    assert whole_number(b"00000000000000000042") == 42
    assert source_of([]) is None


def test_a_time_past_the_calendar_is_none() -> None:
    """A producer may write any time of a record."""
    assert time_of(0) == datetime(1970, 1, 1, tzinfo=UTC)
    assert time_of((1 << 63) / 1000) is time_of(9e12) is None


LETTER = {
    "__streams.errors.topic": b"t",
    "__streams.errors.partition": b"0",
    "__streams.errors.offset": b"5",
    "streamsvm.deadletter.rejected": b"1 of 2",
    "streamsvm.deadletter.rows": b'[{"row":1,"reason":"a","message":"b"}]',
    "streamsvm.model": b"m",
}
OTHERS = [
    ("__streams.errors.partition", b"99999999999999999999"),
    ("__streams.errors.offset", b"-5"),
    ("streamsvm.deadletter.rejected", b"all"),
    ("streamsvm.deadletter.rejected", b"3 of 2"),
    ("streamsvm.deadletter.rejected", b"0 of 0"),
    ("streamsvm.deadletter.value.bytes", b"1_0"),
    ("streamsvm.deadletter.rows", b'[{"row":-1,"reason":"a","message":"b"}]'),
]


def test_a_dead_letter_of_another_hand_is_none() -> None:
    """Whoever lists letters, or sends them again, computes with these numbers."""
    assert dead_letter.decode(b"x", LETTER.items()).offset == 5
    for header, content in OTHERS:
        with pytest.raises(InvalidMessage):
            dead_letter.decode(b"x", (LETTER | {header: content}).items())


def test_numbers_of_json_records_have_ranges() -> None:
    """An alias that names an offset beyond those of Kafka is none."""
    alias = Alias(7, "ab" * 32, 12)
    assert decode_alias(encode_alias(alias)) == alias
    for change in ({"offset": 1 << 63}, {"offset": -2}, {"number": 10**30}, {"number": -1}):
        with pytest.raises(InvalidMessage):
            decode_alias(msgspec.json.encode({**msgspec.to_builtins(alias), **change}))
