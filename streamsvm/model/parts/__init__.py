"""The named parts of a version: each has a module that encodes, decodes and checks it, with its schema beside.

=================  ====================================================================================================
part               stands in a version
=================  ====================================================================================================
`additive`         of additive machines: curves and surfaces of each
`classes`          of more than two labels: what each machine tells apart, and how each was fitted
`info_audit`       whose objective over the whole stream is estimated
`info_memory`      that is not of everything that was learned
`packed`           whose support vectors are places on a grid and whose dual coefficients are float32 values
`probability`      that has probabilities
`threshold`        that answers the second label above another decision value than 0
=================  ====================================================================================================

Branches add theirs at the socket ``message_parts``.

The names follow the rule of `streamsvm.named_parts`: without an ``info_`` part every answer stays the same. A part is
added here, and nowhere else: a module with `PART`, a schema beside it, and a line in `OWN`, or in the branch's `PLUGS`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

import msgspec

from streamsvm.errors import InvalidMessage, UnknownFormat
from streamsvm.model.parts import (
    additive_part,
    audit_part,
    classes_part,
    memory_part,
    packed_part,
    probability_part,
    threshold_part,
)
from streamsvm.model.parts.draft import Draft
from streamsvm.model.parts.part import MessagePart
from streamsvm.model.version import Version
from streamsvm.named_parts import PASSED_OVER, UnknownPart, named_parts, sorted_parts
from streamsvm.sockets import plugged

FIRST: Final[tuple[MessagePart, ...]] = (
    classes_part.PART,  # the number of machines follows from it
    additive_part.PART,
    packed_part.PART,
)
OWN: Final[tuple[MessagePart, ...]] = (
    audit_part.PART,
    memory_part.PART,
    probability_part.PART,
    threshold_part.PART,
)
"""The trunk's other parts."""


@cache
def every_part() -> tuple[MessagePart, ...]:
    """Return every part, in the order in which they are decoded."""
    others = (*OWN, *plugged("message_parts", MessagePart))
    return (*FIRST, *sorted(others, key=lambda part: part.name.removeprefix(PASSED_OVER)))


@cache
def names() -> frozenset[str]:
    """Return the names of all parts."""
    return frozenset(part.name for part in every_part())


def encoded(version: Version) -> list[msgspec.Struct]:
    """Return the parts of a version, in ascending order of their names."""
    found = (part.encode(version) for part in every_part())
    return sorted_parts(one for one in found if one is not None)


def decode_into(draft: Draft, parts: Sequence[msgspec.Raw]) -> tuple[str, ...]:
    """Let every part add to a draft what the part says.

    Returns
    -------
    tuple of str
        Names of parts that were passed over.

    Raises
    ------
    UnknownFormat
        If a part is not known and must not be passed over; names it.
    InvalidMessage
        If a part is there twice, is missing, is cut short, or contradicts the trunk or itself; names it.
    """
    try:
        found, passed_over = named_parts(parts, names())
    except UnknownPart as error:
        raise UnknownFormat(f"the message cannot be read: {error}", _upgrade(draft.lineage.build)) from None
    except ValueError as error:
        raise InvalidMessage(f"the message cannot be read: {error}") from None
    if len(draft.labels) > 2 and classes_part.PART.name not in found:
        missing = classes_part.PART.name
        raise InvalidMessage(f"there are {len(draft.labels)} labels, but the part {missing!r} is missing")
    for part in every_part():
        if part.name not in found:
            continue
        try:
            form = msgspec.json.decode(found[part.name], type=part.form)
        except msgspec.DecodeError as error:
            raise InvalidMessage(f"the part {part.name!r} cannot be read: {error}") from None
        part.decode(form, draft)
    return passed_over


def _upgrade(build: Mapping[str, str]) -> str:
    """Return what to do about a part that only another build knows, which a lineage names."""
    wrote = build.get("streamsvm")
    return f"Upgrade the reader to streamsvm {wrote}, which wrote it, or later." if wrote else "Upgrade the reader."
