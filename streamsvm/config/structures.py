"""Sizes of the structures that rooms add."""

from __future__ import annotations

from typing import Final

from streamsvm import memory
from streamsvm.sockets import Choices

SIZES: Final[Choices[memory.Sizes]] = Choices("sizes of coreset.structure", {})
"""Of the structures that rooms add; the trunk's own are in `streamsvm.memory`."""
