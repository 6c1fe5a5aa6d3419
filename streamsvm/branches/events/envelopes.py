"""What stands around an event in its record, and is taken off before the event is read.

- `connect`: Kafka Connect's JSON converter with schemas, ``{"schema": ..., "payload": EVENT}``. What the schema says is
  a decimal becomes a number. Its other converters put the schema into a registry and nothing around the event.
- `debezium`: ``{"before": ..., "after": EVENT, "op": "c"}``, by itself or as Connect's payload. An event is the state
  after a row was read in a snapshot (`r`), created (`c`) or updated (`u`).
- `cloudevents`: structured, ``{"specversion": "1.0", ..., "data": EVENT}``, or binary, with attributes as headers and
  the event as the value. The record's content type says which, if it is one of CloudEvents (some brokers add attributes
  as headers to structured ones, too), and else the header `ce_specversion`.

A deletion, a truncation, a message of a database's log and a tombstone are *passed over*: they hold no event, are no
fault of the producer, keep their place in the log and are counted, but are no dead letters.

Sources: Debezium 3, "Data change events"; CloudEvents 1.0.2, JSON format and Kafka protocol binding.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from streamsvm.branches.events.features.recipe import Envelope
from streamsvm.branches.events.logical_decimals import of_connect
from streamsvm.errors import InvalidPoint
from streamsvm.field_paths import Path
from streamsvm.ingest.content_types import CONTENT_TYPE_HEADER
from streamsvm.ingest.row import excerpt

Headers = Sequence[tuple[str, bytes]]
Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PassedOver:
    """What holds no event and is not rejected: `reason` is one of `streamsvm.ingest.decoding.passed_over`."""

    reason: str


@dataclass(frozen=True, slots=True)
class Packed:
    """An event's bytes inside of an envelope, with their media type."""

    value: bytes
    media_type: str


TOMBSTONE: Final = PassedOver("tombstone")

Opened = Event | Packed | PassedOver | InvalidPoint


def has_tombstones(envelope: Envelope) -> bool:
    """Return whether a record without a value is usual where such envelopes are."""
    return envelope in ("connect", "debezium")


def is_bare(envelope: Envelope, headers: Headers, *, of_json: bool) -> bool:
    """Return whether a record's whole value is an event, or an array of events."""
    if envelope == "connect":
        return not of_json
    return envelope == "none" or (envelope == "cloudevents" and _is_binary(headers))


def _is_binary(headers: Headers) -> bool:
    """Return whether a CloudEvent's attributes are the record's headers, as the Kafka binding says in its section 3."""
    of_names = {name.lower(): content for name, content in headers}
    content_type = (of_names.get(CONTENT_TYPE_HEADER) or b"").strip().lower()
    return "ce_specversion" in of_names and not content_type.startswith(b"application/cloudevents")


def inside(envelope: Envelope, paths: Sequence[Path]) -> Sequence[Path]:
    """Return which fields of a value give the given fields of the event in its envelope."""
    if envelope == "debezium":
        return (("op",), ("after",), *(("after", *path) for path in paths))
    return paths


def opened(envelope: Envelope, row: Any) -> Opened:
    """Take an envelope off a parsed value.

    Returns
    -------
    dict, Packed, PassedOver or InvalidPoint
        The last where there is no such envelope.
    """
    return _OPENERS[envelope](row)


def _connect(row: Any) -> Opened:
    if row is None:
        return TOMBSTONE
    if not _is_of_connect(row):
        return _wrong("connect", "is not an object of schema and payload", row)
    payload = _payload(row)
    return TOMBSTONE if payload is None else _an_event("payload", payload)


def _debezium(row: Any) -> Opened:
    if _is_of_connect(row):
        row = _payload(row)
    if row is None:
        return TOMBSTONE
    if not isinstance(row, dict) or not isinstance(row.get("op"), str):
        return _wrong("debezium", "is not an object with op", row)
    op = row["op"]
    if op in _NO_STATE:
        return PassedOver(_NO_STATE[op])
    if op not in ("c", "r", "u"):
        return _wrong("debezium", f"has the unknown operation {excerpt(repr(op))}", row)
    if row.get("after") is None:
        return _wrong("debezium", f"has the operation {op} and nothing in after", row)
    return _an_event("after", row["after"])


_NO_STATE: Final = {"d": "delete", "t": "truncate", "m": "message"}


def _cloud_event(row: Any) -> Opened:
    if not isinstance(row, dict) or not str(row.get("specversion", "")).startswith("1."):
        return _wrong("cloudevents", "is not an object with specversion 1, and there is no header ce_specversion", row)
    media_type = row.get("datacontenttype") or "application/json"
    if not isinstance(media_type, str):
        return _wrong("cloudevents", "has a datacontenttype that is not text", row)
    packed = row.get("data_base64")
    if packed is None:
        if not is_json(media_type):
            return InvalidPoint(
                "unknown_content_type", f"datacontenttype is {excerpt(media_type)}, and data is not bytes"
            )
        if row.get("data") is None:
            return InvalidPoint("empty_record", "the CloudEvent has no data")
        return _an_event("data", row["data"])
    try:
        return Packed(base64.b64decode(packed, validate=True), media_type)
    except (binascii.Error, TypeError, ValueError):
        return InvalidPoint("wrong_envelope", "data_base64 is not base64")


def is_json(media_type: str) -> bool:
    """Return whether a media type is JSON's."""
    bare = media_type.partition(";")[0].strip().lower()
    return bare in ("application/json", "text/json") or bare.endswith("+json")


_OPENERS: Final[Mapping[Envelope, Callable[[Any], Opened]]] = {
    "connect": _connect,
    "debezium": _debezium,
    "cloudevents": _cloud_event,
}


def _is_of_connect(row: Any) -> bool:
    return isinstance(row, dict) and row.keys() == {"schema", "payload"}


def _payload(row: dict[str, Any]) -> Any:
    """Return what Connect's envelope holds, its decimals as numbers."""
    convert = of_connect(row["schema"])
    return row["payload"] if convert is None else convert(row["payload"])


def _an_event(name: str, inner: Any) -> Event | InvalidPoint:
    if isinstance(inner, dict):
        return inner
    return InvalidPoint("wrong_type", f"{name} is {_shown(inner)}, not an object")


def _wrong(envelope: str, what: str, row: Any) -> InvalidPoint:
    return InvalidPoint("wrong_envelope", f"the value does not have the envelope {envelope}: {_shown(row)} {what}")


def _shown(value: Any) -> str:
    try:
        return excerpt(json.dumps(value, default=repr))
    except (ValueError, RecursionError):
        return excerpt(repr(type(value).__name__))
