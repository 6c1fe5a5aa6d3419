"""Records of raw events as rows: parsed, and read together.

Invariant: which events are read together decides nothing. Whether an event is accepted, and as which point, depends on
its record and the recipe only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.branches.events.arrow_events import ArrowEvents
from streamsvm.branches.events.avro_fields import AvroFields
from streamsvm.branches.events.deleted_events import deleted_rows, with_markers
from streamsvm.branches.events.envelopes import Event, PassedOver
from streamsvm.branches.events.event_parsing import EventParser, Parsed, Row
from streamsvm.branches.events.event_points import EventPoints, EventReader
from streamsvm.branches.events.event_scan import EventScanner
from streamsvm.branches.events.features.fields import FieldValues, listed, taken
from streamsvm.branches.events.features.recipe import Recipe
from streamsvm.branches.events.features.values import EventFault
from streamsvm.branches.events.json_fields import FieldsDecoder
from streamsvm.branches.events.protobuf import ProtobufReader
from streamsvm.config import PointsConfig
from streamsvm.errors import InvalidPoint, StreamsvmError
from streamsvm.field_paths import Path, Unreachable, picked
from streamsvm.ingest.avro import AvroReader
from streamsvm.ingest.blaming import blaming_the_record, undecodable
from streamsvm.ingest.bounds import too_many_rows
from streamsvm.ingest.columns import RawRecord, Run
from streamsvm.ingest.decoding import Absences
from streamsvm.ingest.deletions import is_deleted
from streamsvm.ingest.row import LARGEST_FEATURE, encodable
from streamsvm.ingest.row_builder import RejectedRecord, Rejection, RowsBuilder
from streamsvm.ingest.schemas import Schemas
from streamsvm.points import Points

READ_TOGETHER: Final = 4 << 20
"""Bytes of records whose parsed events are held at once; several times as much memory."""
FEW: Final = 64
"""Of so many records a compiled reader may decline one; if it declines more, all of them are parsed."""


class EventRecords:
    """Decodes the records of a topic of raw events.

    Parameters
    ----------
    reader : EventReader
    config : PointsConfig
    parser : EventParser
        Its reader of Avro reads the fields that `reader` does, and the markers of `deleted_events`.
    ask_again : callable
        Lets the readers of schemas ask for unknown ones once more.

    Attributes
    ----------
    few : int
        See `FEW`; how many does not change the rows.
    """

    def __init__(
        self,
        reader: EventReader,
        config: PointsConfig,
        parser: EventParser,
        ask_again: Callable[[], None] = lambda: None,
    ) -> None:
        self._ask_again = ask_again
        self._config = config
        self._parser = parser
        self._reader = reader
        self.few = FEW
        self._paths = with_markers(reader.paths)
        self._scanner = EventScanner(self._paths)
        self._fields = FieldsDecoder(self._paths)
        self._passed_over: Counter[str] = Counter()

    def ask_again(self) -> None:
        """Ask for unknown schemas once more: a batch of records begins."""
        self._ask_again()

    def take_counts(self) -> tuple[Absences, Mapping[str, int]]:
        """Return, since the last call, which declared fields were absent, and the rows passed over, by reason."""
        passed, self._passed_over = self._passed_over, Counter()
        return self._reader.take_absences(), passed

    def is_array(self, format_: str, record: RawRecord) -> bool:
        """Return whether a record with a valid row is an array of rows; every Arrow record is.

        Raises
        ------
        TransientError
            If that needs a schema which is unavailable now.
        """
        return self._parser.is_array(format_, record.value or b"")

    def decode(self, format_: str, run: Run, builder: RowsBuilder) -> None:
        """Decode consecutive records of one format.

        Raises
        ------
        TransientError
            If a schema is unavailable now.
        """
        for part in _portions(run):
            if not (self._add_scanned(format_, part, builder) or self._add_together(format_, part, builder)):
                self._add_parsed(format_, part, builder)

    def _add_scanned(self, format_: str, run: Run, builder: RowsBuilder) -> bool:
        """Add records by a compiled reader where it can; False, with no effect, if it declines more than a few.

        This only saves time: what it declines is parsed.
        """
        scanned = None
        if self._parser.is_plain_json(format_):
            scanned = self._scanner.scan(run.values, run.size, self._config.max_record_bytes)
        elif format_ == "avro":
            scanned = self._parser.scan_avro(run)
        if scanned is None:
            return False
        read, slots = scanned
        declined = np.flatnonzero(~read).tolist()
        if len(declined) * self.few > len(run):
            return False
        start = row = 0
        for index in [*declined, len(run)]:
            if start < index:
                part = run.slice(start, index)
                fields = slots.slice(row, row := row + len(part)).fields(self._paths, self._reader.times)
                if not self._add_fields(part, fields, builder):
                    self._add_parsed(format_, part, builder)
            if index < len(run):
                self._add_parsed(format_, run.slice(index, index + 1), builder)
            start = index + 1
        return True

    def _add_together(self, format_: str, run: Run, builder: RowsBuilder) -> bool:
        """Add records of one JSON object each, all at once; False where one has to be looked at by itself."""
        if not self._parser.is_plain_json(format_):
            return False
        fields = self._fields.read(run.values, self._config.max_record_bytes)
        return fields is not None and self._add_fields(run, fields, builder)

    def _add_fields(self, run: Run, fields: Mapping[Path, FieldValues], builder: RowsBuilder) -> bool:
        """Add records of one event each, whose fields are given; False, with no effect, if one is at fault."""
        try:
            made, passed = self._read_fields(fields, len(run))
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001 - a record is at fault: parsing each finds out which
            return False
        _reject_singles(run, self._add_made(run, None, made, builder, passed), builder)
        return True

    def _read_fields(
        self, fields: Mapping[Path, FieldValues], rows: int
    ) -> tuple[EventPoints, NDArray[np.bool_] | None]:
        """Return points of events whose fields are given, and which of the events are passed over; None if none is."""
        passed = deleted_rows(fields, rows)
        if passed is None:
            return self._reader.read_fields(fields, rows), None
        place = np.flatnonzero(~passed)
        made = self._reader.read_fields({path: taken(field, place) for path, field in fields.items()}, len(place))
        self._passed_over["delete"] += rows - len(place)
        faults = {int(place[at]): fault for at, fault in made.faults.items()}
        return _spread(made, place, rows, faults), passed

    def _add_parsed(self, format_: str, run: Run, builder: RowsBuilder) -> None:
        """Add records after parsing each."""
        plain = self._parser.plain(format_)
        rows: list[Row] = []
        start = 0
        for index, value in enumerate(run.values):
            one: Parsed | None = plain(value) if value else None
            if one is None:
                one = self._parsed(format_, value)
            if isinstance(one, list | ArrowEvents):
                self._add_singles(run.slice(start, index), rows, builder)
                self._add_several(run.slice(index, index + 1), one, builder)
                rows, start = [], index + 1
                continue
            rows.append(one)
        self._add_singles(run.slice(start, len(run)), rows, builder)

    def fields_of(self, format_: str, record: RawRecord, paths: Sequence[Path]) -> list[list[Any]] | None:
        """Return fields of a record's rows, for each path a value of each row; None where it cannot be read.

        A field that is missing, or cannot be reached, is None.
        """
        try:
            with blaming_the_record():
                parsed = self._parser.parsed(format_, record.value, paths)
        except InvalidPoint:
            return None
        if isinstance(parsed, ArrowEvents):
            return [[_plain(value) for value in listed(field)] for field in parsed.fields().values()]
        rows = parsed if isinstance(parsed, list) else [parsed]
        events: list[Event] = [row if isinstance(row, dict) else {} for row in rows]
        return [[_plain(value) for value in picked(events, path)] for path in paths]

    def _parsed(self, format_: str, value: bytes | None) -> Parsed:
        """Return what a record holds; a rejection if it cannot be parsed."""
        try:
            return self._parser.parsed(format_, value, self._paths)
        except InvalidPoint as error:
            return error
        except (StreamsvmError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001 - of whatever kind: the bytes are the reason
            return undecodable(error)

    # -------------------------------------------------------------- reading

    def _add_singles(self, run: Run, rows: Sequence[Row], builder: RowsBuilder) -> None:
        """Add records of one row each."""
        if not rows:
            return
        _reject_singles(run, self._add(run, None, rows, builder), builder)

    def _add_several(self, run: Run, rows: list[Row] | ArrowEvents, builder: RowsBuilder) -> None:
        """Add a record of several rows."""
        count = len(rows)
        try:
            if not count:
                raise InvalidPoint("empty_record", "the array is empty")
            if count > self._config.most_rows:
                raise too_many_rows(count, self._config.most_rows)
            with blaming_the_record():
                made, passed = None, None
                if isinstance(rows, ArrowEvents):
                    made, passed = self._read_fields(rows.fields(self._reader.times), count)
        except InvalidPoint as error:
            self._add_singles(run, [error], builder)
            return
        if isinstance(rows, ArrowEvents):
            assert made is not None
            bad = self._add_made(run, count, made, builder, passed)
        else:
            bad = self._add(run, count, rows, builder)
        if bad:
            rejections = tuple(Rejection(row, fault.reason, encodable(fault.what)) for row, fault in bad)
            builder.rejected.append(RejectedRecord(run.records[0], count, rejections))

    def _add(self, run: Run, several: int | None, rows: Sequence[Row], builder: RowsBuilder) -> Faulty:
        """Add rows, and return those that are rejected, in their order."""
        rows = [_DELETE if type(row) is dict and is_deleted(row) else row for row in rows]
        events = [row for row in rows if type(row) is dict]
        made = self._read(events)
        if len(events) == len(rows):
            return self._add_made(run, several, made, builder)
        place = np.array([at for at, row in enumerate(rows) if type(row) is dict], np.intp)
        self._passed_over.update(row.reason for row in rows if isinstance(row, PassedOver))
        unread = {at: EventFault(row.reason, row.what) for at, row in enumerate(rows) if isinstance(row, InvalidPoint)}
        faults = unread | {int(place[at]): fault for at, fault in made.faults.items()}
        passed = np.array([isinstance(row, PassedOver) for row in rows], np.bool_)
        made = _spread(made, place, len(rows), faults)
        return self._add_made(run, several, made, builder, passed if passed.any() else None)

    def _add_made(
        self,
        run: Run,
        several: int | None,
        made: EventPoints,
        builder: RowsBuilder,
        passed: NDArray[np.bool_] | None = None,
    ) -> Faulty:
        """Add points, but for those that have a fault, or are passed over; return the former."""
        accepted = None
        points, ids = made.points, made.ids
        if made.faults or passed is not None:
            accepted = np.ones(len(points), np.bool_) if passed is None else ~passed
            accepted[list(made.faults)] = False
            points = _only(points, accepted)
            ids = [one if good else None for one, good in zip(ids, accepted.tolist(), strict=True)]
        builder.add(run, several, points, ids, accepted=accepted, passed_over=passed, event_ms=made.time_ms)
        return sorted(made.faults.items())

    def _read(self, events: list[Event]) -> EventPoints:
        """Read events together; where that fails unexpectedly, one by one, to find out which is at fault."""
        try:
            return self._reader.read(events)
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001 - an event is at fault: reading one by one finds out which
            return self._read_apart(events)

    def _read_apart(self, events: list[Event]) -> EventPoints:
        made, faults = self._reader.read([]), dict[int, EventFault]()
        parts: list[EventPoints] = []
        for index, event in enumerate(events):
            try:
                with blaming_the_record():
                    parts.append(self._reader.read([event]))
                faults |= {index + at: fault for at, fault in parts[-1].faults.items()}
            except InvalidPoint as error:
                faults[index] = EventFault(error.reason, error.what)
                parts.append(_spread(made, np.empty(0, np.intp), 1, {}))
        points = Points.union([made.points, *(part.points for part in parts)])
        times = None if made.time_ms is None else np.array([int(one) for part in parts for one in part.time_ms])  # type: ignore[union-attr]
        return EventPoints(points, [one for part in parts for one in part.ids], faults, times)


def events_of_records(recipe: Recipe, config: PointsConfig, *, labeled: bool, schemas: Schemas | None) -> EventRecords:
    """Return what decodes records of raw events; the parameters are those of `PointDecoder`.

    Raises
    ------
    ConfigurationError
        If a package that the records need is not installed.
    """
    reader = EventReader(recipe, config, LARGEST_FEATURE[config.dtype], labeled=labeled)
    avro = AvroReader(schemas, config, labeled=labeled, other=AvroFields(with_markers(reader.paths)))
    protobuf = ProtobufReader(schemas, needed=config.format == "protobuf")
    parser = EventParser(config, recipe.envelope, avro, protobuf)

    def ask_again() -> None:
        avro.ask_again()
        protobuf.ask_again()

    return EventRecords(reader, config, parser, ask_again)


Faulty = list[tuple[int, EventFault]]
_DELETE: Final = PassedOver("delete")


def _portions(run: Run) -> Iterator[Run]:
    """Yield parts of a run whose parsed values may be in memory together."""
    if int(run.size.sum()) <= READ_TOGETHER:
        yield run
        return
    start = size = 0
    for index, value in enumerate(run.values):
        size += len(value or b"")
        if size > READ_TOGETHER:
            yield run.slice(start, index + 1)
            start, size = index + 1, 0
    if start < len(run):
        yield run.slice(start, len(run))


def _reject_singles(run: Run, bad: Faulty, builder: RowsBuilder) -> None:
    """Reject records of one row each."""
    for index, fault in bad:
        rejection = Rejection(0, fault.reason, encodable(fault.what))
        builder.rejected.append(RejectedRecord(run.records[index], 1, (rejection,)))


def _spread(made: EventPoints, place: NDArray[np.intp], rows: int, faults: Mapping[int, EventFault]) -> EventPoints:
    """Put points to their places among so many rows; the other rows are zeros."""
    points = made.points
    X = np.zeros((rows, points.dimension), points.X.dtype)
    y, weight, ids = np.ones(rows, np.int8), np.ones(rows), [None] * rows
    X[place], y[place], weight[place] = points.X, points.y, points.weight
    spread: list[str | int | None] = list(ids)
    for at, one in zip(place.tolist(), made.ids, strict=True):
        spread[at] = one
    time_ms = None
    if made.time_ms is not None:
        time_ms = np.full(rows, -1, np.int64)
        time_ms[place] = made.time_ms
    return EventPoints(Points(X, y, weight), spread, faults, time_ms)


def _only(points: Points, accepted: NDArray[np.bool_]) -> Points:
    """Return points of which those that are not accepted are zeros, as a rejected row's are in every format."""
    X = np.where(accepted[:, np.newaxis], points.X, points.X.dtype.type(0))
    return Points(X, np.where(accepted, points.y, np.int8(1)), np.where(accepted, points.weight, 1.0))


def _plain(value: Any) -> Any:
    return None if isinstance(value, Unreachable) else value
