"""What Python's readers make of a message: refused with words, or what the record holds."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from streamsvm.branches.history import decode_erased
from streamsvm.errors import InvalidMessage
from streamsvm.ingest import scores_of
from streamsvm.kafka import Record
from streamsvm.model import Alias, decode_head, decode_owner, decode_retired, message as codec
from streamsvm.places import SOURCE_HEADER, source_of
from streamsvm.registry import aliases_in
from tests.contract.cases import Case

NAME: Final = "pulsar"
"""The model of every message."""
CURRENT: Final = "pulsar@current"


def alias(value: bytes) -> Alias:
    """Return what a reader of the aliases topic takes an alias for; it refuses one that names no version."""
    found = aliases_in([Record("aliases", 0, 0, CURRENT.encode(), value, (), None, None)], NAME)
    if found.faults:
        raise InvalidMessage(found.faults[0])
    return found.named[CURRENT]


POINTERS: Final[Mapping[str, Callable[[bytes], Any]]] = {
    "alias": alias,
    "head": decode_head,
    "owner": decode_owner,
    "retired": decode_retired,
    "erased": decode_erased,
}


def told(case: Case) -> Any:
    """Return the words of a refusal, or what the record holds; of a model nothing, of scores as `says` has it."""
    value = case.value or b""
    try:
        if case.read == "model":
            codec.decode(value)
            return None
        if case.read == "scores":
            return _scores(case, value)
        return json.loads(msgspec.json.encode(POINTERS[case.read](value)))
    except InvalidMessage as refused:
        return str(refused)


def _scores(case: Case, value: bytes) -> Any:
    headers = case.record.headers
    place = source_of(headers)
    count = scores_of(value, headers, place.topic, NAME) if place else 1
    if not count:
        return "this is no score of the model"
    said = {name: text.decode() for name, text in headers}
    rows = msgspec.json.decode(value) if place else []
    return {
        "source": f"{place.topic}/{place.partition}/{place.offset}" if place else None,
        "modelSha256": said.get("streamsvm.model.sha256"),
        "scores": count,
        "ids": [str(row.get("id")) for row in (rows if isinstance(rows, list) else [rows])],
    } if place or SOURCE_HEADER not in said else None  # fmt: skip


def fault(case: Case, language: str, found: Any) -> str:
    """Return in what a language's answer differs from what the case says; empty if in nothing."""
    words = case.said.get("refused") if language in (case.by or language) else None
    if words is None:
        if isinstance(found, str):
            return f"{case.name}: {language} refuses it: {found}"
        expected = case.said.get("says")
        is_other = isinstance(expected, dict) and any(found.get(name) != one for name, one in expected.items())
        return f"{case.name}: {language} reads {found}" if is_other else ""
    if not isinstance(found, str):
        return f"{case.name}: {language} does not refuse it"
    more = case.said["says"] if language == "Python" and case.read == "model" and "says" in case.said else ""
    wanted = (words, more) if language == "Python" or case.read == "model" else ("",)
    return "" if all(one in found for one in wanted) else f"{case.name}: {language} says {found}"
