"""The header of a version's record with what was found of its skill, of two labels or of more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from streamsvm.model import class_skill
from streamsvm.model.class_skill import ClassSkill, class_complaint, class_doubt
from streamsvm.model.skill import DIGITS, HEADER, LARGEST_BYTES, Skill, complaint, doubt

__all__ = ["HEADER", "AnySkill", "complaint_of", "decode", "doubt_of", "encode"]

AnySkill = Skill | ClassSkill
_FORMS: Final[tuple[tuple[type[AnySkill], int], ...]] = (
    (Skill, LARGEST_BYTES),
    (ClassSkill, class_skill.LARGEST_BYTES),
)


def encode(skill: AnySkill) -> str:
    """Return the header's content."""
    return msgspec.json.encode(_short(msgspec.to_builtins(skill))).decode()


def decode(headers: Iterable[tuple[str, bytes]]) -> AnySkill | None:
    """Return what the headers of a version's record say; None if that is nothing, or nothing that makes sense."""
    found = dict(headers).get(HEADER)
    if found is None:
        return None
    for form, largest_bytes in _FORMS:
        if len(found) <= largest_bytes:
            try:
                return msgspec.json.decode(found, type=form)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue
    return None


def complaint_of(skill: AnySkill, labels: Sequence[Any], *, weighted: bool) -> str:
    """Return, as a clause, what is wrong with a version's answers, of two labels or of more; empty if nothing is."""
    if isinstance(skill, ClassSkill):
        return class_complaint(skill, labels, weighted=weighted)
    return complaint(skill, (labels[0], labels[1]), weighted=weighted)


def doubt_of(skill: AnySkill, labels: Sequence[Any]) -> str:
    """Return, as a clause, why it is not clear yet whether a version knows something; empty if it is."""
    if isinstance(skill, ClassSkill):
        return class_doubt(skill)
    return doubt(skill, (labels[0], labels[1]))


def _short(value: Any) -> Any:
    match value:
        case dict():
            return {key: _short(each) for key, each in value.items()}
        case list() | tuple():
            return [_short(each) for each in value]
        case float():
            return float(f"{value:.{DIGITS}g}")
    return value
