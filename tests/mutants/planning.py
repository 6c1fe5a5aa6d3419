"""Which tests are run for a mutant, and in which order."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.mutants.drawing import FUNCTIONS, Mutant


def plan(root: Path, mutant: Mutant, touched: Mapping[str, Any], own: Sequence[str]) -> list[list[str]]:
    """Return stages of tests: those that touch the mutant's function, then all others of their own files.

    A fixture that many tests share is made, and traced, for the first of them only: hence the second stage.
    """
    place = function_of(root, mutant)
    touching = {test for test, known in touched.items() if not place or place in known["touched"]}
    files = {_file(test) for test in touching if test.startswith(tuple(own))}
    others = {test for test in touched if _file(test) in files} - touching
    return [stage for stage in (_in_order(one, touched, own) for one in (touching, others)) if stage]


def function_of(root: Path, mutant: Mutant) -> str:
    """Return the function that a mutant stands in, as tests touch it; empty if it is compiled or in none."""
    if mutant.compiled:
        return ""
    inner = ""
    for node in ast.walk(ast.parse((root / mutant.file).read_bytes())):
        if isinstance(node, FUNCTIONS) and node.body[0].lineno <= mutant.line <= (node.end_lineno or 0):
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            inner = f"{mutant.file}:{first}"  # outer functions come before inner ones
    return inner


def _in_order(tests: set[str], touched: Mapping[str, Any], own: Sequence[str]) -> list[str]:
    """Sort tests by files, the cheapest of the package's own first: files are not mixed, as they share fixtures."""
    costs: dict[str, float] = {}
    for test in tests:
        costs[_file(test)] = costs.get(_file(test), 0.0) + touched[test]["seconds"]
    places = {test: number for number, test in enumerate(touched)}
    return sorted(tests, key=lambda one: (not one.startswith(tuple(own)), costs[_file(one)], _file(one), places[one]))


def _file(test: str) -> str:
    return test.split("::")[0]
