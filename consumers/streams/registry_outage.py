"""What happens while the schema registry does not answer: the input waits, and everyone can see why."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from consumers.host.runtime import Health
from consumers.metrics import Metrics
from streamsvm.errors import TransientError
from streamsvm.kafka import Backoff

log = structlog.get_logger("streamsvm.schemas")

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 10.0


class SchemaWait:
    """Says when to ask again, and since when nothing was answered.

    Parameters
    ----------
    metrics : Metrics
        It has `streamsvm_registry_waiting_seconds`.
    health : Health
    clock : callable
        Monotonic seconds.
    """

    def __init__(self, metrics: Metrics, health: Health, clock: Callable[[], float]) -> None:
        self._metrics = metrics
        self._health = health
        self._clock = clock
        self._backoff = Backoff(FIRST_WAIT_S, LONGEST_WAIT_S, jitter=0.0)
        self._since: float | None = None
        self._again_at = 0.0
        metrics.put("streamsvm_registry_waiting_seconds", 0.0)
        health.require("registry", "")

    @property
    def over(self) -> bool:
        """Whether to ask now; while not, the gauge shows how long it has lasted."""
        now = self._clock()
        if self._since is not None:
            self._metrics.put("streamsvm_registry_waiting_seconds", now - self._since)
        return now >= self._again_at

    def failed(self, error: TransientError) -> None:
        """Note that it did not answer."""
        now = self._clock()
        if self._since is None:
            self._since = now
            log.warning("waiting_for_registry", what=error.what, remedy=error.remedy)
        self._health.require("registry", error.what)
        self._again_at = now + self._backoff.next_s(0.5)

    def end(self) -> None:
        """Note that everything needed is known."""
        if self._since is None:
            return
        log.info("registry_answers", waited_s=round(self._clock() - self._since, 1))
        self._since, self._again_at = None, 0.0
        self._backoff.reset()
        self._metrics.put("streamsvm_registry_waiting_seconds", 0.0)
        self._health.require("registry", "")
