"""Named parts of a message: which there are, and what a reader passes over; `tests/contract` has what it refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import jsonschema
import pytest

from streamsvm.errors import InvalidMessage, UnknownFormat
from streamsvm.model import message as codec
from streamsvm.model.parts import every_part, names
from streamsvm.named_parts import PASSED_OVER
from tests.golden import every_model, model as golden
from tests.golden.checkpoint import as_json
from tests.schemas import model_schema

VALIDATOR: Final = jsonschema.Draft202012Validator(model_schema())


def value_of(kind: str) -> Any:
    return json.loads(golden.path_of(kind).read_bytes())


def with_parts(kind: str, *more: Any) -> Any:
    """Return a golden value with further parts, all in the order of their names."""
    value = value_of(kind)
    return value | {"parts": sorted([*value["parts"], *more], key=lambda part: part["part"])}


def each_part() -> Iterator[tuple[str, str]]:
    """Yield a kind of version and a part of it, every part once."""
    seen = set()
    for kind in every_model.KINDS:
        for name in golden.parts_of(value_of(kind)).keys() - seen:
            seen.add(name)
            yield kind, name


EACH: Final = sorted(each_part())


def test_the_parts_are_those_of_the_documentation() -> None:
    """Each is in a golden version; those that begin with ``info_`` change no answer, the others do."""
    assert [part.name for part in every_part() if not part.name.startswith(PASSED_OVER)] == [
        "classes",
        "additive",
        "packed",
        "probability",
        "recipe",
        "threshold",
    ]
    assert {name for _, name in EACH} == {part.name for part in every_part()} == names()


@pytest.mark.parametrize("kind", every_model.KINDS)
def test_an_unknown_part_that_no_answer_depends_on_is_passed_over(kind: str) -> None:
    """First, between and last; the version is the same, and names them."""
    names = ("info_", "info_later", "info_zzz")
    value = with_parts(kind, *({"part": name, "anything": [{}, None]} for name in names))
    VALIDATOR.validate(value)
    found = codec.decode(json.dumps(value).encode())
    assert found.passed_over == names
    assert as_json(replace(found, passed_over=())) == as_json(every_model.handmade(kind))
    assert codec.decode(golden.path_of(kind).read_bytes()).passed_over == ()


def test_a_message_of_another_program_is_no_other_format() -> None:
    """There is no build of this one that reads it."""
    with pytest.raises(InvalidMessage, match=r"the message format is 'someone\.else/1'") as refused:
        codec.decode(json.dumps(value_of("linear") | {"format": "someone.else/1"}).encode())
    assert not isinstance(refused.value, UnknownFormat)
    assert "Upgrade" not in str(refused.value)
