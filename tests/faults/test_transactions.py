"""Transaction left open, by a dead writer or by a stranger."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer

from streamsvm.kafka import Cluster, Connection
from tests.faults.faulty import FaultyBroker, Trainee
from tests.kafka.foreign import open_transaction

LOOK_TIMEOUT_S = 5.0


def ends(connection: Connection, topic: str) -> tuple[int, int]:
    """Return the last stable offset and the high watermark of a topic."""
    return Cluster(connection).starts(topic, [0], "latest")[0], Cluster(connection).log_range(topic, 0)[1]


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
        die_before_a_commit(faulty, faulty.trainee("reads-uncommitted"))


@contextmanager
def hidden_by_a_stranger(faulty: FaultyBroker, trainee: Trainee) -> Iterator[Producer]:
    """Kill a trainer, with nothing of its own open, whose newest version a stranger's transaction hides."""
    daemon = trainee.begin()
    daemon.wait_for("model_published")
    daemon.freeze()
    models, aliases = trainee.settings.output.models_topic, trainee.settings.output.aliases_topic
    with open_transaction(faulty.direct, aliases, [b"a stranger's"], key=b"stranger") as stranger:
        end = ends(faulty.direct, aliases)[1]
        daemon.thaw()
        trainee.wait_until(lambda: is_behind(faulty.direct, models, aliases, end), "a version is hidden")
        daemon.kill()
        faulty.counts["heads_hidden"] += 1
        yield stranger


def is_behind(connection: Connection, models: str, aliases: str, end: int) -> bool:
    """Tell whether a version's pointers lie behind an offset, and their transaction is committed."""
    if Cluster(connection).stored_at(aliases, 0, end, LOOK_TIMEOUT_S) is None:
        return False
    stable, high = ends(connection, models)
    return stable == high  # the version was stored before its pointers


def start_beside_a_stranger(faulty: FaultyBroker, trainee: Trainee) -> None:
    """Start while the newest version's head is hidden; end the stranger's transaction when that is noticed."""
    models, aliases = trainee.settings.output.models_topic, trainee.settings.output.aliases_topic
    with hidden_by_a_stranger(faulty, trainee) as stranger:
        published = ends(faulty.direct, models)
        assert f"is open at {aliases}[0]@" in trainee.begin().wait_for("start_waits")["what"]
        assert not trainee.ready()[0]
        assert ends(faulty.direct, models) == published
        stranger.abort_transaction()
    trainee.finish()


def start_without_waiting(faulty: FaultyBroker, trainee: Trainee) -> None:
    """Start while the newest version's head is hidden, and go on as if it were not there."""
    with hidden_by_a_stranger(faulty, trainee):
        trainee.begin()
        trainee.finish()


@pytest.mark.long
def test_a_strangers_transaction_is_waited_for(faulty: FaultyBroker) -> None:
    """What a stranger's open transaction hides is not taken for absent: the start waits until it ends."""
    start_beside_a_stranger(faulty, faulty.trainee("steady"))


@pytest.mark.faults_long
def test_a_strangers_transaction_shows_a_stale_start(faulty: FaultyBroker) -> None:
    """Planted: a start that takes the last stable offset for the end of the topic goes on from an old head."""
    trainee = faulty.trainee("steady", "settles-nothing", "believes-every-answer", "reads-to-the-stable-offset")
    with pytest.raises(AssertionError, match="the process ended"):
        start_without_waiting(faulty, trainee)


@pytest.mark.faults_long
def test_a_strangers_transaction_that_stays_is_said(faulty: FaultyBroker) -> None:
    """After three timeouts a start that waits says the command by which a person ends the transaction, and goes on."""
    trainee = faulty.trainee("steady", "impatient")
    aliases = trainee.settings.output.aliases_topic
    with hidden_by_a_stranger(faulty, trainee) as stranger:
        daemon = trainee.begin()
        while "nothing ends it" not in (waits := daemon.wait_for("start_waits"))["what"]:
            assert daemon.ended() is None
        assert f"kafka-transactions.sh --bootstrap-server {faulty.through.servers} abort" in waits["remedy"]
        assert f"--topic {aliases} --partition 0" in waits["remedy"]
        assert waits["remedy"] in str(trainee.ready()[1])
        stranger.abort_transaction()
    trainee.finish()
