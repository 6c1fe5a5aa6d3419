"""Raw events as Protobuf and JSON Schema, as Confluent's own serializers write them, and what hostile ones come to."""

from __future__ import annotations

from typing import Any

import pytest

from streamsvm.branches.events.features.inference import proposal
from streamsvm.branches.events.options import points_of, recipe_from
from streamsvm.branches.events.sampling import EventSampler
from streamsvm.config import PointsConfig
from streamsvm.errors import TransientError
from streamsvm.field_paths import picked
from streamsvm.ingest import Decoded, PointDecoder
from tests.branches.events.protobuf_payments import INSTALLED, PROTOBUF, in_protobuf, message_of, payment_class
from tests.branches.events.recipes import payment, payments
from tests.ingest.rows import Raw, Shelf, whys

if not INSTALLED:
    pytest.skip("the packages that read Protobuf are not installed", allow_module_level=True)

from google.protobuf.descriptor_pb2 import FileDescriptorProto

from streamsvm.branches.events import proto_files

RECIPE = payments()
SHELF = Shelf(protobuf=PROTOBUF)


def decoder(recipe: Any = RECIPE, shelf: Any = SHELF, *, labeled: bool = True, **options: Any) -> PointDecoder:
    config = PointsConfig(**points_of(recipe), format="protobuf", **options)
    return PointDecoder(config, labeled=labeled, schemas=shelf, recipe=recipe)


def decoded(*values: bytes, **options: Any) -> Decoded:
    return decoder(**options).decode([Raw(value, at) for at, value in enumerate(values)])


def test_a_sample_has_every_single_value_of_a_message() -> None:
    """So that a proposal can be made of it as of JSON: nested fields, the first entry of an array, no map, no bytes."""
    sampler = EventSampler("protobuf", "none", SHELF)
    events = [payment(index) for index in range(60)]
    found = list(sampler.events(Raw(value, at) for at, value in enumerate([*map(in_protobuf, events), b"nonsense"])))
    assert dict(sampler.unreadable) == {"unframed": 1}
    assert [event["card"].get("country") for event in found] == [event["card"]["country"] for event in events]
    for path in (("amount",), ("channel",), ("ts",), ("customer", "since"), ("is_fraud",)):
        assert picked(found, path) == picked(events, path)
    assert picked(found, ("items", 0, "price")) == picked(events, ("items", 0, "price"))
    proposed = {one.path for one in proposal(found, ("is_fraud",)).fields if one.options is not None}
    assert {("amount",), ("channel",), ("vip",), ("card", "country")} <= proposed


def test_a_schema_that_repeats_messages_of_very_many_fields_is_refused() -> None:
    """A message of hundreds of fields takes room for each, though it has two bytes."""
    fields = "".join(f"int64 f{index} = {index + 1};" for index in range(600))
    text = f'syntax = "proto3"; message A {{ repeated B b = 1; }} message B {{ {fields} }}'
    value = b"\0\0\0\0\x05\0" + b"\x0a\0" * 100_000
    shelf = Shelf(protobuf={5: {"": text}})
    ((_, why, _),) = whys(decoded(value, recipe=recipe_from({"a": "number"}, {}), shelf=shelf, labeled=False))
    assert why == "incompatible_schema"
    long = Shelf(protobuf={5: {"": "//" + "x" * 200_000}})
    ((_, why, told),) = whys(decoded(b"\0\0\0\0\x05\0", shelf=long))
    assert (why, "more than 200000 characters" in told) == ("incompatible_schema", True)


def test_an_absent_registry_decides_nothing() -> None:
    """The batch is decoded again."""
    away = Shelf(protobuf=SHELF.protobuf, away=True)
    reader = decoder(shelf=away)
    with pytest.raises(TransientError):
        reader.decode([Raw(in_protobuf(payment(1)))])
    away.away = False
    assert not reader.decode([Raw(in_protobuf(payment(1)))]).rejected


def test_what_confluents_own_serializers_write_is_read() -> None:
    """Protobuf and JSON Schema, with a schema as the client registers it, by a client that stands in for a registry."""
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.json_schema import JSONSerializer
    from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    client = SchemaRegistryClient.new_client({"url": "mock://"})
    context = SerializationContext("payments", MessageField.VALUE)
    serialize = ProtobufSerializer(payment_class(), client, {"use.deprecated.format": False})
    events = [payment(index) for index in range(10)]
    values = [serialize(message_of(event), context) for event in events]
    schema = client.get_schema(int.from_bytes(values[0][1:5], "big"))
    files = {"": schema.schema_str}
    for one in schema.references:
        files[one.name] = client.get_version(one.subject, one.version).schema.schema_str
    shelf = Shelf(protobuf={int.from_bytes(values[0][1:5], "big"): files})
    found = decoded(*values, shelf=shelf)
    assert whys(found) == []
    expected = decoded(*map(in_protobuf, events))
    assert found.rows[0].points.sha256() == expected.rows[0].points.sha256()

    recipe = recipe_from({"a": "number"}, {})
    described = '{"title": "A", "type": "object", "properties": {"a": {"type": "number"}}}'
    value = JSONSerializer(described, client)({"a": 2.5}, context)
    config = PointsConfig(**points_of(recipe), format="json-schema")
    rows = PointDecoder(config, labeled=False, recipe=recipe).decode([Raw(value)]).rows[0]
    assert rows.points.X.tolist() == [[2.5]]


def test_a_descriptor_is_what_protoc_would_make() -> None:
    """Of Google's own files, whose text and compiled form both come with the package."""
    made = proto_files.parsed(
        "a.proto", 'syntax = "proto3"; package p; message A { optional int32 x = 1; map<string, A> m = 2; }'
    )
    expected = FileDescriptorProto(name="a.proto", package="p", syntax="proto3")
    message = expected.message_type.add(name="A")
    message.field.add(name="x", number=1, label=1, type=5, oneof_index=0, proto3_optional=True)
    entry = message.nested_type.add(name="MEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=1, type=9)
    entry.field.add(name="value", number=2, label=1, type_name="A")
    message.field.add(name="m", number=2, label=3, type=11, type_name="MEntry")
    message.oneof_decl.add(name="_x")
    assert made == expected
