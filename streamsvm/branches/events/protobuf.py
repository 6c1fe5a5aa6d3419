"""Raw events as Protobuf with a registry's schema: its id and the message's indexes stand in front of the message.

The indexes say which message of the schema's file it is: how many they are, and each, as zigzag varints; 0 alone is the
first message.

An event is made of the fields that are asked for, by their names in the .proto file: a message is an object, a repeated
field an array, a map with keys of text an object, an enum the name of its value (its number, if it has no name).
google.protobuf.Timestamp is the text that ISO 8601 writes of it, a wrapper (DoubleValue, ...) what it wraps. A field
that is not set is missing where Protobuf can tell (messages, `optional`, oneofs, proto2), else it has its default, as
for every reader of Protobuf.

Invariant: a schema is what the registry gives for the id, for ever. The registry is not trusted with this process: a
schema that repeats messages of very many fields is refused.
Sources: the Protobuf encoding, https://protobuf.dev/programming-guides/encoding; Confluent's wire format.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any, Final

from streamsvm.branches.events import proto_files
from streamsvm.errors import ConfigurationError, InvalidPoint
from streamsvm.field_paths import DEEPEST, Path, Unreachable
from streamsvm.ingest.framed import FRAME, KnownSchemas, schema_id_of, unknown
from streamsvm.ingest.schemas import Schemas

DEEPEST_INDEX: Final = 16
"""Most message indexes, which lead into messages declared within messages."""
_LARGEST_INDEX: Final = 10_000
MOST_REPEATED_FIELDS: Final = 200
"""Fields of a message that another repeats. Two bytes are a message, which takes 16 bytes for each field."""
MOST_COMPILED: Final = 64
"""Pairs of a message and paths that are kept for a schema."""

MOST_PATHS: Final = 1_000
"""Of a message, for whoever looks at a sample."""

Event = dict[str, Any]
Convert = Callable[[Any], Any]
Wanted = dict[str | int, "Wanted"]
"""The steps of paths, one inside another."""


@dataclass(frozen=True, slots=True)
class _Schema:
    """A file's descriptor, and what was compiled of it."""

    file: Any
    compiled: dict[tuple[tuple[int, ...], tuple[Path, ...]], tuple[Any, Convert]] = field(default_factory=dict)
    paths: dict[tuple[int, ...], tuple[Path, ...]] = field(default_factory=dict)


class ProtobufReader:
    """Parses values into events.

    Parameters
    ----------
    schemas : Schemas or None
        None: no registry is configured, and every schema is unknown.
    needed : bool
        Whether the records are known to be Protobuf.

    Raises
    ------
    ConfigurationError
        If it is needed, and the packages that read Protobuf are not installed.
    """

    def __init__(self, schemas: Schemas | None, *, needed: bool = False) -> None:
        self._schemas = schemas
        self._known = KnownSchemas(self._look_up)
        if needed:
            _require_packages()

    def ask_again(self) -> None:
        """Ask for unknown schemas once more: a batch of records begins, all of them fetched by now."""
        self._known.ask_again()

    def event_of(self, value: bytes, paths: Sequence[Path]) -> Event:
        """Return the fields under some paths of a value's message.

        Parameters
        ----------
        value : bytes
        paths : sequence of Path

        Raises
        ------
        InvalidPoint
            If the value is not a message of its schema.
        TransientError
            If the registry cannot be asked now.
        """
        schema, indexes, start = self._named(value)
        key = indexes, tuple(paths)
        if key not in schema.compiled:
            if len(schema.compiled) >= MOST_COMPILED:
                schema.compiled.clear()
            schema.compiled[key] = _compiled(schema.file, *key)
        made, convert = schema.compiled[key]
        message = made()
        try:
            message.ParseFromString(value[start:])
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - of whatever kind: the bytes are the reason
            what = " ".join(str(error).split())[:200]
            raise InvalidPoint("malformed_protobuf", f"the message does not fit its schema: {what}") from None
        event: Event = convert(message)
        return event

    def paths_of(self, value: bytes) -> tuple[Path, ...]:
        """Return the paths of the single values that a value's message can have, of an array those of its first one.

        Raises
        ------
        InvalidPoint
            If the schema, or the message in it, is unknown or cannot be read.
        TransientError
            If the registry cannot be asked now.
        """
        schema, indexes, _ = self._named(value)
        if indexes not in schema.paths:
            if len(schema.paths) >= MOST_COMPILED:
                schema.paths.clear()
            schema.paths[indexes] = tuple(islice(_paths(_descriptor(schema.file, indexes), ()), MOST_PATHS))
        return schema.paths[indexes]

    def _named(self, value: bytes) -> tuple[_Schema, tuple[int, ...], int]:
        """Return a value's schema, the indexes of its message, and where in the value the message begins."""
        schema = self._known.of(schema_id_of(value))
        return schema, *_indexes(value, FRAME.size)

    def _look_up(self, schema_id: int) -> tuple[_Schema | InvalidPoint, int]:
        """Return a schema, or why it is unfit, and its size; one that is unknown is not remembered."""
        texts = None
        if self._schemas is not None:
            try:
                texts = self._schemas.files(schema_id)
            except InvalidPoint as unfit:
                return unfit, 0
        if texts is None:
            raise unknown(schema_id, configured=self._schemas is not None)
        try:
            return _schema_of(texts), sum(map(len, texts.values()))
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - of whatever kind: the schema's text is the reason
            what = " ".join(str(error).split())[:200]
            return InvalidPoint("incompatible_schema", f"schema {schema_id} does not describe events: {what}"), 0


def _require_packages() -> None:
    try:
        for package in ("google.protobuf.message_factory", "proto_schema_parser.parser"):
            importlib.import_module(package)
    except ModuleNotFoundError:
        raise ConfigurationError(
            "points.format is protobuf, but the packages protobuf and proto-schema-parser are not installed",
            "Install them: pip install '.[protobuf]' in the folder of the sources.",
        ) from None


def _indexes(value: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """Return the message indexes that begin at a place, and where they end."""
    count, at = _varint(value, at)
    if not 0 <= count <= DEEPEST_INDEX:
        raise InvalidPoint("malformed_protobuf", f"the value announces {count} message indexes")
    found: list[int] = []
    for _ in range(count):
        index, at = _varint(value, at)
        if not 0 <= index <= _LARGEST_INDEX:
            raise InvalidPoint("malformed_protobuf", f"the value has the message index {index}")
        found.append(index)
    return tuple(found) or (0,), at


def _varint(source: bytes, at: int) -> tuple[int, int]:
    """Return a zigzag number, and where it ends."""
    number = 0
    for shift in range(0, 35, 7):
        if at >= len(source):
            raise InvalidPoint("malformed_protobuf", "the value ends within its message indexes")
        number |= (source[at] & 0x7F) << shift
        at += 1
        if source[at - 1] < 0x80:
            return (number >> 1) ^ -(number & 1), at
    raise InvalidPoint("malformed_protobuf", "a message index has more than five bytes")


# ---------------------------------------------------------------------- schemas


def _schema_of(texts: Mapping[str, str]) -> _Schema:
    """Return the descriptor of the file of the empty name, with those that it refers to in a pool of its own."""
    from google.protobuf.descriptor_pool import DescriptorPool

    if sum(map(len, texts.values())) > proto_files.LARGEST_TEXT:
        raise ValueError(f"its files have more than {proto_files.LARGEST_TEXT} characters together")
    files = {name: proto_files.parsed(name, text) for name, text in texts.items()}
    fields = [len(message.field) for file in files.values() for message in _messages(file)]
    if sum(fields) > proto_files.MOST_FIELDS:
        raise ValueError(f"its messages have more than {proto_files.MOST_FIELDS} fields together")
    pool = DescriptorPool()
    added: set[str] = set()
    _add(pool, files[""], files, added, ())
    made = pool.FindFileByName(files[""].name)
    _refuse_wide(made.message_types_by_name.values())
    return _Schema(made)


def _refuse_wide(messages: Iterable[Any]) -> None:
    """Refuse a message that repeats another of very many fields: each takes memory for all of them, set or not."""
    waiting = [(message, False) for message in messages]
    seen: set[tuple[str, bool]] = set()
    while waiting:
        message, repeated = waiting.pop()
        if (message.full_name, repeated) in seen:
            continue
        seen.add((message.full_name, repeated))
        if repeated and len(message.fields) > MOST_REPEATED_FIELDS:
            raise ValueError(
                f"it repeats the message {message.full_name[:80]} of {len(message.fields)} fields, more than "
                f"{MOST_REPEATED_FIELDS}"
            )
        waiting += [
            (one.message_type, repeated or one.is_repeated) for one in message.fields if one.message_type is not None
        ]
        waiting += [(one, False) for one in message.nested_types]


def _add(pool: Any, file: Any, files: Mapping[str, Any], added: set[str], outer: tuple[str, ...]) -> None:
    """Add a file to a pool after those that it imports."""
    if file.name in outer:
        raise ValueError(f"{file.name} imports itself")
    for name in file.dependency:
        if name not in added:
            _add(pool, _imported(name, files), files, added, (*outer, file.name))
    pool.AddSerializedFile(file.SerializeToString())
    added.add(file.name)


def _imported(name: str, files: Mapping[str, Any]) -> Any:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    if name in files and name:
        return files[name]
    if name in proto_files.OF_OPTIONS:
        return FileDescriptorProto(name=name, syntax="proto3")
    if name not in proto_files.BUILT_IN:
        raise ValueError(f"it imports {name[:80]}, which is not among its references")
    found = FileDescriptorProto()
    found.ParseFromString(importlib.import_module(proto_files.BUILT_IN[name]).DESCRIPTOR.serialized_pb)
    return found


def _messages(outer: Any) -> list[Any]:
    """Return the descriptors of all messages of a file, or within a message."""
    own = list(outer.message_type if hasattr(outer, "message_type") else outer.nested_type)
    return [*own, *(inner for message in own for inner in _messages(message))]


# ----------------------------------------------------------------------- events


def _compiled(file: Any, indexes: tuple[int, ...], paths: tuple[Path, ...]) -> tuple[Any, Convert]:
    """Return the class of a message, and what makes an event of one."""
    from google.protobuf.message_factory import GetMessageClass

    descriptor = _descriptor(file, indexes)
    wanted: Wanted = {}
    for path in paths:
        inside = wanted
        for step in path:
            inside = inside.setdefault(step, {})
    return GetMessageClass(descriptor), _of_message(descriptor, wanted)


def _descriptor(file: Any, indexes: tuple[int, ...]) -> Any:
    """Return the descriptor of the message of a file that the indexes lead to."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    plain = FileDescriptorProto()
    file.CopyToProto(plain)
    within, names = plain.message_type, []
    for index in indexes:
        if index >= len(within):
            raise InvalidPoint("malformed_protobuf", f"the schema has no message of the indexes {list(indexes)}")
        names.append(within[index].name)
        within = within[index].nested_type
    return file.pool.FindMessageTypeByName(".".join(([file.package] if file.package else []) + names))


def _paths(descriptor: Any, outer: Path, *within: str) -> Iterator[Path]:
    """Yield the paths of single values of a message; not into maps, nor into a message that holds itself."""
    for found in descriptor.fields:
        kind, path = found.message_type, (*outer, found.name, *((0,) if found.is_repeated else ()))
        if found.type == found.TYPE_BYTES or len(path) > DEEPEST or (kind is not None and kind.GetOptions().map_entry):
            continue
        if kind is None or kind.full_name == "google.protobuf.Timestamp" or kind.full_name in _WRAPPERS:
            yield path
        elif kind.full_name not in within:
            yield from _paths(kind, path, kind.full_name, *within)


def _of_message(descriptor: Any, wanted: Wanted) -> Convert:
    """Return what makes an object of a message, with those of its fields that are wanted."""
    parts: list[tuple[str, bool, Convert]] = []
    for name, inner in wanted.items():
        found = descriptor.fields_by_name.get(name) if isinstance(name, str) else None
        if found is not None:
            parts.append((found.name, found.has_presence, _of_field(found, inner)))

    def convert(message: Any) -> Event:
        return {
            name: made(getattr(message, name))
            for name, optional, made in parts
            if not optional or message.HasField(name)
        }

    return convert


def _of_field(found: Any, wanted: Wanted) -> Convert:
    kind = found.message_type
    if not found.is_repeated:
        return _of_value(found, wanted)
    if kind is not None and kind.GetOptions().map_entry:
        return _of_map(kind, wanted)
    most = max((step for step in wanted if isinstance(step, int)), default=-1) + 1
    if not most:
        return _always(Unreachable("it is an array, not a single value"))
    inner: Wanted = {}
    for step, steps in wanted.items():
        if isinstance(step, int):
            _merge(inner, steps)
    return partial(_listed, _of_value(found, inner), most)


def _merge(into: Wanted, steps: Wanted) -> None:
    for step, inner in steps.items():
        _merge(into.setdefault(step, {}), inner)


def _listed(convert: Convert, most: int, values: Any) -> list[Any]:
    return [convert(value) for value in islice(values, most)]


def _of_map(kind: Any, wanted: Wanted) -> Convert:
    key, value = kind.fields_by_name["key"], kind.fields_by_name["value"]
    if key.cpp_type != key.CPPTYPE_STRING:
        return _always(Unreachable("it is a map whose keys are not text"))
    parts = [(step, _of_value(value, inner)) for step, inner in wanted.items() if isinstance(step, str)]

    def convert(values: Any) -> Event:
        return {step: made(values[step]) for step, made in parts if step in values}

    return convert


def _of_value(found: Any, wanted: Wanted) -> Convert:
    """Return what makes a JSON value of a single value."""
    kind = found.message_type
    if kind is not None:
        if wanted:
            return _of_message(kind, wanted)
        if kind.full_name == "google.protobuf.Timestamp":
            return _text_of_time
        if kind.full_name in _WRAPPERS:
            return _of_wrapper(kind.fields_by_name["value"])
        return _of_message(kind, {})
    if found.enum_type is not None:
        names = {value.number: value.name for value in reversed(found.enum_type.values)}
        return lambda number: names.get(number, number)
    if found.type == found.TYPE_BYTES:
        return _always(Unreachable("it is bytes"))
    return _as_it_is


def _of_wrapper(value: Any) -> Convert:
    inner = _of_value(value, {})
    return lambda wrapper: inner(wrapper.value)


def _always(value: Any) -> Convert:
    return lambda _: value


def _as_it_is(value: Any) -> Any:
    return value


_WRAPPERS: Final = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_FIRST_S, _LAST_S = -62_135_596_800, 253_402_300_799


def _text_of_time(time: Any) -> str | Unreachable:
    if not (_FIRST_S <= time.seconds <= _LAST_S and 0 <= time.nanos < 1_000_000_000):
        return Unreachable("it is not a time in the years 1 to 9999")
    return f"{(_EPOCH + timedelta(seconds=time.seconds, microseconds=time.nanos // 1_000)).isoformat()}Z"


_EPOCH: Final = datetime(1970, 1, 1)
