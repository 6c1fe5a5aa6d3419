"""What is said of a schema's id in front of a value, where it is missing, and where a header names the schema."""

from __future__ import annotations

from typing import Any

from streamsvm.branches.events.features.recipe import Recipe
from streamsvm.branches.events.options import points_of, recipe_from
from streamsvm.config import PointsConfig
from streamsvm.ingest import REASONS, REMEDIES, SCHEMA_HEADER, Decoded, PointDecoder
from tests.ingest.rows import SHELF, InColumns, Raw, whys

LABEL = {"label": {"field": "fraud", "negative": [0], "positive": [1]}}


def events(format_: Any, recipe: Recipe, *records: Raw) -> Decoded:
    config = PointsConfig(**points_of(recipe), format=format_)
    return PointDecoder(config, schemas=SHELF, recipe=recipe).decode(InColumns(records))


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
        ((_, why, told),) = whys(events(format_, recipe, Raw(one)))
        assert why == reason
        assert what in told
        assert "points.format" in REMEDIES[why]
        assert why in REASONS
    points = PointDecoder(PointsConfig(dimension=1, labels=(0, 1))).decode([Raw(framed + b'{"x": [1], "y": 1}')])
    assert [why for _, why, _ in whys(points)] == ["framed"]


def test_a_record_whose_header_names_its_schema_is_refused_with_the_way_out() -> None:
    """Whatever its value begins with."""
    recipe = recipe_from({"x": "number"}, LABEL)
    headed = Raw(b"\0\0\0\0\1", headers=((SCHEMA_HEADER, b"\0\0\0\0\1"),))
    for format_ in ("avro", "protobuf", "json-schema"):
        ((_, why, what),) = whys(events(format_, recipe, headed))
        assert why == "unframed"
        assert "let the serializer write the schema's id in front of the value" in what
