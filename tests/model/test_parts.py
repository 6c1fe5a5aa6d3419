"""Named parts of a message: what a reader passes over, what it refuses, and how the order and the names are checked."""

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
WHAT_TO_DO: Final = (
    "Upgrade the reader. If no build reads it, the version is from before the first release: publish under a new name, "
    "or start the trainer with --reset."
)


def value_of(kind: str = "linear") -> Any:
    return json.loads(golden.path_of(kind).read_bytes())


def decode(value: Any) -> Any:
    return codec.decode(json.dumps(value).encode())


def with_parts(*more: Any, kind: str = "linear") -> Any:
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
        "packed",
        "probability",
        "recipe",
        "threshold",
    ]
    assert {name for _, name in EACH} == {part.name for part in every_part()} == names()


@pytest.mark.parametrize("kind", every_model.KINDS)
def test_parts_are_written_in_ascending_order(kind: str) -> None:
    """So the same version is the same bytes."""
    names = [part["part"] for part in json.loads(codec.encode(every_model.handmade(kind)))["parts"]]
    assert names == sorted(set(names))


def test_the_release_that_wrote_an_unknown_part_is_named() -> None:
    """It, or a later one, reads the version."""
    value = with_parts({"part": "zone"})
    value["lineage"]["build"]["streamsvm"] = "0.1.1"
    with pytest.raises(UnknownFormat) as refused:
        decode(value)
    assert refused.value.remedy == "Upgrade the reader to streamsvm 0.1.1, which wrote it, or later."


@pytest.mark.parametrize("kind", every_model.KINDS)
def test_an_unknown_part_that_no_answer_depends_on_is_passed_over(kind: str) -> None:
    """First, between and last; the version is the same, and names them."""
    names = ("info_", "info_later", "info_zzz")
    value = with_parts(*({"part": name, "anything": [{}, None]} for name in names), kind=kind)
    VALIDATOR.validate(value)
    found = decode(value)
    assert found.passed_over == names
    assert as_json(replace(found, passed_over=())) == as_json(every_model.handmade(kind))
    assert codec.decode(golden.path_of(kind).read_bytes()).passed_over == ()


def test_a_message_of_before_the_first_release_is_refused_with_what_to_do() -> None:
    """Whatever else is in it; those of the first format had its name, but no parts."""
    value = {"format": "streamsvm.model/4", "probability": None, "audit": None}
    with pytest.raises(UnknownFormat, match=r"the message format is 'streamsvm\.model/4'") as refused:
        decode(value)
    assert refused.value.remedy == WHAT_TO_DO
    value = value_of()
    del value["parts"]
    with pytest.raises(UnknownFormat) as refused:
        decode(value)
    assert str(refused.value) == f"the message has no list `parts`. {WHAT_TO_DO}"


def test_a_message_of_another_program_is_no_other_format() -> None:
    """There is no build of this one that reads it."""
    with pytest.raises(InvalidMessage, match=r"the message format is 'someone\.else/1'") as refused:
        decode(value_of() | {"format": "someone.else/1"})
    assert not isinstance(refused.value, UnknownFormat)
    assert "Upgrade" not in str(refused.value)
