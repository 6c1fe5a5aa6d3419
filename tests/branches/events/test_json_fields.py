"""Fields of many JSON events at once: what parsing each by itself gives, or nothing."""

from __future__ import annotations

import json
import random

import pytest

from streamsvm.branches.events.json_fields import FieldsDecoder
from streamsvm.field_paths import Path, picked
from streamsvm.ingest import json_rows

PATHS: tuple[Path, ...] = (
    ("a",),
    ("card", "country"),
    ("card", "issuer", "name"),
    ("card", "é"),
    ("items", 0, "price"),
    ("items", 2),
    ("mixed",),
    ("mixed", "inside"),
)
MOST = 10_000
GOOD = b'{"a": 1.5, "card": {"country": "DE", "issuer": {"name": "x"}}, "items": [{"price": 2}, 3, null], "z": [{}]}'
READ = (
    b"{}",
    b'{"a": null, "card": null, "items": [], "mixed": {"inside": [1]}}',
    b'{"a": 1, "a": 2, "card": {"country": "DE"}, "card": {}}',
    b'{"\\u0061": 123456789012345678901234567890, "card": {"\\u00e9": "\\ud83d\\ude00"}}',
    b' \t{"mixed": 5, "items": {"0": 1}} \r',
    '{"a": "\u00e9\u4e2d", "other": "\u00e9"}'.encode(),
    b'{"a": {"deep": [[[1]]]}, "card": {"country": {"x": 1}, "issuer": {}}}',
    b'{"a": -0.0, "other": 1e999}',
)
LEFT = (
    b"",
    None,
    b"5",
    b"[]",
    b"null",
    b'{"a": 1',
    b'{"a": 1} {"a": 2}',
    b'{"a": 1}\n{"a": 2}',
    b'{"a":\n1}',
    b'{"a": 1, "card": 5}',
    b'{"a": 1, "card": {"issuer": []}}',
    b'{"a": 1e999}',
    b'{"z": "\xff"}',
    b'{"\xff": 1}',
    b'{"z": "\\ud800"}',
    b'{"z": NaN}',
    b'{"z": 01}',
    b"\xef\xbb\xbf{}",
    b'{"z": ' + b"[" * 100 + b"]" * 100 + b"}",
    b'{"z": "' + b"x" * MOST + b'"}',
)


def alone(values: list[bytes]) -> dict[Path, list[object]]:
    """Return the fields of events that are parsed one by one."""
    events = [json_rows.object_of(value) or json.loads(value) for value in values]
    return {path: picked(events, path) for path in PATHS}


def shown(read: dict[Path, list[object]] | None) -> str:
    """Write fields so that -0.0, and what stands for an unreachable one, are told apart."""
    assert read is not None
    return repr({path: [getattr(value, "why", value) for value in read[path]] for path in PATHS})


@pytest.mark.parametrize("value", READ)
def test_an_event_is_read_as_by_itself(value: bytes) -> None:
    """First, last, among others, and alone."""
    decoder = FieldsDecoder(PATHS)
    for values in ([value], [value, GOOD], [GOOD, value], [GOOD, value, GOOD]):
        assert shown(decoder.read(values, MOST)) == shown(alone(values))


@pytest.mark.parametrize("value", LEFT)
def test_a_strange_record_is_left_to_be_looked_at(value: bytes | None) -> None:
    """Wherever it stands."""
    decoder = FieldsDecoder(PATHS)
    for values in ([value], [value, GOOD], [GOOD, value], [GOOD, value, GOOD]):
        assert decoder.read(values, MOST) is None


def test_two_records_are_never_read_as_one() -> None:
    """Halves of an object, of an array, of a text, and blank records that would hide a surplus."""
    for first, second in (
        (b'{"a": [1', b"2]}"),
        (b'{"a": 1},{"z": [1', b"2]}"),
        (b'{"a": 1', b"}"),
        (b'{"a": "x', b'y"}'),
        (b" ", b'{"a": 1}'),
    ):
        assert FieldsDecoder(PATHS).read([first, second], MOST) is None
        assert FieldsDecoder(PATHS).read([GOOD, first, second, GOOD], MOST) is None


def test_damaged_events_are_read_as_by_themselves_or_not_at_all() -> None:
    """Of 4,000 batches of three, with bytes changed, taken out or put in."""
    chance = random.Random(11)
    decoder, read = FieldsDecoder(PATHS), 0
    for _ in range(4_000):
        values = []
        for value in chance.choices([GOOD, *READ], k=3):
            changed = bytearray(value)
            for _ in range(chance.randint(0, 1)):
                at = chance.randrange(len(changed) + 1)
                changed[at : at + chance.randint(0, 2)] = chance.choice(
                    [b"", b'"', b"\\", b"\n", b"{", b"}", b"[", b",", b"0", b"\xc3", b"\x00", b"\\u", b":1"]
                )
            values.append(bytes(changed))
        found = decoder.read(values, MOST)
        if found is not None:
            assert shown(found) == shown(alone(values)), values
            read += 1
    assert read > 400


def test_a_key_that_no_struct_can_have_is_left_to_dictionaries() -> None:
    """Quotes, backslashes and control characters."""
    assert FieldsDecoder((("a",), ('"',))).read([b'{"a": 1}'], MOST) is None
