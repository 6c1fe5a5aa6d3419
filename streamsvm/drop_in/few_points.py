"""Block descent that keeps all kernel values where points are few: most of their time is the layouts'."""

from __future__ import annotations

from typing import Final

import numpy as np

from streamsvm.model.kernels import LinearKernel
from streamsvm.svm.block.descent import BlockDescent, Source
from streamsvm.svm.block.product_kernels import MatrixBlocks

MOST: Final = 512
"""Most points of which all kernel values are kept."""


class FewPointsDescent(BlockDescent):
    """One run of the method; parameters and attributes are those of `BlockDescent`."""

    def begin(self) -> tuple[Source, int]:
        """Return the source of kernel values, and the first number of points in a block."""
        n = self.Z.shape[0]
        if n > MOST or isinstance(self.kernel, LinearKernel) or not isinstance(self.Z, np.ndarray):
            return super().begin()
        return MatrixBlocks(self.Z, self.kernel), n
