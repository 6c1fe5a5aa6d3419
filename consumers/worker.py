"""The training thread: one training set in, one result out, while the poll loop goes on.

Training releases the GIL (LIBSVM and numba do), so the loop keeps its pace. The thread never touches Kafka or a file.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from streamsvm.config import SvmConfig
from streamsvm.coreset.moments import Moments
from streamsvm.learner import Cut
from streamsvm.points import Points
from streamsvm.training import Audit, Trained, audited, with_probability

TrainFunction = Callable[[Points, Moments, SvmConfig], Trained]


@dataclass(frozen=True, slots=True)
class Result:
    """A finished training.

    Attributes
    ----------
    cut : Cut
    trained : Trained
    audit : Audit or None
        None where no audit sample is kept.
    training_set_sha256 : str
    seconds : float
        Wall time of training; not part of any hash.
    """

    cut: Cut
    trained: Trained
    audit: Audit | None
    training_set_sha256: str
    seconds: float


class Worker:
    """Trains one cut at a time in a thread.

    Parameters
    ----------
    train : callable
    config : SvmConfig
    """

    def __init__(self, train: TrainFunction, config: SvmConfig) -> None:
        self._train = train
        self._config = config
        self._inbox: queue.SimpleQueue[Cut | None] = queue.SimpleQueue()
        self._outbox: queue.SimpleQueue[Result | BaseException] = queue.SimpleQueue()
        self._training: Cut | None = None
        self._thread = threading.Thread(target=self._run, name="training", daemon=True)
        self._thread.start()

    @property
    def training(self) -> Cut | None:
        """The cut handed in whose result was not taken yet."""
        return self._training

    def submit(self, cut: Cut) -> None:
        """Hand in a cut; there must be none in training."""
        assert self._training is None
        self._training = cut
        self._inbox.put(cut)

    def take(self, timeout_s: float = 0.0) -> Result | None:
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
        while (cut := self._inbox.get()) is not None:
            begun = time.perf_counter()
            try:
                trained = self._train(cut.points, cut.moments, self._config)
                trained = with_probability(trained, cut.audit, self._config)
                audit = audited(trained, cut.audit, self._config)
                result = Result(cut, trained, audit, cut.points.sha256(), time.perf_counter() - begun)
            except BaseException as error:  # noqa: BLE001 - handed to the poll loop, which raises it
                self._outbox.put(error)
            else:
                self._outbox.put(result)
