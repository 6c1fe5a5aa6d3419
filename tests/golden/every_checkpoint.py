"""Every golden checkpoint, and where the parts of branches stand: `PARTS` of the module `golden` of their tests."""

from __future__ import annotations

from functools import partial
from typing import Final

from tests.golden import HERE
from tests.golden.checkpoint import kept_snapshot
from tests.plugged import of_branches

HANDMADE: Final = {path.stem: partial(kept_snapshot, path.stem) for path in sorted(HERE.glob("*.ssvm"))}
"""What returns the snapshot of each golden file."""

PARTS: Final[tuple[tuple[str, str, str], ...]] = tuple(one for found in of_branches("golden", "PARTS") for one in found)
"""In which object of which golden file which named part stands."""
