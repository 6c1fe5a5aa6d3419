"""Defects of who learns: rows, leaves, checkpoints, dead letters."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import consumers.trainer.publishing
from consumers.streams.dead_letters import DeadLetters
from streamsvm.checkpoint import directory as checkpoint
from streamsvm.checkpoint.snapshot import Snapshot
from streamsvm.ingest.decoder import Decoded, PointDecoder
from streamsvm.kafka import Cluster, Message
from streamsvm.learning import Learner, LearnerState, TakenCut
from streamsvm.points import Points
from tests.defects.planting import TABLE, Simulated, wrap

# ------------------------------------------------------------------------- state


@TABLE.defect()
def forgets_the_leaf() -> None:
    """A restart goes on at the checkpoint's position, without the points of the open leaf."""

    def restore(original: Any, learner: Learner, state: LearnerState) -> None:
        partitions = {
            partition: replace(saved, leaf=Points.empty(saved.leaf.dimension, saved.leaf.X.dtype))
            for partition, saved in state.partitions.items()
        }
        original(learner, replace(state, partitions=partitions))

    wrap(Learner, "restore", restore)


@TABLE.defect(Simulated(breach="clean run|at rest no version", faults={"kill": 2}))
def learns_a_row_twice() -> None:
    """The learner takes rows that it knows for new ones: the position inside a record is lost."""

    def learn(original: Any, learner: Learner, rows: Any, until: Any = None) -> int:
        first = rows.index_of(learner.positions[rows.partition])
        held = learner._partitions[rows.partition]
        if 0 < first < len(rows) and held.missing > 1:
            held.add(rows.slice(first - 1, first))
        learned: int = original(learner, rows, until)
        return learned

    wrap(Learner, "learn", learn)


@TABLE.defect(
    Simulated(breach="not what a clean run gives", faults={"kill": 2, "power loss": 1}),
)
def keeps_a_pending_cut_as_positions() -> None:
    """Of a pending cut a checkpoint keeps the positions, and not the training set."""

    def decode(original: Any, content: bytes) -> Snapshot:
        snapshot: Snapshot = original(content)
        if snapshot.pending is None:
            return snapshot
        config, pending = snapshot_models(snapshot), snapshot.pending
        learner = Learner(config, snapshot.base, 1)
        learner.restore(snapshot.learner)
        now = learner.cut()
        if isinstance(pending, LearnerState):
            pending = TakenCut(pending.partitions, config).make()
        pending = replace(pending, points=now.points, moments=now.moments, learned=now.learned)
        return replace(snapshot, pending=pending)

    wrap(checkpoint, "decode", decode)


def snapshot_models(snapshot: Snapshot) -> Any:
    """Return the configuration of the simulated trainer, whose checkpoints alone are read so."""
    from tests.simulation.stream import settings_for

    return settings_for("every").models()


@TABLE.defect(Simulated(breach="older checkpoint", faults={"kill": 3, "expire": 2}, world=True), patches=False)
def orders_checkpoints_by_epoch() -> None:
    """Checkpoints are ordered by the producer's epoch, and have no order of their own."""


@TABLE.defect(Simulated(breach="no checkpoint|older checkpoint", faults={"power loss": 3}, world=True), patches=False)
def syncs_no_checkpoint() -> None:
    """A checkpoint counts as saved before the disk has it."""


@TABLE.defect()
def locks_nothing() -> None:
    """The checkpoint directory is not locked."""
    wrap(fcntl, "flock", lambda original, *given: None)


@TABLE.defect()
def dates_the_model() -> None:
    """The day of the clock enters the hashed value of a version."""
    wrap(consumers.trainer.publishing, "build", lambda original: {**original(), "day": str(int(time.time() // 86_400))})


# -------------------------------------------------------------------------- rows


@TABLE.defect()
def learns_bad_rows() -> None:
    """A rejected row is learned as the point of zeros that stands in its place."""

    def decode(original: Any, *given: Any) -> Decoded:
        decoded = original(*given)
        rows = [replace(each, accepted=np.ones(len(each), np.bool_)) for each in decoded.rows]
        return replace(decoded, rows=rows)

    wrap(PointDecoder, "decode", decode)


@TABLE.defect()
def dies_of_far_exponents() -> None:
    """A record with a number beyond any exponent ends the process."""

    def decode(original: Any, decoder: PointDecoder, records: Sequence[Any]) -> Decoded:
        if any(b"1e12345678" in (record.value or b"") for record in records):
            raise RuntimeError("the exponent is too far")
        decoded: Decoded = original(decoder, records)
        return decoded

    wrap(PointDecoder, "decode", decode)


@TABLE.defect()
def drops_duplicates() -> None:
    """A record whose bytes were seen before is taken for a copy and passed over."""
    seen: set[bytes | None] = set()

    def decode(original: Any, decoder: PointDecoder, records: Sequence[Any]) -> Decoded:
        fresh = [record for record in records if record.value not in seen and not seen.add(record.value)]  # type: ignore[func-returns-value]
        decoded: Decoded = original(decoder, fresh)
        return decoded

    wrap(PointDecoder, "decode", decode)


# ------------------------------------------------------------------ dead letters


@TABLE.defect()
def loses_dead_letters() -> None:
    """Every hundredth dead letter is counted and not sent."""
    sent = [0]

    def letters(original: Any, *given: Any) -> list[Message]:
        kept = []
        for letter in original(*given):
            sent[0] += 1
            if sent[0] % 100:
                kept.append(letter)
        return kept

    wrap(DeadLetters, "letters", letters)


@TABLE.defect(Simulated(breach="lost-letter", faults={"kill": 3}, world=True), patches=False)
def flushes_no_dead_letters() -> None:
    """A checkpoint is saved before the dead letters of its rows are stored."""


@TABLE.defect()
def has_no_patience_with_dead_letters() -> None:
    """A dead letter that is not delivered within a second ends the trainer."""
    wrap(Cluster, "outbox", lambda original, cluster, **_: original(cluster, patience_s=1.0))
