"""A defect of the join of late labels, for the fault matrix."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from consumers.branches.late_labels.joined_source import JoinedSource
from streamsvm.joining.rows import JoinState
from tests.faults.wrapping import wrap


def forgets_what_waits() -> None:
    """A defect: a checkpoint of late labels holds no rows within their horizon, as if their labels could not come."""

    def state(original: Any, source: JoinedSource) -> dict[int, JoinState]:
        return {
            partition: replace(
                one,
                **{
                    name: getattr(one, name)[:0]
                    for name in ("row_key", "row_time", "row_offset", "row_row", "row_sign")
                },
                row_points=one.row_points.take(slice(0, 0)),
            )
            for partition, one in original(source).items()
        }

    wrap(JoinedSource, "state", state)


DEFECTS: Final = (forgets_what_waits,)
