"""Where the parts stand in the golden checkpoint under a record of erased rows."""

from __future__ import annotations

from typing import Final

PARTS: Final = (("snapshot", "checkpoint-1-erased", "erased"),)
WRONG: Final = (("parts.info_without", "sha256", "ab"),)
"""Values that no version has: where they stand, the field, the value."""
