"""Defects of workers, and of who adopts what they learn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from consumers.branches.workers.coresets_topic import CoresetsWriter, Due
from streamsvm.learning import Learner
from tests.defects.planting import TABLE, Live, wrap


@TABLE.defect()
def adopts_a_point_less() -> None:
    """Of each open leaf that a worker hands over, the trainer loses a point."""

    def adopt(original: Any, combiner: Learner, states: Any, leaves: int) -> None:
        lessened = {
            partition: replace(state, leaf=state.leaf.take(slice(1, None))) for partition, state in states.items()
        }
        original(combiner, lessened, leaves)

    wrap(Learner, "adopt", adopt)


@TABLE.defect(
    live=Live(part="scale", nemeses=("kill-worker",), shows=("incomplete-manifest",), models=("e",)),
)
def manifest_first() -> None:
    """A worker writes manifests before the parts that they name."""

    def publish(original: Any, writer: CoresetsWriter, due: Sequence[Due]) -> None:
        bare = [replace(one, publication=replace(one.publication, parts=[], tombstones=[])) for one in due]
        original(writer, bare)
        original(writer, due)

    wrap(CoresetsWriter, "publish", publish)
