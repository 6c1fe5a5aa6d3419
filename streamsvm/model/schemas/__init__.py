"""The JSON Schema (draft 2020-12) of a version's value: one file, for programs in any language.

``model-1.schema.json`` is assembled from ``trunk.schema.json`` and from the schema beside the module of each named part
(`streamsvm.model.parts`); ``python -m streamsvm.model.schemas`` prints it. It names every field and refuses any other,
as the codec does, and accepts unknown parts whose names begin with ``info_``. What relates two fields, such as the
number of entries and `dimension`, and the order of the parts, only the codec checks.
"""

from __future__ import annotations

import json
from importlib import resources
from typing import Any, Final

from streamsvm.model.parts import every_part, names
from streamsvm.named_parts import PASSED_OVER

_WIDTH: Final = 160


def assembled() -> dict[str, Any]:
    """Return the schema made of its parts, as it stands in the file."""
    trunk, known = _read(__name__, "trunk"), sorted(names())
    definitions = trunk["$defs"]
    for part in sorted(every_part(), key=lambda part: part.name):
        package, _, module = part.encode.__module__.rpartition(".")
        schema = _read(package, module)
        inner = schema.pop("$defs", {})
        assert definitions.keys().isdisjoint({part.name, *inner}), part.name
        assert part.name not in inner, part.name
        definitions |= {part.name: schema, **inner}
    definitions["passed_over"] = {
        "description": "A part that a reader may pass over, of a later release.",
        "type": "object",
        "required": ["part"],
        "properties": {"part": {"type": "string", "pattern": f"^{PASSED_OVER}", "not": {"enum": known}}},
    }
    trunk["properties"]["parts"]["items"] = {"oneOf": [{"$ref": f"#/$defs/{name}"} for name in (*known, "passed_over")]}
    return trunk


def shown(value: Any, indent: int = 0, before: int = 0) -> str:
    """Return JSON in lines of `_WIDTH`, where no text is longer: what fits into a line stands in one."""
    line = json.dumps(value, ensure_ascii=False)
    if not value or not isinstance(value, dict | list) or indent + before + len(line) < _WIDTH:
        return line
    margin = " " * (indent + 2)
    if isinstance(value, dict):
        keys = {json.dumps(name): one for name, one in value.items()}
        lines = [f"{margin}{name}: {shown(one, indent + 2, len(name) + 2)}" for name, one in keys.items()]
    else:
        lines = [margin + shown(one, indent + 2) for one in value]
    first, last = "{}" if isinstance(value, dict) else "[]"
    return f"{first}\n" + ",\n".join(lines) + f"\n{' ' * indent}{last}"


def _read(package: str, name: str) -> dict[str, Any]:
    text = resources.files(package).joinpath(f"{name}.schema.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
