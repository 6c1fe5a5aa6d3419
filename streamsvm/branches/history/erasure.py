"""A checkpoint without anything that was learned: where a model reads on from after rows of its input were erased.

What was learned of a row cannot be told from what was learned of others, so the whole log is learned again, without
the rows. Name, input, base and configuration go on, under a later incarnation.

Invariant: only the SHA-256 of the record of erased rows says that a checkpoint was made without the rows. Its
incarnation does not: a build that does not know the record learns on under the same number, or a higher one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from streamsvm.branches.history.erased import Erased
from streamsvm.branches.history.erased_part import PART, Obeyed, obeyed_of, obeying
from streamsvm.checkpoint.directory import CheckpointDirectory
from streamsvm.checkpoint.snapshot import RememberedPart, Snapshot
from streamsvm.config import ModelConfig
from streamsvm.learning.learner import Learner
from streamsvm.model.left_out import LeftOut
from streamsvm.model.pointers import Head


def obeys(snapshot: Snapshot, erased: LeftOut) -> bool:
    """Return whether a checkpoint was made without the erased rows: it names their record, or is of another input."""
    if not erased.is_of(snapshot.topic, snapshot.topic_id):
        return True
    own = obeyed_of(snapshot)
    return own is not None and own.sha256 == erased.sha256


def emptied(snapshot: Snapshot, erased: LeftOut, head: Head | None) -> Snapshot:
    """Return what to continue from instead of a checkpoint that may hold erased rows.

    Parameters
    ----------
    snapshot : Snapshot
    erased : Erased
    head : Head or None
        The newest on the topic.

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
    empty = replace(
        snapshot,
        incarnation=incarnation,
        learner=Learner(config, snapshot.base, 1).state(),
        pending=None,
        read_to={},
    )
    return obeying(empty, Obeyed(sha256=erased.sha256, continues=continues))


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
