"""A record as any reader finds it, and the few questions that every invariant asks of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record of a log.

    `value`: The value's JSON, or the part of it that matters; None of a tombstone or where the value is no JSON.
    `sha256`: Of the value; None of a tombstone. `content`: The value's bytes, where whoever read the record kept them.
    `t`: When it was read, in seconds; 0 where that does not matter.
    """

    topic: str
    partition: int
    offset: int
    key: str | None
    value: Any = None
    sha256: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    committed: bool = True
    content: bytes | None = None
    t: float = 0.0

    @property
    def place(self) -> tuple[str, int]:
        """Topic and partition."""
        return self.topic, self.partition

    @property
    def at(self) -> str:
        """Where the record stands, for people."""
        return f"{self.topic}[{self.partition}]@{self.offset}"

    @property
    def identity(self) -> tuple[str | None, str | None]:
        """What makes it this record and no other."""
        return self.key, self.sha256


def of_bytes(
    topic: str,
    partition: int,
    offset: int,
    key: bytes | None,
    value: bytes | None,
    headers: Iterable[tuple[str, bytes]] = (),
    *,
    committed: bool = True,
) -> Record:
    """Return a record as a client hands it over."""
    sha256, parsed = (None, None) if value is None else _read(value)
    return Record(
        topic=topic,
        partition=partition,
        offset=offset,
        key=None if key is None else key.decode(errors="replace"),
        value=parsed,
        sha256=sha256,
        headers={name: (content or b"").decode(errors="replace") for name, content in headers},
        committed=committed,
        content=value,
    )


@lru_cache(maxsize=1 << 12)
def _read(value: bytes) -> tuple[str, Any]:
    """Return the hash and the JSON of a value; simulated worlds that begin alike hold the same ones."""
    try:
        parsed = json.loads(value)
    except ValueError:
        parsed = None
    return hashlib.sha256(value).hexdigest(), parsed


def split(key: str | None) -> tuple[str, str]:
    """Return name and number, or name and alias, of a key."""
    name, _, rest = (key or "").rpartition("@")
    return name, rest


def is_version(record: Record) -> bool:
    """Tell whether a record of the models topic stands under a version's key, and is no tombstone."""
    return split(record.key)[1].isdigit() and record.sha256 is not None


def published(models: Iterable[Record], name: str) -> list[Record]:
    """Return the committed versions of a model, in the order of the topic."""
    return [one for one in models if one.committed and is_version(one) and split(one.key)[0] == name]


def number_of(version: Record) -> int:
    """Return the number in a version's key."""
    return int(split(version.key)[1])


Cut = dict[int, tuple[int, int]]
"""Of each partition the offset and the row, which moves alone where labels come later."""


def cut_of(version: Record) -> Cut:
    """Return how far a version learned."""
    return positions([] if version.value is None else version.value["lineage"]["cut"])


def positions(parts: Iterable[Mapping[str, Any]]) -> Cut:
    """Return the positions that the parts of a cut, or of a base, hold."""
    return {part["partition"]: (part["offset"], part["row"]) for part in parts}


def incarnation_of(version: Record) -> int:
    """Return the incarnation that published a version, as its header says."""
    return int(version.headers.get("streamsvm.incarnation", "1"))
