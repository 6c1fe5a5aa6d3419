"""The text of a .proto file as a descriptor, without running protoc.

A registry gives the text; not every registry gives the compiled form (Confluent's does on demand, Apicurio 3.0 ignores
the wish), but one may give back what Confluent's client for Python registers, the compiled form in base64. The package
proto-schema-parser reads it, and Google's protobuf resolves names and checks numbers when the descriptor is added to a
pool. Options are not taken over, because none changes how a message is read: whether a field is packed, for example,
stands in its bytes.

Invariant: a text is bounded in size and depth before it is parsed, and what is not proto2 or proto3 is refused.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from streamsvm.ingest.json_rows import nesting

LARGEST_TEXT: Final = 200_000
"""Characters of all files of a schema; parsing so many takes some three seconds."""
DEEPEST_TEXT: Final = 32
MOST_FIELDS: Final = 10_000
"""Of all messages of a schema."""

BUILT_IN: Final[Mapping[str, str]] = {
    f"google/protobuf/{name}.proto": f"google.protobuf.{name}_pb2"
    for name in (
        "any",
        "api",
        "descriptor",
        "duration",
        "empty",
        "field_mask",
        "struct",
        "timestamp",
        "type",
        "wrappers",
    )
}
"""Files that every compiler has, and the modules that hold them."""
OF_OPTIONS: Final = ("confluent/meta.proto",)
"""Files that a registry knows by itself, and of which only options are used."""

_SCALARS: Final = {
    name: number
    for number, name in enumerate(
        ("double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string"), 1
    )
} | {"bytes": 12, "uint32": 13, "sfixed32": 15, "sfixed64": 16, "sint32": 17, "sint64": 18}
_MESSAGE, _GROUP = 11, 10
_OPTIONAL, _REQUIRED, _REPEATED = 1, 2, 3


def parsed(name: str, text: str) -> Any:
    """Return the `FileDescriptorProto` of a file, of its text or of its compiled form in base64.

    Raises
    ------
    ValueError
        Saying what is wrong with the text.
    """
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    if _BASE64.fullmatch(text):
        return _compiled(name, text)
    if nesting(text.encode(errors="replace")) > DEEPEST_TEXT:
        raise ValueError(f"its text nests deeper than {DEEPEST_TEXT}")
    tree = _tree(text)
    if tree.edition is not None or tree.syntax not in (None, "proto2", "proto3"):
        raise ValueError(f"{name or 'it'} is neither proto2 nor proto3")
    made = FileDescriptorProto(name=name or "schema.proto", syntax=tree.syntax or "proto2")
    new = made.syntax == "proto3"
    for element in tree.file_elements:
        kind = type(element).__name__
        if kind == "Package":
            made.package = element.name
        elif kind == "Import":
            made.dependency.append(element.name)
            if element.public:
                made.public_dependency.append(len(made.dependency) - 1)
        elif kind == "Message":
            _fill(made.message_type.add(name=element.name), element.elements, new=new)
        elif kind == "Enum":
            _fill_enum(made.enum_type.add(name=element.name), element.elements)
    return made


_BASE64: Final = re.compile(r"[A-Za-z0-9+/]{8,}={0,2}")
"""No text of a file: that has a space at least."""


def _compiled(name: str, text: str) -> Any:
    """Return what Confluent's client for Python registers, and a registry may give back as it came."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    made = FileDescriptorProto()
    made.ParseFromString(base64.b64decode(text, validate=True))
    if made.syntax not in ("", "proto2", "proto3"):
        raise ValueError(f"{name or 'it'} is neither proto2 nor proto3")
    made.name = name or "schema.proto"
    return made


def _tree(text: str) -> Any:
    from antlr4.error.ErrorListener import ErrorListener
    from proto_schema_parser.parser import Parser

    class Refusing(ErrorListener):  # type: ignore[misc]
        """Ends at the first error; by default errors are printed, and what is left is guessed."""

        def syntaxError(self, recognizer: Any, symbol: Any, line: int, column: int, msg: str, e: Any) -> None:  # noqa: ARG002, N802
            raise ValueError(f"line {line}, column {column}: {msg[:100]}")

    def listen(recognizer: Any) -> None:
        recognizer.removeErrorListeners()
        recognizer.addErrorListener(Refusing())

    return Parser(setup_lexer=listen, setup_parser=listen).parse(text)


def _fill(message: Any, elements: Iterable[Any], *, new: bool) -> None:
    """Fill a `DescriptorProto`; `new` is whether the file is proto3."""
    synthetic: list[Any] = []
    for element in elements:
        kind = type(element).__name__
        if kind == "Message":
            _fill(message.nested_type.add(name=element.name), element.elements, new=new)
        elif kind == "Enum":
            _fill_enum(message.enum_type.add(name=element.name), element.elements)
        elif kind == "OneOf":
            message.oneof_decl.add(name=element.name)
            for inner in element.elements:
                if type(inner).__name__ in ("Field", "Group"):
                    _add_field(message, inner, new=new).oneof_index = len(message.oneof_decl) - 1
        elif kind in ("Field", "Group"):
            field = _add_field(message, element, new=new)
            if new and element.cardinality == "OPTIONAL":
                synthetic.append(field)
        elif kind == "MapField":
            _add_map(message, element)
    for field in synthetic:  # which must come after the others
        field.proto3_optional = True
        message.oneof_decl.add(name=f"_{field.name}")
        field.oneof_index = len(message.oneof_decl) - 1


def _add_field(message: Any, element: Any, *, new: bool) -> Any:
    label = {"REPEATED": _REPEATED, "REQUIRED": _REQUIRED}.get(getattr(element.cardinality, "value", ""), _OPTIONAL)
    if type(element).__name__ == "Group":
        _fill(message.nested_type.add(name=element.name), element.elements, new=new)
        return message.field.add(
            name=element.name.lower(), number=element.number, label=label, type=_GROUP, type_name=element.name
        )
    field = message.field.add(name=element.name, number=element.number, label=label)
    _set_type(field, element.type)
    return field


def _set_type(field: Any, name: str) -> None:
    if name in _SCALARS:
        field.type = _SCALARS[name]
    else:  # a message or an enum: the pool finds out which
        field.type_name = name


def _add_map(message: Any, element: Any) -> None:
    name = "".join(part[:1].upper() + part[1:] for part in element.name.split("_")) + "Entry"
    entry = message.nested_type.add(name=name)
    entry.options.map_entry = True
    for at, (part, kind) in enumerate((("key", element.key_type), ("value", element.value_type)), 1):
        _set_type(entry.field.add(name=part, number=at, label=_OPTIONAL), kind)
    message.field.add(name=element.name, number=element.number, label=_REPEATED, type=_MESSAGE, type_name=name)


def _fill_enum(enum: Any, elements: Iterable[Any]) -> None:
    for element in elements:
        if type(element).__name__ == "EnumValue":
            enum.value.add(name=element.name, number=element.number)
        elif type(element).__name__ == "Option" and element.name == "allow_alias":
            enum.options.allow_alias = bool(element.value)
