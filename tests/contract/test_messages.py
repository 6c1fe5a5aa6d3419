"""Python's readers of model messages, pointers and scores make of every case what it says, and so do the schemas."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

import jsonschema
import pytest
import yaml

from tests.contract.cases import cases
from tests.contract.messages import fault, told
from tests.interop.programs import DEPLOY
from tests.schemas import model_schema

KINDS: Final = ("model", "alias", "head", "owner", "retired", "erased", "scores")
MESSAGES: Final = cases(*KINDS)
VALIDATOR: Final = jsonschema.Draft202012Validator(model_schema())
DESCRIBED_LOOSELY: Final = {
    "head: a gate of an unknown outcome",
    "head: a cut without a partition",
    *(f"head: without {name}" for name in ("training_set_sha256", "build", "links")),
    "retired: a field of a later release",
    "retired: without others",
    "retired: a version below zero",
    "erased: a field of a later release",
    "erased: a row below zero",
}
"""Records that `asyncapi.yaml` takes, and the reader refuses."""


def test_every_message_is_read_or_refused_as_its_case_says() -> None:
    """The refusal says the words of the case; a record holds what the case says, and nothing is passed over in it."""
    assert [why for case in MESSAGES if (why := fault(case, "Python", told(case)))] == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_case_that_is_changed_by_hand_is_found(kind: str) -> None:
    """Another word of the refusal, and a message that is read where it should be refused, or the other way."""
    refused = next(case for case in cases(kind) if "refused" in case.said and not case.by)
    good = next(case for case in cases(kind) if "refused" not in case.said)
    for case, said in (
        (refused, {}),
        (refused, {"refused": "something else"}),
        (good, {**good.said, "refused": ""}),
        *([(good, {**good.said, "says": {"number": -1}})] if kind != "model" else []),
    ):
        assert fault(replace(case, said=said), "Python", told(case)), said


def test_the_schema_takes_every_model_message_that_is_read() -> None:
    """And refuses the others, but those that say `valid`: it compares no list with another, and computes nothing."""
    taken = {case.name for case in cases("model") if VALIDATOR.is_valid(json.loads(case.value or b""))}
    assert taken == {case.name for case in cases("model") if "refused" not in case.said or case.said.get("valid")}


def test_what_is_described_is_what_is_read() -> None:
    """`asyncapi.yaml` takes the pointers and scores that Python reads; of those it refuses, all but a few."""
    components = yaml.safe_load((DEPLOY.parent / "streamsvm" / "asyncapi.yaml").read_text())["components"]
    loose = set()
    for case in cases(*KINDS[1:]):
        schema: Any = {"$ref": f"#/components/schemas/{case.read}", "components": components}
        try:
            is_valid = jsonschema.Draft202012Validator(schema).is_valid(json.loads(case.value or b""))
        except ValueError:
            is_valid = False
        assert is_valid or "refused" in case.said or "later release" in case.name, case.name
        loose |= {case.name} if is_valid and "refused" in case.said and len(case.by or KINDS) > 2 else set()
    assert loose == DESCRIBED_LOOSELY
