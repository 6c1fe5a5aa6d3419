"""Verify: every version computed anew from the log, and compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsvm.offered import on_first_use

if TYPE_CHECKING:
    from consumers.verify import verify as verify

__getattr__ = on_first_use(__name__, __file__)
