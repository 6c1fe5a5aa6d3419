"""What is put into a daemon that is no defect: it brings about what a test cannot make the world do at that moment."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import FunctionType
from typing import Any, Final

import structlog

import consumers.scorer.life
import consumers.trainer.session
import streamsvm.kafka.cluster
from consumers.host.clock import Clock
from consumers.trainer.training_thread import TrainingThread
from streamsvm.kafka import Input, OutcomeUnknown, Publisher
from streamsvm.learning.training import TrainFunction
from tests.defects.planting import TABLE, replace_part, wrap
from tests.live.stopping import stop_here

CLOCK_FILE: Final = "STREAMSVM_TEST_CLOCK_FILE"
"""Variable that names the file with the seconds by which the injected clock is off."""

EIO_FILE: Final = "STREAMSVM_TEST_EIO_FILE"
"""Variable that names the file which, while it exists, makes every fsync fail."""

TRANSACTION_TIMEOUT: Final = "STREAMSVM_TEST_TRANSACTION_TIMEOUT_S"
"""Variable that says after how many seconds a transaction times out."""

SHORT_TRANSACTION_S: Final = 3.0
SLOW_TRAINING_S: Final = 2.0
TRAININGS_PER_SLOW_ONE: Final = 20


@TABLE.disturbance
def loses_its_disk() -> None:
    """Each fsync answers EIO while a file exists."""
    file = Path(os.environ[EIO_FILE])

    def fsync(original: Any, handle: int) -> None:
        if file.exists():
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        original(handle)

    wrap(os, "fsync", fsync)


@TABLE.disturbance
def follows_another_clock() -> None:
    """The clock is off by as many seconds as a file says."""
    file, real = Path(os.environ[CLOCK_FILE]), time.time

    def now() -> float:
        return real() + float(file.read_text(encoding="utf-8") or 0)

    replace_part(time, "time", now)
    init, defaults = Clock.__init__, (time.monotonic, lambda: datetime.fromtimestamp(now(), UTC))
    replace_part(
        Clock, "__init__", FunctionType(init.__code__, init.__globals__, "__init__", defaults, init.__closure__)
    )


@TABLE.disturbance
def impatient() -> None:
    """A transaction, and those of others, have less time."""
    for module in (streamsvm.kafka.cluster, consumers.trainer.session):
        replace_part(module, "TRANSACTION_TIMEOUT_S", SHORT_TRANSACTION_S)


@TABLE.disturbance
def ends_transactions_early() -> None:
    """Every transaction times out after the seconds that a variable says: outages go faster."""
    timeout_s = float(os.environ[TRANSACTION_TIMEOUT])
    for module in (streamsvm.kafka.cluster, consumers.scorer.life):
        replace_part(module, "TRANSACTION_TIMEOUT_S", timeout_s)

    def make(original: Any, publisher: Publisher, connection: Any, transactional_id: str, **named: Any) -> None:
        given_s = named.pop("transaction_timeout_s", timeout_s)
        original(publisher, connection, transactional_id, transaction_timeout_s=min(given_s, timeout_s), **named)

    wrap(Publisher, "__init__", make)


@TABLE.disturbance
def loses_an_answer() -> None:
    """The second commit is made, and its answer is lost."""

    def second(original: Any, *given: Any) -> None:
        original(*given)
        raise OutcomeUnknown("the answer to a commit was lost", "This is a test.")

    _at_the_second("_commit", second)


@TABLE.disturbance
def freezes_before_its_scores() -> None:
    """SIGSTOP with a batch scored, its transaction not yet begun, the second time."""
    _at_the_second("publish", _freeze)


@TABLE.disturbance
def freezes_before_its_positions() -> None:
    """SIGSTOP between a transaction's scores and its positions, the second time."""
    replace_part(consumers.scorer.life, "TRANSACTION_TIMEOUT_S", 60.0)
    _at_the_second("_add", _freeze)


@TABLE.disturbance
def hangs_in_the_client() -> None:
    """The second call that adds positions to a transaction comes back long after it was given up."""
    replace_part(consumers.scorer.life, "LOST_S", 2.0)

    def second(original: Any, *given: Any) -> None:
        time.sleep(3 * consumers.scorer.life.LOST_S)
        try:
            original(*given)
        finally:
            structlog.get_logger("planted").info("returned_late")

    _at_the_second("_add", second)


def _at_the_second(name: str, second: Callable[..., Any]) -> None:
    """Have the second call of a method of the publisher done by `second(original, *arguments)`."""
    calls = [0]

    def call(original: Any, *given: Any, **named: Any) -> Any:
        calls[0] += 1
        return second(original, *given, **named) if calls[0] == 2 else original(*given, **named)

    wrap(Publisher, name, call)


def _freeze(original: Any, *given: Any, **named: Any) -> Any:
    structlog.get_logger("planted").info("freezes")
    stop_here()
    return original(*given, **named)


@TABLE.disturbance
def steady() -> None:
    """Every training takes a tenth of a second longer, so that a fault meets the stream in its midst."""
    _slow(1, 0.1)


@TABLE.disturbance
def unhurried() -> None:
    """Every training takes half a second longer, so that the stream outlasts several faults."""
    _slow(1, 0.5)


@TABLE.disturbance
def trains_slowly() -> None:
    """Every so many trainings take long, and it is said when the input is paused."""
    _slow(TRAININGS_PER_SLOW_ONE, SLOW_TRAINING_S)

    def pause(original: Any, reader: Input, *given: Any) -> None:
        sys.stderr.write('{"event": "paused"}\n')
        original(reader, *given)

    wrap(Input, "pause", pause)


def _slow(every: int, seconds: float) -> None:
    count = [0]

    def make(original: Any, thread: TrainingThread, train: TrainFunction, *arguments: Any) -> None:
        def slow(*what: Any) -> Any:
            count[0] += 1
            if count[0] % every == 0:
                time.sleep(seconds)  # the slowness itself
            return train(*what)

        original(thread, slow, *arguments)

    wrap(TrainingThread, "__init__", make)


@TABLE.disturbance
def publishes_often() -> None:
    """A worker leaves states many times a second."""
    from consumers.branches.workers import group_worker

    replace_part(group_worker, "PUBLISH_INTERVAL_S", 0.05)
    replace_part(group_worker, "PUBLISH_AFTER_S", 0.3)
