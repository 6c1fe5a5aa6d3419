"""Dead letters: the raw record, where it stood, and why each bad row of it was rejected; one a record.

Headers follow Kafka Streams' (KIP-1034): ``__streams.errors.{exception,message,topic,partition,offset}``. To them come
``streamsvm.deadletter.id``, the same for every copy of one letter (delivery is at least once), and
``streamsvm.deadletter.rows``, a JSON list of the bad rows. The record's own key, value and headers are kept; a value
beyond the limit is cut to a prefix, with its length and SHA-256 in headers, and an outsized key or header set is left
out, with a header that says so: a dead letter always fits into its topic.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import msgspec

from streamsvm.codec.points import RejectedRecord

Headers = tuple[tuple[str, bytes], ...]

MOST_ROWS_LISTED: Final = 100
LARGEST_VALUE_BYTES: Final = 512 * 1024
PREFIX_BYTES: Final = 64 * 1024
LARGEST_KEY_BYTES: Final = 64 * 1024
LARGEST_HEADERS_BYTES: Final = 64 * 1024
"""Together well below the broker's usual limit of a message, 1 MB."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One record of the dead-letter topic."""

    key: bytes | None
    value: bytes | None
    headers: Headers


def encode(topic: str, rejected: RejectedRecord, key: bytes | None, headers: Iterable[tuple[str, bytes]]) -> DeadLetter:
    """Encode the dead letter of one record.

    Parameters
    ----------
    topic : str
        The record's topic.
    rejected : RejectedRecord
    key, headers
        The record's own.
    """
    record, first = rejected.record, rejected.rejections[0]
    value, cut = _bounded(record.value)
    kept = tuple(headers)
    if sum(len(name) + len(content) for name, content in kept) > LARGEST_HEADERS_BYTES:
        kept, cut = (), (*cut, ("streamsvm.deadletter.headers.dropped", str(len(kept)).encode()))
    if key is not None and len(key) > LARGEST_KEY_BYTES:
        dropped = str(len(key)).encode()
        key, cut = None, (*cut, ("streamsvm.deadletter.key.bytes", dropped))
    listed = [{"row": bad.row, "reason": bad.reason, "message": bad.what} for bad in rejected.rejections]
    described = (
        ("__streams.errors.exception", first.reason),
        ("__streams.errors.message", first.what),
        ("__streams.errors.topic", topic),
        ("__streams.errors.partition", str(record.partition)),
        ("__streams.errors.offset", str(record.offset)),
        ("streamsvm.deadletter.id", f"{topic}/{record.partition}/{record.offset}"),
        ("streamsvm.deadletter.rejected", f"{len(listed)} of {rejected.rows}"),
        ("streamsvm.deadletter.rows", msgspec.json.encode(listed[:MOST_ROWS_LISTED]).decode()),
    )
    return DeadLetter(key, value, (*kept, *((name, text.encode()) for name, text in described), *cut))


def _bounded(value: bytes | None) -> tuple[bytes | None, Headers]:
    if value is None or len(value) <= LARGEST_VALUE_BYTES:
        return value, ()
    digest = hashlib.sha256(value).hexdigest()
    return value[:PREFIX_BYTES], (
        ("streamsvm.deadletter.value.bytes", str(len(value)).encode()),
        ("streamsvm.deadletter.value.sha256", digest.encode()),
    )
