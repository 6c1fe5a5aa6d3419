"""The golden records of the trunk: what stands in topics beside versions and points, and what workers hand over."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, NamedTuple

from streamsvm.coreset import Names, decode_state, encode_state
from streamsvm.ingest import RejectedRecord, Rejection, dead_letter
from streamsvm.kafka import Record
from streamsvm.model import SCHEMA_HEADER, SHA256_HEADER, TIME_HEADER, Alias, Owner, Retired, message, pointers, trail
from tests.golden import model
from tests.golden.checkpoint import handmade

ALIAS: Final = Alias(7, "ab" * 32, 12)
RETIRED: Final = Retired(9, (2, 5), (11,))
MOVED: Final = trail.CurrentMoved(
    name="m", alias="m@current", to=7, sha256="ab" * 32, by="trainer", time="2026-01-31T12:00:00+00:00"
)
PARTITION: Final = handmade().learner.partitions[0]
BUCKET: Final = PARTITION.buckets[0]
NAMES: Final = Names(2, "AAAAAAAAAAAAAAAAAAAAAQ", "ef" * 32)


class Kept(NamedTuple):
    """How a record is written, and what is read of it."""

    make: Callable[[], bytes]
    read: Callable[[bytes], object]


def whole(key: bytes, headers: Iterable[tuple[str, bytes]], value: bytes = b"") -> bytes:
    """Return a record as bytes: its key, its headers, a line each, and after an empty line its value."""
    return b"\n".join([key, *(name.encode() + b":" + content for name, content in headers)]) + b"\n\n" + value


def parted(content: bytes) -> tuple[bytes, list[tuple[str, bytes]], bytes]:
    """Return key, headers and value of such bytes."""
    head, _, value = content.partition(b"\n\n")
    key, *lines = head.split(b"\n")
    return key, [(name.decode(), text) for name, _, text in (line.partition(b":") for line in lines)], value


def version_record() -> bytes:
    """Return a version's record without the value, which is a golden message."""
    version = model.handmade("linear")
    digest = message.sha256(message.encode(version))
    own = {"streamsvm.incarnation": "2"}
    headers = message.headers(digest, datetime(2026, 1, 31, 12, tzinfo=UTC), own)
    return whole(version.key.encode(), headers)


def read_version_record(content: bytes) -> object:
    """Return what readers look at."""
    key, headers, _ = parted(content)
    named = dict(headers)
    return [key.decode(), *(named[name].decode() for name in (SHA256_HEADER, TIME_HEADER, SCHEMA_HEADER))]


def letter() -> bytes:
    """Return a dead letter of two rows of a record that had a header."""
    record = Record("points", 3, 7, b"k", b'[{"x": "?"}]', (), 1_700_000_000_000, None)
    bad = RejectedRecord(record, 2, (Rejection(0, "wrong_type", "x is '?'"), Rejection(1, "not_finite", "x[0]")))
    sent = dead_letter.encode("points", bad, b"k", (("trace", b"t"),), model="m")
    return whole(sent.key or b"", sent.headers, sent.value or b"")


def read_letter(content: bytes) -> object:
    """Return what a dead letter says, with the headers that the record had."""
    _, headers, value = parted(content)
    found = dead_letter.decode(value, headers)
    had = [[name, text.decode()] for name, text in dead_letter.own_headers(headers)]
    return [replace(found, value=None), value.decode(), found.id, had]


def receipt() -> bytes:
    """Return what says that the letter was sent again."""
    sent = dead_letter.encode_receipt(
        dead_letter.Receipt("m/points/3/7", "points", 2, "a@b", "2026-01-31T12:00:00+00:00")
    )
    return whole(sent.key or b"", sent.headers, sent.value or b"")


def read_receipt(content: bytes) -> object:
    """Return what it says."""
    _, headers, value = parted(content)
    return dead_letter.decode_receipt(value, headers)


RECORDS: Final[Mapping[str, Kept]] = {
    "alias": Kept(lambda: pointers.encode_alias(ALIAS), pointers.decode_alias),
    "head": Kept(lambda: pointers.encode_head(handmade().head), pointers.decode_head),  # type: ignore[arg-type]
    "owner": Kept(
        lambda: pointers.encode_owner(Owner("s", "2026-01-31T12:00:00+00:00")),
        pointers.decode_owner,
    ),
    "retired": Kept(lambda: pointers.encode_retired(RETIRED), pointers.decode_retired),
    "moved": Kept(lambda: trail.encode(MOVED), lambda content: pointers.decode_record(content, trail.CurrentMoved)),
    "version": Kept(version_record, read_version_record),
    "letter": Kept(letter, read_letter),
    "receipt": Kept(receipt, read_receipt),
    "bucket": Kept(lambda: encode_state(BUCKET, NAMES), decode_state),
    "partition": Kept(lambda: encode_state(replace(PARTITION, buckets=()), NAMES), decode_state),
}
