"""Keeps the newest versions only: a trainer's own retirements, beside its publishing and never in its way.

They take the transactional id of people's moves (`consumers.models.moving`), so that nobody can name a version between
the look at the aliases and the tombstone. How far versions are retired stands in the aliases topic, so that no start
has to read the models for it. What fails waits for later versions: it costs space, never a version.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from typing import Final

import structlog

from consumers.settings import Settings
from consumers.streams.moves import moves_id, settlement_of_moves
from streamsvm.errors import StreamsvmError
from streamsvm.kafka import Cluster, Message
from streamsvm.model import trail
from streamsvm.model.pointers import Retired, encode_retired, retired_key
from streamsvm.model.version import version_key
from streamsvm.registry.aliases import Aliases, aliases_in

log = structlog.get_logger("streamsvm.trainer")

READ_TIMEOUT_S: Final = 5.0
SWEEP_EVERY: Final = 10
"""Versions between two looks: a take-over of an id for every version would cost more than the version."""
MOST_AT_ONCE: Final = 1_000


class Keeper:
    """Retires versions that `output.keep_versions` newer ones follow, unless an alias or a pin names them.

    Parameters
    ----------
    settings : Settings
    cluster : Cluster
    now : callable
        The time of day, for the audit trail.
    """

    def __init__(self, settings: Settings, cluster: Cluster, now: Callable[[], datetime]) -> None:
        self._settings = settings
        self._cluster = cluster
        self._now = now
        self._next = 0
        self._settlement = settlement_of_moves(settings, cluster)

    def published(self, newest: int) -> None:
        """Retire what is due after a version was published; blocks for one transaction now and then."""
        keep = self._settings.output.keep_versions
        if newest < self._next:
            return
        self._next = newest + SWEEP_EVERY
        try:
            retired = self._sweep(newest - keep + 1)
        except StreamsvmError as error:
            log.warning("retiring_waits", what=error.what, remedy=error.remedy, until_version=self._next)
            return
        if retired:
            log.info("versions_retired", count=retired, kept_from=newest - keep + 1)

    def _sweep(self, floor: int) -> int:
        """Retire what is unnamed and below a number; return how many."""
        if floor <= 1:
            return 0
        with closing(self._cluster.publisher(moves_id(self._settings))) as publisher:
            publisher.start()
            self._settlement.settle(publisher)
            going, retired = due(self._names(), floor)
            if going:
                publisher.publish(self._records(going, retired))
        if retired.below < floor:
            self._next = 0  # more at the next version
        return len(going)

    def _names(self) -> Aliases:
        name = self._settings.name
        found = self._cluster.newest_under(self._settings.output.aliases_topic, f"{name}@".encode(), READ_TIMEOUT_S)
        return aliases_in(found.values(), name)

    def _records(self, going: list[int], retired: Retired) -> list[Message]:
        name, output = self._settings.name, self._settings.output
        keys = [version_key(name, number).encode() for number in going]
        entry = trail.VersionsRetired(
            name=name,
            versions=going,
            by="trainer",
            reason=f"output.keep_versions = {output.keep_versions}",
            time=self._now().isoformat(),
        )
        how_far = encode_retired(retired), retired_key(name).encode()
        return [
            *(Message(output.models_topic, None, key, partition=0) for key in keys),
            Message(output.aliases_topic, *how_far, partition=0),
            Message(output.audit_topic, trail.encode(entry), keys[0], partition=0),
        ]


def due(names: Aliases, floor: int) -> tuple[list[int], Retired]:
    """Return which versions below a number are to be retired now, and how far that gets.

    Parameters
    ----------
    names : Aliases
        What is named is kept until a later look finds it unnamed; what cannot be read keeps everything.
    floor : int
        The lowest number that is kept anyway.
    """
    swept = names.retired or Retired(1, (), ())
    if names.faults:
        return [], swept
    below = max(swept.below, min(floor, swept.below + MOST_AT_ONCE))
    candidates = [*swept.kept, *(number for number in range(swept.below, below) if number not in swept)]
    going = [number for number in candidates if number not in names.numbers]
    kept = tuple(number for number in candidates if number in names.numbers)
    return going, Retired(below, kept, swept.others).with_others(())
