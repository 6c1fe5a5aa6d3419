"""Several copies of a trainer, of which one works: the others stand by, and take over by themselves when it is gone.

A consumer group decides whose turn it is: the copy that owns the one partition of the aliases topic works. The group
only shows which copies are alive. What keeps two copies that both believe it is their turn from publishing side by side
is the transactional id, as always. So a turn that is lost for a moment costs time, never a version.

Sticky assignment leaves the partition where it is when copies come and go. A copy loses its turn if the broker did not
hear from it for the session's timeout. It then ends, and stands by when its supervisor starts it again.
"""

from __future__ import annotations

import math
from contextlib import ExitStack
from typing import Final

import structlog

from consumers.settings import Settings
from consumers.streams.abandonable import Pending
from consumers.streams.topics import output_topics, read_pointers, written_places
from consumers.trainer.components import Components
from streamsvm.errors import StateError, TransientError

log = structlog.get_logger("streamsvm.trainer")

LOOK_EVERY_S: Final = 0.02
REHEARSE_EVERY_S: Final = 60.0
"""How old clients get that wait for the turn."""
ASK_EVERY_S: Final = 0.5
"""How often a working trainer checks that it is still its turn."""
REHEARSAL_S: Final = 2.0
FROZEN_WAIT_S: Final = 0.2
PARTITION: Final = 0
LOST: Final = "No action needed: started again, it stands by. If this is often: look for pauses of machine or network."


class TurnLost(TransientError):
    """It is another copy's turn: started again, this one stands by."""


class Turn:
    """One copy's membership in the group.

    Parameters
    ----------
    settings : Settings
        With `training.standby`.
    components : Components
    """

    def __init__(self, settings: Settings, components: Components) -> None:
        self._settings, self._cluster, self._aside = settings, components.cluster, components.aside
        self._metrics, self._health = components.metrics, components.health
        self._stop, self._clock = components.stop, components.clock
        self._group = f"streamsvm-{settings.name}-trainers"
        self._cluster.create(output_topics(settings))
        self._member = self._cluster.member(settings.output.aliases_topic, group=self._group)
        self._due_at, self._kept = 0.0, ExitStack()

    def wait(self) -> bool:
        """Stand by until it is this copy's turn; return False if the process was stopped before.

        Raises
        ------
        TopicMissing, ConfigurationError, FatalError
            As for `Input.poll`.
        """
        self._metrics.put("streamsvm_standby", 1)
        begun, warned, rehearse_at = self._clock.monotonic(), False, -math.inf
        rehearsal: Pending[None] | None = None
        while PARTITION not in self._member.poll():
            self._health.beat()
            if self._clock.monotonic() >= rehearse_at and (rehearsal is None or rehearsal.over(0.0)):
                self._kept.close()  # idle clients tell nobody of their troubles
                self._kept.enter_context(self._cluster.keeping())
                rehearsal = self._aside(self._rehearse)
                rehearse_at = self._clock.monotonic() + REHEARSE_EVERY_S
            self._health.require("start", "another copy of the trainer works, and this one stands by")
            if not warned and self._clock.monotonic() - begun > 1.0:
                log.info("standing_by", group=self._group, remedy="no action needed: it takes over when that one ends")
                warned = True
            if self._stop.wait(LOOK_EVERY_S):
                return False
        self._metrics.put("streamsvm_standby", 0)
        if warned:
            log.info("takes_its_turn", group=self._group, stood_by_s=round(self._clock.monotonic() - begun, 1))
        return not self._stop.is_set()

    def _rehearse(self) -> None:
        """Ask what a start asks, so that its clients know their brokers; what comes of it counts for nothing."""
        cluster, topic, places = self._cluster, self._settings.input.topic, written_places(self._settings)
        partitions = cluster.describe(topic).partitions
        read_pointers(cluster, self._settings, REHEARSAL_S)
        for partition, end in cluster.starts(topic, partitions, "latest").items():
            cluster.leader_epoch(topic, partition, max(end - 1, 0))
        for place, mark in cluster.marks(places).items():
            cluster.stored([place], lambda _: True, start=max(mark.end - 2, 0), timeout_s=REHEARSAL_S)
        cluster.topic_id(topic)

    def check(self) -> None:
        """Check from time to time that it is still this copy's turn.

        Raises
        ------
        TurnLost
            If it is not.
        """
        now = self._clock.monotonic()
        if now < self._due_at:
            return
        self._due_at = now + ASK_EVERY_S
        if PARTITION not in self._member.poll():
            raise TurnLost(
                f"it is another copy's turn to train {self._settings.name}: the group {self._group} did not hear of "
                "this one for its session's timeout",
                LOST,
            )

    def wait_for_frozen(self, taken: StateError) -> bool:
        """Wait a moment for a lock of the former copy, which may be suspended; return whether to stop.

        Raises
        ------
        TurnLost
            As for `check`.
        """
        self._health.beat()
        self._health.require("start", f"it is this copy's turn, but {taken.what}")
        self.check()
        return self._stop.wait(FROZEN_WAIT_S)

    def let_go(self) -> None:
        """Let go of the clients that were kept for the turn."""
        self._kept.close()

    def close(self) -> None:
        """Leave the group: another copy's turn begins at once."""
        self.let_go()
        self._member.close()
