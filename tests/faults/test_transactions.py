"""Transaction left open, by a dead writer or by a stranger."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer

from streamsvm.kafka import Connection, log_range, start_positions
from tests.contract.foreign import open_transaction
from tests.faults.faulty import VERSIONS, FaultyBroker, Trainee

LAST = VERSIONS - 5


def ends(connection: Connection, topic: str) -> tuple[int, int]:
    """Return the last stable offset and the high watermark of a topic."""
    return start_positions(connection, topic, [0], "latest")[0], log_range(connection, topic, 0)[1]


def die_before_a_commit(faulty: FaultyBroker, trainee: Trainee) -> None:
    """Kill a trainer whose version, head and pointers are stored and not committed; let its next life finish."""
    daemon = trainee.begin({"STREAMSVM_TEST_CRASH_AT": "publish.sent:5"})
    assert daemon.wait() == -signal.SIGKILL
    stable, high = ends(faulty.direct, trainee.settings.output.models_topic)
    assert stable < high, "no transaction was left open: this shows nothing"
    faulty.counts["transactions_left_open"] += 1
    trainee.begin()
    trainee.finish()


def test_a_dead_writers_transaction_is_ended(faulty: FaultyBroker) -> None:
    """Killed between produce and commit: readers see nothing of it, the next life ends it and publishes the number."""
    die_before_a_commit(faulty, faulty.trainee())


@pytest.mark.faults_long
def test_a_dead_writers_transaction_shows_a_start_that_believes_it(faulty: FaultyBroker) -> None:
    """Planted: a start that takes the dead writer's head for published goes on behind it, and a number is missing."""
    with pytest.raises(AssertionError, match="a gap, or a number twice"):
        die_before_a_commit(faulty, faulty.trainee("reads_what_is_uncommitted"))


@contextmanager
def hidden_by_a_stranger(faulty: FaultyBroker, trainee: Trainee) -> Iterator[Producer]:
    """Kill a trainer, with nothing of its own open, whose newest versions a stranger's transaction hides."""
    daemon = trainee.begin({"STREAMSVM_TEST_CRASH_AT": f"publish.noted:{LAST}"})
    daemon.wait_for("model_published")
    daemon.freeze()
    aliases = trainee.settings.output.aliases_topic
    with open_transaction(faulty.direct, aliases, [b"a stranger's"], key=b"stranger") as stranger:
        daemon.thaw()
        assert daemon.wait() == -signal.SIGKILL
        stable, high = ends(faulty.direct, aliases)
        if stable == high:
            pytest.fail("nothing is hidden: this shows nothing")
        faulty.counts["heads_hidden"] += 1
        yield stranger


def start_beside_a_stranger(faulty: FaultyBroker, trainee: Trainee) -> None:
    """Start while the newest versions and the head are hidden; end the stranger's transaction when that is noticed."""
    aliases = trainee.settings.output.aliases_topic
    with hidden_by_a_stranger(faulty, trainee) as stranger:
        _, before = ends(faulty.direct, aliases)
        trainee.begin()
        trainee.wait_until(lambda: ends(faulty.direct, aliases)[1] > before, "it has written that it owns the model")
        assert not trainee.ready()[0]
        stranger.abort_transaction()
    trainee.finish()


def test_a_strangers_transaction_is_waited_for(faulty: FaultyBroker) -> None:
    """What a stranger's open transaction hides is not taken for absent: the start waits until it ends."""
    start_beside_a_stranger(faulty, faulty.trainee("steady"))


@pytest.mark.faults_long
def test_a_strangers_transaction_shows_a_stale_start(faulty: FaultyBroker) -> None:
    """Planted: a start that takes the last stable offset for the end of the topic goes on from an old head."""
    with pytest.raises(AssertionError, match="the process ended"):
        start_beside_a_stranger(faulty, faulty.trainee("steady", "reads_to_the_stable_offset"))


@pytest.mark.faults_long
def test_a_strangers_transaction_that_stays_is_said(faulty: FaultyBroker) -> None:
    """A transaction that does not end within the start's patience ends the start, with a line that says what it is."""
    trainee = faulty.trainee("steady")
    with hidden_by_a_stranger(faulty, trainee) as stranger:
        assert trainee.begin().wait() == 75
        assert "a transaction is open there" in trainee.daemon.said
        stranger.abort_transaction()
    trainee.begin()
    trainee.finish()
