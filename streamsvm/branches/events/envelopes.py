"""What stands around an event in its record, and is taken off before the event is read.

- `connect`: Kafka Connect's JSON converter with schemas, ``{"schema": ..., "payload": EVENT}``. What the schema says is
  a decimal becomes a number. Its other converters put the schema into a registry and nothing around the event.
- `debezium`: ``{"before": ..., "after": EVENT, "op": "c"}``, by itself or as Connect's payload. An event is the state
  after a row was read in a snapshot (`r`), created (`c`) or updated (`u`).

A deletion, a truncation, a message of a database's log and a tombstone are *passed over*: they hold no event, are no
fault of the producer, keep their place in the log and are counted, but are no dead letters.

Source: Debezium 3, "Data change events".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from streamsvm.branches.events.features.recipe import Envelope
from streamsvm.branches.events.logical_decimals import of_connect
from streamsvm.errors import InvalidPoint
from streamsvm.field_paths import Path
from streamsvm.ingest.row import excerpt

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PassedOver:
    """What holds no event and is not rejected: `reason` is one of `streamsvm.ingest.decoding.passed_over`."""

    reason: str


TOMBSTONE: Final = PassedOver("tombstone")

Opened = Event | PassedOver | InvalidPoint


def has_tombstones(envelope: Envelope) -> bool:
    """Return whether a record without a value is usual where such envelopes are."""
    return envelope in ("connect", "debezium")


def is_bare(envelope: Envelope, *, of_json: bool) -> bool:
    """Return whether a record's whole value is an event, or an array of events."""
    return envelope == "none" or (envelope == "connect" and not of_json)


def inside(envelope: Envelope, paths: Sequence[Path]) -> Sequence[Path]:
    """Return which fields of a value give the given fields of the event in its envelope."""
    if envelope == "debezium":
        return (("op",), ("after",), *(("after", *path) for path in paths))
    return paths


def opened(envelope: Envelope, row: Any) -> Opened:
    """Take an envelope off a parsed value.

    Returns
    -------
    dict, PassedOver or InvalidPoint
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


_OPENERS: Final[Mapping[Envelope, Callable[[Any], Opened]]] = {
    "connect": _connect,
    "debezium": _debezium,
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
