"""Plain values as TOML spells them: what a person may copy into a configuration file."""

from __future__ import annotations

import json
import re
from typing import Final

_BARE: Final = re.compile("[A-Za-z0-9_-]+")


def toml_value(value: object) -> str:
    """Return a plain value as TOML spells it: as JSON does, but for tables."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml_key(name)} = {toml_value(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    return _quoted(value) if isinstance(value, str) else json.dumps(value)


def _quoted(text: str) -> str:
    """Return a text in ASCII: as JSON does, but a character beyond U+FFFF is one escape and not two."""
    return "".join(one if one < "\x7f" else _escaped(ord(one)) for one in json.dumps(text, ensure_ascii=False))


def _escaped(point: int) -> str:
    return f"\\u{point:04x}" if point < 1 << 16 else f"\\U{point:08x}"


def toml_key(name: str) -> str:
    """Return a name as a key of TOML."""
    return name if _BARE.fullmatch(name) else _quoted(name)
