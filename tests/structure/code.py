"""Measures of single modules, classes and functions."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from sklearn.svm import SVC

from tests.structure.tree import Module, Tree

LONG_LINES: Final = 600
TABLES: Final = {"streamsvm/supports.py", "consumers/metrics.py", "consumers/settings.py", "deploy/grafana/generate.py"}
"""Tables of options, metrics and panels, which may be longer."""
MANY_ATTRIBUTES: Final = 20
COMPILED_STATE: Final = "streamsvm.svm.block."
"""Where classes hold the arrays and numbers that compiled functions are given one by one, as do their subclasses."""
OPTIONS: Final = "streamsvm.config."
"""Where classes are tables of options: a field each."""
ESTIMATORS: Final = ("streamsvm.drop_in.", "streamsvm.estimators.")
MANY_PARAMETERS: Final = 7
COMPILERS: Final = {
    "njit",
    "jit",
    "vectorize",
    "guvectorize",
    "compiled",
    "inlined",
    "intrinsic",
    "_intrinsic",
    "overload",
}
"""Decorators under which numba compiles a function: it takes no keyword-only parameters."""


def long_modules(tree: Tree) -> list[tuple[str, int]]:
    """Return the modules of more than `LONG_LINES` lines that are no table, longest first."""
    return sorted(
        (
            (module.path.as_posix(), module.lines)
            for module in tree.modules.values()
            if module.lines > LONG_LINES and module.path.as_posix() not in TABLES
        ),
        key=lambda found: -found[1],
    )


def large_classes(tree: Tree) -> list[tuple[str, int]]:
    """Return the classes with more than `MANY_ATTRIBUTES` attributes, those of bases included, most first.

    An attribute is one that `__init__` assigns, a field in the class's body, or a slot. Protocols are left out, and so
    are `OPTIONS`, attributes of `COMPILED_STATE`, and those that scikit-learn's contract gives an estimator.
    """
    bodies = {(module.name, node.name): node for module, node in _classes(tree)}
    named: dict[str, list[ast.ClassDef]] = defaultdict(list)
    for (module, name), node in bodies.items():
        if not module.startswith(COMPILED_STATE):
            named[name].append(node)
    found = []
    for (module, name), node in bodies.items():
        if module.startswith((COMPILED_STATE, OPTIONS)):
            continue
        attributes = _with_bases(node, named, set())
        if module.startswith(ESTIMATORS):
            attributes -= _contract_of_sklearn(node)
        if len(attributes) > MANY_ATTRIBUTES and "Protocol" not in map(_last, node.bases):
            found.append((f"{module}.{name}", len(attributes)))
    return sorted(found, key=lambda one: -one[1])


def long_signatures(tree: Tree) -> list[tuple[str, int]]:
    """Return the functions with at least `MANY_PARAMETERS` parameters that may be given by position, most first.

    `self` and `cls` do not count, and neither do functions that numba compiles.
    """
    found = []
    for module in tree.modules.values():
        for owner, node in _functions(module.tree, ""):
            given = [one.arg for one in [*node.args.posonlyargs, *node.args.args]]
            count = len(given) - (given[:1] in (["self"], ["cls"]))
            if count >= MANY_PARAMETERS and not COMPILERS & {_last(one) for one in node.decorator_list}:
                found.append((f"{module.name}.{owner}{node.name}", count))
    return sorted(found, key=lambda one: -one[1])


def doubled_classes(tree: Tree) -> list[tuple[str, list[str]]]:
    """Return the names that several classes have, with the modules of each."""
    places: dict[str, list[str]] = defaultdict(list)
    for module, node in _classes(tree):
        places[node.name].append(module.name)
    return sorted((name, found) for name, found in places.items() if len(found) > 1)


def _classes(tree: Tree) -> Iterator[tuple[Module, ast.ClassDef]]:
    for module in tree.modules.values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                yield module, node


def _functions(node: ast.AST, owner: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield owner, child
            yield from _functions(child, f"{owner}{child.name}.")
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{owner}{child.name}.")
        else:
            yield from _functions(child, owner)


def _with_bases(node: ast.ClassDef, named: dict[str, list[ast.ClassDef]], seen: set[int]) -> set[str]:
    """Return the attributes of a class and of its bases; a base whose name is not the only one is left out."""
    if id(node) in seen:
        return set()
    seen.add(id(node))
    found = set(_attributes(node))
    for base in map(_last, node.bases):
        if len(named.get(base, [])) == 1:
            found |= _with_bases(named[base][0], named, seen)
    return found


def _contract_of_sklearn(node: ast.ClassDef) -> set[str]:
    """Return what `get_params` returns, which has to be an attribute each, and what a machine in SVC's place needs."""
    constructors = [one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"]
    parameters = {one.arg for init in constructors for one in [*init.args.args, *init.args.kwonlyargs]}
    return parameters | vars(SVC().fit([[0.0], [1.0]], [0, 1])).keys()


def _attributes(node: ast.ClassDef) -> Iterator[str]:
    for line in node.body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and not _of_the_class(line):
            yield line.target.id
        elif isinstance(line, ast.Assign) and any(getattr(one, "id", "") == "__slots__" for one in line.targets):
            yield from (one.value for one in ast.walk(line.value) if isinstance(one, ast.Constant))  # type: ignore[misc]
        elif isinstance(line, ast.FunctionDef) and line.name == "__init__":
            yield from (
                one.attr
                for one in ast.walk(line)
                if isinstance(one, ast.Attribute)
                and isinstance(one.ctx, ast.Store)
                and isinstance(one.value, ast.Name)
                and one.value.id == "self"
            )


def _of_the_class(line: ast.AnnAssign) -> bool:
    return _last(line.annotation) == "ClassVar" or (_last(line.annotation) == "Final" and line.value is not None)


def _last(node: ast.expr) -> str:
    while isinstance(node, ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
