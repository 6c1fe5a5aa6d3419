"""The permissions that SECURITY.md lists, for who tests that daemons and manifests have them and no others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).parent.parent / "SECURITY.md"
LINE: Final = re.compile(r"^- \*\*([\w -]+)\*\*: ((?:topic|group) .*(?:\n  .*)*)", re.MULTILINE)
ENTRY: Final = re.compile(r"(topic|group|transactional_id)\s+`(\S+)`:\s+([a-z, ]+)")


def listed() -> list[tuple[str, str, str, str]]:
    """Return who may do what: who, the kind of a resource, its name, one operation."""
    return [
        (who, kind, name, operation)
        for who, entries in LINE.findall(PAGE.read_text())
        for kind, name, operations in ENTRY.findall(entries)
        for operation in operations.split(", ")
    ]
