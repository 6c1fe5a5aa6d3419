"""The golden model messages: versions made by hand that together have every field and every part, and their bytes.

Those of the trunk, and those of each branch from the module `golden` of its tests.
"""

from __future__ import annotations

from typing import Final

from streamsvm.model import Version
from tests.golden import model
from tests.plugged import of_branches

OF_BRANCHES: Final = {name: make for found in of_branches("golden", "VERSIONS") for name, make in found.items()}
KINDS: Final = (*model.KINDS, *OF_BRANCHES)
"""A version of each kernel, and one for each thing more that a version may have."""


def handmade(kind: str) -> Version:
    """Return one of `KINDS`."""
    return OF_BRANCHES[kind]() if kind in OF_BRANCHES else model.handmade(kind)
