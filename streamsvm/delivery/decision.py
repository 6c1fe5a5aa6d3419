"""Decides how a start continues, from what it finds: one table for all cases, from a first start to a replaced log.

`consumers.trainer.startup` reads the topics, the checkpoints and the log, and calls `decide` with what it found;
nothing here does I/O. The result is `Begin`, `Resume`, or an error that a person must act on. To read: `decide`, then
`_refusal`, which lists what makes a checkpoint unusable, in the order in which it is checked.

Invariant: a start that could be silently wrong is refused. The refusal names both values and the exact option with
which to begin anew. A reset names the incarnation that it ends, so that an option left in a unit file takes effect only
once.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Protocol

from streamsvm.checkpoint.snapshot import Snapshot
from streamsvm.config import ModelConfig
from streamsvm.config.model import learned_part
from streamsvm.errors import StateError
from streamsvm.learning.recipe_changes import changed as with_other_columns
from streamsvm.model.comparison import configuration_differences
from streamsvm.model.pointers import Head
from streamsvm.model.version import positions
from streamsvm.points import Position

FIRST_INCARNATION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """The situation that a start finds.

    Attributes
    ----------
    name : str
    topic, topic_id : str
        The input topic; the id is empty if the broker does not report topic ids.
    configuration : mapping
        The part of the configuration that affects models; `configuration_sha256` is the hash of what decides what is
        learned (`learned_part`).
    configuration_sha256 : str
    log : mapping of partition to (int, int)
        First offset and end of each partition of the input.
    head : Head or None
        The newest head record of the models topic.
    reset : str
        The value of `--reset`; empty if not given.
    on_gap : "fail" or "reset"
        Whether to begin anew automatically if the log no longer holds records that were read or are to be read next.
    checkpoints : str
        The directory that was searched for checkpoints, for messages; empty: the messages do not name it.
    beside : tuple of SideLog
        The logs that branches read beside the input.
    """

    name: str
    topic: str
    topic_id: str
    configuration: dict[str, Any]
    configuration_sha256: str
    log: Mapping[int, tuple[int, int]]
    head: Head | None
    reset: str = ""
    on_gap: Literal["fail", "reset"] = "fail"
    checkpoints: str = ""
    beside: tuple[SideLog, ...] = ()


class SideLog(Protocol):
    """A log beside the input that a branch reads, as a start finds it."""

    def difference(self, snapshot: Snapshot, present: Present) -> str:
        """Return how it, or the input, differs from what a checkpoint was made from; empty: not at all."""

    def gaps(self, snapshot: Snapshot) -> Iterator[str]:
        """Yield where it does not hold what was read, or what is to be read next."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A checkpoint from which the trainer could continue.

    Attributes
    ----------
    snapshot : Snapshot
    epochs : mapping of (int, int) to int
        The leader epoch that the record at a partition and offset has in the log now, as far as known: see `places`.
    configuration : mapping or None
        The configuration under which the trainer would continue from this checkpoint: options that are newer than the
        checkpoint have the values that they had in effect before. None: the configuration of `Present`.
    configuration_sha256 : str
    read : Snapshot or None
        The checkpoint as it was read, if `snapshot` holds less of it: rows that it learned were erased since. None: it
        is `snapshot`.
    unfit : str
        Why what it holds cannot become other columns; empty where it can, or need not.
    """

    snapshot: Snapshot
    epochs: Mapping[tuple[int, int], int] = field(default_factory=dict)
    configuration: dict[str, Any] | None = None
    configuration_sha256: str = ""
    read: Snapshot | None = None
    unfit: str = ""


@dataclass(frozen=True, slots=True)
class Begin:
    """Begin an incarnation at the configured start; version numbers continue after `head`.

    Attributes
    ----------
    incarnation : int
    head : Head or None
    gap : str
        The gap in the log because of which it begins anew automatically; empty at a first start or with `--reset`.
    changed : str
        The difference to a checkpoint that had learned and published nothing, and is therefore dropped without
        `--reset`; empty otherwise.
    """

    incarnation: int
    head: Head | None
    gap: str = ""
    changed: str = ""


@dataclass(frozen=True, slots=True)
class Resume:
    """Continue from a checkpoint.

    Attributes
    ----------
    snapshot : Snapshot
    head : Head or None
    reset_ignored : bool
        Whether a reset was given that did not apply.
    passed_over : str
        Why a newer checkpoint was not used; empty if this is the newest.
    """

    snapshot: Snapshot
    head: Head | None
    reset_ignored: bool
    passed_over: str = ""


@dataclass(frozen=True, slots=True)
class _Refusal:
    why: str
    gap: bool
    """Whether the log is at fault: an older checkpoint may fit it, and `on_gap` decides if none does."""
    changed: bool = False
    """Whether only the configuration differs; then a checkpoint that learned and published nothing may be dropped."""


def reset_token(name: str, incarnation: int) -> str:
    """Return the value of `--reset` that ends an incarnation."""
    return f"{name}/{incarnation}"


def decide(candidates: Iterable[Candidate], present: Present) -> Begin | Resume:
    """Decide how to start.

    Parameters
    ----------
    candidates : iterable of Candidate
        The valid checkpoints, the newest first. An older one is read only if it may help.
    present : Present

    Raises
    ------
    StateError
        If continuing could be silently wrong; the message names both values and the exact way to begin anew.
    """
    newest, refusal, read = None, None, None
    for candidate in candidates:
        snapshot = candidate.snapshot
        _refuse_another_models(snapshot, present)
        # Checkpoints of an older incarnation belong to a stream that a reset gave up: they must not come back to life.
        if newest is not None and snapshot.incarnation != newest.incarnation:
            continue
        found = _refusal(candidate, present)
        if found is None:
            head = _later(present.head, snapshot.head)
            published = present.head.incarnation if present.head else 0
            # Nothing forces it: the stream has changed, say. Under other [features] an incarnation would begin anyway.
            ends = [max(one.incarnation, published) for one in (snapshot, candidate.read or snapshot)]
            if present.reset in {reset_token(present.name, ended) for ended in ends}:
                return Begin(max(ends) + 1, head)
            return Resume(snapshot, head, bool(present.reset), refusal.why if refusal else "")
        newest, refusal, read = newest or snapshot, refusal or found, read or candidate.read or snapshot
        if not found.gap:  # not the fault of the log, so an older checkpoint cannot help
            break
    if not (newest and refusal and read):
        return _without_checkpoint(present)
    head = _later(present.head, newest.head)
    # Numbers of incarnations are never used twice, whichever of topic and checkpoint knows the later one.
    ended = max(newest.incarnation, present.head.incarnation if present.head else 0)
    if refusal.gap and present.on_gap == "reset":
        return Begin(ended + 1, head, refusal.why)
    # Somebody who corrects an option right after the first start must not need a reset for it.
    if refusal.changed and _is_empty(read, present.head):
        return Begin(ended + 1, head, changed=refusal.why)
    other_features = refusal.changed and newest.configuration.get("features") != present.configuration.get("features")
    return _refuse_or_reset(refusal.why, present, ended, head, _under_another_name(present) if other_features else "")


def _refuse_another_models(snapshot: Snapshot, present: Present) -> None:
    """Refuse a directory with the checkpoints of another model, also with `--reset`.

    A new incarnation in this directory would sooner or later remove those checkpoints, and with them everything that
    the other model has learned.

    Raises
    ------
    StateError
    """
    if snapshot.name == present.name:
        return
    where = f" in {present.checkpoints}" if present.checkpoints else ""
    raise StateError(
        f"the checkpoint{where} belongs to the model {snapshot.name!r}, but this model is {present.name!r}",
        f"Give {present.name} its own directory, for example --checkpoint-directory checkpoint/{present.name}. "
        "A reset does not help here: it never touches the checkpoints of another model.",
    )


def _is_empty(snapshot: Snapshot, head: Head | None) -> bool:
    """Return whether an incarnation learned and published nothing, so that beginning another one loses nothing."""
    published = head is not None and head.incarnation >= snapshot.incarnation
    learned = any(state.learned.count for state in snapshot.learner.partitions.values())
    return not published and not learned and snapshot.pending is None


def _without_checkpoint(present: Present) -> Begin:
    head = present.head
    if head is None:
        return Begin(FIRST_INCARNATION, None)
    where = f" in {present.checkpoints}" if present.checkpoints else ""
    refusal = f"the models topic holds {present.name}@{head.number}, but there is no checkpoint{where} to continue from"
    return _refuse_or_reset(refusal, present, head.incarnation, head)


def _later(one: Head | None, other: Head | None) -> Head | None:
    # The topic may have been lost, or the checkpoint be older: version numbers go on from the higher one.
    return max((head for head in (one, other) if head), key=lambda head: head.number, default=None)


def _under_another_name(present: Present) -> str:
    """Return how other features can learn while readers keep the versions of the old ones."""
    directory = f" --checkpoint-directory {shlex.quote(f'{present.checkpoints}-next')}" if present.checkpoints else ""
    return (
        f"; or let readers keep {present.name} for now, and another name learn the records that the topic retains: "
        f"--name {present.name}-next{directory} --input-start earliest"
    )


def _refuse_or_reset(refusal: str, present: Present, ended: int, head: Head | None, otherwise: str = "") -> Begin:
    token = reset_token(present.name, ended)
    # The token names the incarnation that ends, so that a reset left in a service file does not reset at every start.
    if present.reset == token:
        return Begin(ended + 1, head)
    raise StateError(
        refusal,
        "Restore the checkpoint, or the configuration that belongs to it; or begin anew at the configured start "
        f"(version numbers go on) with --reset {token}{otherwise}",
    )


def _refusal(candidate: Candidate, present: Present) -> _Refusal | None:
    """Return why this checkpoint must not be used, or nothing."""
    snapshot, continued = candidate.snapshot, _continued(candidate, present)
    changed, foreign = _changed(snapshot, continued), _foreign(snapshot, continued)
    # Another one that continued it may have changed the options: then that counts.
    is_continued = present.head is not None and present.head.incarnation > snapshot.incarnation
    if changed and not is_continued:
        return _Refusal(candidate.unfit or changed, gap=False, changed=True)
    if foreign:
        return _Refusal(foreign, gap=False)
    other = next(filter(None, (log.difference(snapshot, present) for log in present.beside)), "")
    if other:
        return _Refusal(other, gap=False, changed=True)
    gap = (
        _recreated(snapshot, present)
        or next(_gaps(candidate, present), "")
        or next((gap for log in present.beside for gap in log.gaps(snapshot)), "")
    )
    return _Refusal(gap, gap=True) if gap else None


def _continued(candidate: Candidate, present: Present) -> Present:
    """Return the present with the configuration that goes on from a checkpoint."""
    if candidate.configuration is None:
        return present
    sha256 = candidate.configuration_sha256
    return replace(present, configuration=candidate.configuration, configuration_sha256=sha256)


def _changed(snapshot: Snapshot, present: Present) -> str:
    if snapshot.configuration_sha256 != present.configuration_sha256:
        before, now = learned_part(snapshot.configuration), learned_part(present.configuration)
        differences = "; ".join(configuration_differences(before, now))
        return f"the configuration differs from the checkpoint's: {differences}"
    if snapshot.topic != present.topic:
        return f"the checkpoint was made from the topic {snapshot.topic!r}, but the input topic is {present.topic!r}"
    return ""


def _foreign(snapshot: Snapshot, present: Present) -> str:
    head, known = present.head, snapshot.head
    if head is not None and head.incarnation > snapshot.incarnation:
        return (
            f"the models topic is at incarnation {head.incarnation}, but the checkpoint is at "
            f"{snapshot.incarnation}: another trainer has continued this model"
        )
    # A head of an earlier incarnation was accepted, found on the topic or not, when this one began.
    ours = known is not None and known.incarnation == snapshot.incarnation
    if known is not None and ours and (head is None or head.number < known.number):
        found = f"ends at {present.name}@{head.number}" if head else f"holds no {present.name}: was it deleted?"
        return f"the checkpoint knows {present.name}@{known.number}, but the aliases topic {found}"
    return ""


def _recreated(snapshot: Snapshot, present: Present) -> str:
    if snapshot.topic_id == present.topic_id:
        return ""
    return (
        f"the checkpoint was made from the topic {snapshot.topic!r} with id {snapshot.topic_id or 'unknown'}, but "
        f"the input topic has the id {present.topic_id or 'unknown'}: the topic was recreated"
    )


@dataclass(frozen=True, slots=True)
class _Stand:
    """A position in the log, whose it is, and the leader epoch of the last record read before it; -1 if unknown."""

    who: str
    partition: int
    at: Position
    leader_epoch: int

    @property
    def last_read(self) -> tuple[int, int]:
        # Within a record the record itself was read; at a border, the one before.
        return self.partition, self.at.offset if self.at.row else self.at.offset - 1


def places(snapshot: Snapshot, head: Head | None) -> list[tuple[int, int]]:
    """Return the partitions and offsets of the records whose leader epochs `decide` compares."""
    return sorted({stand.last_read for stand in _stands(snapshot, head, "") if stand.leader_epoch >= 0})


def reads_on(snapshot: Snapshot, partition: int, first: int, end: int) -> int:
    """Return the offset at which to continue reading a log that holds the offsets `first` to `end`.

    Normally this is the offset of the position. If retention removed that offset, and everything up to `read_to` is
    known to have held nothing to learn, reading continues at `read_to`. Records that still exist are read again,
    because it is not certain that they are the ones that were seen; and a log that ends before `read_to` proves
    nothing.
    """
    ahead = snapshot.ahead
    if ahead is not None and partition in ahead:
        return ahead[partition][0].offset
    read_to, position = snapshot.read_to.get(partition, 0), snapshot.positions[partition]
    return read_to if position.offset < first <= read_to <= end and not position.row else position.offset


def _stands(snapshot: Snapshot, head: Head | None, name: str) -> Iterator[_Stand]:
    learned = {part: (state.position, state.leader_epoch) for part, state in snapshot.learner.partitions.items()}
    # The first checkpoint of a life is written before anything is read ahead.
    for partition, (at, leader_epoch) in (learned | dict(snapshot.ahead or {})).items():
        yield _Stand("the checkpoint", partition, at, leader_epoch)
    if head is not None and head.incarnation == snapshot.incarnation:
        cut = positions(head.cut)
        for part in head.cut:
            yield _Stand(f"{name}@{head.number}", part.partition, cut[part.partition], part.leader_epoch)


def _gaps(candidate: Candidate, present: Present) -> Iterator[str]:
    """Yield where the log does not hold what was read, or what is to be read next."""
    for stand in _stands(candidate.snapshot, present.head, present.name):
        where = f"{present.topic}[{stand.partition}]"
        if stand.partition not in present.log:
            yield f"{stand.who} has a position in partition {stand.partition} of {present.topic}, which does not exist"
            continue
        (first, end), offset = present.log[stand.partition], stand.at.offset
        # At the end is allowed, for nothing was written since; within a record that would begin there is not.
        if offset > end or (offset == end and stand.at.row):
            yield (
                f"{stand.who} is at offset {offset} of {where}, but {where} ends at {end}: the topic was truncated "
                "or recreated"
            )
        # Retention may take what a published cut lies behind: only the next row to read must still be there.
        ours = stand.who == "the checkpoint"
        if ours and (reading := reads_on(candidate.snapshot, stand.partition, first, end)) < first:
            yield (
                f"the checkpoint is at offset {reading} of {where}, but {where} begins at {first}: retention removed "
                f"{first - reading} unread records"
            )
        epoch = candidate.epochs.get(stand.last_read, stand.leader_epoch)
        # Same offset, other epoch: the offset was given a second time, to a record that we did not read.
        if stand.leader_epoch >= 0 and epoch != stand.leader_epoch:
            yield (
                f"{stand.who} read the record at offset {stand.last_read[1]} of {where} under leader epoch "
                f"{stand.leader_epoch}, but the record there now has epoch {epoch}: an unclean leader election "
                "replaced the record"
            )


def with_recipe(snapshot: Snapshot, config: ModelConfig, head: Head | None) -> tuple[Snapshot, str]:
    """Return a checkpoint as learning goes on from it under a recipe, in a new incarnation if that is another one.

    Parameters
    ----------
    snapshot : Snapshot
    config : ModelConfig
        That of the start.
    head : Head or None
        The newest on the topic.

    Returns
    -------
    snapshot : Snapshot
        The same one where nothing changes, or cannot.
    unfit : str
        Why it cannot; empty otherwise, and where more than the recipe differs.
    """
    try:
        before = ModelConfig.of_canonical(snapshot.configuration)
    except ValueError:  # another build's: the comparison names what differs
        return snapshot, ""
    config = config.begun_with(snapshot.configuration)
    if before.recipe == config.recipe or (head is not None and head.incarnation > snapshot.incarnation):
        return snapshot, ""
    try:
        found = with_other_columns(snapshot.learner, before, config, snapshot.incarnation)
    except ValueError as error:
        return snapshot, f"what the checkpoint holds cannot become the columns of [features]: {error}"
    if found is None:
        return snapshot, ""
    if config.label_rule is not None:
        return snapshot, "[features] differ, and rows that wait for their labels have the columns of before"
    learner, now = found
    plain, sha256 = now.canonical(), now.learned_sha256()
    made = replace(snapshot, incarnation=snapshot.incarnation + 1, configuration=plain, configuration_sha256=sha256)
    return replace(made, learner=learner, pending=None), ""
