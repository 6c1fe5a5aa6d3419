"""A checkpoint without anything that was learned: where a model reads on from after rows of its input were erased.

What was learned of a row cannot be told from what was learned of others, so the whole log is learned again, without
the rows. Name, input, base and configuration go on; the incarnation is the next one, so that no older checkpoint,
wherever it lies, can take the place of this one.
"""

from __future__ import annotations

from dataclasses import replace

from streamsvm.checkpoint.snapshot import Snapshot
from streamsvm.config import ModelConfig
from streamsvm.learning.learner import Learner
from streamsvm.model.erased import Erased


def emptied(snapshot: Snapshot, erased: Erased) -> Snapshot:
    """Return what to continue from instead of a checkpoint that may hold erased rows.

    Parameters
    ----------
    snapshot : Snapshot
    erased : Erased

    Returns
    -------
    Snapshot
        The same one, if it was made after the rows were erased, or is of another input.
    """
    if snapshot.incarnation > erased.incarnation or not erased.is_of(snapshot.topic, snapshot.topic_id):
        return snapshot
    config = ModelConfig.of_canonical(snapshot.configuration)
    return replace(
        snapshot,
        incarnation=erased.incarnation + 1,
        learner=Learner(config, snapshot.base, 1).state(),
        pending=None,
        read_to={},
    )
