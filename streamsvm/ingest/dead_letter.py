"""Dead letters: the raw record, where it stood, and why each bad row of it was rejected; one a record.

Headers follow Kafka Streams' (KIP-1034): ``__streams.errors.{exception,message,topic,partition,offset}``. To them come
``streamsvm.model``, the model whose trainer or scorer rejected the record; ``streamsvm.deadletter.id``, that name and
the record's coordinates, the same for every copy of one letter (delivery is at least once); and
``streamsvm.deadletter.rows``, a JSON list of the bad rows. The record's own key, value and headers are kept; a value
beyond the limit is cut to a prefix, with its length and SHA-256 in headers, and an outsized key or header set is left
out, with a header that says so: a dead letter always fits into its topic.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Final

import msgspec

from streamsvm.errors import InvalidMessage
from streamsvm.ingest.decoder import RejectedRecord
from streamsvm.places import ROWS, Row, rejected_source_of, whole_number

Headers = tuple[tuple[str, bytes], ...]

MOST_ROWS_LISTED: Final = 100
LARGEST_BYTES: Final = 1_000_000
"""A letter is never larger, whatever its topic takes."""
DESCRIPTION_BYTES: Final = 32 * 1024
"""Room for our own headers: rows are listed as long as they fit."""
HEADER_BYTES: Final = 10
"""What a header may take beside its name and content: two lengths, of at most five bytes each."""
LEAST_BYTES: Final = 2 * DESCRIPTION_BYTES
"""A topic or client that takes less cannot be written to."""
MODEL_HEADER: Final = "streamsvm.model"
RECEIPT_HEADER: Final = "streamsvm.deadletter.resent"
"""Header of a receipt, a record of the dead-letter topic that is not a letter: the id of the letter sent again."""
RESENT_HEADER: Final = "streamsvm.resent.id"
"""Of a record that was sent again: the id of its letter."""
_OURS: Final = ("__streams.errors.", "streamsvm.deadletter.")


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One record of the dead-letter topic."""

    key: bytes | None
    value: bytes | None
    headers: Headers


class RejectedRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row of the rejected record: its index, the reason, one of `REASONS`, and the particulars."""

    row: Row
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedDeadLetter:
    """What a dead letter says.

    Attributes
    ----------
    topic, partition, offset
        Where the record stood.
    rejected : str
        How many of its rows were rejected, such as ``1 of 20``.
    rows : tuple of RejectedRow
        They, at least one, as far as there was room for a list.
    value : bytes or None
        The record's value, or its beginning.
    value_bytes : int
        Length of the whole value.
    model : str
        Whose trainer or scorer rejected the record.
    """

    topic: str
    partition: int
    offset: int
    rejected: str
    rows: tuple[RejectedRow, ...]
    value: bytes | None
    value_bytes: int
    model: str

    @property
    def id(self) -> str:
        """The same for every copy of the letter."""
        return id_of(self.model, self.topic, self.partition, self.offset)


def id_of(model: str, topic: str, partition: int, offset: int) -> str:
    """Return what names a letter: two models that reject the same record write two letters."""
    return f"{model}/{topic}/{partition}/{offset}"


_Rows = Annotated[tuple[RejectedRow, ...], msgspec.Meta(min_length=1)]


def decode(value: bytes | None, headers: Iterable[tuple[str, bytes]]) -> DecodedDeadLetter:
    """Return what a record of a dead-letter topic says.

    Raises
    ------
    InvalidMessage
        If it is not a dead letter of ours.
    """
    values = dict(headers)  # ours come last, and so win over those of a record that was a dead letter before
    source = rejected_source_of(values.items())
    size = values.get("streamsvm.deadletter.value.bytes")
    value_bytes = len(value or b"") if size is None else whole_number(size)
    try:
        rejected = values["streamsvm.deadletter.rejected"].decode()
        if source is None or value_bytes is None or not _is_share(rejected):
            raise ValueError(f"of the place {source}, {rejected} rows, {value_bytes} bytes")
        return DecodedDeadLetter(
            topic=source.topic,
            partition=source.partition,
            offset=source.offset,
            rejected=rejected,
            rows=msgspec.json.decode(values["streamsvm.deadletter.rows"], type=_Rows),
            value=value,
            value_bytes=value_bytes,
            model=values[MODEL_HEADER].decode(),
        )
    except (KeyError, ValueError, msgspec.MsgspecError) as error:
        raise InvalidMessage(f"not a dead letter: {type(error).__name__} {error}") from None


def _is_share(text: str) -> bool:
    """Return whether a text says how many of some rows, such as ``1 of 20``."""
    some, _, all_ = text.partition(" of ")
    numbers = whole_number(some, ROWS), whole_number(all_, ROWS)
    return numbers[0] is not None and numbers[1] is not None and 1 <= numbers[0] <= numbers[1]


class Receipt(msgspec.Struct, frozen=True):
    """A record of the dead-letter topic that says of a letter that it was sent again, where to, by whom and when."""

    id: str
    to: str
    rows: int
    by: str
    time: str


_receipts = msgspec.json.Decoder(Receipt)


def encode_receipt(receipt: Receipt) -> DeadLetter:
    """Return the record that goes into the dead-letter topic in the transaction that sends a letter again."""
    return DeadLetter(receipt.id.encode(), msgspec.json.encode(receipt), ((RECEIPT_HEADER, receipt.id.encode()),))


def decode_receipt(value: bytes | None, headers: Iterable[tuple[str, bytes]]) -> Receipt | None:
    """Return what a record says was sent again; None if it is not a receipt."""
    receipt_id = dict(headers).get(RECEIPT_HEADER)
    try:
        receipt = None if receipt_id is None else _receipts.decode(value or b"")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return receipt if receipt is not None and receipt.id.encode() == receipt_id else None


def own_headers(headers: Iterable[tuple[str, bytes]]) -> Headers:
    """Return the headers that a record had before it was rejected."""
    return tuple((name, value) for name, value in headers if name != MODEL_HEADER and not name.startswith(_OURS))


def encode(
    topic: str,
    rejected: RejectedRecord,
    key: bytes | None,
    headers: Iterable[tuple[str, bytes]],
    most_bytes: int = LARGEST_BYTES,
    *,
    model: str,
) -> DeadLetter:
    """Encode the dead letter of one record.

    Parameters
    ----------
    topic : str
        The record's topic.
    rejected : RejectedRecord
    key, headers
        The record's own.
    most_bytes : int
        Largest letter, at least `LEAST_BYTES`. Half of the room goes to the value, an eighth to its prefix if it is
        larger, and an eighth each to the key and to the record's own headers.
    model : str
        Whose trainer or scorer rejected it.
    """
    record, first = rejected.record, rejected.rejections[0]
    room = most_bytes - DESCRIPTION_BYTES
    value, cut = _bounded(record.value, room)
    kept = tuple(headers)
    if sum(len(name.encode()) + len(content) + HEADER_BYTES for name, content in kept) > room // 8:
        kept, cut = (), (*cut, ("streamsvm.deadletter.headers.dropped", str(len(kept)).encode()))
    if key is not None and len(key) > room // 8:
        dropped = str(len(key)).encode()
        key, cut = None, (*cut, ("streamsvm.deadletter.key.bytes", dropped))
    listed = [{"row": bad.row, "reason": bad.reason, "message": bad.what} for bad in rejected.rejections]
    described = (
        ("__streams.errors.exception", first.reason),
        ("__streams.errors.message", first.what),
        ("__streams.errors.topic", topic),
        ("__streams.errors.partition", str(record.partition)),
        ("__streams.errors.offset", str(record.offset)),
        (MODEL_HEADER, model),
        ("streamsvm.deadletter.id", id_of(model, topic, record.partition, record.offset)),
        ("streamsvm.deadletter.rejected", f"{len(listed)} of {rejected.rows}"),
        ("streamsvm.deadletter.rows", _list(listed)),
    )
    return DeadLetter(key, value, (*kept, *((name, text.encode()) for name, text in described), *cut))


def _list(rows: list[dict[str, object]]) -> str:
    """Write as many rows as there is room for."""
    listed = rows[:MOST_ROWS_LISTED]
    while len(text := msgspec.json.encode(listed)) > DESCRIPTION_BYTES // 2:
        listed = listed[: len(listed) // 2]
    return text.decode()


def _bounded(value: bytes | None, room: int) -> tuple[bytes | None, Headers]:
    if value is None or len(value) <= room // 2:
        return value, ()
    digest = hashlib.sha256(value).hexdigest()
    return value[: room // 8], (
        ("streamsvm.deadletter.value.bytes", str(len(value)).encode()),
        ("streamsvm.deadletter.value.sha256", digest.encode()),
    )
