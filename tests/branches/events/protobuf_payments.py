"""The events of `tests.branches.events.recipes` as Protobuf: a schema of two files, and messages of it."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Any, Final

INSTALLED: Final = find_spec("proto_schema_parser") is not None and find_spec("google.protobuf") is not None
MONEY = 'syntax = "proto3"; package shop; enum Channel { till = 0; web = 1; app = 2; }'
PAYMENT = """
syntax = "proto3";
package shop;
import "money.proto";
import "google/protobuf/wrappers.proto";

// Before it, so that the message indexes are not the shortest ones.
message Other { int32 a = 1; }
message Outer {
  reserved 7, 9 to 11;
  message Payment {
    string id = 1;
    string ts = 2;
    double amount = 3;
    optional double risk = 4;
    google.protobuf.DoubleValue weight = 5;
    Customer customer = 6;
    repeated Item items = 8;
    .shop.Outer.Card card = 12 [deprecated = true];
    Channel channel = 13;
    string merchant = 14;
    bool vip = 15;
    oneof label { bool is_fraud = 16; string unknown = 17; }
    map<string, int32> more = 18;
  }
  message Customer { string since = 1; optional int32 age = 2; }
  message Item { int32 price = 1; }
  message Card { optional string country = 1; }
}
"""
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
