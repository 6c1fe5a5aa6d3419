"""What each branch's tests add to a table of the trunk's tests: found by its folder, as the product's plugs are."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from streamsvm.sockets import branches

ROOM: Final = "tests.branches"


def of_branches(module: str, name: str) -> Iterator[Any]:
    """Yield what stands under a name in the module of this name of each branch, where there is one."""
    for branch in branches(ROOM):
        where = f"{ROOM}.{branch}.{module}"
        if find_spec(where) is not None and (found := getattr(import_module(where), name, None)) is not None:
            yield found
