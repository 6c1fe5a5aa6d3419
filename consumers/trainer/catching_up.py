"""Checks while reading again up to the newest version: the log must still give what that version was made from."""

from __future__ import annotations

import structlog

from streamsvm.build import build
from streamsvm.config import Settings
from streamsvm.delivery import Delivery
from streamsvm.errors import StateError
from streamsvm.learning.learner import Learner

log = structlog.get_logger("streamsvm.trainer")


def compare_with_head(name: str, delivery: Delivery, learner: Learner) -> None:
    """At exactly the newest version's cut the training set must be the one it was trained on.

    Asking for it counts leaves from here on, as publishing that version did.

    Raises
    ------
    StateError
        If it is another one, and this is the build that made it.
    """
    head = delivery.head
    if head is None or learner.positions != delivery.published_cut:
        return
    found = learner.cut().points.sha256()
    if found == head.training_set_sha256:
        return
    what = (
        f"reading again gave another training set for {name}@{head.number}: "
        f"{found}, published {head.training_set_sha256}"
    )
    if head.build == build():
        raise StateError(what, "The input log no longer holds what that version was made from.")
    log.warning("training_set_differs", what=what, remedy="this is another build or CPU than the version's")


def refuse_gap(settings: Settings, delivery: Delivery, learner: Learner, partition: int, what_follows: str) -> None:
    """Refuse to go on where reading again passed the newest version's cut without ever standing at it.

    Parameters
    ----------
    settings : Settings
    delivery : Delivery
    learner : Learner
    partition : int
    what_follows : str
        How the log goes on, or that it ends.

    Raises
    ------
    StateError
    """
    at, cut = learner.positions[partition], delivery.published_cut[partition]
    raise StateError(
        f"{settings.name}@{delivery.next_number - 1} was made from {settings.input.topic}"
        f"[{partition}] up to offset {cut.offset} row {cut.row}, but after offset {at.offset} row {at.row} "
        f"the log {what_follows}",
        "Records were removed in between: an input topic must not be compacted. Put back a newer checkpoint.",
    )
