"""Where the parts stand in the golden checkpoint of partitions that forget."""

from __future__ import annotations

from typing import Final

PARTS: Final = tuple((place, "checkpoint-1-forgetful", "forgetful") for place in ("partition", "bucket", "cut"))
