"""Decimals that a schema declares: bytes to their reader, numbers to the event.

In JSON with Kafka Connect's envelope the schema stands beside the event: a field of the name
`org.apache.kafka.connect.data.Decimal` is base64 of an integer, its parameter `scale` says where the point stands;
`io.debezium.data.VariableScaleDecimal` is an object that has its own scale. In Avro it is the logical type `decimal` of
bytes or a fixed, and a record of the latter name. A decimal that cannot be read is `Unreachable`, never another value.

Invariant: what a schema's conversion does takes time in proportion to the event, however large the schema is.
Sources: Kafka Connect's `Decimal` and `JsonConverter`; Debezium 3, "Data type mappings"; the Avro specification 1.12.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from streamsvm.field_paths import UNAVAILABLE, Unreachable
from streamsvm.ingest.avro_programs import DECIMAL_SCALE

CONNECT_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
VARIABLE_SCALE: Final = "io.debezium.data.VariableScaleDecimal"

Convert = Callable[[Any], Any]
_BROKEN: Final = Unreachable("its schema says that it is a decimal, but its bytes are not one of at most 64 bytes")
MOST_BYTES: Final = 64
MOST_SCALE: Final = 100
"""With it and `MOST_BYTES` no decimal is beyond float64."""
_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?", re.ASCII)


def of_connect(schema: Any) -> Convert | None:
    """Return what turns the decimals of an event into numbers, by Connect's schema of it; None if there are none."""
    if not isinstance(schema, dict):
        return None
    kind, name = schema.get("type"), schema.get("name")
    if name == CONNECT_DECIMAL and kind == "bytes":
        parameters = schema.get("parameters")
        scale = _integer(parameters.get("scale") if isinstance(parameters, dict) else None)
        return partial(_decimal, scale=scale)
    if name == VARIABLE_SCALE and kind == "struct":
        return _with_own_scale
    if kind == "struct":
        fields = schema.get("fields")
        named = [field for field in fields if isinstance(field, dict)] if isinstance(fields, list) else []
        inner = {field.get("field"): of_connect(field) for field in named if isinstance(field.get("field"), str)}
        return _of_fields({str(name): convert for name, convert in inner.items() if convert is not None})
    if kind == "array":
        return _of_items(of_connect(schema.get("items")))
    if kind == "map":
        return _of_values(of_connect(schema.get("values")))
    return None


def of_avro(schema: Any) -> Convert | None:
    """Return the same by a schema of Avro, as fastavro parsed it, whose decimals have the attribute `DECIMAL_SCALE`."""
    return _of_avro(schema, {})[1]


_Typed = tuple[type, Convert | None]
"""As what a datum is read, and what converts it."""
_READ_AS: Final[Mapping[str, type]] = {"bytes": bytes, "fixed": bytes, "record": dict, "map": dict, "array": list}


def _of_avro(schema: Any, known: dict[str, _Typed]) -> _Typed:
    if isinstance(schema, list):
        return object, _of_branches([_of_avro(branch, known) for branch in schema])
    if isinstance(schema, str):
        return known.get(schema) or (_READ_AS.get(schema, object), None)
    kind = schema["type"]
    if not isinstance(kind, str):
        return _of_avro(kind, known)
    made: Convert | None = None
    if kind in ("bytes", "fixed") and DECIMAL_SCALE in schema:
        made = partial(_decimal, scale=schema[DECIMAL_SCALE])
    elif kind == "record" and schema["name"] == VARIABLE_SCALE:
        made = _with_own_scale
    elif kind == "record":
        inner = {field["name"]: _of_avro(field["type"], known)[1] for field in schema["fields"]}
        made = _of_fields({name: convert for name, convert in inner.items() if convert is not None})
    elif kind == "array":
        made = _of_items(_of_avro(schema["items"], known)[1])
    elif kind == "map":
        made = _of_values(_of_avro(schema["values"], known)[1])
    typed = _READ_AS.get(kind, object), made
    if "name" in schema:
        known[schema["name"]] = typed
    return known.get(kind, typed)


def _of_branches(branches: list[_Typed]) -> Convert | None:
    """Return what converts a value of a union; where its type is that of two branches, it stays as it is."""
    types = [kind for kind, _ in branches]
    only = {kind: made for kind, made in branches if made is not None and types.count(kind) == 1}

    def convert(value: Any) -> Any:
        found = only.get(type(value))
        return value if found is None else found(value)

    return convert if only else None


# ------------------------------------------------------------------------------------------------------ conversions


def _decimal(value: Any, scale: int | None) -> Any:
    """Return a decimal as a number; null, and what a converter has written as a number, stay as they are."""
    raw = value if isinstance(value, bytes) else None
    if isinstance(value, str):
        if value == UNAVAILABLE:
            return value
        raw = bytes_of(value)
    elif raw is None:
        return value
    made = None if raw is None or scale is None else decimal_of(raw, scale)
    return _BROKEN if made is None else made


def _with_own_scale(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    scale, raw = value.get("scale"), value.get("value")
    if isinstance(scale, bool) or not isinstance(scale, int):
        return _BROKEN
    raw = raw if isinstance(raw, bytes) else bytes_of(raw)
    made = None if raw is None else decimal_of(raw, scale)
    return _BROKEN if made is None else made


def _of_fields(inner: Mapping[str, Convert]) -> Convert | None:
    def convert(value: Any) -> Any:
        if isinstance(value, dict):
            for name in value.keys() & inner.keys():
                value[name] = inner[name](value[name])
        return value

    return convert if inner else None


def _of_items(inner: Convert | None) -> Convert | None:
    def convert(value: Any) -> Any:
        return [inner(item) for item in value] if inner is not None and isinstance(value, list) else value

    return None if inner is None else convert


def _of_values(inner: Convert | None) -> Convert | None:
    def convert(value: Any) -> Any:
        if inner is not None and isinstance(value, dict):
            return {name: inner(one) for name, one in value.items()}
        return value

    return None if inner is None else convert


def bytes_of(text: Any) -> bytes | None:
    """Return the bytes that a text is the base64 of, as an encoder writes them; None if it is not."""
    if type(text) is not str or len(text) > 2 * MOST_BYTES or _BASE64.fullmatch(text) is None:
        return None
    try:
        raw = base64.b64decode(text)
    except binascii.Error:
        return None
    return raw if base64.b64encode(raw).decode() == text else None


def decimal_of(raw: bytes, scale: int) -> float | None:
    """Return an integer, in two's complement and big endian, divided by a power of ten; None if it has no size."""
    if not 1 <= len(raw) <= MOST_BYTES or abs(scale) > MOST_SCALE:
        return None
    unscaled = int.from_bytes(raw, "big", signed=True)
    return unscaled / 10**scale if scale >= 0 else float(unscaled * 10**-scale)


def _integer(text: Any) -> int | None:
    """Return a scale as Connect writes its parameters: as text."""
    return int(text) if isinstance(text, str) and _INTEGER.fullmatch(text) else None


_INTEGER: Final = re.compile("-?[0-9]{1,3}")
