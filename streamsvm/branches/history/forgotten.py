"""Rows that an archive must not remember, by their positions.

A forgotten row is learned as one that was rejected when it came: it keeps its place in the count of rows, and changes
nothing else. So buckets without it are those of a stream in which a rejected row stood there, byte for byte.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from streamsvm.errors import CorruptCheckpoint
from streamsvm.model.left_out import Places
from streamsvm.points import Position

MOST: Final = 1 << 20
"""Most forgotten rows: their list is read at every start."""
Forgotten = Places


@dataclass(frozen=True, slots=True)
class Listed:
    """What `forgotten.json` says.

    Attributes
    ----------
    rows : mapping of partition to frozenset of Position
        No bucket and no open span is made of them.
    erased : str
        SHA-256 of the record `name@erased` whose places are all among them; empty where rows were forgotten of the
        archive alone.
    """

    rows: Mapping[int, frozenset[Position]] = field(default_factory=dict)
    erased: str = ""


def union(one: Forgotten, other: Forgotten) -> dict[int, frozenset[Position]]:
    """Return the positions of both."""
    return {p: frozenset(one.get(p, ())) | frozenset(other.get(p, ())) for p in sorted(one.keys() | other.keys())}


def encode_rows(forgotten: Forgotten) -> dict[str, list[list[int]]]:
    """Return positions as a plain value: only places, nothing of what stood there."""
    return {str(p): sorted(list(at) for at in own) for p, own in sorted(forgotten.items()) if own}


def decode_rows(plain: Any) -> dict[int, frozenset[Position]]:
    """Read positions from a plain value.

    Raises
    ------
    CorruptCheckpoint
    """
    try:
        found = {int(p): frozenset(Position(int(at[0]), int(at[1])) for at in own) for p, own in plain.items()}
    except (ValueError, TypeError, AttributeError, IndexError, OverflowError) as error:
        raise CorruptCheckpoint(f"it is damaged: {error}") from None
    if sum(map(len, found.values())) > MOST:
        raise CorruptCheckpoint(f"it names more than {MOST} rows")
    return found


def encode(listed: Listed) -> bytes:
    """Return the bytes of `forgotten.json`."""
    return json.dumps({"erased": listed.erased, "rows": encode_rows(listed.rows)}, sort_keys=True).encode() + b"\n"


def decode(content: bytes) -> Listed:
    """Read the bytes of `forgotten.json`.

    Raises
    ------
    CorruptCheckpoint
        Also if it has a field that this build does not know.
    """
    try:
        plain = json.loads(content)
        if set(plain) != {"erased", "rows"} or type(plain["erased"]) is not str:
            raise CorruptCheckpoint(f"its fields are {', '.join(map(str, plain))}; this build reads erased and rows")
    except (ValueError, TypeError, RecursionError) as error:
        raise CorruptCheckpoint(f"it is damaged: {error}") from None
    return Listed(decode_rows(plain["rows"]), plain["erased"])
