"""Versions of erased rows, retired by the trainer once a version without the rows has taken their place.

The record of erased rows names those that a person asked to be retired (`streamsvm history forget --retire`) and that
could not be then: the newest one, and what an alias or the pin named. Whatever still names one keeps it: the next
version asks again.
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
from streamsvm.registry.aliases import read_aliases

log = structlog.get_logger("streamsvm.trainer")

READ_TIMEOUT_S: Final = 5.0


class Retiring:
    """Retires versions by their numbers, as soon as nothing names them.

    Parameters
    ----------
    settings : Settings
    cluster : Cluster
    numbers : sequence of int
    now : callable
        The time of day, for the audit trail.
    """

    def __init__(
        self, settings: Settings, cluster: Cluster, numbers: Sequence[int], now: Callable[[], datetime]
    ) -> None:
        self._settings, self._cluster, self._now = settings, cluster, now
        self._left = tuple(numbers)
        self._looked_at = 0

    def turn(self, newest: int) -> None:
        """Retire what is due if another version is the newest now; blocks for one transaction then."""
        if not self._left or newest == self._looked_at:
            return
        self._looked_at = newest
        try:
            self._retire()
        except StreamsvmError as error:
            log.warning("retiring_waits", what=error.what, remedy=error.remedy, versions=list(self._left))

    def _retire(self) -> None:
        settings, cluster = self._settings, self._cluster
        names = read_aliases(cluster, settings.name, settings.output.aliases_topic, READ_TIMEOUT_S)
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
