"""The part `packed`: support vectors are base64 of places on a grid, dual coefficients of float32 values."""

from __future__ import annotations

import math
from typing import Final

import msgspec
import numpy as np

from streamsvm.errors import InvalidMessage
from streamsvm.model.arrays import bounded
from streamsvm.model.machine import KernelMachine, Packing
from streamsvm.model.packing import MOST, Grid
from streamsvm.model.parts.draft import Draft
from streamsvm.model.parts.part import MessagePart
from streamsvm.model.version import Version


class PackedPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="part", tag="packed"):
    """The grid of each feature: least value, step and bits; and the rest of a `Packing`."""

    columns: list[tuple[float, float, int]]
    support_vectors: int
    whole_error: float
    error: float


def encode(version: Version) -> PackedPart | None:
    """Return the part; None of a machine that is not packed."""
    machine = version.model.machine
    if not isinstance(machine, KernelMachine) or machine.packing is None:
        return None
    packing, grid = machine.packing, machine.packing.grid
    columns = list(zip(grid.low.tolist(), grid.step.tolist(), grid.bits.tolist(), strict=True))
    return PackedPart(columns, packing.support_vectors, packing.whole_error, packing.error)


def decode(part: PackedPart, draft: Draft) -> None:
    """Add the packing.

    Raises
    ------
    InvalidMessage
        If there are more than two labels, or is no such grid.
    """
    if draft.scheme is not None:
        raise InvalidMessage("the part 'packed' is for two labels")
    if not all(step > 0.0 and 0 <= bits <= MOST.bit_length() for _, step, bits in part.columns):
        raise InvalidMessage("the part 'packed' has a step that is not positive, or bits that are not 0 to 16")
    if not all(0.0 <= error <= 1.0 and math.isfinite(error) for error in (part.whole_error, part.error)):
        raise InvalidMessage("the part 'packed' has an error that is not between 0 and 1")
    low, step, bits = (np.array([column[k] for column in part.columns]) for k in range(3))
    grid = Grid(bounded(low, "columns"), bounded(step, "columns"), bits.astype(np.int64))
    draft.packing = Packing(grid, part.support_vectors, part.whole_error, part.error)


PART: Final = MessagePart(PackedPart, encode, decode)
