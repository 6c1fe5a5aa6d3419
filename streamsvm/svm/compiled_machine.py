"""A kernel machine as a daemon scores with it: the same sum, by compiled code, in a third of the time.

What reads models has numpy and no compiler (`streamsvm.model`). Who has one sums by the tiles of the solver: a block of
rows stays in a fast cache between the product, the power and the sum.

Invariant: in float64; within the tolerance of `streamsvm.model.probes` of the terms that `KernelMachine` sums.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from streamsvm.model.classes import AnyModel
from streamsvm.model.kernels import Float
from streamsvm.model.machine import BLOCK_ROWS, KernelMachine, Model
from streamsvm.svm.block.rbf_tiles import Layout, TileRows, add_kernel_rows, layout_of, tile_rows

FARTHEST: Final = 1e100
"""Scaled features beyond this count as this: their squares are finite, and a kernel value there is 0 either way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledMachine(KernelMachine):
    """A kernel machine with its support vectors as compiled code wants them.

    Attributes
    ----------
    layout : Layout
    rows : TileRows
    """

    layout: Layout
    rows: TileRows

    def decide(self, Z: Float) -> Float:
        """Return the decision values of scaled features, shape (n,)."""
        values = np.full(len(Z), float(self.intercept))
        for start in range(0, len(Z), BLOCK_ROWS):
            block = slice(start, start + BLOCK_ROWS)
            near = np.ascontiguousarray(np.clip(Z[block], -FARTHEST, FARTHEST))
            add_kernel_rows(near, self.rows, self.layout, self.dual, values[block])
        return values


def compiled(model: AnyModel) -> AnyModel:
    """Return a model whose kernel machine is summed by compiled code, which is loaded here; others as they are."""
    if not isinstance(model, Model) or not isinstance(model.machine, KernelMachine) or not len(model.machine.dual):
        return model
    machine = model.machine
    support = np.ascontiguousarray(machine.support)
    layout = layout_of(support, machine.kernel.gamma)
    made = CompiledMachine(
        machine.kernel,
        support,
        machine.dual,
        machine.intercept,
        layout=layout,
        rows=tile_rows(support, layout),
    )
    made.decide(support[:1])
    return replace(model, machine=made)
