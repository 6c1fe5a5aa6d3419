"""Versions of erased rows: the trainer retires those that it was asked to, and says where readers are held at one.

The record of erased rows names those that a person asked to be retired (`streamsvm history forget --retire`) and that
could not be then: the newest one, and what an alias or the pin named. Whatever still names one keeps it: the next
version asks again. Where deletes come as records nobody confirms a pin, so the trainer names one that holds readers at
a version which may be of the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

import structlog

from consumers.models.moving import Records, perform, retire
from consumers.settings import Settings
from streamsvm.errors import StreamsvmError
from streamsvm.kafka import Cluster
from streamsvm.model.pointers import pin_key
from streamsvm.registry.aliases import Aliases, read_aliases

log = structlog.get_logger("streamsvm.trainer")

READ_TIMEOUT_S: Final = 5.0


class Retiring:
    """Retires versions by their numbers, as soon as nothing names them.

    Parameters
    ----------
    settings : Settings
    cluster : Cluster
    numbers : sequence of int
    newest : int
        The newest version that may be of erased rows.
    now : callable
        The time of day, for the audit trail.
    """

    def __init__(
        self, settings: Settings, cluster: Cluster, numbers: Sequence[int], newest: int, now: Callable[[], datetime]
    ) -> None:
        self._settings, self._cluster, self._now = settings, cluster, now
        self._left = tuple(numbers)
        self._newest, self._pin_is_known = newest, False
        self._looked_at = 0

    def turn(self, newest: int) -> None:
        """Retire what is due if another version is the newest now; blocks for a read and one transaction then."""
        if (not self._left and self._pin_is_known) or newest == self._looked_at:
            return
        self._looked_at = newest
        try:
            self._retire()
        except StreamsvmError as error:
            log.warning("retiring_waits", what=error.what, remedy=error.remedy, versions=list(self._left))

    def _retire(self) -> None:
        settings, cluster = self._settings, self._cluster
        names = read_aliases(cluster, settings.name, settings.output.aliases_topic, READ_TIMEOUT_S)
        self._name_pin(names)
        left = [number for number in self._left if names.retired is None or number not in names.retired]
        going = [number for number in left if number not in names.numbers]
        if going:
            records = Records(cluster, settings, "trainer", "rows were erased that they are of", self._now())
            perform(cluster, settings, retire(records, going))
            log.info("versions_retired", versions=going, why="rows were erased that they are of")
        self._left = tuple(number for number in left if number not in going)
        if self._left:
            log.warning(
                "erased_rows_named",
                versions=list(self._left),
                why="they are of rows that were erased, and an alias or the pin names them",
                remedy="move or remove what names them, as with streamsvm model pin --remove: the trainer retires them "
                "at its next version",
            )

    def _name_pin(self, names: Aliases) -> None:
        """Say, once a life, that readers are held at a version that may be of the rows."""
        pin = names.named.get(pin_key(self._settings.name))
        if not self._pin_is_known and pin is not None and pin.number <= self._newest:
            log.warning(
                "erased_rows_pinned",
                version=pin.number,
                why="rows were erased that it may be of, and readers of current are pinned to it",
                remedy="take the pin away with streamsvm model pin --remove",
            )
        self._pin_is_known = True
