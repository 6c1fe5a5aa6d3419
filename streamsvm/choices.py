"""Words that an option may take, for whoever must know them without loading the options."""

from __future__ import annotations

from typing import Literal

ReducerName = Literal["uniform", "sensitivity", "calibrated"]
MemoryName = Literal["all", "window", "decay", "adaptive"]
