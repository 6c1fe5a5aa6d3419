"""Checks while reading again up to the newest version: the log must still give what that version was made from."""

from __future__ import annotations

import structlog

from streamsvm.build import build
from streamsvm.config import Settings
from streamsvm.delivery import Delivery
from streamsvm.errors import StateError
from streamsvm.learner import Learner

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
        f"replaying the log gave a different training set for {name}@{head.number}: SHA-256 {found}, published "
        f"{head.training_set_sha256}"
    )
    if head.build == build():
        raise StateError(what, "The input log no longer holds the records that this version was made from.")
    log.warning(
        "training_set_differs",
        what=what,
        remedy="no action needed: this build or CPU differs from the one that made the version",
    )


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
        "Records in between were removed: an input topic must not be compacted. Restore a newer checkpoint.",
    )
