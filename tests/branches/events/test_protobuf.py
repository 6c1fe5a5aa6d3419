"""Raw events as Protobuf and JSON Schema, as Confluent's own serializers write them, and what hostile ones come to."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from streamsvm.branches.events.features.inference import proposal
from streamsvm.branches.events.options import points_of, recipe_from
from streamsvm.branches.events.protobuf import ProtobufReader
from streamsvm.branches.events.sampling import EventSampler
from streamsvm.config import PointsConfig
from streamsvm.errors import InvalidPoint, TransientError
from streamsvm.field_paths import picked
from streamsvm.ingest.decoder import Decoded, PointDecoder
from tests.branches.events.protobuf_payments import (
    FRAME,
    INSTALLED,
    PROTOBUF,
    in_protobuf,
    message_of,
    of_pool,
    payment_class,
)
from tests.branches.events.recipes import payment, payments
from tests.ingest.rows import Raw, Shelf, whys

if not INSTALLED:
    pytest.skip("the packages that read Protobuf are not installed", allow_module_level=True)

from google.protobuf import json_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

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


@pytest.mark.parametrize("labeled", [True, False])
def test_messages_are_the_events_that_they_would_be_in_json(labeled: bool) -> None:
    """Nested messages, arrays, enums, wrappers, optional fields and oneofs: the same points, ids and absences."""
    events = [payment(index) | {"weight": index % 3 + 0.5 if index % 4 else None} for index in range(60)]
    plain = PointDecoder(PointsConfig(**points_of(RECIPE)), labeled=labeled, recipe=RECIPE)
    expected = plain.decode([Raw(json.dumps(event).encode(), at) for at, event in enumerate(events)])
    found = decoded(*map(in_protobuf, events), labeled=labeled)
    assert whys(found) == []
    assert found.rows[0].points.sha256() == expected.rows[0].points.sha256()
    assert found.ids == expected.ids
    assert found.absences == expected.absences


def test_times_maps_and_proto2() -> None:
    """A Timestamp is text, a map an object, a proto2 field that is not set is missing; bytes cannot be read."""
    text = """
    syntax = "proto2";
    import "google/protobuf/timestamp.proto";
    message E { optional google.protobuf.Timestamp at = 1; map<string, double> m = 2; optional double a = 3;
      optional bytes b = 4; repeated int64 n = 5; repeated group G = 6 { required int32 x = 7; } extensions 9 to max; }
    """
    from google.protobuf import timestamp_pb2

    pool = DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(proto_files.parsed("e.proto", text).SerializeToString())
    made = GetMessageClass(pool.FindMessageTypeByName("E"))
    recipe = recipe_from(
        {
            "at": {"as": "time", "parts": ["hour"], "missing": "indicator"},
            "k": {"as": "number", "field": "m.k", "missing": "indicator"},
            "a": {"as": "number", "missing": "indicator"},
            "n": {"as": "number", "field": "n[1]", "missing": "indicator"},
            "x": {"as": "number", "field": "g[0].x", "missing": "indicator"},
        },
        {},
    )
    full = made(m={"k": 2.5, "z": 1.0}, a=1.5, n=[4, 5])
    full.at.FromJsonString("2026-01-31T12:00:00.25Z")
    full.g.add(x=9)
    odd = made()
    odd.at.seconds = 1 << 50
    shelf = Shelf(protobuf={5: {"": text}})
    frame = b"\0\0\0\0\x05\0"
    values = [frame + one.SerializeToString() for one in (full, made(), odd)]
    found = decoded(*values, recipe=recipe, shelf=shelf, labeled=False)
    events = [{"at": "2026-01-31T12:00:00.25Z", "m": {"k": 2.5}, "a": 1.5, "n": [4, 5], "g": [{"x": 9}]}, {}]
    expected = PointDecoder(PointsConfig(**points_of(recipe)), labeled=False, recipe=recipe).decode(
        [Raw(json.dumps(event).encode(), at) for at, event in enumerate(events)]
    )
    assert found.rows[0].points.X[:2].tobytes() == expected.rows[0].points.X.tobytes()
    assert whys(found) == [(2, "wrong_type", "at cannot be read: it is not a time in the years 1 to 9999")]
    bytes_recipe = recipe_from({"b": "number"}, {})
    value = frame + made(b=b"1").SerializeToString()
    ((_, why, what),) = whys(decoded(value, recipe=bytes_recipe, shelf=shelf, labeled=False))
    assert (why, what) == ("wrong_type", "b cannot be read: it is bytes")


@pytest.mark.parametrize(
    ("value", "reason", "what"),
    [
        (b"", "empty_record", "no value"),
        (b"\0\0\0\0", "unframed", "does not begin with a zero byte"),
        (b"\1\0\0\0\x05\0", "unframed", "does not begin with a zero byte"),
        (b"\0\0\0\0\x05", "malformed_protobuf", "ends within its message indexes"),
        (b"\0\0\0\0\x05\x04", "malformed_protobuf", "ends within its message indexes"),
        (b"\0\0\0\0\x05\x7f", "malformed_protobuf", "announces -64 message indexes"),
        (b"\0\0\0\0\x05\x7e", "malformed_protobuf", "announces 63 message indexes"),
        (b"\0\0\0\0\x05\x02\x01", "malformed_protobuf", "has the message index -1"),
        (b"\0\0\0\0\x05\x02\x80\x80\x80\x80\x80\x01", "malformed_protobuf", "more than five bytes"),
        (b"\0\0\0\0\x05\x02\x08", "malformed_protobuf", "no message of the indexes [4]"),
        (FRAME + b"\x0a\xff", "malformed_protobuf", "does not fit its schema"),
        (FRAME + b"\x0a\x01\xff", "malformed_protobuf", "does not fit its schema"),
        (b"\0\0\0\0\x06\0", "unknown_schema", "the registry has no schema 6"),
    ],
)
def test_what_is_no_message_is_a_dead_letter(value: bytes, reason: str, what: str) -> None:
    """With its reason; the neighbours are read."""
    good = in_protobuf(payment(1))
    found = decoded(good, value, good)
    ((at, why, told),) = whys(found)
    assert (at, why) == (1, reason)
    assert what in told


@pytest.mark.parametrize(
    ("files", "what"),
    [
        ({"": "message {"}, "line 1"),
        ({"": 'syntax = "proto3"; message A { int32 a = 1 int32 b = 2; }'}, "line 1"),
        ({"": 'edition = "2023"; message A { int32 a = 1; }'}, "neither proto2 nor proto3"),
        ({"": 'syntax = "proto3"; import "a.proto"; message A { B a = 1; }'}, "not among its references"),
        ({"": 'syntax = "proto3"; message A { B a = 1; }'}, "does not describe events"),
        ({"": 'syntax = "proto3"; message A { int32 a = 0; }'}, "does not describe events"),
        ({"": "message A {" * 40 + "}" * 40}, "nests deeper than 32"),
        ({"": "//" + "x" * 200_000}, "more than 200000 characters"),
        ({"": '{"type": "record"}'}, "line 1"),
        (
            {"": 'syntax = "proto3"; import "a.proto";', "a.proto": 'syntax = "proto3"; import "a.proto";'},
            "imports itself",
        ),
    ],
)
def test_a_schema_that_cannot_be_read_is_the_records_reason(files: dict[str, str], what: str) -> None:
    """Nothing of it is guessed, and it ends nothing."""
    ((_, why, told),) = whys(decoded(b"\0\0\0\0\x05\0", shelf=Shelf(protobuf={5: files})))
    assert why == "incompatible_schema"
    assert what in told


def test_a_schema_that_repeats_messages_of_very_many_fields_is_refused() -> None:
    """A message of hundreds of fields takes room for each, though it has two bytes."""
    fields = "".join(f"int64 f{index} = {index + 1};" for index in range(600))
    text = f'syntax = "proto3"; message A {{ repeated B b = 1; }} message B {{ {fields} }}'
    value = b"\0\0\0\0\x05\0" + b"\x0a\0" * 100_000
    shelf = Shelf(protobuf={5: {"": text}})
    ((_, why, _),) = whys(decoded(value, recipe=recipe_from({"a": "number"}, {}), shelf=shelf, labeled=False))
    assert why == "incompatible_schema"


def test_debeziums_envelope_is_read_in_protobuf_too() -> None:
    """The state after a change; a deletion has none."""
    text = """
    syntax = "proto3";
    message Change { Value before = 1; Value after = 2; string op = 3; }
    message Value { double a = 1; optional string unread = 2; }
    """
    made = of_pool({"change.proto": text}, "Change")
    recipe = recipe_from({"a": "number"}, {"envelope": "debezium"})
    frame = b"\0\0\0\0\x05\0"
    changes = [made(op="c"), made(op="u"), made(op="d"), made(op="c")]
    changes[0].after.a = 2.5
    changes[1].before.a = 1.0
    changes[2].before.a = 1.0
    changes[3].after.unread = "x"
    values = [frame + change.SerializeToString() for change in changes]
    found = decoded(*values, recipe=recipe, shelf=Shelf(protobuf={5: {"": text}}), labeled=False)
    assert found.rows[0].accepted.tolist() == [True, False, False, True]
    assert found.rows[0].points.X[[0, 3], 0].tolist() == [2.5, 0.0]
    assert found.passed_over == {"delete": 1}
    assert [(at, why) for at, why, _ in whys(found)] == [(1, "wrong_envelope")]


def test_an_absent_registry_decides_nothing() -> None:
    """The batch is decoded again."""
    away = Shelf(protobuf=SHELF.protobuf, away=True)
    reader = decoder(shelf=away)
    with pytest.raises(TransientError):
        reader.decode([Raw(in_protobuf(payment(1)))])
    away.away = False
    assert not reader.decode([Raw(in_protobuf(payment(1)))]).rejected


def test_hostile_messages_are_read_as_googles_own_json_says_or_refused() -> None:
    """Mutated bytes, against `MessageToDict` and the events' own reader."""
    chance = random.Random(5)
    reader = ProtobufReader(SHELF)
    paths = (("amount",), ("risk",), ("customer", "age"), ("items", 0, "price"), ("card", "country"), ("merchant",))
    accepted = 0
    for index in range(1_500):
        value = bytearray(in_protobuf(payment(index)))
        for _ in range(chance.randint(1, 3)):
            value[chance.randrange(len(FRAME), len(value))] = chance.randrange(256)
        message = payment_class()()
        try:
            message.ParseFromString(bytes(value[len(FRAME) :]))
        except Exception:  # noqa: BLE001 - whatever it raises
            with pytest.raises(InvalidPoint):
                reader.event_of(bytes(value), paths)
            continue
        accepted += 1
        event = reader.event_of(bytes(value), paths)
        told = json_format.MessageToDict(message, preserving_proto_field_name=True)
        assert str(event["amount"]) == str(float(told.get("amount", 0.0)))
        assert event.get("merchant", "") == told.get("merchant", "")
        assert ("risk" in event) == ("risk" in told)
        assert event.get("customer", {}).get("age") == told.get("customer", {}).get("age")
        assert event.get("card", {}).get("country") == told.get("card", {}).get("country")
        assert len(event["items"]) == min(1, len(told.get("items", [])))
    assert accepted > 100


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


def test_json_schema_is_json_behind_a_frame() -> None:
    """The schema is not asked for; a value without the frame is refused."""
    recipe = recipe_from({"a": "number"}, {})
    config = PointsConfig(**points_of(recipe), format="json-schema")
    reader = PointDecoder(config, labeled=False, recipe=recipe)
    values = [b'\0\0\0\0\x01{"a": 2.5}', b'{"a": 2.5}', b"\0\0\0\0\x01{", b'\0\0\0\0\x01[{"a": 1}, {"a": "x"}]']
    found = reader.decode([Raw(value, at) for at, value in enumerate(values)])
    assert found.rows[0].accepted.tolist() == [True, False, False, True, False]
    assert [(at, why) for at, why, _ in whys(found)] == [
        (1, "unframed"),
        (2, "malformed_json"),
        (3, "wrong_type"),
    ]
    assert not reader.is_array(Raw(values[0]))
    assert reader.is_array(Raw(values[3]))


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
