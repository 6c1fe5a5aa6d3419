"""From the bytes of a record to the events in it: its format, then its envelope."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.branches.events.arrow_events import ArrowEvents
from streamsvm.branches.events.envelopes import TOMBSTONE, Event, PassedOver, has_tombstones, inside, is_bare, opened
from streamsvm.branches.events.features.recipe import Envelope
from streamsvm.branches.events.field_slots import FieldSlots
from streamsvm.branches.events.protobuf import ProtobufReader
from streamsvm.config import PointsConfig
from streamsvm.errors import InvalidPoint
from streamsvm.field_paths import Path
from streamsvm.ingest import json_rows
from streamsvm.ingest.avro import AvroReader
from streamsvm.ingest.bounds import refuse_size
from streamsvm.ingest.columns import Run
from streamsvm.ingest.framed import BY_HEADER, named_by_header, unframed

Row = Event | PassedOver | InvalidPoint
Parsed = Row | list[Row] | ArrowEvents
"""What a record holds: one row, an array of them, or columns."""

_OF_JSON: Final = ("json", "json-schema")


class EventParser:
    """Parses records of every format.

    Parameters
    ----------
    config : PointsConfig
        Its limits.
    envelope : Envelope
        What is around an event.
    avro : AvroReader
    protobuf : ProtobufReader
    """

    def __init__(self, config: PointsConfig, envelope: Envelope, avro: AvroReader, protobuf: ProtobufReader) -> None:
        self._config = config
        self.envelope = envelope
        self._avro = avro
        self._protobuf = protobuf

    def is_array(self, format_: str, value: bytes) -> bool:
        """Return whether a value with a valid row is an array of rows; every Arrow record is.

        Raises
        ------
        TransientError
            If that needs a schema which is unavailable now.
        """
        if format_ == "avro":
            return self._avro.is_array(value)
        if format_ == "json-schema":
            value = unframed(value)
        return format_ == "arrow" or (format_ in _OF_JSON and json_rows.is_array(value))

    def plain(self, format_: str) -> Callable[[bytes], Event | None]:
        """Return what reads a value that is one event and nothing else, as most are; None of any other value.

        This only saves time: what it returns is what `parsed` does.
        """
        if self.is_plain_json(format_):
            return self._plain_json
        if format_ == "avro" and self.envelope in ("none", "connect"):
            return self._avro.one_of
        return _nothing

    def scan_avro(self, run: Run) -> tuple[NDArray[np.bool_], FieldSlots] | None:
        """Return of which records the compiled reader of Avro read the fields, and these; None if it can read none.

        Raises
        ------
        TransientError
            If a schema is unavailable now.
        """
        bare = self.envelope in ("none", "connect")
        scanned = self._avro.scan_slots(run.values, run.size) if bare else None
        if scanned is None:
            return None
        read, found = scanned
        return read, FieldSlots(found.kind, found.value, found.length, found.buffer)

    def is_plain_json(self, format_: str) -> bool:
        """Return whether a record is JSON with nothing around an event."""
        return format_ == "json" and self.envelope == "none"

    def _plain_json(self, value: bytes) -> Event | None:
        return json_rows.object_of(value) if len(value) <= self._config.max_record_bytes else None

    def parsed(self, format_: str, value: bytes | None, paths: Sequence[Path]) -> Parsed:
        """Return what a record holds, out of its envelope.

        Parameters
        ----------
        format_ : str
        value : bytes or None
        paths : sequence of Path
            Fields of an event that are read; an event need not have others.

        Raises
        ------
        InvalidPoint
            If it cannot be parsed.
        TransientError
            If a schema is unavailable now.
        """
        if value is None and has_tombstones(self.envelope):
            return TOMBSTONE
        bare = is_bare(self.envelope, of_json=format_ in _OF_JSON)
        whole = refuse_size(value, self._config)
        found = self._of_format(format_, whole, paths if bare else inside(self.envelope, paths))
        if bare:
            return _events(found)
        if isinstance(found, ArrowEvents):
            raise InvalidPoint("wrong_envelope", f"the value is Arrow, which has no envelope {self.envelope}")
        if isinstance(found, list):
            return [row if isinstance(row, InvalidPoint) else opened(self.envelope, row) for row in found]
        return found if isinstance(found, InvalidPoint) else opened(self.envelope, found)

    def _of_format(self, format_: str, value: bytes, paths: Sequence[Path]) -> Any:
        """Return the parsed value, a list where it is an array of rows, or an Arrow record's columns."""
        rows = self._config.most_rows
        if format_ in _OF_JSON:
            return json_rows.values_of(value if format_ == "json" else unframed(value), rows)
        if format_ == "avro":
            return self._avro.datum_of(value, rows)
        if format_ == "protobuf":
            return self._protobuf.event_of(value, paths)
        if format_ == "arrow":
            return ArrowEvents(value, paths, self._config)
        if format_ == BY_HEADER:
            raise named_by_header()
        raise InvalidPoint("unknown_content_type", "the content type names an unsupported format")


def _nothing(_: bytes) -> None:
    return None


def _events(found: Any) -> Parsed:
    """Return what was found as events; what is not an object is none."""
    if isinstance(found, ArrowEvents):
        return found
    if isinstance(found, list):
        return [json_rows.object_or_fault(row) for row in found]
    return json_rows.object_or_fault(found)
