"""The part `half_precision`: support vectors are base64 of float16 values, dual coefficients of float32 values."""

from __future__ import annotations

from typing import Final

import msgspec

from streamsvm.errors import InvalidMessage
from streamsvm.model.machine import KernelMachine
from streamsvm.model.parts.draft import Draft
from streamsvm.model.parts.part import MessagePart
from streamsvm.model.version import Version


class HalfPrecisionPart(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="part", tag="half_precision"
):
    """Has no field: that it is there says how `model` is to be read."""


def encode(version: Version) -> HalfPrecisionPart | None:
    """Return the part; None of a machine in double precision."""
    machine = version.model.machine
    return HalfPrecisionPart() if isinstance(machine, KernelMachine) and machine.precision == "half" else None


def decode(_part: HalfPrecisionPart, draft: Draft) -> None:
    """Add the precision.

    Raises
    ------
    InvalidMessage
        If there are more than two labels.
    """
    if draft.scheme is not None:
        raise InvalidMessage("the part 'half_precision' is for two labels")
    draft.precision = "half"


PART: Final = MessagePart(HalfPrecisionPart, encode, decode)
