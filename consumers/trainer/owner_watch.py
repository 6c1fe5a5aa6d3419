"""Looks now and then whether the model still belongs to this process, so that who was fenced ends.

The broker refuses a fenced trainer at its next transaction. One that has nothing to publish would learn until then, and
save what it learned: also rows that were erased meanwhile, elsewhere. A thread asks the broker for what was added
to the aliases topic; the main loop only takes the answers.

Invariant: no checkpoint is written after an owner record of another process was seen; and before each checkpoint
whatever was added since a second ago is looked at, where the broker answers within `PATIENCE_S`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

import structlog

from streamsvm.errors import InvalidMessage, StreamsvmError
from streamsvm.kafka import Cluster, OffsetOutOfRange
from streamsvm.model.pointers import Owner, decode_owner, owner_key

log = structlog.get_logger("streamsvm.trainer")

LOOK_EVERY_S: Final = 10.0
"""How long, at most, a fenced trainer goes on while the broker answers, and the time of one answer."""
FRESH_S: Final = 1.0
"""Before a checkpoint an answer that is older is asked for again."""
PATIENCE_S: Final = 2.0
"""How long a checkpoint waits for the answer. A broker that is away gives none, and no rows to learn either."""


class OwnerWatch:
    """Looks at the record `name@owner`.

    Parameters
    ----------
    cluster : Cluster
    aliases_topic, name : str
    check : callable
        Given an owner record, raises `Fenced` if it is another process's.
    monotonic : callable
        Seconds.
    """

    def __init__(
        self,
        cluster: Cluster,
        aliases_topic: str,
        name: str,
        check: Callable[[Owner], None],
        monotonic: Callable[[], float],
    ) -> None:
        self._cluster, self._topic, self._key = cluster, aliases_topic, owner_key(name).encode()
        self._check, self._monotonic = check, monotonic
        # Not at once: a start has just become the owner.
        self._requested_at = self._known_at = monotonic()
        self._asking: threading.Thread | None = None
        self._answered = False
        self._owner: Owner | None = None
        self._read_to: int | None = None

    def turn(self) -> None:
        """Ask if it is time to, and take an answer if there is one.

        Raises
        ------
        Fenced
            If the model belongs to another process.
        """
        self._take()
        if self._asking is None and self._monotonic() - self._requested_at >= LOOK_EVERY_S:
            self._ask()

    def before_saving(self) -> None:
        """Look again, unless that was done just now; waits no longer than `PATIENCE_S`.

        Raises
        ------
        Fenced
            If the model belongs to another process: then nothing may be saved.
        """
        self._take()
        if self._monotonic() - self._known_at >= FRESH_S:
            if self._asking is None:
                self._ask()
            assert self._asking is not None
            self._asking.join(PATIENCE_S)
            self._take()

    def _ask(self) -> None:
        self._requested_at, self._answered = self._monotonic(), False
        self._asking = self._begin()

    def _take(self) -> None:
        """Take an answer only after its thread has ended, so that no lock is needed."""
        if self._asking is None or self._asking.is_alive():
            return
        self._asking = None
        if self._answered:
            self._known_at = self._requested_at
        if self._owner is not None:
            self._check(self._owner)

    def _begin(self) -> threading.Thread:
        thread = threading.Thread(target=self._run, name="owner", daemon=True)
        thread.start()
        return thread

    def _run(self) -> None:
        try:
            self._look()
        except OffsetOutOfRange:  # records were deleted, or the topic was: look at all of it the next time
            self._read_to = None
        except StreamsvmError as error:
            log.debug("owner_unanswered", what=error.what)
        else:
            self._answered = True

    def _look(self) -> None:
        """Read what was added since the last look: the topic is small, but every version adds to it."""
        _, end = self._cluster.log_range(self._topic, 0)
        if end == self._read_to:
            return
        owner = self._owner
        for record in self._cluster.read_to_end(self._topic, 0, start=self._read_to, timeout_s=PATIENCE_S):
            if record.key == self._key and record.value is not None:
                try:
                    owner = decode_owner(record.value)
                except InvalidMessage as error:
                    log.debug("owner_unreadable", offset=record.offset, what=str(error))
        # Only a look that came to the end knows the newest.
        self._owner, self._read_to = owner, end


MakeOwnerWatch = Callable[[Cluster, str, str, Callable[[Owner], None], Callable[[], float]], OwnerWatch]
