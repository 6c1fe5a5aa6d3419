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
    return json.dumps(value)


def toml_key(name: str) -> str:
    """Return a name as a key of TOML."""
    return name if _BARE.fullmatch(name) else json.dumps(name)
