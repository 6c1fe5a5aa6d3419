"""Memories that forget: a window, weights that decay, and horizons that win their share (`coreset.memory`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsvm.offered import on_first_use

if TYPE_CHECKING:
    from streamsvm.branches.memories import checkpoint_parts as checkpoint_parts

__getattr__ = on_first_use(__name__, __file__)
