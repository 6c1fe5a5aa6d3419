"""Where the parts stand in the golden checkpoint under a record of erased rows."""

from __future__ import annotations

from typing import Final

PARTS: Final = (("snapshot", "checkpoint-1-erased", "erased"),)
