"""What is compiled of late labels."""

from __future__ import annotations

from typing import Final

from consumers.trainer.kernels import Kernels
from streamsvm.config import ModelConfig


def warm_up(config: ModelConfig) -> None:
    """Compile, or load from numba's file cache, what a join runs."""
    from streamsvm.joining import joiner

    joiner.warm_up(config.points.numpy_dtype)


KERNELS: Final = Kernels(
    wanted=lambda config: config.label_rule is not None,
    warm_up="consumers.branches.late_labels.kernels:warm_up",
)
