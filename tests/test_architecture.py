"""Imports run downward, the numerical core is pure, and one package reaches a broker: rules as data, a loop a rule."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
LAYERS: list[set[str]] = [
    {"model", "kafka"},
    {"config", "svm", "registry", "joining"},
    {"coreset"},
    {"learning", "ingest", "quality", "papers"},
    {"checkpoint", "certificate", "datasets"},
    {"delivery", "verification", "estimators"},
    {"branches"},
]
"""The packages of `streamsvm` from below, and one module. Beneath them stand its others, above them `consumers`."""
DAEMONS: list[set[str]] = [
    {"settings"},
    {"metrics"},
    {"host"},
    {"streams"},
    {"page"},
    {"trainer", "scorer", "models", "evaluate", "replay"},
    {"verify", "dead_letters", "demo"},
    {"cli", "branches"},
]
"""The same inside `consumers`, whose own modules stand beneath these packages, too."""
CLOCKS_AND_CHANCE = {"time", "random", "os", "threading", "socket", "logging"}
IMPURE = {"kafka", "checkpoint", "registry", "datasets", "ingest", "config"}
"""Packages of `streamsvm` that may do I/O or read the environment; its own modules are not looked at."""


@cache
def modules() -> dict[str, Path]:
    """Return every module of the product by its dotted name."""
    found = {}
    for package in ("streamsvm", "consumers"):
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def imports_of(path: Path) -> frozenset[str]:
    """Return the dotted names that a module imports, inside functions and for type checkers, too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {str(node.module)}
    return frozenset(found)


def upward(name: str, imported: frozenset[str], package: str, layers: list[set[str]]) -> list[str]:
    """Return the imports of a module that lead to its own layer or to one above."""
    rank = {folder: rank for rank, folders in enumerate(layers) for folder in folders}
    own = name.removeprefix(f"{package}.").split(".")[0]
    beneath = rank.get(own, -1)
    targets = {each.split(".")[1] for each in imported if each.startswith(f"{package}.")} - {own}
    return [f"{name} imports {each}" for each in sorted(targets) if each in rank and rank[each] >= beneath >= 0]


def test_imports_run_downward() -> None:
    """No module imports from a package of its own layer or of one above, and the library does not know its daemons."""
    found = []
    for name, path in modules().items():
        package, layers = ("streamsvm", LAYERS) if name.startswith("streamsvm.") else ("consumers", DAEMONS)
        found += upward(name, imports_of(path), package, layers)
        if package == "streamsvm" and any(each.split(".")[0] == "consumers" for each in imports_of(path)):
            found.append(f"{name} imports the daemons")
    assert found == []


def test_an_upward_import_is_found() -> None:
    """The check can fail: a planted import upward and one sideways are reported, one downward is not."""
    planted = frozenset({"streamsvm.learning.learner", "streamsvm.registry.client", "streamsvm.model.machine"})
    assert upward("streamsvm.svm.problem", planted, "streamsvm", LAYERS) == [
        "streamsvm.svm.problem imports learning",
        "streamsvm.svm.problem imports registry",
    ]


def test_every_package_has_a_layer() -> None:
    """A new package is given a place here before anything imports it."""
    for package, layers in (("streamsvm", LAYERS), ("consumers", DAEMONS)):
        folders = {path.name for path in (ROOT / package).iterdir() if (path / "__init__.py").exists()}
        assert folders <= set().union(*layers)


def test_one_package_imports_the_client_library() -> None:
    """Only `streamsvm.kafka` knows confluent_kafka."""
    users = {name for name, path in modules().items() if any("confluent_kafka" in each for each in imports_of(path))}
    assert {".".join(name.split(".")[:2]) for name in users} == {"streamsvm.kafka"}


def test_the_numerical_core_reads_no_clock_and_no_chance() -> None:
    """It takes time, randomness and files as arguments. One lock counts the estimators' calls that run."""
    pure = set().union(*LAYERS) - IMPURE
    found = [
        f"{name} imports {each}"
        for name, path in modules().items()
        if name.split(".")[0] == "streamsvm" and name.count(".") > 0 and name.split(".")[1] in pure
        for each in imports_of(path)
        if each.split(".")[0] in CLOCKS_AND_CHANCE
    ]
    assert found == ["streamsvm.estimators.blas_threads imports threading"]


def test_a_reader_of_models_loads_little() -> None:
    """Whoever only reads models loads numpy, msgspec and the client, and nothing that learns."""
    program = "import json, sys, streamsvm; streamsvm.ModelSubscriber; print(json.dumps(sorted(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    for heavy in ("numba", "scipy", "sklearn", "pyarrow", "pydantic", "streamsvm.svm", "streamsvm.learning"):
        assert f'"{heavy}"' not in run.stdout
