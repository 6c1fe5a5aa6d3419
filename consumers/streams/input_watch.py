"""Asks now and then whether the partitions that a daemon reads answer at all, and says so where they do not.

A client says nothing of a partition that has no leader, or one that it cannot reach: it goes on asking, and its reader
sees a topic in which nothing is new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

import structlog

from consumers.host.runtime import Health
from consumers.streams.abandonable import Aside, Pending
from streamsvm.errors import StreamsvmError, TransientError
from streamsvm.kafka import Cluster, Place

log = structlog.get_logger("streamsvm.input")

INTERVAL_S: Final = 5.0
PATIENCE_S: Final = 10.0
"""How long no question was answered before that is shown: leaders move, and a broker restarts, in less."""


class InputWatch:
    """Makes the process unready while a partition that it reads does not answer; it never blocks.

    Parameters
    ----------
    cluster : Cluster
        Asked on a thread of its own.
    health : Health
        Has the condition ``partitions``.
    monotonic : callable
        Seconds.
    """

    def __init__(self, cluster: Cluster, health: Health, monotonic: Callable[[], float]) -> None:
        self._cluster, self._health, self._monotonic = cluster, health, monotonic
        self._requested_at = monotonic()
        self._asking: Pending[None] | None = None
        self._since: float | None = None
        self._shown = False
        health.require("partitions", "")

    def turn(self, places: Callable[[], Iterable[Place]]) -> None:
        """Ask if it is time to, and take an answer if there is one.

        Parameters
        ----------
        places : callable
            Returns what is read now.
        """
        now = self._monotonic()
        if self._asking is not None:
            if self._asking.over(0.0):
                self._take(self._asking)
                self._asking = None
        elif now - self._requested_at >= INTERVAL_S:
            self._requested_at, wanted = now, list(places())
            self._asking = Aside(lambda: self._ask(wanted))

    def _ask(self, places: list[Place]) -> None:
        # All of them at once, which does not tell who failed; once that did, one by one.
        if self._since is None:
            with suppress(TransientError):
                self._cluster.marks(places)
                return
        with self._cluster.keeping():
            for topic, partition in places:
                self._cluster.log_range(topic, partition)

    def _take(self, asked: Pending[None]) -> None:
        try:
            asked.returned  # noqa: B018 - raises
        except TransientError as error:
            # One failure is none: it may be of a process that was frozen while it asked.
            if self._since is None:
                self._since = self._requested_at
            elif self._monotonic() - self._since >= PATIENCE_S:
                self._show(error)
        except StreamsvmError:  # a topic that is gone, or forbidden: who reads it says so
            return
        else:
            self._end()

    def _show(self, error: TransientError) -> None:
        if not self._shown:
            log.warning("input_unanswered", what=error.what, remedy="check the topic's brokers; reading then goes on")
        self._shown = True
        self._health.require("partitions", error.what)

    def _end(self) -> None:
        if self._shown and self._since is not None:
            log.info("input_answers", waited_s=round(self._monotonic() - self._since, 1))
        self._since, self._shown = None, False
        self._health.require("partitions", "")


MakeInputWatch = Callable[[Cluster, Health, Callable[[], float]], InputWatch]
