"""Fields of many JSON events at once: what parsing each by itself gives, or nothing."""

from __future__ import annotations

from streamsvm.branches.events.json_fields import FieldsDecoder
from streamsvm.field_paths import Path

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


def test_a_key_that_no_struct_can_have_is_left_to_dictionaries() -> None:
    """Quotes, backslashes and control characters."""
    assert FieldsDecoder((("a",), ('"',))).read([b'{"a": 1}'], MOST) is None
