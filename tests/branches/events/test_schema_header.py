"""A schema named in the header `__value_schema_id`: read before any frame, in every format, and for every reader."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest

from streamsvm.branches.events.features.recipe import Recipe
from streamsvm.branches.events.options import points_of, recipe_from
from streamsvm.branches.events.sampling import EventSampler
from streamsvm.config import PointsConfig
from streamsvm.ingest.decoder import REASONS, REMEDIES, Decoded, PointDecoder
from streamsvm.ingest.framed import SCHEMA_HEADER
from streamsvm.ingest.label_records import LabelDecoder
from tests.branches.events.protobuf_payments import INSTALLED, message_of, payment_class
from tests.branches.events.recipes import payment, payments
from tests.codec.rows import InColumns, Raw, Shelf, whys
from tests.codec.test_label_records import Raw as Label
from tests.codec.test_schema_header import BY_GUID, BY_ID, GUID, NEW, bare, raw

OLD: dict[str, Any] = {
    "type": "record",
    "name": "E",
    "fields": [{"name": "amount", "type": "double"}, {"name": "fraud", "type": "int"}],
}
ZEROS: dict[str, Any] = dict.fromkeys(("kind", "shop", "day", "hour"), 0) | {"minute": -1, "amount": 52.5, "fraud": 1}
SHELF = Shelf({1: json.dumps(OLD), str(GUID): json.dumps(NEW), 7: json.dumps(NEW)})
LABEL = {"label": {"field": "fraud", "negative": [0], "positive": [1]}}


def events(format_: Any, recipe: Recipe, shelf: Shelf, *records: Raw, labeled: bool = True) -> Decoded:
    config = PointsConfig(**points_of(recipe), format=format_)
    return PointDecoder(config, labeled=labeled, schemas=shelf, recipe=recipe).decode(InColumns(records))


@pytest.mark.parametrize("header", [BY_GUID, BY_ID], ids=["GUID", "id"])
@pytest.mark.parametrize("envelope", ["none", "debezium"])
@pytest.mark.parametrize("labeled", [True, False], ids=["trainer", "scorer"])
def test_bare_avro_that_begins_with_zeros_is_read_by_its_header(header: bytes, envelope: str, labeled: bool) -> None:
    """The value begins as a frame of schema 1 does, under which it is a valid event, too: 52.5 would be another one."""
    schema, datum = NEW, ZEROS
    if envelope == "debezium":
        state = ["null", NEW]
        fields = [{"name": "op", "type": "string"}, {"name": "after", "type": state, "default": None}]
        schema, datum = {"type": "record", "name": "C", "fields": fields}, {"op": "c", "after": ZEROS}
    shelf = Shelf({1: json.dumps(OLD), str(GUID): json.dumps(schema), 7: json.dumps(schema)})
    value = bare(schema, datum)
    recipe = recipe_from({"minute": "number", "amount": "number"}, {**LABEL, "envelope": envelope})
    if envelope == "none":
        assert value.startswith(b"\0\0\0\0\1")
    found = events("avro", recipe, shelf, *(raw(value, header, at) for at in range(3)), labeled=labeled)
    assert whys(found) == []
    assert found.rows[0].points.X.tolist() == [[-1.0, 52.5]] * 3
    assert set(shelf.asked) == {str(GUID) if header is BY_GUID else 7}


def test_records_with_the_header_and_framed_ones_stand_side_by_side() -> None:
    """Each is read by what names its schema, in columns and one by one; the last of several headers counts."""
    recipe = recipe_from({"amount": "number"}, LABEL)
    framed = b"\0\0\0\0\1" + bare(OLD, {"amount": 1.5, "fraud": 0})
    headed = bare(NEW, ZEROS)
    records = [
        raw(framed, None, 0),
        raw(headed, BY_GUID, 1),
        raw(headed, BY_ID, 2, (SCHEMA_HEADER, b"\0\0\0\0\1")),
        raw(framed, None, 3, ("trace", b"1")),
        raw(headed, BY_GUID, 4),
        raw(headed[:-1], BY_GUID, 5),
        raw(b"", BY_GUID, 6),
        raw(framed, None, 7),
    ]
    found = events("avro", recipe, SHELF, *records)
    assert [(at, why) for at, why, _ in whys(found)] == [(5, "malformed_avro"), (6, "empty_record")]
    expected = [1.5, 52.5, 52.5, 1.5, 52.5, 0.0, 0.0, 1.5]
    assert found.rows[0].points.X[:, 0].tolist() == expected
    apart = [events("avro", recipe, SHELF, record).rows[0].points.X[0, 0] for record in records]
    assert apart == expected


@pytest.mark.parametrize("format_", ["avro", "protobuf", "json-schema"])
@pytest.mark.parametrize("header", [b"", b"\0", b"\0\0\0\1", b"\2" + bytes(16), b"\1" + bytes(15), b"7"])
def test_a_header_that_names_no_schema_is_a_dead_letter(format_: str, header: bytes) -> None:
    """The value's own bytes are not looked at instead."""
    if format_ == "protobuf" and not INSTALLED:
        pytest.skip("the packages that read Protobuf are not installed")
    value = b'\0\0\0\0\1{"amount": 1.5, "fraud": 1}'
    found = events(format_, recipe_from({"amount": "number"}, LABEL), SHELF, raw(value, header))
    ((_, why, what),) = whys(found)
    assert why == "malformed_schema_id"
    assert f"holds {len(header)} bytes" in what


def test_bytes_behind_a_schema_in_the_header_are_no_part_of_the_value() -> None:
    """Only Protobuf has something there."""
    recipe = recipe_from({"amount": "number"}, LABEL)
    for format_, value in (("avro", bare(NEW, ZEROS)), ("json-schema", b'{"amount": 1.5, "fraud": 1}')):
        ((_, why, _),) = whys(events(format_, recipe, SHELF, raw(value, BY_GUID + b"\0")))
        assert why == "malformed_schema_id"


def test_json_with_the_header_is_read_whole() -> None:
    """A frame in front of it is not taken off, and named; labels and plain JSON need no frame either."""
    recipe = recipe_from({"amount": "number"}, LABEL)
    value = b'{"amount": 1.5, "fraud": 1}'
    found = events("json-schema", recipe, SHELF, raw(value, BY_GUID, 0), raw(b"\0\0\0\0\1" + value, BY_GUID, 1))
    assert found.rows[0].points.X[0].tolist() == [1.5]
    ((at, why, what),) = whys(found)
    assert (at, why) == (1, "framed")
    assert "the schema id 1, and then JSON" in what
    assert whys(events("auto", recipe, SHELF, raw(value, BY_GUID))) == []
    config = PointsConfig(dimension=1, labels=(0, 1))
    label = b'{"id": "a", "y": 1}'
    headed = Label(label, headers=((SCHEMA_HEADER, BY_GUID),))
    labels, rejected = LabelDecoder(config, "id").decode([headed, Label(b"\0\0\0\0\1" + label)])
    assert labels[0].keys == [b"a", b""]
    assert [one.reason for bad in rejected for one in bad.rejections] == ["framed"]


def test_a_value_that_is_framed_where_it_should_not_be_says_so() -> None:
    """And the reverse, with what it looks like; the remedy names the option."""
    recipe = recipe_from({"amount": "number"}, LABEL)
    value = b'{"amount": 1.5, "fraud": 1}'
    framed = b"\0\0\0\0\x2a"
    for format_, one, reason, what in (
        ("json", framed + value, "framed", "the schema id 42, and then JSON"),
        ("json", framed + b"\2\4", "framed", "such as Avro or Protobuf"),
        ("avro", value, "unframed", "it looks like plain JSON"),
        ("json-schema", value, "unframed", "it looks like plain JSON"),
        ("avro", b"Obj\x01" + bytes(20), "unframed", "an Avro object container file"),
        ("avro", b"\xc3\x01" + bytes(20), "unframed", "single-object encoding"),
        ("avro", b"\2\4\6\x08\x0a\x0c", "unframed", "begins with the bytes 02 04 06"),
    ):
        ((_, why, told),) = whys(events(format_, recipe, SHELF, raw(one, None)))
        assert why == reason
        assert what in told
        assert "points.format" in REMEDIES[why]
        assert why in REASONS
    ((_, why, what),) = whys(events("auto", recipe, SHELF, raw(bare(NEW, ZEROS), BY_GUID)))
    assert why in ("framed", "malformed_json")
    ((_, why, what),) = whys(events("auto", recipe, SHELF, raw(b"\2\4\6", BY_GUID)))
    assert why == "malformed_json"
    assert "the header __value_schema_id names a schema" in what
    points = PointDecoder(PointsConfig(dimension=1, labels=(0, 1))).decode([raw(framed + b'{"x": [1], "y": 1}', None)])
    assert [why for _, why, _ in whys(points)] == ["framed"]


def test_an_unknown_guid_is_a_dead_letter() -> None:
    """As an unknown id is."""
    recipe = recipe_from({"amount": "number"}, LABEL)
    ((_, why, what),) = whys(events("avro", recipe, Shelf(), raw(bare(NEW, ZEROS), BY_GUID)))
    assert why == "unknown_schema"
    assert str(GUID) in what


# ------------------------------------------------------------------------------------------- Confluent's serializers


class _Answers:
    """What a registry's client knows, as a source of schemas."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def _found(self, schema_id: int | str) -> Any:
        by_guid = isinstance(schema_id, str)
        return self._client.get_schema_by_guid(schema_id) if by_guid else self._client.get_schema(schema_id)

    def schema(self, schema_id: int | str) -> str | None:
        text: str = self._found(schema_id).schema_str
        return text

    def files(self, schema_id: int | str) -> dict[str, str]:
        found = self._found(schema_id)
        files = {"": found.schema_str}
        for one in found.references:
            files[one.name] = self._client.get_version(one.subject, one.version).schema.schema_str
        return files


def written_by(format_: str, client: Any) -> list[Raw]:
    """Return payments that Confluent's serializer wrote with the schema in the header."""
    from confluent_kafka.schema_registry import header_schema_id_serializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    options = {"schema.id.serializer": header_schema_id_serializer}
    made = [payment(index) for index in range(20)]
    serialize: Any
    if format_ == "avro":
        from confluent_kafka.schema_registry.avro import AvroSerializer

        serialize = AvroSerializer(client, json.dumps(NEW), conf=options)
        made = [ZEROS | {"amount": index + 0.5} for index in range(20)]
    elif format_ == "protobuf":
        from confluent_kafka.schema_registry.protobuf import ProtobufSerializer

        serialize = ProtobufSerializer(payment_class(), client, {**options, "use.deprecated.format": False})
        made = [message_of(event) for event in made]
    else:
        from confluent_kafka.schema_registry.json_schema import JSONSerializer

        serialize = JSONSerializer('{"title": "A", "type": "object"}', client, conf=options)
    records = []
    for at, one in enumerate(made):
        headers: list[tuple[str, Any]] = []
        value = serialize(one, SerializationContext("payments", MessageField.VALUE, headers))
        records.append(Raw(value, at, headers=tuple(headers)))
    return records


@pytest.mark.parametrize("format_", ["avro", "protobuf", "json-schema"])
def test_what_confluents_serializers_write_with_the_header_is_read(format_: str) -> None:
    """By a client that stands in for a registry: the same points as from the framed values, and the same proposal."""
    if format_ == "protobuf" and not INSTALLED:
        pytest.skip("the packages that read Protobuf are not installed")
    from confluent_kafka.schema_registry import SchemaRegistryClient

    client = SchemaRegistryClient.new_client({"url": "mock://"})
    shelf: Any = _Answers(client)
    records = written_by(format_, client)
    assert all(dict(record.headers)[SCHEMA_HEADER][0] == 1 for record in records)
    recipe = recipe_from({"minute": "number", "amount": "number"}, LABEL) if format_ == "avro" else payments()
    found = events(format_, recipe, shelf, *records)
    assert whys(found) == []
    if format_ == "avro":
        assert found.rows[0].points.X[:, 1].tolist() == [index + 0.5 for index in range(20)]
    else:
        plain = [Raw(json.dumps(payment(at)).encode(), at) for at in range(20)]
        assert found.rows[0].points.sha256() == events("json", recipe, shelf, *plain).rows[0].points.sha256()
    sampled = list(EventSampler(format_, "none", shelf).events(records))  # type: ignore[arg-type]
    assert len(sampled) == 20
    assert "amount" in sampled[0]


# ---------------------------------------------------------------------------------- the old encoding of the indexes


def varints(*numbers: int) -> bytes:
    made = bytearray()
    for number in numbers:
        while number >= 0x80:
            made.append(number & 0x7F | 0x80)
            number >>= 7
        made.append(number)
    return bytes(made)


def zigzag(*numbers: int) -> bytes:
    return varints(*(2 * number for number in numbers))


@pytest.mark.skipif(not INSTALLED, reason="the packages that read Protobuf are not installed")
@pytest.mark.parametrize("in_header", [False, True], ids=["in the value", "in the header"])
def test_message_indexes_in_the_old_encoding_are_read(in_header: bool) -> None:
    """As plain varints, wherever they cannot be zigzag numbers; what could be either is read as zigzag."""
    text = """
    syntax = "proto3";
    message A { double a = 1; message M { double a = 1; } message N { double a = 1; message O { double a = 1; } } }
    message B { double a = 1; }
    message C { double a = 1; message P { double a = 1; } message Q { double a = 1; } }
    """
    shelf = Shelf(protobuf={5: {"": text}})
    recipe = recipe_from({"a": "number"}, {})
    message = b"\x09" + struct.pack("<d", 2.5)

    def decoded(indexes: bytes, body: bytes = message) -> Decoded:
        frame = b"\0\0\0\0\5" + indexes
        record = raw(body, frame) if in_header else raw(frame + body, None)
        return events("protobuf", recipe, shelf, record, labeled=False)

    for indexes in ((0,), (1,), (2,), (0, 1), (2, 1), (0, 1, 0)):
        new, old = zigzag(len(indexes), *indexes), varints(len(indexes), *indexes)
        for written in (new, old):
            found = decoded(written)
            assert whys(found) == [], (indexes, written)
            assert found.rows[0].points.X.tolist() == [[2.5]]
    assert whys(decoded(b"\0")) == []
    for unreadable in (varints(1, 7), varints(2, 2, 7)):
        ((_, why, what),) = whys(decoded(unreadable))
        assert why == "malformed_protobuf"
        assert "use.deprecated.format" in what
