"""What is compiled of challenges: whatever the gate is, for no model's configuration says it."""

from __future__ import annotations

from typing import Final

from consumers.trainer.kernels import Kernels

KERNELS: Final = Kernels(
    wanted=lambda config: True,  # noqa: ARG005
    warm_up="streamsvm.branches.challenges.betting:warm_up",
)
