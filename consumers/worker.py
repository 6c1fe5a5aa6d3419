"""The training thread: one training set in, one result out, while the poll loop goes on.

Training releases the GIL (LIBSVM and numba do), so the loop keeps its pace. The thread never touches Kafka or a file.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from streamsvm.config import ModelConfig, SvmConfig
from streamsvm.coreset.moments import Moments
from streamsvm.drift import Deciles
from streamsvm.learner import Cut
from streamsvm.points import Points
from streamsvm.training import Audit, Trained, audit_scores, audited, with_probability
from streamsvm.tuning import Score, Tuning, is_due, tune

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
    tuning : Tuning or None
        By which it was trained; None where nothing is tuned.
    scores : tuple of Score
        What the tuning was chosen by; empty unless it was made at this cut.
    tuning_seconds : float or None
        Wall time of tuning, which `seconds` does not count; None unless it was made at this cut.
    audit_scores : Deciles or None
        How the model's scores lie on the audit sample; None where that is too small.
    """

    cut: Cut
    trained: Trained
    audit: Audit | None
    training_set_sha256: str
    seconds: float
    tuning: Tuning | None = None
    scores: tuple[Score, ...] = ()
    tuning_seconds: float | None = None
    audit_scores: Deciles | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """A cut to be trained on, and the tuning in force: that of the newest version before it."""

    cut: Cut
    in_force: Tuning | None


def finished(task: Task, train: TrainFunction, config: ModelConfig, clock: Callable[[], float]) -> Result:
    """Tune if that is due, train, and audit.

    Parameters
    ----------
    task : Task
    train : callable
    config : ModelConfig
    clock : callable
        Returns seconds.
    """
    begun, cut, tuning = clock(), task.cut, task.in_force
    scores: tuple[Score, ...] = ()
    tuning_seconds = None
    if is_due(cut.rows, tuning.rows if tuning else None, config):
        tuned = tune(cut, config)
        tuning, scores, tuning_seconds = tuned.tuning, tuned.scores, clock() - begun
        begun += tuning_seconds
    svm = config.svm if tuning is None else tuning.applied(config.svm)
    trained = with_probability(train(cut.points, cut.moments, svm), cut.audit, svm)
    audit, digest = audited(trained, cut.audit, svm), cut.points.sha256()
    seconds, deciles = clock() - begun, audit_scores(trained, cut.audit, svm)
    return Result(cut, trained, audit, digest, seconds, tuning, scores, tuning_seconds, deciles)


class Worker:
    """Trains one cut at a time in a thread.

    Parameters
    ----------
    train : callable
    config : ModelConfig
    """

    def __init__(self, train: TrainFunction, config: ModelConfig) -> None:
        self._train = train
        self._config = config
        self._inbox: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._outbox: queue.SimpleQueue[Result | BaseException] = queue.SimpleQueue()
        self._training: Cut | None = None
        self._thread = threading.Thread(target=self._run, name="training", daemon=True)
        self._thread.start()

    @property
    def training(self) -> Cut | None:
        """The cut handed in whose result was not taken yet."""
        return self._training

    def submit(self, cut: Cut, in_force: Tuning | None) -> None:
        """Hand in a cut, with the tuning in force; there must be none in training."""
        assert self._training is None
        self._training = cut
        self._inbox.put(Task(cut, in_force))

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
        while (task := self._inbox.get()) is not None:
            try:
                result = finished(task, self._train, self._config, time.perf_counter)
            except BaseException as error:  # noqa: BLE001 - handed to the poll loop, which raises it
                self._outbox.put(error)
            else:
                self._outbox.put(result)
