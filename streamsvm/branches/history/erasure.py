"""A checkpoint without the rows: where a model reads on from after rows of its input were erased.

What was learned of a row cannot be told from what was learned of others, so the log is learned again, without the rows:
from a checkpoint of before them that was kept, or from the beginning. Name, input, base and configuration go on, under
a later incarnation.

Invariant: only the SHA-256 of the record of erased rows says that a checkpoint was made without the rows. Its
incarnation does not: a build that does not know the record learns on under the same number, or a higher one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from streamsvm.branches.history.erased import Erased
from streamsvm.branches.history.erased_part import PART, Obeyed, obeyed_of, obeying
from streamsvm.checkpoint.directory import CheckpointDirectory
from streamsvm.checkpoint.snapshot import ReadAhead, RememberedPart, Snapshot
from streamsvm.config import ModelConfig
from streamsvm.learning.learner import Learner
from streamsvm.model.left_out import LeftOut
from streamsvm.model.pointers import Head
from streamsvm.model.version import positions as cut_positions
from streamsvm.points import Position, precedes

_BEGIN: Final = Position(-1)


def obeys(snapshot: Snapshot, erased: LeftOut) -> bool:
    """Return whether a checkpoint was made without the erased rows: it names their record, or is of another input."""
    if not erased.is_of(snapshot.topic, snapshot.topic_id):
        return True
    own = obeyed_of(snapshot)
    return own is not None and own.sha256 == erased.sha256


def lacks(snapshot: Snapshot, erased: Erased) -> bool:
    """Return whether a checkpoint of the same input holds none of the erased rows, and all others up to its positions.

    It does where it obeys an earlier record, or none, and has not reached the rows that were erased since.
    """
    own, positions, known = obeyed_of(snapshot), snapshot.positions, 0
    if own is not None:
        known = own.rows
        if known > len(erased.rows) or erased.rows_sha256(known) != own.rows_sha256:
            return False  # it may be without rows that no record names any more
    return all(positions.get(p, _BEGIN) <= Position(offset, row) for p, offset, row, _ in erased.rows[known:])


def beginning(
    snapshot: Snapshot,
    erased: Erased,
    head: Head | None,
    continues: int,
    earlier: Iterable[Snapshot],
    fits: Callable[[Snapshot], bool],
) -> Snapshot | None:
    """Return the checkpoint from which to learn again instead of from the beginning; None: there is none.

    The version that takes the place of the newest one is made at that one's cut, so learning must begin before it.

    Parameters
    ----------
    snapshot : Snapshot
        The newest.
    erased : Erased
    head : Head or None
        The newest on the topic.
    continues : int
        The incarnation whose newest version is continued; 0: versions are published from the beginning.
    earlier : iterable of Snapshot
        Others of the model, the newest first.
    fits : callable
        Whether the log still holds what was read there last, and what comes next.
    """
    if not continues or head is None or head.incarnation != continues:
        return None
    cut = cut_positions(head.cut)
    for one in earlier:
        if (
            (one.name, one.topic, one.topic_id) == (snapshot.name, snapshot.topic, snapshot.topic_id)
            and one.configuration_sha256 == snapshot.configuration_sha256
            and all(snapshot.base.get(partition) == at for partition, at in one.base.items())
            and precedes(one.positions, cut)
            and any(one.positions.get(partition, _BEGIN) < at for partition, at in cut.items())
            and lacks(one, erased)
            and fits(one)
        ):
            return one
    return None


def emptied(
    snapshot: Snapshot,
    erased: LeftOut,
    head: Head | None,
    earlier: Iterable[Snapshot] = (),
    fits: Callable[[Snapshot], bool] = lambda _: True,
) -> Snapshot:
    """Return what to continue from instead of a checkpoint that may hold erased rows.

    Parameters
    ----------
    snapshot : Snapshot
    erased : Erased
    head : Head or None
        The newest on the topic.
    earlier, fits
        As of `beginning`.

    Returns
    -------
    Snapshot
        The same one, if it obeys the record.
    """
    if obeys(snapshot, erased):
        return snapshot
    assert isinstance(erased, Erased)
    config, incarnation = ModelConfig.of_canonical(snapshot.configuration), erased.incarnation + 1
    continues = erased.continues
    if snapshot.incarnation >= incarnation:
        # Something went on after the erasure that did not know its record: what that published is continued, too.
        incarnation = snapshot.incarnation + 1
        published = head.incarnation if head is not None else 0
        is_continued = published in {snapshot.incarnation, erased.continues} and config.svm.tune is None
        continues = published if is_continued else 0
    begun = beginning(snapshot, erased, head, continues, earlier, fits)
    if not begun:
        config = config.having(earlier=())  # all rows become the columns of now
    learner, read_to = Learner(config, snapshot.base, 1).state(), dict[int, int]()
    if begun is not None:
        partitions = dict(sorted({**learner.partitions, **begun.learner.partitions}.items()))
        learner, read_to = replace(begun.learner, partitions=partitions), dict(begun.read_to)
    parts = {n: part.emptied() if isinstance(part, ReadAhead) else part for n, part in snapshot.parts.items()}
    plain, sha256 = config.canonical(), config.learned_sha256()
    empty = replace(snapshot, incarnation=incarnation, configuration=plain, configuration_sha256=sha256, parts=parts)
    empty = replace(empty, learner=learner, pending=None, read_to=read_to)
    return obeying(empty, Obeyed.of(erased, continues))


def remove_disobedient(checkpoints: CheckpointDirectory, erased: LeftOut, model: str) -> list[str]:
    """Remove all checkpoints of a model that do not name a record of erased rows: they may hold the rows.

    Files that cannot be read go, too, where they are as old as the erasure.

    Returns
    -------
    list of str
        Their names.

    Raises
    ------
    TransientError
        If the disk refuses.
    """

    def obeys_it(marks: Mapping[str, RememberedPart]) -> bool:
        own = marks.get(PART)
        return isinstance(own, Obeyed) and own.sha256 == erased.sha256

    return checkpoints.remove_unless(obeys_it, model, erased.incarnation)
