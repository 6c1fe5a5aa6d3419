"""The trunk's tests in a copy of the tree without a branch.

``python -m tests.branches.without NAME [pytest arguments]`` copies product and tests without the folders of that name,
leaves out test files that import them and says which these are, and runs pytest there: with the arguments, but those
files, or on `TRUNK`. The exit status is that of pytest.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import msgspec

from streamsvm.sockets import LIBRARY, PLUG, import_name
from tests.branches.removed import PACKAGES, copy_without, run_in
from tests.forked import ROOT
from tests.golden import HERE

TRUNK: Final = (
    "tests/codec",
    "tests/golden",
    "tests/learning",
    "tests/coreset",
    "tests/delivery",
    "tests/simulation",
    "tests/test_canonical.py",
    "tests/test_checkpoint.py",
    "tests/test_delivery.py",
    "tests/consumers/test_trainer.py",
    "tests/consumers/test_verify.py",
    "tests/consumers/test_scorer.py",
)
"""What is run if nothing is asked for."""

BESIDE: Final = ("deploy", "requirements", "pyproject.toml", "Makefile", "*.md")
"""What tests read besides."""

SCHEMA: Final = Path("streamsvm/model/schemas/model-1.schema.json")


def main(arguments: Sequence[str]) -> int:
    """Run it."""
    if not arguments or not list(ROOT.glob(f"*/branches/{arguments[0]}/__init__.py")):
        print(f"usage: python -m tests.branches.without NAME [pytest arguments]; {arguments[:1]} is no branch")
        return 2
    branch, chosen = arguments[0], list(arguments[1:]) or TRUNK
    with tempfile.TemporaryDirectory(prefix=f"without-{branch}-") as made:
        tree = copied(branch, Path(made))
        left_out = {str(path) for path in remove_importers(branch, tree)}
        print("".join(f"left out: {path}\n" for path in sorted(left_out)), end="", flush=True)
        there = [one for one in chosen if one not in left_out]
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *there]
        return subprocess.run(command, cwd=tree, env={**os.environ, "PYTHONPATH": str(tree)}, check=False).returncode


def copied(branch: str, into: Path) -> Path:
    """Copy product and tests without a branch, and make anew there what is generated of the product."""
    copy_without(branch, into)
    unwanted = str(ROOT / "tests" / "branches" / branch)
    shutil.copytree(
        ROOT / "tests", into / "tests", ignore=lambda at, names: [one for one in names if f"{at}/{one}" == unwanted]
    )
    for path in (path for name in BESIDE for path in ROOT.glob(name)):
        if path.is_dir():
            shutil.copytree(path, into / path.name, ignore=shutil.ignore_patterns("node_modules", "target"))
        else:
            shutil.copy2(path, into)
    (into / SCHEMA).write_text(run_in(into, "-m", "streamsvm.model.schemas"))
    parts = message_parts(branch)
    for path in (into / HERE.relative_to(ROOT)).glob("model-1-*.json") if parts else ():
        value = msgspec.json.decode(path.read_bytes())
        left = [part for part in value["parts"] if part["part"] not in parts]
        if left != value["parts"]:
            path.write_bytes(msgspec.json.encode(value | {"parts": left}))
    return into


def message_parts(branch: str) -> set[str]:
    """Return the names of a branch's parts of model messages."""
    where = f"{LIBRARY}.{branch}.{PLUG}"
    if find_spec(f"{LIBRARY}.{branch}") is None:
        return set()
    return {import_name(part).name for part in import_module(where).PLUGS.get("message_parts", ())}  # type: ignore[attr-defined]


def remove_importers(branch: str, tree: Path) -> list[Path]:
    """Remove the test files that import a branch, by themselves or through others; return those of the trunk."""
    found = importers(branch, tree)
    for path in found:
        if path.name.startswith("test_"):
            (tree / path).unlink()
    return [path for path in found if path.name.startswith("test_") and path.parts[1] != "branches"]


def importers(branch: str, tree: Path) -> list[Path]:
    """Return the files among the tests that import a branch, by themselves or through others."""
    imports = _imports(tree)
    reached = _reached(branch, {_module(name): names for name, names in imports.items()})
    return [name for name in imports if _module(name) in reached]


@cache
def _imports(tree: Path) -> Mapping[Path, set[str]]:
    """Return what each file of the tests imports; read once, as eight branches are looked for."""
    return {path.relative_to(tree): set(imported(path)) for path in sorted((tree / "tests").rglob("*.py"))}


def imported(path: Path) -> Iterator[str]:
    """Yield what a file imports, wherever in it: of `from a import b` both `a` and `a.b`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _reached(branch: str, imports: Mapping[str, set[str]]) -> set[str]:
    own = tuple(f"{package}.branches.{branch}" for package in (*PACKAGES, "tests"))
    reached = {
        module
        for module, names in imports.items()
        if any(name == one or name.startswith(f"{one}.") for name in names for one in own)
    }
    while more := {module for module, names in imports.items() if module not in reached and names & reached}:
        reached |= more
    return reached


def _module(name: Path) -> str:
    return ".".join(name.with_suffix("").parts).removesuffix(".__init__")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
