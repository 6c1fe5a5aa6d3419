"""Points as Avro with a registry's schema: a frame (`streamsvm.ingest.framed`), and one datum.

The datum is a record, which is one row, or an array of records. Fields: `x`, an array of numbers, or instead of it one
number for each of `points.feature_names`; `y`; optionally `w` (null: 1) and `id`. Other fields are ignored. `op` means
what it does in JSON.

Invariant: a schema is what the registry gives for the id, for ever; while it cannot be asked nothing is decided. The
registry is not trusted with this process: a schema under which few bytes could become an endless or a bottomless datum,
or far more values than bytes, is refused, whatever the datum.
Source: the Avro specification 1.12, https://avro.apache.org/docs; Confluent's wire format.
"""

from __future__ import annotations

import importlib
import io
import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, BinaryIO, Final, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from streamsvm.config import Label, PointsConfig
from streamsvm.errors import ConfigurationError, InvalidPoint
from streamsvm.ingest import avro_scan
from streamsvm.ingest.avro_bounds import Examined
from streamsvm.ingest.avro_programs import DECIMAL_SCALE, Program, compile_schema
from streamsvm.ingest.avro_scan import ScannedAvro
from streamsvm.ingest.bounds import too_many_rows
from streamsvm.ingest.framed import FRAME, KnownSchemas, schema_id_of, unknown
from streamsvm.ingest.json_rows import DEEPEST_NESTING, convert_row, nesting
from streamsvm.ingest.row import Point
from streamsvm.ingest.schemas import Schemas
from streamsvm.ingest.slots import Slots
from streamsvm.ingest.unread_fields import MOST_FIELDS, READ

CONTENT_TYPE: Final = "application/avro"

MOST_PLAIN: Final = 16
"""Schemas whose records are read without asking for the schema."""
LARGEST_SCHEMA: Final = 1_000_000
"""Characters."""
NUMBERS: Final = {"int", "long", "float", "double"}


Convert = Callable[[Any], Any]


class OtherData(Protocol):
    """How data that hold something other than points are read."""

    @property
    def slots(self) -> int:
        """How many slots a datum fills."""
        ...

    def program(self, schema: Any, *, least_bytes: int) -> Program | None:
        """Return what fills the slots of many data of a schema; None if each has to be read by itself.

        Parameters
        ----------
        schema : dict
            That of a record, as fastavro parsed it, without logical types.
        least_bytes : int
            Bytes that a datum takes at least.
        """
        ...

    def convert(self, schema: Any) -> Convert | None:
        """Return what becomes of a datum that fastavro read; None if it stays as it is."""
        ...


_BROKEN: Final = (
    EOFError,
    ValueError,
    IndexError,
    KeyError,
    TypeError,
    OverflowError,
    ArithmeticError,
    struct.error,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _AvroSchema:
    """A schema that points can be read by, that of a row of it, and the program that reads many.

    `convert` is that of `OtherData`; None where a datum stays as it is.
    """

    parsed: Any
    row: Any
    many: bool
    features: tuple[str, ...]
    program: Program | None = None
    unread: tuple[str, ...] = ()
    convert: Convert | None = None


class AvroReader:
    """Parses values into rows.

    Parameters
    ----------
    schemas : Schemas or None
        None: no registry is configured, and every schema is unknown.
    config : PointsConfig
    labeled : bool
        Whether a row must have `y`.
    other : OtherData, optional
        With it records hold something other than points: `datum_of` and `scan_slots` read it.

    Raises
    ------
    ConfigurationError
        If there are schemas, and the package that reads Avro is not installed.
    """

    def __init__(
        self,
        schemas: Schemas | None,
        config: PointsConfig,
        *,
        labeled: bool = True,
        other: OtherData | None = None,
    ) -> None:
        self._schemas = schemas
        self._config = config
        self._labeled = labeled
        self._other = other
        self._known = KnownSchemas(self._look_up)
        self._plain: dict[bytes, tuple[Any, Convert | None]] = {}
        self._fastavro: Any = None if schemas is None else _fastavro()

    def ask_again(self) -> None:
        """Ask for unknown schemas once more: a batch of records begins, all of them fetched by now."""
        self._known.ask_again()

    def prepare(self, value: bytes) -> None:
        """Fetch the schema of a value from the registry, if it was not fetched before.

        What the registry's client raises is not the record's fault, so that this is apart from `rows_of`, which then
        asks nobody.

        Raises
        ------
        InvalidPoint
            If there is no schema that points can be read by.
        TransientError
            If the registry cannot be asked now.
        """
        self._schema_of(value)

    def rows_of(self, value: bytes, most_rows: int) -> Sequence[Point | InvalidPoint]:
        """Parse a value into its rows.

        Parameters
        ----------
        value : bytes
        most_rows : int
            An array with more is not decoded further.

        Raises
        ------
        InvalidPoint
            If the value cannot be parsed into rows, or holds too many.
        TransientError
            If the registry cannot be asked now.
        """
        datum = self.datum_of(value, most_rows)
        return _points(datum if isinstance(datum, list) else [datum], self._schema_of(value).features)

    def datum_of(self, value: bytes, most_rows: int) -> dict[str, Any] | list[dict[str, Any]]:
        """Return the record, or the array of records, in a value as fastavro reads it; as `rows_of`."""
        schema = self._schema_of(value)
        body = io.BytesIO(value)
        body.seek(FRAME.size)
        datum: Any
        try:
            datum = self._counted(body, schema, most_rows) if schema.many else self._read(body, schema.parsed)
        except _BROKEN as error:
            early = isinstance(error, EOFError)  # whose text names an address
            what = "the datum ends too early" if early else " ".join(str(error).split())[:200] or type(error).__name__
            raise InvalidPoint("malformed_avro", f"the datum does not fit its schema: {what}") from None
        if body.tell() != len(value):
            raise InvalidPoint("malformed_avro", f"{len(value) - body.tell()} bytes follow the datum")
        if self._other is not None and not schema.many:
            if len(self._plain) >= MOST_PLAIN:
                self._plain.clear()
            self._plain[value[: FRAME.size]] = schema.parsed, schema.convert
        found: dict[str, Any] | list[dict[str, Any]] = datum if schema.convert is None else schema.convert(datum)
        return found

    def one_of(self, value: bytes) -> dict[str, Any] | None:
        """Return the record in a value of a schema that was met before; None of one that `datum_of` has to look at.

        This only saves time: what it returns is what `datum_of` does.
        """
        parsed, convert = self._plain.get(value[: FRAME.size], (None, None))
        if parsed is None or len(value) > self._config.max_record_bytes:
            return None
        body = io.BytesIO(value)
        body.seek(FRAME.size)
        try:
            datum: dict[str, Any] = self._fastavro.schemaless_reader(body, parsed, None)
        except _BROKEN:
            return None
        if body.tell() != len(value):
            return None
        return datum if convert is None else convert(datum)

    def scan(
        self,
        values: Sequence[bytes | None],
        size: NDArray[np.int64],
        largest: float,
        most_rows: int,
    ) -> tuple[ScannedAvro, list[tuple[tuple[str, ...], int]]] | None:
        """Read many values at once; None if no value is of a schema that a program reads.

        What is declined may be valid or not; `rows_of` tells.

        Parameters
        ----------
        values : sequence of n bytes or None
        size : ndarray of shape (n,), int64
            Bytes of each value.
        largest : float
            A value with a feature of larger magnitude is declined.
        most_rows : int
            A value with more rows is declined.

        Returns
        -------
        ScannedAvro
        list of (tuple of str, int)
            For each schema the fields that nobody reads, and how many accepted rows there are.

        Raises
        ------
        TransientError
            If the registry cannot be asked now.
        """
        grouped = self._grouped(values, size)
        if grouped is None:
            return None
        kept, which, schemas, programs = grouped
        found = avro_scan.scan(
            kept,
            size,
            programs,
            which,
            np.full(len(size), FRAME.size),
            config=self._config,
            largest=largest,
            most_rows=most_rows,
        )
        rows = np.bincount(which[found.rows > 0], found.rows[found.rows > 0], len(schemas)).astype(int)
        return found, [(schema.unread, count) for schema, count in zip(schemas, rows.tolist(), strict=True)]

    def scan_slots(
        self, values: Sequence[bytes | None], size: NDArray[np.int64]
    ) -> tuple[NDArray[np.bool_], Slots] | None:
        """Fill the slots of many data at once; None if no value is of a schema that a program reads.

        What is declined may be valid or not; `datum_of` tells.

        Returns
        -------
        ndarray of shape (n,), bool
            Which values were read.
        Slots
            Of those that were read, one after the other.

        Raises
        ------
        TransientError
            If the registry cannot be asked now.
        """
        grouped = self._grouped(values, size)
        if grouped is None or self._other is None:
            return None
        kept, which, _, programs = grouped
        return avro_scan.scan_slots(kept, size, programs, which, np.full(len(size), FRAME.size), self._other.slots)

    def _grouped(
        self, values: Sequence[bytes | None], size: NDArray[np.int64]
    ) -> tuple[list[bytes], NDArray[np.int64], list[_AvroSchema], list[Program]] | None:
        """Return values, which schema each has (-1: to be declined), the schemas, and their programs."""
        readable = (size > FRAME.size) & (size <= self._config.max_record_bytes)
        kept = [value if good and value else b"" for value, good in zip(values, readable.tolist(), strict=True)]
        places: dict[bytes, int] = {}
        schemas: list[_AvroSchema] = []
        which, start = np.full(len(size), -1), 0
        for frame, same in groupby(value[: FRAME.size] for value in kept):
            stop = start + sum(1 for _ in same)
            if frame not in places:
                schema = self._with_program(frame)
                places[frame] = -1 if schema is None else len(schemas)
                schemas += [] if schema is None else [schema]
            which[start:stop] = np.where(readable[start:stop], places[frame], -1)
            start = stop
        if not schemas:
            return None
        programs = [schema.program for schema in schemas if schema.program is not None]
        return kept, which, schemas, programs

    def _with_program(self, frame: bytes) -> _AvroSchema | None:
        """Return the schema that a frame names; None if there is none, or no program for it.

        Raises
        ------
        TransientError
            If the registry cannot be asked now.
        """
        try:
            schema = self._schema_of(frame)
        except InvalidPoint:
            return None
        return None if schema.program is None else schema

    def _read(self, body: BinaryIO, parsed: Any) -> Any:
        return self._fastavro.schemaless_reader(body, parsed, None)

    def _counted(self, body: BinaryIO, schema: _AvroSchema, most_rows: int) -> list[Any]:
        """Read an array row by row: its blocks may be many, and only the first one's count is known beforehand."""
        rows: list[Any] = []
        while count := self._read(body, "long"):
            with_size, count = count < 0, abs(count)
            if len(rows) + count > most_rows:
                raise too_many_rows(len(rows) + count, most_rows)
            if with_size:
                self._read(body, "long")
            rows.extend(self._read(body, schema.row) for _ in range(count))
        return rows

    def is_array(self, value: bytes) -> bool:
        """Return whether a value that could be parsed is an array of rows.

        Raises
        ------
        TransientError
            If the registry cannot be asked now.
        """
        return self._schema_of(value).many

    def unread(self, value: bytes) -> tuple[str, ...]:
        """Return the fields of a parsed value's points that nobody reads."""
        return self._schema_of(value).unread

    def _schema_of(self, value: bytes) -> _AvroSchema:
        return self._known.of(schema_id_of(value))

    def _look_up(self, schema_id: int) -> tuple[_AvroSchema | InvalidPoint, int]:
        """Return a schema, or why it is unfit, and its size; one that is unknown is not remembered."""
        text = None
        if self._schemas is not None:
            try:
                text = self._schemas.schema(schema_id)
            except InvalidPoint as unfit:
                return unfit, 0
        if text is None:
            raise unknown(schema_id, configured=self._schemas is not None)
        try:
            return self._parsed(text), len(text)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - of whatever kind: the schema's text is the reason
            what = " ".join(str(error).split())[:200]
            return InvalidPoint("incompatible_schema", f"schema {schema_id} does not describe points: {what}"), 0

    def _parsed(self, text: str) -> _AvroSchema:
        if len(text) > LARGEST_SCHEMA:
            raise ValueError(f"the schema has {len(text)} characters, too many")
        if nesting(text.encode(errors="replace")) > DEEPEST_NESTING:
            raise ValueError(f"the schema's text nests deeper than {DEEPEST_NESTING}")
        schema = json.loads(text)
        parsed = self._fastavro.parse_schema(_bare(schema))
        examined = Examined(parsed)
        many = isinstance(schema, dict) and schema.get("type") == "array"
        record = schema["items"] if many else schema
        if not isinstance(record, dict) or record.get("type") != "record":
            raise ValueError("the schema is neither a record nor an array of records")
        row = self._fastavro.parse_schema(_bare(record))
        if self._other is not None:
            program = None if many else self._other.program(parsed, least_bytes=examined.least_bytes)
            convert = self._other.convert(parsed)
            return _AvroSchema(parsed=parsed, row=row, many=many, features=(), program=program, convert=convert)
        fields = {field["name"]: field["type"] for field in record["fields"]}
        features = () if "x" in fields else self._config.feature_names
        if "x" in fields:
            x = fields["x"]
            if not (isinstance(x, dict) and x.get("type") == "array" and _plain_name(x.get("items")) in NUMBERS):
                raise ValueError("x is not an array of numbers")
        elif not features or not all(_is_number(fields.get(name)) for name in features):
            raise ValueError("there is no field x, and no numeric field for each of points.feature_names")
        unread = [name for name in fields if name not in READ and name not in features][:MOST_FIELDS]
        program = compile_schema(
            parsed,
            many=many,
            features=features,
            config=self._config,
            labeled=self._labeled,
            least_bytes=examined.least_bytes,
        )
        return _AvroSchema(
            parsed=parsed,
            row=row,
            many=many,
            features=features,
            program=program,
            unread=tuple(unread),
        )


def _points(rows: Sequence[dict[str, Any]], features: tuple[str, ...]) -> Sequence[Point | InvalidPoint]:
    for row in rows:
        if features:
            row["x"] = [row[name] for name in features]
        if row.get("w", 0) is None:
            del row["w"]
    try:
        return msgspec.convert(rows, list[Point])
    except (msgspec.ValidationError, OverflowError):
        return [convert_row(row) for row in rows]


def _bare(schema: Any) -> Any:
    """Return a schema without logical types and defaults: what is read is what is written.

    The scale of a decimal is kept, under a name that fastavro does not look at.
    """
    if isinstance(schema, list):
        return [_bare(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: schema[key] for key in ("name", "namespace", "symbols", "size") if key in schema}
    if schema.get("logicalType") == "decimal" and schema.get("type") in ("bytes", "fixed"):
        kept |= _scale(schema)
    kept |= {key: _bare(schema[key]) for key in ("type", "items", "values") if key in schema}
    if "fields" in schema:
        kept["fields"] = [{"name": field["name"], "type": _bare(field["type"])} for field in schema["fields"]]
    return kept


def _scale(schema: Mapping[str, Any]) -> dict[str, int]:
    """Return the scale of a decimal; nothing if it is invalid, and so by the specification bytes."""
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    valid = type(precision) is int and type(scale) is int and 0 <= scale <= precision
    return {DECIMAL_SCALE: scale} if valid else {}


def _plain_name(schema: Any) -> Any:
    """Return the name of a type without its attributes."""
    return schema.get("type") if isinstance(schema, dict) else schema


def _is_number(schema: Any) -> bool:
    branches = schema if isinstance(schema, list) else [schema]
    return bool(branches) and all(_plain_name(branch) in {*NUMBERS, "null"} for branch in branches)


def _fastavro() -> Any:
    try:
        return importlib.import_module("fastavro")
    except ModuleNotFoundError:
        raise ConfigurationError(
            "points.format is avro, but the package fastavro is not installed",
            "Install it: pip install '.[avro]' in the folder of the sources.",
        ) from None


def schema_of(label: Label | None, *, many: bool) -> str:
    """Return the schema that `AvroWriter` writes by.

    Parameters
    ----------
    label : bool, int, str or None
        One of the labels; None for unlabeled points.
    many : bool
        An array of points a record, instead of one.
    """
    kinds = {bool: "boolean", int: "long", str: "string"}
    fields: list[dict[str, Any]] = [{"name": "x", "type": {"type": "array", "items": "double"}}]
    if label is not None:
        fields.append({"name": "y", "type": kinds[type(label)]})
    fields.append({"name": "w", "type": ["null", "double"], "default": None})
    fields.append({"name": "id", "type": ["null", "string", "long"], "default": None})
    point = {"type": "record", "name": "Point", "namespace": "streamsvm", "fields": fields}
    return json.dumps({"type": "array", "items": point} if many else point)


class AvroWriter:
    """Encodes points by the schema of `schema_of`.

    Parameters
    ----------
    schema : str
    schema_id : int
        What the registry calls it.
    """

    def __init__(self, schema: str, schema_id: int) -> None:
        self._fastavro = _fastavro()
        self._schema = self._fastavro.parse_schema(json.loads(schema))
        self._frame = FRAME.pack(0, schema_id)

    def encode(self, datum: Any) -> bytes:
        """Encode one datum: a point as a mapping, or a list of them."""
        sink = io.BytesIO(self._frame)
        sink.seek(len(self._frame))
        self._fastavro.schemaless_writer(sink, self._schema, datum)
        return sink.getvalue()
