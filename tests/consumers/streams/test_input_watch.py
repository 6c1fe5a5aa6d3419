"""A partition that is read and does not answer makes a daemon unready, names itself, and is said once."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import cast

import pytest
import structlog

from consumers.host import Health
from consumers.streams.input_watch import INTERVAL_S, PATIENCE_S, InputWatch
from streamsvm.errors import TopicMissing, TransientError
from streamsvm.kafka import Cluster, Place
from tests.deadline import eventually

NOBODY = "failed to ask for the end of in[1]: the partition has no leader at the moment"


class Asked:
    """A watch of one topic, its cluster, and the time: a test decides what is answered when."""

    def __init__(self) -> None:
        self.failure: Exception | None = None
        self.now = 100.0
        self.health = Health(stuck_after_s=60.0)
        self.watch = InputWatch(cast(Cluster, self), self.health, lambda: self.now)

    def keeping(self) -> AbstractContextManager[None]:
        return nullcontext()

    def marks(self, places: Iterable[Place]) -> None:
        assert list(places) == [("in", 0), ("in", 1)]
        if self.failure is not None:
            raise self.failure

    def log_range(self, topic: str, partition: int) -> None:
        if partition == 1 and self.failure is not None:
            raise self.failure

    def shown(self, after_s: float = INTERVAL_S) -> str:
        """Let time pass, ask once, and return what is waited for then."""
        self.now += after_s
        self.watch.turn(lambda: [("in", 0), ("in", 1)])
        eventually(self._taken, "the answer is taken", 10.0)
        assert self.health.healthy()[0], "it is no reason to be started again"
        waiting: dict[str, str] = self.health.ready()[1]["waiting_for"]
        return waiting.get("partitions", "")

    def _taken(self) -> bool:
        self.watch.turn(list)
        return self.watch._asking is None


@pytest.fixture
def asked() -> Asked:
    """A watch that was just made."""
    return Asked()


def test_a_partition_that_does_not_answer_is_shown_and_said_once(asked: Asked) -> None:
    """After some seconds, with its name, until it answers again."""
    with structlog.testing.capture_logs() as logs:
        assert asked.shown() == ""
        asked.failure = TransientError(NOBODY)
        assert [asked.shown() for _ in range(5)] == ["", "", NOBODY, NOBODY, NOBODY]
        asked.failure = None
        assert asked.shown() == ""
    assert [(one["log_level"], one["event"]) for one in logs] == [
        ("warning", "input_unanswered"),
        ("info", "input_answers"),
    ]
    assert logs[0]["what"] == NOBODY
    assert logs[1]["waited_s"] == 5 * INTERVAL_S


def test_a_broker_that_restarts_is_not_shown(asked: Asked) -> None:
    """However often: each time it answers in between."""
    with structlog.testing.capture_logs() as logs:
        for _ in range(5):
            asked.failure = TransientError(NOBODY)
            assert asked.shown() == ""
            assert asked.shown() == ""
            asked.failure = None
            assert asked.shown() == ""
    assert logs == []


def test_a_process_that_was_frozen_has_waited_for_nobody(asked: Asked) -> None:
    """Its question ran out of time while it stood still."""
    asked.failure = TransientError(NOBODY)
    assert asked.shown(10 * PATIENCE_S) == ""
    asked.failure = None
    assert asked.shown() == ""


def test_a_topic_that_is_gone_is_told_by_who_reads_it(asked: Asked) -> None:
    """It is neither an answer nor the lack of one."""
    asked.failure = TopicMissing("no topic in")
    assert [asked.shown() for _ in range(5)] == [""] * 5
