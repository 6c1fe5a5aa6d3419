"""Events of a topic as they are, without a recipe: a sample to look at before one is declared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from streamsvm.branches.events.arrow_values import rows_of
from streamsvm.branches.events.avro_fields import AvroFields
from streamsvm.branches.events.envelopes import Event
from streamsvm.branches.events.event_parsing import EventParser
from streamsvm.branches.events.features.recipe import Envelope
from streamsvm.branches.events.protobuf import ProtobufReader
from streamsvm.config import PointsConfig, PointsFormat
from streamsvm.errors import InvalidPoint
from streamsvm.field_paths import Path, repeated
from streamsvm.ingest.arrow_stream import survey
from streamsvm.ingest.avro import AvroReader
from streamsvm.ingest.blaming import blaming_the_record
from streamsvm.ingest.columns import RawRecord
from streamsvm.ingest.content_types import format_of
from streamsvm.ingest.schemas import Schemas


class EventSampler:
    """Reads the events of records.

    Parameters
    ----------
    format_ : PointsFormat
        Of the records; protobuf without an envelope only.
    envelope : Envelope
    schemas : Schemas or None

    Attributes
    ----------
    unreadable : Counter
        Rows that hold no event, by the reason.
    """

    def __init__(self, format_: PointsFormat, envelope: Envelope, schemas: Schemas | None) -> None:
        self._config = PointsConfig(dimension=1, format="auto")
        self._format = format_
        self._protobuf = ProtobufReader(schemas, needed=format_ == "protobuf")
        avro = AvroReader(schemas, self._config, other=AvroFields(()))
        self._parser = EventParser(self._config, envelope, avro, self._protobuf)
        self.unreadable: Counter[str] = Counter()

    def events(self, records: Iterable[RawRecord]) -> Iterator[Event]:
        """Yield the events of records.

        Raises
        ------
        TransientError
            If a schema is unavailable now.
        """
        for record in records:
            try:
                with blaming_the_record():
                    rows = self._rows(record)
            except InvalidPoint as error:
                rows = [error]
            for row in rows:
                if isinstance(row, dict):
                    yield row
                elif isinstance(row, InvalidPoint):
                    self.unreadable[row.reason] += 1

    def _rows(self, record: RawRecord) -> list[Any]:
        format_ = format_of(record.headers) if self._format == "auto" else self._format
        if format_ == "arrow":
            return _of_arrow(record.value or b"", self._config)
        paths: Sequence[Path] = ()
        if format_ == "protobuf":
            paths = self._protobuf.paths_of(record.value or b"")
        found = self._parser.parsed(format_, record.value, paths)
        return found if isinstance(found, list) else [found]


def _of_arrow(value: bytes, config: PointsConfig) -> list[Event]:
    survey(value, config.ROWS_PER_RECORD, dictionaries=True)
    rows = pa.ipc.open_stream(pa.py_buffer(value)).read_all()
    rows.validate(full=True)
    if (twice := repeated(rows.schema.names)) is not None:
        raise InvalidPoint("malformed_arrow", f"two columns have the name {twice}")
    return rows_of(rows)
