"""The product's modules, parsed."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Final

PRODUCT: Final = ("streamsvm", "consumers", "deploy")
NOT_OURS: Final = {"node_modules", "target", "__pycache__", "build", "dist"}
BRANCHES: Final = "branches"
APART: Final = {BRANCHES, "papers", "drop_in"}
"""Folders that are no trunk: what has one of these names on its path below the top-level folder."""
BESIDE: Final = (
    "consumers/evaluate/*", "consumers/replay/*", "consumers/demo/*", "consumers/sizing/*", "consumers/cli/sizing.py",
    "consumers/cli/file_*.py", "consumers/cli/evaluate.py", "consumers/cli/replay*.py", "consumers/cli/demo*.py",
    "consumers/cli/score.py", "consumers/cli/verify*.py", "streamsvm/ingest/files/*", "streamsvm/datasets/*",
    "consumers/page/*", "consumers/cli/top.py", "consumers/host/web/*",
    "consumers/scorer/*", "streamsvm/ingest/score*.py", "consumers/streams/score_settlement.py",
    "streamsvm/ingest/avro*.py", "streamsvm/ingest/framed.py", "streamsvm/ingest/schemas.py",
    "streamsvm/ingest/decimals.py", "streamsvm/kafka/schema_registry.py", "consumers/streams/registry_outage.py",
    "consumers/verify/*", "streamsvm/verification/*",
    "streamsvm/model/threshold.py", "streamsvm/model/probability.py", "streamsvm/model/skill*.py",
    "streamsvm/model/deciles*.py", "streamsvm/model/parts/probability*.py", "streamsvm/model/parts/threshold*.py",
    "streamsvm/svm/fit_threshold.py", "streamsvm/svm/fit_probability.py", "streamsvm/quality/skill.py",
    "streamsvm/estimators/drop_in.py", "streamsvm/estimators/patching.py", "streamsvm/estimators/single.py",
    "streamsvm/estimators/linear.py", "streamsvm/estimators/pairs.py", "streamsvm/estimators/stdasvc.py",
    "streamsvm/patched.py", "streamsvm/svm/single.py", "streamsvm/svm/small.py", "streamsvm/svm/block/tube.py",
    "streamsvm/svm/block/one_class.py", "streamsvm/svm/paper/*", "deploy/*",
)  # fmt: skip
"""What one need not know to change learning or publishing: files, the page, HTTP, scorer, Avro, `verify`, thresholds
and probabilities, what `deploy` makes, the drop-ins and the papers' solver where they have no room of their own."""


@dataclass(frozen=True)
class Module:
    """One parsed file.

    Attributes
    ----------
    path : Path
        Below the root of the tree.
    name : str
        Dotted, as it is imported.
    lines : int
    tree : ast.Module
    """

    path: Path
    name: str
    lines: int
    tree: ast.Module

    @property
    def branch(self) -> str | None:
        """The branch in whose folder the file stands, if any."""
        parts = self.path.parts
        return parts[2] if len(parts) > 3 and parts[1] == BRANCHES else None

    @property
    def is_trunk(self) -> bool:
        """Whether the file stands in no folder of `APART`."""
        return not APART & set(self.path.parts[1:-1])

    def matches(self, patterns: Iterable[str]) -> bool:
        """Return whether the file's path is one of some, `*` standing for anything."""
        return any(fnmatchcase(self.path.as_posix(), pattern) for pattern in patterns)

    @cached_property
    def package(self) -> str:
        """The package that a relative import starts from."""
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]

    def source_of(self, node: ast.ImportFrom) -> str:
        """Return the module that a `from` names, without dots in front."""
        if not node.level:
            return node.module or ""
        base = self.package.split(".")
        base = base[: len(base) - node.level + 1]
        return ".".join([*base, *([node.module] if node.module else [])])


class Tree:
    """The product of one checkout.

    Parameters
    ----------
    root : Path
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.modules = {module.name: module for module in _modules(root)}
        self._imports: dict[str, frozenset[str]] = {}

    @property
    def product_lines(self) -> int:
        """Lines of every Python file of the product."""
        return sum(module.lines for module in self.modules.values())

    @property
    def trunk(self) -> list[Module]:
        """The modules outside branches, the papers' room and the drop-ins."""
        return [module for module in self.modules.values() if module.is_trunk]

    @property
    def trunk_lines(self) -> int:
        """Lines of those."""
        return sum(module.lines for module in self.trunk)

    def imports_of(self, name: str) -> frozenset[str]:
        """Return the product's modules that one of them names in its imports, anywhere in its file."""
        if name not in self._imports:
            self._imports[name] = self._read_imports(self.modules[name])
        return self._imports[name]

    def _read_imports(self, module: Module) -> frozenset[str]:
        found: set[str] = set()
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                source = module.source_of(node)
                below = {f"{source}.{alias.name}" for alias in node.names}
                found |= {one if one in self.modules else source for one in below}
        return frozenset((found & set(self.modules)) - {module.name})


def _modules(root: Path) -> Iterator[Module]:
    for folder in PRODUCT:
        for path in sorted((root / folder).rglob("*.py")):
            below = path.relative_to(root)
            if NOT_OURS & set(below.parts):
                continue
            text = path.read_text(encoding="utf-8")
            parts = below.with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            yield Module(below, name, text.count("\n"), ast.parse(text))
