"""What bounds plug in among the daemons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PLUGS: Final[Mapping[str, tuple[str, ...]]] = {"kernels": ("consumers.branches.bounds.wanted:KERNELS",)}
