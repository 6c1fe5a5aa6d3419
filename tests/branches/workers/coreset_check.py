"""Checks what a partition of the coresets topic promises: at every prefix of the log the highest manifest is complete.

A second reading of the keys, by plain dictionaries and without decoding a part: it shares nothing with
`streamsvm.branches.workers.coreset_log`, which workers and trainers read by, but the form of a manifest.

The promise is about the log as it was written. Compaction may have removed an earlier copy of a part that was written
twice: then only the whole log, and every prefix behind the newest copy, holds what it should.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class _Seen:
    values: dict[str, bytes] = field(default_factory=dict)
    manifests: dict[str, Mapping[str, object]] = field(default_factory=dict)
    written: dict[str, bytes] = field(default_factory=dict)
    complete: set[str] = field(default_factory=set)
    highest: str = ""
    named: frozenset[str] = frozenset()
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Checked:
    """What was found.

    Attributes
    ----------
    records, manifests : int
        How many there were.
    rewritten : int
        Parts and manifests that were written again with other bytes, removed meanwhile or not.
    faults : tuple of str
        One for each prefix whose highest manifest lacks a part, or has one with other bytes.
    complete : frozenset of str
        Keys of manifests that were the highest of some prefix and had all parts.
    """

    records: int
    manifests: int
    rewritten: int
    faults: tuple[str, ...]
    complete: frozenset[str]


def check(records: Iterable[tuple[int, bytes, bytes | None]]) -> Checked:
    """Check one partition of the topic.

    Parameters
    ----------
    records : iterable of (offset, key, value)
        From the log's beginning; a value of None is a tombstone.
    """
    seen: defaultdict[str, _Seen] = defaultdict(_Seen)
    faults, count, manifests, rewritten, begun = list[str](), 0, 0, 0, ""
    for offset, raw, value in records:
        count += 1
        name, incarnation, *rest = raw.decode().split("/", 2)
        if incarnation == "o" and value is not None:
            begun = max(begun, rest[0])
        # What an incarnation left is taken away in any order once a later one has begun.
        if incarnation in ("o", "f") or incarnation.partition("-")[0] < begun:
            continue
        (key,) = rest
        own = seen[f"{name}/{incarnation}"]
        if value is not None:
            rewritten += own.written.setdefault(key, value) != value
        kept: dict[str, object] = own.manifests if key.startswith("m/") else own.values  # type: ignore[assignment]
        if value is None:
            kept.pop(key, None)
        elif key.startswith("m/"):
            manifests += 1
            own.manifests[key] = json.loads(value)
        else:
            own.values[key] = value
        _look_again(own, key)
        if own.fault:
            faults.append(f"after offset {offset}, {raw.decode()}: {own.fault}")
    complete = frozenset(key for own in seen.values() for key in own.complete)
    return Checked(count, manifests, rewritten, tuple(faults), complete)


def _look_again(seen: _Seen, changed: str) -> None:
    """Look at the highest manifest, if it is another one now, or the key that changed is one of its parts."""
    highest = max(seen.manifests, default="")
    if highest == seen.highest and changed != highest and changed.rpartition("/")[0] not in seen.named:
        return
    seen.highest, seen.fault, seen.named = highest, "", frozenset()
    if highest:
        manifest = seen.manifests[highest]
        parts = [*manifest["buckets"], manifest["rest"], manifest["newest"]]  # type: ignore[misc]
        seen.named = frozenset(part["name"] for part in parts if part)
        seen.fault = _missing(seen, highest)
        if not seen.fault:
            seen.complete.add(highest)


def _missing(seen: _Seen, highest: str) -> str:
    manifest = seen.manifests[highest]
    parts = [*manifest["buckets"], manifest["rest"], manifest["newest"]]  # type: ignore[misc]
    for part in filter(None, parts):
        value, piece = b"", 0
        while len(value) < part["size"] and (more := seen.values.get(f"{part['name']}/{piece}")):
            value, piece = value + more, piece + 1
        if len(value) != part["size"]:
            return f"{highest} lacks {part['name']}"
        if hashlib.sha256(value[:-32]).hexdigest() != part["name"].rpartition("#")[2]:
            return f"{highest} names {part['name']}, whose bytes have another hash"
    return ""
