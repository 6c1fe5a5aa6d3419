"""Named places at which a test can make the process die, before and after each durable step.

Nothing happens at a place unless it was armed; the command line arms one from the environment variable
``STREAMSVM_TEST_CRASH_AT``, and only tests set that. The list is closed: arming or reaching a name that is not here is
an error, so that a renamed step cannot silently leave its test.
"""

from __future__ import annotations

import os
import signal
from typing import Final

from streamsvm.errors import ConfigurationError

POINTS: Final[dict[str, str]] = {
    "start.locked": "the checkpoint directory is ours, nothing is read yet",
    "start.loaded": "the checkpoint is read",
    "start.looked": "the topics were read without fencing anybody",
    "start.fenced": "the transactional id is ours",
    "start.owned": "the owner record is committed",
    "start.decided": "it is decided how to go on, nothing is saved yet",
    "start.saved": "the first checkpoint of this process is durable",
    "input.learned": "a batch of records is learned",
    "cut.emitted": "a cut is taken",
    "cut.trained": "a model is trained, nothing is sent yet",
    "publish.sent": "a version's records are with the broker, their transaction is open",
    "publish.answered": "the broker has answered the commit of a version; whether readers pass it is not known yet",
    "publish.committed": "a version's transaction is committed, this process has not noted it",
    "publish.noted": "a version is committed and noted",
    "renew.begun": "the producer is given up after an unknown outcome",
    "renew.fenced": "the new producer has the transactional id",
    "settle.swept": "what a dead transaction left open is aborted, what readers half see is not completed",
    "settle.completed": "it is completed by a transaction that is committed, whose markers were not looked for",
    "deadletters.sent": "dead letters are handed to the client, not yet acknowledged",
    "checkpoint.begun": "a checkpoint is due, nothing of it is written",
    "checkpoint.written": "a checkpoint's bytes are written under its temporary name",
    "checkpoint.synced": "they are on the disk",
    "checkpoint.renamed": "the checkpoint has its name, which is not on the disk yet",
    "checkpoint.durable": "its name is on the disk",
    "checkpoint.pruned": "the generations beyond the limit are removed",
    "offsets.committed": "the group's offsets, for observers, are committed",
    "erase.recorded": "the record of erased rows is published; the checkpoints are as before",
    "erase.emptied": "the checkpoints are without the rows",
    "stop.saved": "the last checkpoint of a stop is durable",
    "coresets.left": "a trainer has left the state of a partition for workers, which is not opened yet",
    "coresets.opened": "a trainer has opened a partition for workers",
    "coresets.parts": "a worker's parts are stored, the manifests that name them are not sent",
    "coresets.manifests": "the manifests are stored, the tombstones that follow them are not sent",
    "scores.sent": "a batch's scores are with the broker, their transaction is open",
    "scores.placed": "the batch's positions are in the transaction, which is still open",
    "scores.answered": "the broker has answered the commit of a batch; whether readers pass it is not known yet",
    "scores.committed": "a batch's transaction is committed, this scorer has not noted it",
}

_armed: list[tuple[str, int]] = []


def arm(setting: str) -> None:
    """Let the process kill itself at a place.

    Parameters
    ----------
    setting : str
        ``name`` or ``name:times``: at the first, or the given, time that the place is reached.

    Raises
    ------
    ConfigurationError
        If there is no such place, or the count is no positive number.
    """
    name, _, times = setting.partition(":")
    if name not in POINTS or not (times or "1").isdigit() or int(times or "1") < 1:
        raise ConfigurationError(
            f"unknown crash point {setting!r}", f"Choose one of {', '.join(POINTS)}, followed by :times."
        )
    _armed[:] = [(name, int(times or "1"))]


def crash_point(name: str) -> None:
    """Pass a place: die here by SIGKILL if it is the armed one and its time has come."""
    if not _armed:
        return
    assert name in POINTS
    armed, left = _armed[0]
    if armed != name:
        return
    if left == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    _armed[0] = (armed, left - 1)
