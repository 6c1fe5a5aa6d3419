"""The JSON Schema of model messages says what the codec writes, and nothing else passes it."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import jsonschema
import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamsvm.errors import InvalidMessage
from streamsvm.model import message as codec
from streamsvm.model.ancestry import Ancestor, linked
from streamsvm.model.machine import Model
from streamsvm.model.schemas import model_schema
from tests.codec.test_probes import models
from tests.golden import model as golden

VALIDATOR: Final = jsonschema.Draft202012Validator(model_schema())
OPEN: Final = ("lineage.configuration", "lineage.build")
"""Objects whose fields are not the format's."""


def golden_value(kernel: str) -> Any:
    return json.loads(golden.path_of(golden.FORMATS[-1], kernel).read_bytes())


def objects(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every object of a value whose fields are the format's, with its path."""
    if path in OPEN or not isinstance(value, dict | list):
        return
    if isinstance(value, dict):
        yield path, value
    for name, part in value.items() if isinstance(value, dict) else enumerate(value):
        yield from objects(part, f"{path}.{name}".lstrip("."))


def at(value: Any, path: str) -> Any:
    for part in filter(None, path.split(".")):
        value = value[int(part) if isinstance(value, list) else part]
    return value


ADDED: Final = ("probes", "probability")
"""What the first messages of the format lack."""
FIELDS: Final = [
    (kernel, path, name)
    for kernel in golden.KERNELS
    for path, found in objects(golden_value(kernel))
    for name in found
    if (kernel == "linear" or path in ("model", "probability")) and (path, name) != ADDED
]


def refused(value: Any) -> None:
    """Require that the schema and the codec refuse a value."""
    assert not VALIDATOR.is_valid(value)
    with pytest.raises(InvalidMessage):
        codec.decode(json.dumps(value).encode())


def test_the_schema_is_one() -> None:
    """It obeys its own draft, and is the one that the headers name."""
    jsonschema.Draft202012Validator.check_schema(model_schema())
    assert model_schema()["$id"] == codec.SCHEMA
    assert model_schema()["properties"]["format"]["const"] == codec.FORMAT


@pytest.mark.parametrize("kernel", golden.KERNELS)
def test_golden_messages_are_valid(kernel: str) -> None:
    """Those of the newest format; an older one is not."""
    VALIDATOR.validate(golden_value(kernel))
    for older in golden.FORMATS[:-1]:
        assert not VALIDATOR.is_valid(json.loads(golden.path_of(older, kernel).read_bytes()))


def test_the_first_messages_of_the_format_are_valid() -> None:
    """Without the field that came later."""
    value = golden_value("linear")
    del value["probes"]["probability"]
    VALIDATOR.validate(value)


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


@pytest.mark.parametrize(("kernel", "path", "name"), FIELDS)
def test_a_field_removed_renamed_or_of_another_type_is_refused(kernel: str, path: str, name: str) -> None:
    """By the schema and by the codec alike."""
    was = at(golden_value(kernel), path)[name]
    changes = {
        "removed": {},
        "renamed": {f"{name}_": was},
        "object or list": {name: [] if isinstance(was, dict) else {}},
        "text or list": {name: [was] if isinstance(was, str) else "text"},
    }
    for instead in changes.values():
        value = golden_value(kernel)
        parent = at(value, path)
        del parent[name]
        parent |= instead
        refused(value)


@pytest.mark.parametrize("kernel", golden.KERNELS)
def test_a_field_more_is_refused_wherever_it_stands(kernel: str) -> None:
    """In every object whose fields are the format's."""
    places = [path for path, _ in objects(golden_value(kernel))]
    assert len(places) > 10
    for path in places:
        value = golden_value(kernel)
        at(value, path)["surprise"] = 1
        refused(value)


@pytest.mark.parametrize(
    ("path", "name", "wrong"),
    [
        ("", "version", 0),
        ("", "format", "streamsvm.model/2"),
        ("", "labels", [1]),
        ("features", "dimension", 0),
        ("features", "scale", [1.0, 0.0, 1.0]),
        ("training", "class_weight", [0.0, 1.0]),
        ("probes", "x", []),
        ("audit", "points", 0),
        ("probability", "method", "beta"),
    ],
)
def test_a_value_that_cannot_be_is_refused(path: str, name: str, wrong: object) -> None:
    """What the schema can see without counting entries, it sees."""
    value = copy.deepcopy(golden_value("linear"))
    at(value, path)[name] = wrong
    refused(value)
