"""Sizes of the structures that rooms add."""

from __future__ import annotations

from typing import Final

from streamsvm import memory
from streamsvm.plugs import PluggedTable

SIZES: Final[PluggedTable[memory.Sizes]] = PluggedTable("sizes of coreset.structure", {})
"""Of the structures that rooms add; the trunk's own are in `streamsvm.memory`."""
