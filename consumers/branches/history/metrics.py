"""Metrics of the archive."""

from __future__ import annotations

from typing import Final

from consumers.branches.history.settings import ArchiveConfig
from consumers.metrics import BranchMetrics, Definition
from streamsvm.sections import section

DEFINITIONS: Final = (
    Definition(
        "streamsvm_archive_bytes",
        "gauge",
        "Bytes of the archive's buckets.",
        "Grows by some bytes a row; archive.keep_bytes bounds it.",
        panel="Coreset: bytes, and memory of the process",
    ),
    Definition(
        "streamsvm_archive_failures",
        "counter",
        "Times that the archive could not be written.",
        "Above 0: check its disk; models go on.",
        panel="Checkpoint: age and failures",
    ),
)

TRAINER: Final = BranchMetrics(
    definitions=DEFINITIONS,
    after="streamsvm_checkpoint_failures",
    wanted=lambda settings: section(settings, ArchiveConfig).directory is not None,
)
