"""Moves of people: what the aliases hold of them, and what the audit trail tells of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Any

from tests.promise.anomalies import Anomaly, each
from tests.promise.records import Record, split

OWN_ALIASES = ("head", "owner", "retired", "current", "erased")
"""Keys that name no version that people chose; all others are people's moves."""


def entries_of(audit: Iterable[Record]) -> list[Record]:
    """Return what people did, as the audit trail tells it."""
    return [one for one in audit if one.committed and one.value and one.value.get("by") != "trainer"]


def check(aliases: Iterable[Record], audit: Iterable[Record], names: Collection[str]) -> list[Anomaly]:
    """Compare, for each key that people move, what the aliases and what the audit trail say, step by step."""
    moved: dict[str, list[Any]] = defaultdict(list)
    audited: dict[str, list[Any]] = defaultdict(list)
    for one in aliases:
        name, alias = split(one.key)
        if one.committed and name in names and alias not in OWN_ALIASES:
            moved[one.key or ""].append(one.value["number"] if one.value else None)
    for one in entries_of(audit):
        if "alias" in one.value:
            audited[one.value["alias"]].append(one.value["to"])
    return each(
        "torn-move",
        "aliases and audit trail tell of different moves",
        (key for key in sorted(moved.keys() | audited.keys()) if moved[key] != audited[key]),
    )
