"""The permissions that SECURITY.md lists, for who tests that daemons and manifests have them and no others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).parent.parent / "SECURITY.md"
PART: Final = re.compile(r"^## The least permissions\n(.*?)^## ", re.MULTILINE | re.DOTALL)
LINE: Final = re.compile(r"^- \*\*(.+?)\*\*(?: \((.*?)\)|, besides)?: ((?:topic|group) .*(?:\n  .*)*)", re.MULTILINE)
ENTRY: Final = re.compile(r"(topic|group|transactional_id)\s+`(\S+)`:\s+([a-z_]+(?:,\s+[a-z_]+)*)")


def listed() -> list[tuple[str, str, str, str]]:
    """Return who may do what: who, the kind of a resource, its name, one operation."""
    return [
        (who, kind, name, operation)
        for who, _, entries in _lines()
        for kind, name, operations in ENTRY.findall(entries)
        for operation in re.split(r",\s+", operations)
    ]


def permissions_of(who: str) -> list[tuple[str, str, str]]:
    """Return what somebody may do; who works with an option besides may also do what is done without it."""
    return [
        (kind, name, operation) for of, kind, name, operation in listed() if of in (who, who.partition(" with ")[0])
    ]


def commands() -> dict[str, list[str]]:
    """Return the commands that the list names for those who run them."""
    return {who: re.findall(r"`(.+?)`", named) for who, named, _ in _lines()}


def _lines() -> list[tuple[str, str, str]]:
    (part,) = PART.findall(PAGE.read_text())
    return [(who.replace("`", ""), named, entries) for who, named, entries in LINE.findall(part)]
