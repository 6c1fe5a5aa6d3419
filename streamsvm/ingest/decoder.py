"""Decodes records into rows: the format of a record, which of its rows are valid points, and why the others are not.

`PointDecoder.decode` takes a batch of records and returns the rows of each partition, the rejected records with their
reasons, and some counts. The trainer's intake, the scorer and `verify` call it with the same configuration, and must
get the same rows.

The format of points is JSON (`streamsvm.ingest.json_rows`), Arrow (`arrow`) or Avro (`avro`), given by the record's
content type or by `points.format`. The checks of a point (type, dimension, finite, label, weight) are in this module,
once for all formats. Records that are not points are decoded by what is plugged in (`decoding`).

There is a fast way and a careful way. Compiled scanners (`json_scan`, `avro_scan`) read a whole run of records, and
decline what they do not understand completely. Everything else is decoded record by record, by general parsers, and
only these reject. So the two ways cannot disagree on whether a row is valid.

Invariant: whether a row is accepted depends on its record's bytes and the configuration only; for Avro also on the
schema with the record's schema id, which never changes. A bad row rejects only that row; a record that cannot be parsed
counts as one rejected row. Every exception that a record's bytes cause in a decoder rejects the record, expected or
not, so no record can end a daemon. Two errors are not caused by a record's bytes and are raised: an unreachable
registry, and a lack of memory.

To read: `REASONS`, `PointDecoder.decode`, `_decode_run`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.config import PointsConfig
from streamsvm.errors import InvalidPoint
from streamsvm.ingest import avro_scan, json_rows, json_scan
from streamsvm.ingest.arrow import ArrowRows, Columns
from streamsvm.ingest.avro import AvroReader
from streamsvm.ingest.blaming import blaming_the_record
from streamsvm.ingest.bounds import refuse_size, too_many_rows
from streamsvm.ingest.columns import RawRecord, Run, in_order, stretches
from streamsvm.ingest.content_types import CONTENT_TYPE_HEADER, format_of
from streamsvm.ingest.decoding import DELETE, NO_ABSENCES, Absences, Field, RecordDecoder, decoding_of, rejected
from streamsvm.ingest.framed import BY_HEADER, FRAMED_FORMATS, SCHEMA_HEADER, named_by_header
from streamsvm.ingest.json_rows import CONTENT_TYPE, DEEPEST_NESTING, encode, has_far_exponent, nesting
from streamsvm.ingest.label_codes import LabelCodes
from streamsvm.ingest.row import LARGEST_FEATURE, LARGEST_WEIGHT, SMALLEST_WEIGHT, Point, encodable, excerpt
from streamsvm.ingest.row_builder import RejectedRecord, Rejection, RowsBuilder
from streamsvm.ingest.schemas import Schemas
from streamsvm.ingest.unread_fields import Unread, UnreadFields
from streamsvm.points import Points, Rows

__all__ = [
    "CONTENT_TYPE",
    "CONTENT_TYPE_HEADER",
    "DEEPEST_NESTING",
    "LARGEST_FEATURE",
    "LARGEST_WEIGHT",
    "REASONS",
    "REMEDIES",
    "SMALLEST_WEIGHT",
    "Decoded",
    "PointDecoder",
    "RawRecord",
    "RejectedRecord",
    "Rejection",
    "encode",
]

_PLUGGED: Final = rejected()
REASONS: Final[Mapping[str, str]] = {
    "empty_record": "the record has no value, or holds no row",
    "oversize_record": "the value is larger than points.max_record_bytes",
    "too_many_rows": f"the record holds more than {PointsConfig.ROWS_PER_RECORD:,} rows, or than 4 * "
    "points.max_record_bytes / points.dimension",
    "unknown_content_type": "the content-type header names an unsupported format",
    "malformed_json": "the value is not JSON (UTF-8 without a byte order mark), or nests deeper than 100",
    "malformed_arrow": "the value is not one Arrow IPC stream (format version 5) of record batches, uncompressed and, "
    "but for raw events, without dictionaries",
    "malformed_avro": "the value is not one datum of its schema",
    "malformed_protobuf": "the value is not a message of its schema, or its message indexes cannot be read",
    "unframed": "Avro, Protobuf or JSON Schema is expected, but the value does not begin with a zero byte and the id "
    "of its schema",
    "framed": "JSON is expected, but the value begins with a zero byte and a schema id",
    "unknown_schema": "the schema registry has no schema with the value's id, or no registry is configured",
    "incompatible_schema": "the value's schema does not describe points, or could not be read safely",
    "wrong_type": "a field, or the row itself, has the wrong type",
    "missing_field": "x or y is missing, or a field that [features] or [events] declares",
    "wrong_dimension": "x does not have points.dimension entries",
    "not_finite": "an entry of x is NaN, infinite, or beyond the range of points.dtype",
    "unknown_label": "y is not one of points.labels, or not a value of events.label",
    "invalid_weight": "w is not a number in [1e-15, 1e15]",
    "missing_key": "the row, or the label, has no key by which labels are joined",
    "doubled_key": "another row within labels.horizon has the same key; the first one counts",
    "absent_label": "no label came within labels.horizon, and labels.absent is dead_letter",
    "changed_label": "the row of this label has another label already; the first one counts",
    "unmatched_label": "no row with the label's key was within labels.horizon before it, or a minute after it",
    "unsupported_operation": "the row has an op field, and only plain points are supported",
    "undecodable": "the decoder failed on the record unexpectedly: a defect of streamsvm",
    **{name: reason.meaning for name, reason in _PLUGGED.items()},
}
"""Every reason for rejecting a row, with its meaning: the labels of the dead-letter metric."""

REMEDIES: Final[Mapping[str, str]] = {
    "empty_record": "Change the producer: it must not send tombstones or empty arrays.",
    "oversize_record": "Send smaller records, or raise points.max_record_bytes.",
    "too_many_rows": "Send fewer rows in a record.",
    "unknown_content_type": "Let the producer send a supported content-type, or no content-type for JSON, or set "
    "points.format.",
    "malformed_json": "Fix the producer. If it does not write JSON, set points.format.",
    "malformed_arrow": "Fix the producer: it must write an Arrow IPC stream (not an IPC file), uncompressed and, but "
    "for raw events, without dictionaries.",
    "malformed_avro": "Fix the producer: it must write each value by the schema that it names. If the records are not "
    "Avro, set points.format.",
    "malformed_protobuf": "Fix the producer: it must write through the registry, as Confluent's serializers do. If the "
    "records are not Protobuf, set points.format.",
    "unframed": "Set points.format to what the records are, json for plain JSON; or let the producer write through the "
    "schema registry. Its serializer must write the schema's id in front of the value, as it does by default, and not "
    "into a header.",
    "framed": "The producer writes through a schema registry: set points.format to json-schema (raw events), avro or "
    "protobuf. Records of a labels topic must be plain JSON.",
    "unknown_schema": "Check that registry.url names the registry that the producer uses, and that the schema still "
    "exists there.",
    "incompatible_schema": "Compare the schema with the one that `streamsvm replay --record-format avro` registers.",
    "wrong_type": "x must be a list of numbers; null is not allowed. Fill in missing values before producing. With "
    "[features], compare the field with the feature's kind.",
    "missing_field": "Every labeled point needs x and y. Send points without y to the scorer's topic. With [features], "
    "set the feature's option missing, or correct its field.",
    "wrong_dimension": "Set points.dimension to the length of x in the records, or fix the producer.",
    "not_finite": "Fill in missing values, or drop the row, before producing.",
    "unknown_label": "Set points.labels, or events.label, to all labels, of two the negative one first, as the records "
    "write them.",
    "invalid_weight": "Fix the producer: w must be a positive number. A point without w has weight 1.",
    "missing_key": "Fix the producer: with labels.key = id rows and labels need an `id`, with record their records "
    "need a key.",
    "doubled_key": "Give each row a key of its own. A producer that sends again after a failure needs "
    "enable.idempotence.",
    "absent_label": "Raise labels.horizon if labels come later than that, or set labels.absent.",
    "changed_label": "Send a label once it is final: a row is learned under its first label. `streamsvm history "
    "forget` erases a row that was learned under a wrong one.",
    "unmatched_label": "Raise labels.horizon if the label came after it, or send a label at most a minute before its "
    "row. Check that both topics are partitioned by the same key.",
    "unsupported_operation": "Send plain points. `streamsvm history forget` erases rows that were learned.",
    "undecodable": "Report the defect together with the record, which the dead letter holds, and find out who wrote "
    "it.",
    **{name: reason.remedy for name, reason in _PLUGGED.items()},
}
"""What to do about each reason."""

NOTHING_UNREAD: Final = Unread({})


@dataclass(frozen=True, slots=True)
class Decoded:
    """The result of decoding a batch of records.

    Attributes
    ----------
    rows : list of Rows
        One for each partition in the batch, in ascending order of partition.
    rejected : list of RejectedRecord
    ids : list of (str, int or None)
        The `id` of each row, partition after partition; for unlabeled points only.
    unread : Unread
        Fields of the records that are not read.
    absences : Absences
        Declared fields that records did not have; none without a recipe.
    passed_over : mapping of str to int
        Rows that hold nothing and are not rejected, such as deletions, by a reason of
        `streamsvm.ingest.decoding.passed_over`; they are not accepted either.
    """

    rows: list[Rows]
    rejected: list[RejectedRecord]
    ids: list[str | int | None]
    unread: Unread = NOTHING_UNREAD
    absences: Absences = NO_ABSENCES
    passed_over: Mapping[str, int] = field(default_factory=dict)


def warm_up(config: PointsConfig, *, labeled: bool, registry: bool, recipe: object | None = None) -> None:
    """Compile, or load from numba's file cache, what a decoder of this configuration runs.

    Parameters
    ----------
    config : PointsConfig
    labeled : bool
        Whether a row must have `y`; the compiled parser of JSON reads such rows only.
    registry : bool
        Whether there is a source of Avro's schemas.
    recipe : object, optional
        What records become, if they are not points.
    """
    if recipe is not None:
        decoding_of(recipe).warm_up(config)
    elif labeled and config.format in ("auto", "json"):
        json_scan.warm_up(config.numpy_dtype)
    if registry and config.format in ("auto", "avro"):
        avro_scan.warm_up()


class PointDecoder:
    """Turns records into rows.

    Parameters
    ----------
    config : PointsConfig
    labeled : bool
        Whether a row must have `y`.
    schemas : Schemas, optional
        Source of schemas; without it every schema is unknown.
    recipe : object, optional
        What records become, if they are not points.
    name : str
        Of the model under which `Rows.id_hash` has ids; empty: it has none.

    Raises
    ------
    ConfigurationError
        If a package that the records need is not installed.
    """

    def __init__(
        self,
        config: PointsConfig,
        *,
        labeled: bool = True,
        schemas: Schemas | None = None,
        recipe: object | None = None,
        name: str = "",
    ) -> None:
        self._config, self._schemas, self._recipe, self._name = config, schemas, recipe, name
        self._labeled = labeled
        self._avro = AvroReader(schemas, config, labeled=labeled)
        self._unread = UnreadFields()
        self._deleted = 0
        self._other: RecordDecoder | None = None
        if recipe is not None:
            plugged = decoding_of(recipe)
            self._other = plugged.decoder(recipe, config, labeled=labeled, schemas=schemas)
        self._codes = LabelCodes(config.labels)

    def in_float64(self) -> PointDecoder:
        """Return a decoder that reads the same features, unlabeled, and does not round them; it compiles nothing."""
        exact = self._config.model_copy(update={"dtype": "float64"})
        return PointDecoder(exact, labeled=False, schemas=self._schemas, recipe=self._recipe)

    def decode(self, records: Sequence[RawRecord]) -> Decoded:
        """Decode a batch; records of one partition must be in the order of their offsets.

        Raises
        ------
        TransientError
            If a schema is unavailable now: no record of the batch was decided; decode the batch again later.
        ConfigurationError
            If the schema registry refuses this client.
        """
        # Counts of a batch that failed, and is now decoded again, are dropped: its rows would be counted twice.
        self._take_counts()
        self._avro.ask_again()
        if self._other is not None:
            self._other.ask_again()
        builder = RowsBuilder(self._config, keeps_ids=not self._labeled, name=self._name)
        if len(records):
            self._decode_all(in_order(records), builder)
        decoded = Decoded(builder.rows(), builder.rejected, builder.ids if not self._labeled else [])
        unread, absences, passed_over = self._take_counts()
        return replace(decoded, unread=unread, absences=absences, passed_over=passed_over)

    def _decode_all(self, run: Run, builder: RowsBuilder) -> None:
        """Decode the records of all partitions at once, as far as they are of one format."""
        if run.plain and self._config.format in ("auto", "json"):
            self._decode_run("json", run, builder)
            return
        start = 0
        # A batch makes its record objects on demand; a list makes each of them once, for several looks at its headers.
        run = replace(run, records=list(run.records))
        for format_, same in groupby(run.records, key=self._format_of):
            stop = start + sum(1 for _ in same)
            self._decode_run(format_, run.slice(start, stop), builder)
            start = stop

    def _take_counts(self) -> tuple[Unread, Absences, Mapping[str, int]]:
        if self._other is None:
            deleted, self._deleted = self._deleted, 0
            return self._unread.take(), NO_ABSENCES, {DELETE: deleted} if deleted else {}
        return self._unread.take(), *self._other.take_counts()

    def is_array(self, record: RawRecord) -> bool:
        """Return whether a record with a valid row is an array of (one or more) rows; every Arrow record is.

        Raises
        ------
        TransientError
            If that needs a schema which is unavailable now.
        """
        format_ = self._format_of(record)
        if self._other is not None:
            return self._other.is_array(format_, record)
        if format_ == "avro":
            return self._avro.is_array(record.value or b"")
        return format_ == "arrow" or json_rows.is_array(record.value)

    def fields_of(self, record: RawRecord, paths: Sequence[Field]) -> list[list[Any]] | None:
        """Return fields of a record, for each path a value of each row; None if it holds points, or cannot be read.

        Raises
        ------
        TransientError
            If that needs a schema which is unavailable now.
        """
        return None if self._other is None else self._other.fields_of(self._format_of(record), record, paths)

    def _format_of(self, record: RawRecord) -> str:
        """Return a record's format; empty if its content type is not supported."""
        format_ = self._config.format if self._config.format != "auto" else format_of(record.headers)
        if format_ in FRAMED_FORMATS and any(name == SCHEMA_HEADER for name, _ in record.headers):
            return BY_HEADER
        return format_

    def _decode_run(self, format_: str, run: Run, builder: RowsBuilder) -> None:
        """Decode consecutive records of one format."""
        if self._other is not None:
            self._other.decode(format_, run, builder)
        elif format_ == "avro":
            self._scanned_avro(run, builder)
        elif format_ == "json":
            for arrays, part in _alike(run):
                if arrays or not (self._scanned(part, builder) or self._singles(part, builder)):
                    self._one_by_one(format_, part, builder)
        else:
            self._one_by_one(format_, run, builder)

    def _one_by_one(self, format_: str, run: Run, builder: RowsBuilder) -> None:
        for index in range(len(run)):
            self._one(format_, run, index, builder)

    def _one(self, format_: str, run: Run, index: int, builder: RowsBuilder) -> None:
        if format_ == "json" and self._scanned_array(run, index, builder):
            return
        try:
            self._decode_record(format_, run, index, builder)
        except InvalidPoint as error:
            self._row_by_row(run.records[index], [error], builder)

    def _scanned(self, run: Run, builder: RowsBuilder) -> bool:
        """Decode JSON records of one point each by the compiled parser; False, with no effect, if it declines most.

        This only saves time. A record that the parser declines, or that is not a valid point, is decoded by the general
        decoder; accepted records have the same result in both.
        """
        config = self._config
        if not (self._labeled and self._codes.numbers is not None):
            return False
        values = [value or b"" for value in run.values] if None in run.values else run.values
        largest = LARGEST_FEATURE[config.dtype]
        found = json_scan.scan(values, run.size, config.dimension, largest, config.numpy_dtype)  # type: ignore[arg-type]
        points, good = self._scanned_points(found)
        if 2 * np.count_nonzero(good) < len(run):
            return False
        start = 0
        for bad in [*np.flatnonzero(~good).tolist(), len(run)]:
            if start < bad:
                builder.add(run.slice(start, bad), None, points.take(slice(start, bad)), found.ids_of(start, bad))
            if bad < len(run):
                self._one("json", run, bad, builder)
            start = bad + 1
        return True

    def _scanned_array(self, run: Run, index: int, builder: RowsBuilder) -> bool:
        """Decode a JSON array by the compiled parser; False, with no effect, if it declines it or a row is invalid.

        As with `_scanned`, this only saves time.
        """
        config, value = self._config, run.values[index]
        if not (self._labeled and self._codes.numbers is not None):
            return False
        if not (value and json_rows.is_array(value)):
            return False
        if len(value) > self._config.max_record_bytes:
            return False
        largest = LARGEST_FEATURE[config.dtype]
        found = json_scan.scan_array(value, config.dimension, largest, config.most_rows, config.numpy_dtype)
        if found is None:
            return False
        points, good = self._scanned_points(found)
        if not good.all():
            return False
        builder.add(run.slice(index, index + 1), len(points), points, found.ids_of(0, len(points)))
        return True

    def _scanned_avro(self, run: Run, builder: RowsBuilder) -> None:
        """Decode Avro records by the compiled reader where it can; it declines those of which a row may be invalid.

        As with `_scanned`, this only saves time.
        """
        config = self._config
        scanned = self._avro.scan(run.values, run.size, LARGEST_FEATURE[config.dtype], config.most_rows)
        found, unread = (None, []) if scanned is None else scanned
        bad = range(len(run)) if found is None else np.flatnonzero(found.rows < 0).tolist()
        start = row = 0
        for index in [*bad, len(run)]:
            if start < index:
                assert found is not None
                counts = found.rows[start:index]
                rows = slice(row, row := row + int(counts.sum()))
                points = Points(found.X[rows], found.sign[rows], found.weight[rows])
                builder.add_several(run.slice(start, index), counts, points, found.ids_of(rows))
            if index < len(run):
                self._one("avro", run, index, builder)
            start = index + 1
        for names, count in unread:
            self._unread.count(names if count else (), count)

    def _scanned_points(self, found: json_scan.Scanned) -> tuple[Points, NDArray[np.bool_]]:
        """Return the parsed points, and which of them are valid; the others are meaningless."""
        assert self._codes.numbers is not None
        weight, (codes, known) = found.weight, self._codes.numbers.codes(found.y)
        good = found.accepted & known
        good &= (weight >= SMALLEST_WEIGHT) & (weight <= LARGEST_WEIGHT)
        good &= found.size <= self._config.max_record_bytes
        return Points(found.X, codes, weight), good

    def _singles(self, run: Run, builder: RowsBuilder) -> bool:
        """Decode valid JSON records of one point each all at once; False, with no effect, if any may be invalid.

        This only saves time: what it declines is decoded row by row, and accepted records have the same result in both.
        """
        try:
            values = run.values
            if max(map(len, values)) > self._config.max_record_bytes:  # type: ignore[arg-type]
                return False
            if max(map(nesting, values)) > DEEPEST_NESTING:  # type: ignore[arg-type]
                return False
            if any(map(has_far_exponent, values)):  # type: ignore[arg-type]
                return False
            points = [self._unread.one.decode(value) for value in values]  # type: ignore[arg-type]
            found = self._all_well(_columns_of(points))
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001 - a record is at fault: decoding one by one finds out which, and why
            return False
        if found is not None:
            self._unread.note_all(points)
            builder.add(run, None, *found)
        return found is not None

    def _decode_record(self, format_: str, run: Run, index: int, builder: RowsBuilder) -> None:
        config, record = self._config, run.records[index]
        value = refuse_size(record.value, config)
        if format_ == "avro":
            self._avro.prepare(value)
        with blaming_the_record():
            count, columns, points = self._read(format_, value)
            if not count:
                raise InvalidPoint("empty_record", "the array is empty")
            if count > config.most_rows:
                raise too_many_rows(count, config.most_rows)
            found = self._all_well(columns)
            rows = points() if found is None else ()
        if found is None:
            self._row_by_row(record, rows, builder)
        else:
            builder.add(run.slice(index, index + 1), count, *found)

    def _read(
        self, format_: str, value: bytes
    ) -> tuple[int, Columns | None, Callable[[], Sequence[Point | InvalidPoint]]]:
        """Return the number of rows in a value, its columns, and a function that returns the rows one by one."""
        if not format_:
            raise InvalidPoint("unknown_content_type", f"the header {CONTENT_TYPE_HEADER} names an unsupported format")
        if format_ == BY_HEADER:
            raise named_by_header()
        if format_ == "arrow":
            read = ArrowRows(value, self._config)
            self._unread.count(read.unread, len(read))
            return len(read), read.columns(), read.points
        rows = self._rows_of(format_, value)
        return len(rows), _columns_of(rows), lambda: rows

    def _rows_of(self, format_: str, value: bytes) -> Sequence[Point | InvalidPoint]:
        config = self._config
        if format_ == "json":
            return json_rows.rows_of(value, config.most_rows, self._unread)
        rows = self._avro.rows_of(value, config.most_rows)
        self._unread.count(self._avro.unread(value), len(rows))
        return rows

    def _all_well(self, columns: Columns | None) -> tuple[Points, list[str | int | None] | None] | None:
        """Check all rows at once; None if any may be invalid: checking row by row then finds out which, and why."""
        config = self._config
        if columns is None or columns.X.ndim != 2 or columns.X.shape[1] != config.dimension:
            return None
        n, largest, weight = len(columns.X), LARGEST_FEATURE[config.dtype], columns.weight
        if not (n and _within(columns.X, largest)):
            return None
        if weight is not None and not (weight.min() >= SMALLEST_WEIGHT and weight.max() <= LARGEST_WEIGHT):
            return None
        codes = self._codes.of_column(columns.y) if self._labeled else np.ones(n, dtype=np.int8)
        if codes is None:
            return None
        X = columns.X.astype(config.numpy_dtype, copy=False)
        return Points(X, codes, np.ones(n) if weight is None else weight), columns.ids

    def _row_by_row(self, record: RawRecord, rows: Sequence[Point | InvalidPoint], builder: RowsBuilder) -> None:
        rejections: list[Rejection] = []
        for index, row in enumerate(rows):
            try:
                if isinstance(row, InvalidPoint):
                    raise row
                if row.is_deleted:
                    self._deleted += 1
                    builder.pass_over(record, index)
                    continue
                with blaming_the_record():
                    code = self._check(row)
            except InvalidPoint as error:
                rejections.append(Rejection(index, error.reason, encodable(error.what)))
                builder.reject(record, index)
            else:
                builder.accept(record, index, row, code)
        builder.end_record()
        if rejections:
            builder.rejected.append(RejectedRecord(record, len(rows), tuple(rejections)))

    def _check(self, point: Point) -> int:
        if point.op is not None:
            raise InvalidPoint("unsupported_operation", f"op is {excerpt(repr(point.op))}")
        if len(point.x) != self._config.dimension:
            raise InvalidPoint(
                "wrong_dimension", f"x has {len(point.x)} entries; points.dimension is {self._config.dimension}"
            )
        largest = LARGEST_FEATURE[self._config.dtype]
        if not (math.isfinite(sum(point.x)) and max(point.x) <= largest and min(point.x) >= -largest):
            for index, entry in enumerate(point.x):
                if not -largest <= entry <= largest:
                    raise InvalidPoint("not_finite", f"x[{index}] is {entry!r}, beyond the range of points.dtype")
        if not SMALLEST_WEIGHT <= point.w <= LARGEST_WEIGHT:
            raise InvalidPoint("invalid_weight", f"w is {point.w!r}")
        return self._codes.of(point.y) if self._labeled else 1


def _alike(run: Run) -> Iterator[tuple[bool, Run]]:
    """Yield parts of a run of JSON records, and whether to treat them as arrays: as the first one of a partition is."""
    starts = [(json_rows.is_array(run.values[start]), start, stop) for _, start, stop in stretches(run.partition)]
    for arrays, same in groupby(starts, key=itemgetter(0)):
        parts = list(same)
        yield arrays, run.slice(parts[0][1], parts[-1][2])


def _columns_of(rows: Sequence[Point | InvalidPoint]) -> Columns | None:
    """Return points as columns; None if a row is invalid, has an `op`, or has another dimension."""
    try:
        X = np.array([row.x for row in rows], dtype=np.float64)  # type: ignore[union-attr]
        weight = np.array([row.w for row in rows], dtype=np.float64)  # type: ignore[union-attr]
        if any(
            row.op is not None or ((row.deleted is not None or row.operation is not None) and row.is_deleted)  # type: ignore[union-attr]
            for row in rows
        ):
            return None
    except (AttributeError, ValueError):
        return None
    return Columns(X, [row.y for row in rows], weight, [row.id for row in rows])  # type: ignore[union-attr]


def _within(X: NDArray[np.floating], largest: float) -> bool:
    """Return whether no feature exceeds a magnitude; usually the sum of squares, one pass over X, is enough to know."""
    flat = X.reshape(-1)
    with np.errstate(over="ignore", invalid="ignore"):
        # As Python's numbers: numpy would round the bound to float32, where 1e100 is infinity, and let infinities pass.
        return float(flat @ flat) <= largest or (float(X.max()) <= largest and float(X.min()) >= -largest)
