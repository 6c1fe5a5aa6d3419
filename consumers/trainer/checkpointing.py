"""Checkpoints on time: written at an interval, tried again after a failure, and an alarm when none worked for long.

A `Saver` belongs to one life. The main loop calls `save_on` of `consumers.trainer.life`, which begins a checkpoint here
when one is due, and works on it for `STEPS_S` in each turn: a large state must not stop the loop for a second. What a
checkpoint contains is `streamsvm.checkpoint.snapshot`; how it reaches the disk, `streamsvm.checkpoint.directory`.

A checkpoint is a cache: the log decides, and a trainer without any reads the log again. So a failed one is reported and
tried again, and does not end the process. What does end it is a directory that another process has locked.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from datetime import datetime
from typing import Final

import structlog

from consumers import constants
from consumers.host.runtime import Health
from consumers.metrics import Metrics
from consumers.settings import CheckpointConfig
from streamsvm.checkpoint.directory import CheckpointDirectory
from streamsvm.checkpoint.snapshot import Snapshot
from streamsvm.errors import DirectoryTaken, TransientError

STEPS_S: Final = 0.02
"""How long a turn of the loop works on a checkpoint; a step that has begun is finished."""
LOOK_INTERVAL_S: Final = 1.0
"""How often the directory is checked, which takes two system calls."""

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
        self._looked_at = monotonic()
        self._failure = self._lost = ""
        self._taken_again = False
        self._steps: Generator[None, None, int] | None = None
        self._spent_s, self._sequence = 0.0, 0

    @property
    def due(self) -> bool:
        """Whether it is time for a checkpoint; always in a directory that had to be created again."""
        return self._taken_again or self._monotonic() - self._tried_at >= self._config.interval_s

    def save(self, snapshot: Snapshot) -> None:
        """Write a checkpoint.

        Raises
        ------
        DirectoryTaken
            If the directory was replaced, and another process has locked it.
        TransientError
            If the disk refuses; the newest checkpoint before it is untouched.
        """
        self.begin(snapshot)
        while not self.go_on():
            pass

    def begin(self, snapshot: Snapshot) -> None:
        """Begin a checkpoint, in place of one that is not finished; raises as `save`."""
        # The time of the attempt, not of its success: a disk that refuses is tried again after the interval, and not in
        # every turn.
        self._tried_at = self._monotonic()
        self._taken_again = False
        self._spent_s, self._sequence = 0.0, snapshot.sequence
        self._steps = None
        self._keep()
        self._steps = self._directory.saving(snapshot)

    @property
    def saving(self) -> bool:
        """Whether a checkpoint was begun that is not finished."""
        return self._steps is not None

    def go_on(self) -> bool:
        """Work on the checkpoint for `STEPS_S`; return whether it is finished; raises as `save`."""
        assert self._steps is not None
        begun = self._monotonic()
        try:
            while self._monotonic() - begun < STEPS_S:
                next(self._steps)
        except StopIteration as end:
            self._steps = None
            self._written(end.value, self._spent_s + self._monotonic() - begun)
            return True
        except BaseException:
            self._steps = None
            raise
        finally:
            self._report_room()
        self._spent_s += self._monotonic() - begun
        return False

    def _report_room(self) -> None:
        if removed := self._directory.made_room[:]:
            self._directory.made_room.clear()
            log.warning(
                "checkpoints_removed",
                what="the disk is full: older checkpoints were removed to make room for the next one",
                files=removed,
                remedy="give the directory room for four checkpoints (streamsvm_checkpoint_bytes)",
            )

    def _written(self, size: int, seconds: float) -> None:
        self._good_at = self._monotonic()
        self._failure = self._lost = ""
        self._metrics.put("streamsvm_checkpoint_timestamp_seconds", self._now().timestamp())
        self._metrics.put("streamsvm_checkpoint_bytes", size)
        self._metrics.observe("streamsvm_checkpoint_seconds", seconds)
        log.debug("checkpoint_written", sequence=self._sequence, bytes=size)

    def passed(self) -> None:
        """Note that there is nothing to write; the next attempt is after the interval."""
        self._tried_at = self._good_at = self._monotonic()

    def failed(self, error: TransientError) -> None:
        """Note that a checkpoint could not be written, or not yet be written: it is tried again after the interval.

        Raises
        ------
        DirectoryTaken
            If that is the error: then the process must end.
        """
        # Two writers in one directory would remove each other's checkpoints.
        if isinstance(error, DirectoryTaken):
            raise error
        self._tried_at = self._monotonic()
        self._failure = error.what
        self._metrics.increase("streamsvm_checkpoint_failures")
        log.error(
            "checkpoint_failed",
            what=error.what,
            remedy=error.remedy,
            meanwhile="versions are published; a restart reads again from the newest checkpoint",
        )

    def watch(self) -> None:
        """Report not ready while the newest checkpoint is older than `MOST_CHECKPOINT_AGE_S`, or its directory is gone.

        Raises
        ------
        DirectoryTaken
            If the directory was replaced, and another process holds it.
        """
        if self._monotonic() - self._looked_at >= LOOK_INTERVAL_S:
            self._look()
        age_s = self._monotonic() - self._good_at
        # Age alone is not a fault: the checkpoint of an idle trainer with a long interval is old, too.
        late = bool(self._failure) and age_s > constants.MOST_CHECKPOINT_AGE_S
        why = f"no checkpoint for {age_s:.0f} s: {self._failure}" if late else ""
        self._health.require("checkpoint", self._lost or why)

    def _look(self) -> None:
        self._looked_at = self._monotonic()
        try:
            self._keep()
        except DirectoryTaken:
            raise
        except TransientError as error:
            if error.what != self._lost:
                self._say(error.what, error.remedy)

    def _keep(self) -> None:
        """Check that the directory still exists; if it had to be created again, a checkpoint is due at once."""
        lost = self._directory.keep()
        if lost:
            self._say(
                lost,
                "A new, empty directory was created, and the old checkpoints are gone: find out who removes the "
                "directory.",
            )
            # After a restart from an empty directory the whole log would be read again. So the next turn saves.
            self._taken_again = True

    def _say(self, what: str, remedy: str) -> None:
        self._lost = what
        self._metrics.increase("streamsvm_checkpoint_failures")
        log.error("checkpoint_directory_lost", what=what, remedy=remedy)
