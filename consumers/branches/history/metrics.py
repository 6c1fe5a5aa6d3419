"""Metrics of the archive, and of erased rows."""

from __future__ import annotations

from typing import Final

from consumers.branches.history.settings import ArchiveConfig, DeletesConfig
from consumers.metrics import BranchMetrics, Definition
from streamsvm.sections import section

DEFINITIONS: Final = (
    Definition(
        "streamsvm_archive_bytes",
        "gauge",
        "Bytes of the archive's buckets.",
        "Grows by some bytes a row; archive.keep_bytes bounds it.",
    ),
    Definition(
        "streamsvm_archive_failures",
        "counter",
        "Times that the archive could not be written.",
        "Above 0: check its disk; models go on.",
    ),
)

DELETES: Final = (
    Definition(
        "streamsvm_deletes",
        "counter",
        "Deletes of deletes.topic, and rows of theirs, by the outcomes of streamsvm/ARCHIVE.md.",
        "`past_retention`: begin anew, as the log says. `unreadable`: who writes the topic? `lost`: send it again.",
        ("outcome",),
    ),
)
OF_DELETES: Final = BranchMetrics(
    definitions=DELETES,
    after="streamsvm_checkpoint_failures",
    wanted=lambda settings: bool(section(settings, DeletesConfig).topic),
)
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
TRAINER: Final = BranchMetrics(
    definitions=DEFINITIONS,
    after="streamsvm_checkpoint_failures",
    wanted=lambda settings: section(settings, ArchiveConfig).directory is not None,
)
