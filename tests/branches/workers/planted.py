"""Defects and a disturbance of workers, and of who adopts what they learn, for the fault matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from consumers.branches.workers import group_worker
from consumers.branches.workers.coresets_topic import CoresetsWriter, Due
from streamsvm.branches.workers.combiner import Combiner
from tests.faults.wrapping import wrap


def adopts_a_point_less() -> None:
    """Of each open leaf that a worker hands over, the trainer loses a point."""

    def adopt(original: Any, combiner: Combiner, states: Any, leaves: int) -> None:
        lessened = {
            partition: replace(state, leaf_points=state.leaf_points.take(slice(1, None)))
            for partition, state in states.items()
        }
        original(combiner, lessened, leaves)

    wrap(Combiner, "adopt", adopt)


def manifest_first() -> None:
    """A worker writes manifests before the parts that they name."""

    def publish(original: Any, writer: CoresetsWriter, due: Sequence[Due]) -> None:
        bare = [replace(one, publication=replace(one.publication, parts=[], tombstones=[])) for one in due]
        original(writer, bare)
        original(writer, due)

    wrap(CoresetsWriter, "publish", publish)


def publishes_often() -> None:
    """A disturbance: a worker leaves states many times a second."""
    group_worker.PUBLISH_INTERVAL_S, group_worker.PUBLISH_AFTER_S = 0.05, 0.3  # type: ignore[misc]


DEFECTS: Final = (adopts_a_point_less, manifest_first, publishes_often)
HISTORIES: Final = ((manifest_first, "e", "scale", "kill-worker", "incomplete-manifest"),)
"""Of those, what the checker of histories finds: with which model, where, under which faults, by which anomaly."""
