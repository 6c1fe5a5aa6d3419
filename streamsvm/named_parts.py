"""Named parts: how a message or a checkpoint holds what only some of them have.

A format is a fixed trunk and a list ``parts`` of JSON objects, each of which names itself in its field ``part``. The
list is in ascending order of the names, so the same parts are the same bytes, and a part that is there twice is seen in
every language without a parser of its own.

The name of a part says what a reader that does not know the part must do:

- A name that begins with `PASSED_OVER` (``info_``) belongs to a part that no answer depends on: an estimate, a remark,
  where something comes from. A reader passes over the part, and says so where the reader is a verifier.
- Any other name belongs to a part without which the rest means something else. A reader that does not know the name
  refuses the whole by that name.

A later release may therefore add a part without a new number of the format: an ``info_`` part where older readers may
go on, another name where they must stop. A release that changes the trunk, or what a part means, takes the next number.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

import msgspec

PASSED_OVER: Final = "info_"
"""Beginning of the name of a part that a reader may pass over."""


class UnknownPart(ValueError):
    """A part that this build does not know, and whose name does not say that it may be passed over.

    Attributes
    ----------
    name : str
    """

    def __init__(self, name: str) -> None:
        super().__init__(f"it has the part {name!r}, which this build does not know")
        self.name = name


class _Named(msgspec.Struct):
    part: str


def sorted_parts(parts: Iterable[msgspec.Struct]) -> list[msgspec.Struct]:
    """Return encoded parts in the order in which they are written; the tag of each struct is its name."""
    return sorted(parts, key=lambda part: str(part.__struct_config__.tag))


def named_parts(parts: Sequence[msgspec.Raw], known: Collection[str]) -> tuple[dict[str, msgspec.Raw], tuple[str, ...]]:
    """Return the known parts by name, and the names of those that are passed over.

    Raises
    ------
    UnknownPart
        If a part is not known and may not be passed over.
    ValueError
        If a part has no name, is there twice, or stands before one whose name comes first.
    """
    found: dict[str, msgspec.Raw] = {}
    passed_over: list[str] = []
    before = ""
    for raw in parts:
        try:
            name = msgspec.json.decode(raw, type=_Named).part
        except msgspec.DecodeError as error:
            raise ValueError(f"an entry of `parts` has no name: {error}") from None
        if name == before:
            raise ValueError(f"the part {name!r} is there twice")
        if name < before:
            raise ValueError(f"the part {name!r} stands after {before!r}: parts are in ascending order of their names")
        before = name
        if name in known:
            found[name] = raw
        elif name.startswith(PASSED_OVER):
            passed_over.append(name)
        else:
            raise UnknownPart(name)
    return found, tuple(passed_over)
