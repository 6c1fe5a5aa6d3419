"""When a trainer compiles what proves bounds."""

from __future__ import annotations

from typing import Final

from consumers.trainer.kernels import Kernels

KERNELS: Final = Kernels(
    wanted=lambda config: config.totals,
    warm_up="streamsvm.branches.bounds.proving:warm_up",
)
