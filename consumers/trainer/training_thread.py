"""The training thread: one cut in, everything that is made of it out, while the poll loop goes on.

The main loop calls `submit` with a cut and `take` for the result (`consumers.trainer.trainer`). Making the training set
and training release the interpreter's lock (compiled code does), so the loop keeps its pace. The thread uses neither
Kafka nor files, and what it computes does not depend on when it runs.
"""

from __future__ import annotations

import queue
import threading
import time

from streamsvm.config import ModelConfig
from streamsvm.learning.learner import DueCut
from streamsvm.learning.recipe import Made, make
from streamsvm.learning.training import TrainFunction
from streamsvm.learning.tuning import Tuning


class TrainingThread:
    """Trains one cut at a time in a thread.

    Parameters
    ----------
    train : callable
    config : ModelConfig
    """

    def __init__(self, train: TrainFunction, config: ModelConfig) -> None:
        self._train = train
        self._config = config
        self._inbox: queue.SimpleQueue[tuple[DueCut, Tuning | None] | None] = queue.SimpleQueue()
        self._outbox: queue.SimpleQueue[Made | BaseException] = queue.SimpleQueue()
        self._training: DueCut | None = None
        # A daemon thread: a second signal must end the process in the midst of a training.
        self._thread = threading.Thread(target=self._run, name="training", daemon=True)
        self._thread.start()

    @property
    def training(self) -> DueCut | None:
        """The cut handed in whose result was not taken yet."""
        return self._training

    def submit(self, cut: DueCut, in_force: Tuning | None) -> None:
        """Hand in a cut, with the tuning in force; there must be none in training."""
        assert self._training is None
        self._training = cut
        self._inbox.put((cut, in_force))

    def take(self, timeout_s: float = 0.0) -> Made | None:
        """Return a finished training, waiting at most `timeout_s`; an error in the thread is raised here."""
        try:
            outcome = self._outbox.get(block=timeout_s > 0, timeout=timeout_s or None)
        except queue.Empty:
            return None
        self._training = None
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def close(self) -> None:
        """Let the thread end after what it is doing; does not wait for it."""
        self._inbox.put(None)

    def _run(self) -> None:
        while (order := self._inbox.get()) is not None:
            cut, in_force = order
            try:
                made = make(cut, self._config, in_force, train=self._train, clock=time.perf_counter)
            except BaseException as error:  # noqa: BLE001 - handed to the poll loop, which raises it
                self._outbox.put(error)
            else:
                self._outbox.put(made)
