"""The golden model messages: versions made by hand that together have every field and every part, and their bytes.

Those of the trunk, and those of each branch from the module `golden` of its tests.

``python -m tests.golden.every_model`` writes the files that are missing. It never changes one: what was once released
stays as it is.
"""

from __future__ import annotations

from typing import Final

from streamsvm.model import Version, encode
from tests.golden import model
from tests.golden.model import path_of
from tests.plugged import of_branches

OF_BRANCHES: Final = {name: make for found in of_branches("golden", "VERSIONS") for name, make in found.items()}
KINDS: Final = (*model.KINDS, *OF_BRANCHES)
"""A version of each kernel, and one for each thing more that a version may have."""


def handmade(kind: str) -> Version:
    """Return one of `KINDS`."""
    return OF_BRANCHES[kind]() if kind in OF_BRANCHES else model.handmade(kind)


if __name__ == "__main__":
    for kind in KINDS:
        if not (path := path_of(kind)).exists():
            path.write_bytes(encode(handmade(kind)))
