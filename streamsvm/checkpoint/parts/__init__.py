"""What a feature adds to a checkpoint: named parts, one module for each feature.

Branches add theirs at the socket ``checkpoint_parts``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from streamsvm.checkpoint.forms import OptionalPart, Parts
from streamsvm.sockets import plugged

Whole = Literal["bucket", "screen", "partition", "cut", "snapshot"]
"""What may have parts."""


@dataclass(frozen=True, slots=True)
class PartOf:
    """A part at the socket, and of what it is one."""

    whole: Whole
    part: OptionalPart


def parts_of(whole: Whole, *own: OptionalPart) -> Parts:
    """Return the trunk's own parts of something, and those of branches."""
    others = (one.part for one in plugged("checkpoint_parts", PartOf) if one.whole == whole)
    return Parts(*own, *others)
