"""The events of `tests.branches.events.recipes` as Protobuf: a schema of two files, and messages of it."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

INSTALLED: Final = find_spec("proto_schema_parser") is not None and find_spec("google.protobuf") is not None
PAYMENT, MONEY = (Path(__file__).with_name(name).read_text() for name in ("payment.proto", "money.proto"))
PROTOBUF: Final = {5: {"": PAYMENT, "money.proto": MONEY}}
FRAME: Final = b"\0\0\0\0\x05\x04\x02\0"
"""Schema 5, and two indexes: message 1, and message 0 within it."""


def of_pool(texts: dict[str, str], name: str) -> Any:
    """Return the class of a message, of files that import those after them."""
    from google.protobuf import wrappers_pb2
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message_factory import GetMessageClass

    from streamsvm.branches.events import proto_files

    pool = DescriptorPool()
    pool.AddSerializedFile(wrappers_pb2.DESCRIPTOR.serialized_pb)
    for file, text in reversed(texts.items()):
        pool.AddSerializedFile(proto_files.parsed(file, text).SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName(name))


@cache
def payment_class() -> Any:
    """Return the class of the messages."""
    return of_pool({"payment.proto": PAYMENT, "money.proto": MONEY}, "shop.Outer.Payment")


def message_of(event: dict[str, Any]) -> Any:
    """Return an event as a message."""
    from google.protobuf import json_format

    return json_format.ParseDict(event, payment_class()(), ignore_unknown_fields=True)


def in_protobuf(event: dict[str, Any]) -> bytes:
    """Return an event as a record."""
    value: bytes = FRAME + message_of(event).SerializeToString()
    return value
