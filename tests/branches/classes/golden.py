"""Where the parts stand in the golden checkpoint of a screen for more than two labels."""

from __future__ import annotations

from typing import Final

PARTS: Final = (("screen", "checkpoint-1-classes", "classes"),)
