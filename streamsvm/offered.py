"""What a package offers to others is named in its `__init__`, and loaded when it is first used.

A reader of models loads nothing that learns, and a list of commands loads no daemon: so the imports that say where a
name is stand under `TYPE_CHECKING`, where type checkers and people read them, and so does the package itself.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def on_first_use(package: str, file: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package, whose names are those imported under `TYPE_CHECKING` in its file."""
    offered: dict[str, str] = {}

    def of_name(name: str) -> Any:
        if not offered:
            imports = [node for node in ast.walk(ast.parse(Path(file).read_text())) if isinstance(node, ast.ImportFrom)]
            offered.update({each.name: str(node.module) for node in imports for each in node.names})
        where = offered.get(name, "")
        if not where.startswith(package):
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return import_module(f"{package}.{name}") if where == package else getattr(import_module(where), name)

    return of_name
