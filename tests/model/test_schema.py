"""The JSON Schema of model messages says what the codec writes, and nothing else passes it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from importlib import resources
from typing import Any, Final

import jsonschema
import msgspec
import pytest
from hypothesis import example, given, settings, strategies as st

from streamsvm.errors import InvalidMessage
from streamsvm.model import message as codec
from streamsvm.model.ancestry import Ancestor, linked
from streamsvm.model.machine import Model
from streamsvm.model.parts import every_part
from streamsvm.model.schemas import assembled, shown
from tests.golden import every_model, model as golden
from tests.model.test_probes import models
from tests.schemas import model_schema

VALIDATOR: Final = jsonschema.Draft202012Validator(model_schema())
OPEN: Final = re.compile(r"lineage\.(configuration|build)|parts\.\w+\.(recipe\.zones|examples\.\d+\.(event|columns))")
"""Objects whose fields are not the format's."""


def golden_value(kind: str) -> Any:
    """Return a golden value with its parts by their names, so that a path names the part."""
    value = json.loads(golden.path_of(kind).read_bytes())
    return value | {"parts": golden.parts_of(value)}


def as_message(value: Any) -> Any:
    parts = value.get("parts")
    return value | {"parts": list(parts.values())} if parts and isinstance(parts, dict) else value


def objects(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every object of a value whose fields are the format's, with its path."""
    if OPEN.fullmatch(path) or not isinstance(value, dict | list):
        return
    if isinstance(value, dict) and path != "parts":
        yield path, value
    for name, part in value.items() if isinstance(value, dict) else enumerate(value):
        yield from objects(part, f"{path}.{name}".lstrip("."))


def at(value: Any, path: str) -> Any:
    for part in filter(None, path.split(".")):
        value = value[int(part) if isinstance(value, list) else part]
    return value


def places() -> list[tuple[str, str]]:
    """Return kind and path of every object of any kind of version, each once.

    Of a list of like objects the first stands for all; an entry of a list of unlike ones is named with what it is.
    """
    found: dict[tuple[str, ...], tuple[str, str]] = {}
    for kind in every_model.KINDS:
        for path, inside in objects(golden_value(kind)):
            like = re.sub(r"\.\d+", ".0", path)
            said = [str(inside[name]) for name in ("kernel", "method", "as") if name in inside]
            found.setdefault((like, *said, *sorted(inside)), (kind, path))
    return list(found.values())


PLACES: Final = places()
FIELDS: Final = [(kind, path, name) for kind, path in PLACES for name in at(golden_value(kind), path)]


def refused(value: Any) -> None:
    """Require that the schema and the codec refuse a value."""
    message = as_message(value)
    assert not VALIDATOR.is_valid(message)
    with pytest.raises(InvalidMessage):
        codec.decode(json.dumps(message).encode())


def test_the_schema_is_one() -> None:
    """It obeys its own draft, and is the one that the headers name."""
    jsonschema.Draft202012Validator.check_schema(model_schema())
    assert model_schema()["$id"] == codec.SCHEMA
    assert model_schema()["properties"]["format"]["const"] == codec.FORMAT


def test_the_schema_is_assembled_of_trunk_and_parts() -> None:
    """The file is what ``python -m streamsvm.model.schemas`` prints."""
    assert assembled() == model_schema()
    kept = resources.files("streamsvm.model.schemas").joinpath("model-1.schema.json").read_text("utf-8")
    assert kept == shown(assembled()) + "\n"


def test_every_part_has_its_fields_in_the_schema() -> None:
    """As the codec has them, all of them required."""
    definitions = model_schema()["$defs"]
    for part in every_part():
        names = {"part", *part.form.__struct_fields__}
        assert set(definitions[part.name]["required"]) == definitions[part.name]["properties"].keys() == names


@settings(max_examples=100, deadline=None)
@given(model=models(), number=st.integers(1, 2**53), parent=st.none() | st.just("ab" * 32), audited=st.booleans())
@example(model=golden.handmade("rbf").model, number=1, parent=None, audited=True)
@example(model=golden.handmade("linear").model, number=1, parent=None, audited=True)
def test_whatever_is_written_is_valid(model: Model, number: int, parent: str | None, *, audited: bool) -> None:
    """Any model that the codec takes passes the schema."""
    version = golden.handmade("linear")
    links = tuple(Ancestor(one, "ab" * 32) for one in linked(number))
    lineage = msgspec.structs.replace(version.lineage, parent=parent, links=links)
    changed = replace(version, model=model, number=number, lineage=lineage, feature_names=())
    value = codec.encode(changed if audited else replace(changed, audit=None))
    codec.decode(value)
    VALIDATOR.validate(json.loads(value))


@pytest.mark.parametrize(("kind", "path", "name"), FIELDS)
def test_a_field_removed_renamed_or_of_another_type_is_refused(kind: str, path: str, name: str) -> None:
    """By the schema and by the codec alike."""
    was = at(golden_value(kind), path)[name]
    was = list(was.values()) if (path, name) == ("", "parts") else was
    changes = {
        "removed": {},
        "renamed": {f"{name}_": was},
        "object or list": {name: [] if isinstance(was, dict) else {}},
        "text or list": {name: [was] if isinstance(was, str) else "text"},
    }
    for change, instead in changes.items():
        value = golden_value(kind)
        parent = at(value, path)
        if change == "removed" and has_default(path, name, parent):
            continue
        del parent[name]
        parent |= instead
        refused(value)


def has_default(path: str, name: str, parent: Any) -> bool:
    """Tell whether a field of a recipe may be left out."""
    if not path.startswith("parts.recipe.recipe"):
        return False
    definitions = model_schema()["$defs"]
    schema = definitions["recipe"]["properties"]["recipe"]
    if "as" in parent:
        schema = definitions[parent["as"]]
    elif path != "parts.recipe.recipe":
        return False
    return name not in schema["required"]


def test_a_field_more_is_refused_wherever_it_stands() -> None:
    """In every object whose fields are the format's."""
    assert len(PLACES) > 40
    for kind, path in PLACES:
        value = golden_value(kind)
        at(value, path)["surprise"] = 1
        refused(value)
