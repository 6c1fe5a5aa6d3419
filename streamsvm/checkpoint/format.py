"""Checkpoints as bytes: a `Snapshot` in the form of `streamsvm.coreset.state`, whose format number is theirs.

``CHECKPOINT.md``, in the package above, has every byte. What branches keep in a checkpoint they register at the socket
``state_kinds``, as tuples of `Kind`.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Final, TypeVar

from streamsvm.checkpoint.snapshot import Snapshot
from streamsvm.config import ModelConfig
from streamsvm.coreset.partition import PartitionState
from streamsvm.coreset.state import KINDS, Kind, Names, StateWriter, check_partition, decode_state, register
from streamsvm.errors import CorruptCheckpoint
from streamsvm.learning.learner import Coverage, Cut, Horizon, LearnerState
from streamsvm.model.pointers import Head
from streamsvm.sockets import plugged

_Result = TypeVar("_Result")

_ANEW: Final = (
    "; or start under a new name; or move the checkpoints away and start again: the trainer then prints the --reset "
    "that begins anew"
)


def _check_cut(cut: Cut) -> None:
    shapes = {cut.points.dimension, *cut.moments.mean.shape, *cut.moments.square.shape}
    shapes |= {sample.points.dimension for sample in cut.audit}
    labels = {cut.moments.class_weight.shape, cut.learned.class_weight.shape}
    labels |= {sample.class_weight.shape for sample in cut.audit}
    if len(shapes) != 1 or len(labels) != 1:
        raise CorruptCheckpoint("a cut has arrays of different shapes")


register(*map(Kind, (Coverage, Head, Horizon, LearnerState, Snapshot)), Kind(Cut, _check_cut))
for _kinds in plugged("state_kinds", tuple):
    register(*_kinds)


def encode(snapshot: Snapshot) -> bytes:
    """Encode a snapshot: the same snapshot gives the same bytes."""
    return finished(encoding(snapshot))


def finished(steps: Generator[None, None, _Result]) -> _Result:
    """Return what steps come to, after taking all of them."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: _Result = end.value
            return result


def encoding(snapshot: Snapshot) -> Generator[None, None, bytes]:
    """Encode a snapshot as `encode` does, a partition a step; what happens between two steps changes nothing."""
    writer = StateWriter()
    for states in _states(snapshot):
        for _, state in sorted(states.items()):
            writer.part(state)
            yield
    yield
    return writer.finished(snapshot, names_of(snapshot), snapshot.build.get("streamsvm", ""))


def decode(content: bytes) -> Snapshot:
    """Decode a snapshot.

    Raises
    ------
    CorruptCheckpoint
        If a byte is damaged, the file is cut short, its format is another one, it has a part that is not known, or its
        states do not fit its configuration.
    """
    names, snapshot = decode_state(content, Snapshot, "file", _ANEW)
    for name, part in snapshot.parts.items():
        if type(part) is not next((kind.of for kind in KINDS.values() if kind.part == name), None):
            known = f"the file has the part {name!r}, which this build does not know"
            raise CorruptCheckpoint(known, f"Use the build that wrote it, or a newer one{_ANEW}.")
    for mark in snapshot.marks.values():
        mark.check(snapshot.incarnation)
    if names != names_of(snapshot):
        raise CorruptCheckpoint(f"the file is named {names}, but holds the state of {names_of(snapshot)}")
    then = snapshot.pending.positions if snapshot.pending is not None else {}
    if missing := then.keys() - snapshot.learner.partitions.keys():
        raise CorruptCheckpoint(f"a cut is of partition {min(missing)}, which the learner does not have")
    try:
        config = ModelConfig.model_validate(snapshot.configuration)
    except ValueError:  # of another build: what is decided about it is no matter of its bytes
        return snapshot
    for states in _states(snapshot):
        for state in states.values():
            check_partition(state, config)
    if isinstance(snapshot.pending, Cut) and snapshot.pending.points.dimension != config.points.dimension:
        raise CorruptCheckpoint(f"a cut is of {snapshot.pending.points.dimension} features")
    return snapshot


def names_of(snapshot: Snapshot) -> Names:
    """Return what the state of a checkpoint is of."""
    erased = "".join(mark.sha256 for mark in snapshot.marks.values())
    return Names(snapshot.incarnation, snapshot.topic_id, snapshot.configuration_sha256, erased)


def _states(snapshot: Snapshot) -> list[Mapping[int, PartitionState]]:
    pending = snapshot.pending
    return [snapshot.learner.partitions, *([pending.partitions] if isinstance(pending, LearnerState) else [])]
