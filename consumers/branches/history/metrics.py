"""Metrics of erased rows."""

from __future__ import annotations

from typing import Final

from consumers.metrics import BranchMetrics, Definition

ERASURE: Final = (
    Definition(
        "streamsvm_erasure",
        "gauge",
        "Of erased rows: `rows`, how many are left out; `waits`, 1 while the newest version may be of some.",
        "`waits` at 1 for longer than a start reads the log: see the trainer's log.",
        ("what",),
    ),
)
OF_ERASURE: Final = BranchMetrics(
    definitions=ERASURE,
    after="streamsvm_checkpoint_failures",
    wanted=lambda settings: True,  # noqa: ARG005 - rows may have been erased of any model
)
