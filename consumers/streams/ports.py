"""What a daemon needs of the world besides a broker, which is a `streamsvm.kafka.Cluster`: a training thread, a stop.

Each is a protocol. The trainer's own thread is `consumers.trainer.training_thread`. Anything else that keeps these
promises drives the same trainer, without threads or a clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # a scorer loads nothing of training
    from streamsvm.learning.learner import DueCut
    from streamsvm.learning.recipe import Made
    from streamsvm.learning.tuning import Tuning


class Worker(Protocol):
    """Trains one cut at a time."""

    @property
    def training(self) -> DueCut | None:
        """The cut handed in whose result was not taken yet."""

    def submit(self, cut: DueCut, in_force: Tuning | None) -> None:
        """Hand in a cut, with the tuning in force; there must be none in training."""

    def take(self, timeout_s: float = 0.0) -> Made | None:
        """Return a finished training, waiting at most so long; raises what ended it."""

    def close(self) -> None:
        """Let go of the thread, if there is one."""


class Stop(Protocol):
    """Says when to stop; a `threading.Event` is one."""

    def is_set(self) -> bool:
        """Return whether to stop."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait so many seconds, or until the daemon stops."""
