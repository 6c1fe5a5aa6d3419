"""Points as Avro in the registry's framing: a zero byte, the schema's id (4 bytes, big endian), one datum.

The datum is a record, which is one row, or an array of records. Fields: `x`, an array of numbers, or instead of it one
number for each of `points.feature_names`; `y`; optionally `w` (null: 1) and `id`. Other fields are ignored. `op` means
what it does in JSON.

Invariant: a schema is what the registry gives for the id, for ever; while it cannot be asked nothing is decided. A
schema under which few bytes could become a large or an endless datum is refused, whatever the datum.
Source: the Avro specification 1.12, https://avro.apache.org/docs; Confluent's wire format.
"""

from __future__ import annotations

import importlib
import io
import json
import struct
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec

from streamsvm.codec.json_rows import convert_row
from streamsvm.codec.row import Point
from streamsvm.codec.unread import MOST_FIELDS, READ
from streamsvm.config import Label
from streamsvm.errors import ConfigurationError, InvalidPoint

CONTENT_TYPE: Final = "application/avro"

FRAME: Final = struct.Struct(">bI")
MOST_SCHEMAS: Final = 256
"""Parsed schemas that are kept; more are parsed again."""
LARGEST_SCHEMA: Final = 1_000_000
"""Characters."""
DEEPEST_SCHEMA: Final = 32

NUMBERS: Final = {"int", "long", "float", "double"}
_LEAST_BYTES: Final = {
    "null": 0,
    "boolean": 1,
    "int": 1,
    "long": 1,
    "float": 4,
    "double": 8,
    "bytes": 1,
    "string": 1,
    "array": 1,
    "map": 1,
    "enum": 1,
}
_BROKEN: Final = (
    EOFError,
    ValueError,
    IndexError,
    KeyError,
    TypeError,
    OverflowError,
    ArithmeticError,
    struct.error,
    MemoryError,
)


class Schemas(Protocol):
    """Where schemas come from: `streamsvm.kafka.SchemaRegistry`, or a stand-in."""

    def schema(self, schema_id: int) -> str | None:
        """Return the text of a schema; None if there is none of this id.

        Raises
        ------
        TransientError
            If that cannot be told now.
        """
        ...


@dataclass(frozen=True, slots=True)
class _Schema:
    """A schema that points can be read by."""

    parsed: Any
    many: bool
    features: tuple[str, ...]
    unread: tuple[str, ...] = ()


class AvroReader:
    """Tells values into rows.

    Parameters
    ----------
    schemas : Schemas or None
        None: no registry is configured, and every schema is unknown.
    feature_names : tuple of str

    Raises
    ------
    ConfigurationError
        If there are schemas, and the package that reads Avro is not installed.
    """

    def __init__(self, schemas: Schemas | None, feature_names: tuple[str, ...] = ()) -> None:
        self._schemas = schemas
        self._feature_names = feature_names
        self._known: OrderedDict[int, _Schema | InvalidPoint] = OrderedDict()
        self._fastavro: Any = None if schemas is None else _fastavro()

    def rows_of(self, value: bytes, most_rows: int) -> Sequence[Point | InvalidPoint]:
        """Tell a value into its rows.

        Parameters
        ----------
        value : bytes
        most_rows : int
            An array that begins with more is not decoded.

        Raises
        ------
        InvalidPoint
            If it cannot be told into rows.
        TransientError
            If the registry cannot be asked now.
        """
        schema = self._schema_of(value)
        body = io.BytesIO(value)
        body.seek(FRAME.size)
        if schema.many:
            _refuse_many(value, most_rows)
        try:
            datum = self._fastavro.schemaless_reader(body, schema.parsed, None)
        except _BROKEN as error:
            early = isinstance(error, EOFError)  # whose text names an address
            what = "it ends too early" if early else " ".join(str(error).split())[:200] or type(error).__name__
            raise InvalidPoint("malformed_avro", f"the datum does not fit its schema: {what}") from None
        if body.tell() != len(value):
            raise InvalidPoint("malformed_avro", f"{len(value) - body.tell()} bytes follow the datum")
        return _points(datum if schema.many else [datum], schema.features)

    def is_array(self, value: bytes) -> bool:
        """Tell whether a value that could be told into rows is an array of them.

        Raises
        ------
        TransientError
            If the registry cannot be asked now.
        """
        return self._schema_of(value).many

    def unread(self, value: bytes) -> tuple[str, ...]:
        """Return the fields of the points of a value, that was told into rows, which nobody reads."""
        return self._schema_of(value).unread

    def _schema_of(self, value: bytes) -> _Schema:
        if len(value) < FRAME.size or value[0] != 0:
            raise InvalidPoint("malformed_avro", "the value does not begin with a zero byte and a schema's id")
        return self._schema(FRAME.unpack_from(value)[1])

    def _schema(self, schema_id: int) -> _Schema:
        found = self._known.get(schema_id)
        if found is None:
            found = self._look_up(schema_id)
            self._known[schema_id] = found
            if len(self._known) > MOST_SCHEMAS:
                self._known.popitem(last=False)
        if isinstance(found, InvalidPoint):
            raise InvalidPoint(found.reason, found.what)
        return found

    def _look_up(self, schema_id: int) -> _Schema | InvalidPoint:
        """Return a schema, or why it is unfit; one that is unknown is not remembered."""
        if self._schemas is None:
            raise InvalidPoint("unknown_schema", f"schema {schema_id}: no registry.url is configured")
        text = self._schemas.schema(schema_id)
        if text is None:
            raise InvalidPoint("unknown_schema", f"the registry has no schema {schema_id}")
        try:
            return self._parsed(text)
        except (*_BROKEN, RecursionError, self._fastavro.schema.SchemaParseException) as error:
            what = " ".join(str(error).split())[:200]
            return InvalidPoint("incompatible_schema", f"schema {schema_id} does not describe points: {what}")

    def _parsed(self, text: str) -> _Schema:
        if len(text) > LARGEST_SCHEMA:
            raise ValueError(f"it has {len(text)} characters")
        schema = json.loads(text)
        _Examined(schema)
        many = isinstance(schema, dict) and schema.get("type") == "array"
        record = schema["items"] if many else schema
        if not isinstance(record, dict) or record.get("type") != "record":
            raise ValueError("it is neither a record nor an array of records")
        fields = {field["name"]: field["type"] for field in record["fields"]}
        features = () if "x" in fields else self._feature_names
        if "x" in fields:
            x = fields["x"]
            if not (isinstance(x, dict) and x.get("type") == "array" and _plain_name(x.get("items")) in NUMBERS):
                raise ValueError("x is not an array of numbers")
        elif not features or not all(_is_number(fields.get(name)) for name in features):
            raise ValueError("there is no x, nor a number for each of points.feature_names")
        unread = [name for name in fields if name not in READ and name not in features][:MOST_FIELDS]
        return _Schema(self._fastavro.parse_schema(_bare(schema)), many, features, tuple(unread))


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


def _refuse_many(value: bytes, most_rows: int) -> None:
    """Look at the first block's count before anything is made of it."""
    number, shift = 0, 0
    for byte in value[FRAME.size : FRAME.size + 10]:
        number |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            break
    rows = abs((number >> 1) ^ -(number & 1))
    if rows > most_rows:
        raise InvalidPoint(
            "too_many_rows", f"the record begins with {rows} rows, points.max_rows_per_record is {most_rows}"
        )


class _Examined:
    """Walks a schema, and refuses one that is recursive, too deep, or repeats what takes no bytes.

    Raises
    ------
    ValueError
    """

    def __init__(self, schema: Any) -> None:
        self._least = dict(_LEAST_BYTES)
        self._open: set[str] = set()
        self.least_bytes = self._walk(schema, 0)

    def _walk(self, schema: Any, depth: int) -> int:
        """Return the fewest bytes that a datum takes."""
        if depth > DEEPEST_SCHEMA:
            raise ValueError(f"it nests deeper than {DEEPEST_SCHEMA}")
        if isinstance(schema, list):
            return 1 + min((self._walk(branch, depth + 1) for branch in schema), default=0)
        if isinstance(schema, str):
            if schema.rpartition(".")[2] in self._open:
                raise ValueError(f"{schema[:80]} holds itself")
            return self._least[schema.rpartition(".")[2]]
        kind = schema["type"]
        if kind in ("array", "map"):
            items = self._walk(schema["items" if kind == "array" else "values"], depth + 1)
            if kind == "array" and not items:
                raise ValueError("an array's items take no bytes: a few bytes could be any number of them")
            return 1
        if kind == "record":
            return self._named(schema, sum(self._fields(schema, depth)))
        if kind == "fixed":
            return self._named(schema, int(schema["size"]))
        if kind == "enum":
            return self._named(schema, 1)
        return self._walk(kind, depth + 1)

    def _fields(self, schema: Mapping[str, Any], depth: int) -> list[int]:
        name = schema["name"].rpartition(".")[2]
        self._open.add(name)
        sizes = [self._walk(field["type"], depth + 1) for field in schema["fields"]]
        self._open.discard(name)
        return sizes

    def _named(self, schema: Mapping[str, Any], least: int) -> int:
        name = schema["name"].rpartition(".")[2]  # two namespaces may share it: the smaller one counts
        self._least[name] = min(least, self._least.get(name, least))
        return least


def _bare(schema: Any) -> Any:
    """Return a schema without logical types and defaults: what is read is what is written."""
    if isinstance(schema, list):
        return [_bare(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: schema[key] for key in ("name", "namespace", "symbols", "size") if key in schema}
    kept |= {key: _bare(schema[key]) for key in ("type", "items", "values") if key in schema}
    if "fields" in schema:
        kept["fields"] = [{"name": field["name"], "type": _bare(field["type"])} for field in schema["fields"]]
    return kept


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
            "points come as Avro, and fastavro is not installed", "Install streamsvm with its extra: streamsvm[avro]."
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
