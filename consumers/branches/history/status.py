"""What `/status.json` says of erased rows."""

from __future__ import annotations

from typing import Final

import msgspec

from consumers.metrics import Metrics
from consumers.page.blocks import STATUS, Block
from consumers.settings import Settings


class ErasurePart(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of the input that are left out since they were erased.

    Attributes
    ----------
    rows : int
    waits : bool
        Whether the newest version may still be of some of them: until the one that takes its place is out.
    """

    rows: int
    waits: bool


def collect(settings: Settings, metrics: Metrics) -> ErasurePart:  # noqa: ARG001 - every block is given both
    """Return what there is to say of erased rows."""
    found = {labels[0]: value for labels, value in metrics.values("streamsvm_erasure").items()}
    return ErasurePart(rows=int(found.get("rows", 0.0)), waits=bool(found.get("waits", 0.0)))


BLOCK: Final = Block(
    part=STATUS,
    name="erasure",
    shape=ErasurePart,
    wanted=lambda settings: True,  # noqa: ARG005 - rows may have been erased of any model
    collect=collect,
    draw="consumers.branches.history.page:drawn",
)
