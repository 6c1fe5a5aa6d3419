"""Checkpoints on time: written at an interval, tried again after a failure, and an alarm when none worked for long."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import structlog

from consumers.runtime import Health
from streamsvm.checkpoint import CheckpointDirectory
from streamsvm.codec.checkpoint import Snapshot
from streamsvm.config import CheckpointConfig
from streamsvm.errors import TransientError
from streamsvm.metrics import Metrics

log = structlog.get_logger("streamsvm.trainer")


class Saver:
    """Saves snapshots.

    Parameters
    ----------
    config : CheckpointConfig
    directory : CheckpointDirectory
    metrics : Metrics
    health : Health
    monotonic, now : callable
        Seconds for intervals, and the time of day for a metric.
    """

    def __init__(
        self,
        config: CheckpointConfig,
        directory: CheckpointDirectory,
        metrics: Metrics,
        health: Health,
        monotonic: Callable[[], float],
        now: Callable[[], datetime],
    ) -> None:
        self._config = config
        self._directory = directory
        self._metrics = metrics
        self._health = health
        self._monotonic = monotonic
        self._now = now
        self._tried_at = self._good_at = monotonic()
        self._failure = ""

    @property
    def due(self) -> bool:
        """Whether it is time for a checkpoint."""
        return self._monotonic() - self._tried_at >= self._config.interval_s

    def save(self, snapshot: Snapshot) -> None:
        """Write a checkpoint.

        Raises
        ------
        TransientError
            If the disk refuses; the checkpoints before it are untouched.
        """
        self._tried_at = begun = self._monotonic()
        written = self._directory.save(snapshot)
        self._good_at = self._monotonic()
        self._failure = ""
        self._metrics.put("streamsvm_checkpoint_timestamp_seconds", self._now().timestamp())
        self._metrics.put("streamsvm_checkpoint_bytes", written)
        self._metrics.observe("streamsvm_checkpoint_seconds", self._good_at - begun)
        log.debug("checkpoint_written", sequence=snapshot.sequence, bytes=written)

    def failed(self, error: TransientError) -> None:
        """Note that a checkpoint could not be written, or not yet be written: it is tried again after the interval."""
        self._tried_at = self._monotonic()
        self._failure = error.what
        self._metrics.increase("streamsvm_checkpoint_failures")
        log.error("checkpoint_failed", what=error.what, remedy=error.remedy)

    def watch(self) -> None:
        """Be not ready while the newest good checkpoint is older than `checkpoint.max_age_s`."""
        age_s = self._monotonic() - self._good_at
        late = bool(self._failure) and age_s > self._config.max_age_s
        self._health.require("checkpoint", f"no checkpoint for {age_s:.0f} s: {self._failure}" if late else "")
