"""Takes rows out of an archive alone, as an erasure does beside the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from consumers.branches.history.erased_rows import ErasedRows
from consumers.branches.history.forgetting import ForgettingReport, opened
from streamsvm.kafka import Cluster
from streamsvm.points import Position


def forget(
    cluster: Cluster,
    directory: Path,
    positions: Mapping[int, Sequence[Position]],
    report: ForgettingReport,
    erased: ErasedRows,
) -> None:
    """Take rows out of an archive whose trainer is stopped; rows that were erased of its model go, too."""
    with opened(cluster, directory, report) as work:
        record = work.record_of(erased)
        work.require_recorded(record)
        work.look(positions)
        work.run(positions, record)
