"""Tests look into the package whose folder they stand in, and reach every other one by what its `__init__` offers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from tests.test_architecture import ROOT, modules

PLANTING = "tests/defects/"
"""A planted defect is a small patch of the inside, which whoever rewrites a package ports."""

NOT_YET = (
    "tests/conformance/test_refusals.py",
    "tests/delivery/test_pipeline.py",
    "tests/live/cluster.py",
    "tests/live/test_parts.py",
)
"""Files that reach inside all the same, until they are written anew."""


def package_of(module: str) -> str:
    """Return the package that a module of the product is inside of, or nothing: two names, three below `branches`."""
    names = module.split(".")
    package = ".".join(names[: 3 if names[1:2] == ["branches"] else 2])
    path = modules().get(package)
    return (
        package
        if len(names) > 1 and path is not None and path.name == "__init__.py" and path.parent.name != "branches"
        else ""
    )


def may_look_into(path: Path) -> set[str]:
    """Return the packages whose inside a file of tests may know: those that its folder, or its name, mirrors."""
    _, first, *rest = path.relative_to(ROOT).parts
    if not rest:
        return {f"streamsvm.{first.removeprefix('test_').removesuffix('.py')}"}
    if len(rest) > 1 and first == "branches":
        return {f"streamsvm.branches.{rest[0]}", f"consumers.branches.{rest[0]}"}
    return {f"consumers.{rest[0]}"} if len(rest) > 1 and first == "consumers" else {f"streamsvm.{first}"}


@cache
def offered_by(package: str) -> frozenset[str]:
    """Return the names that a package offers: what its `__init__` imports from inside of it, and what it defines."""
    found: set[str] = set()
    tree = ast.parse(modules()[package].read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith(package):
            found |= {name.asname or name.name for name in node.names}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.AnnAssign | ast.Assign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return frozenset(found)


def imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield module and name of each import from the product; no name where the module itself is imported."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((each.name, "") for each in node.names if each.name in modules())
        elif isinstance(node, ast.ImportFrom) and node.module in modules():
            for each in node.names:
                whole = f"{node.module}.{each.name}"
                yield (whole, "") if whole in modules() else (str(node.module), each.name)


def reaching(path: Path, tree: ast.AST) -> list[str]:
    """Return what a file of tests takes from the inside of a package that does not offer it."""
    found = []
    for module, name in imported(tree):
        package = package_of(module)
        if not package or package in may_look_into(path):
            continue
        inner = module.removeprefix(package).removeprefix(".").split(".")[0] or name
        if inner and inner not in offered_by(package):
            found.append(f"{path.relative_to(ROOT)} takes {module}{name and '.' + name}")
    return found


@cache
def private_names() -> dict[str, set[str]]:
    """Return the names with an underscore that the product defines, each with the packages that do."""
    found: dict[str, set[str]] = {}
    for module, path in modules().items():
        for node in ast.walk(ast.parse(path.read_text())):
            name = node.name if isinstance(node, ast.FunctionDef | ast.ClassDef) else ""
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                name = node.attr
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                name = node.id
            if name.startswith("_") and not name.startswith("__"):
                found.setdefault(name, set()).add(package_of(module))
    return found


def prying(path: Path, tree: ast.AST) -> list[str]:
    """Return the private attributes that a file of tests uses and only other packages than its own define."""
    own = {"_replace"} | {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    stored = [node for node in ast.walk(tree) if isinstance(getattr(node, "ctx", None), ast.Store)]
    own |= {node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "") for node in stored}
    return [
        f"{path.relative_to(ROOT)}:{node.lineno} uses {ast.unparse(node)}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr not in own
        and node.attr in private_names()
        and not private_names()[node.attr] & may_look_into(path)
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
    ]


def test_tests_reach_other_packages_by_what_they_offer() -> None:
    """No test imports the inside of a package, or uses a private attribute of it, but from the package's own folder."""
    found = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        if not str(path.relative_to(ROOT)).startswith((PLANTING, *NOT_YET)):
            tree = ast.parse(path.read_text())
            found += reaching(path, tree) + prying(path, tree)
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("text", "takes"),
    [
        ("from streamsvm.kafka.client import ClientLog", "streamsvm.kafka.client.ClientLog"),
        ("from streamsvm.svm import stda", "streamsvm.svm.stda"),
        ("import consumers.trainer.life", "consumers.trainer.life"),
        ("cluster._client", "cluster._client"),
        ("from streamsvm.kafka import Cluster", ""),
        ("from streamsvm.points import Points", ""),
        ("from streamsvm.learning.learner import Learner", ""),
    ],
)
def test_a_reach_into_another_package_is_found(text: str, takes: str) -> None:
    """The check can fail: what a test in the folder of `learning` may not take, and what it may."""
    path, tree = ROOT / "tests" / "learning" / "planted.py", ast.parse(text)
    found = reaching(path, tree) + prying(path, tree)
    assert [each.split()[-1] for each in found] == ([takes] if takes else [])


def test_what_may_not_yet_be_left_alone_still_reaches_inside() -> None:
    """The list of files that reach inside only gets shorter."""
    for file in NOT_YET:
        tree = ast.parse((ROOT / file).read_text())
        assert reaching(ROOT / file, tree) + prying(ROOT / file, tree), f"{file} may leave the list"


def test_what_a_package_offers_exists() -> None:
    """Every name in the `__init__` of a package can be had from it."""
    for module, path in modules().items():
        if path.name == "__init__.py" and package_of(module) == module:
            package = import_module(module)
            for name in offered_by(module):
                assert hasattr(package, name), f"{module}.{name}"
