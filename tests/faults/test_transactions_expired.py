"""Producer id expired at the broker while its producer lives."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from streamsvm.kafka import Cluster, Connection, Tail
from tests.faults.faulty import LOOK_S, FaultyBroker, Trainee, faulty_broker

TRANSACTIONS = "__transaction_state"
FENCED = 70
EXPIRY = {
    "transactional_id_expiration_ms": "2000",
    "transaction_remove_expired_transaction_cleanup_interval_ms": "500",
    "producer_id_expiration_ms": "2000",
    "producer_id_expiration_check_interval_ms": "500",
}


@pytest.fixture(scope="module")
def _forgetful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyBroker]:
    """A broker that forgets a transactional id after two seconds without use."""
    with faulty_broker(tmp_path_factory.mktemp("forgetful"), **EXPIRY) as faulty:
        yield faulty


@pytest.fixture
def forgetful(_forgetful: FaultyBroker, request: pytest.FixtureRequest) -> Iterator[FaultyBroker]:
    """That broker, with no trainer left over from the test before."""
    yield _forgetful
    _forgetful.tell(request.node)
    _forgetful.dismiss()


def wait_until_forgotten(connection: Connection, transactional_id: bytes, since: int) -> int:
    """Wait for the tombstone by which the broker forgets an id, from an offset of its own log on; return its offset."""
    tail = Tail(connection, TRANSACTIONS, 0, since)
    try:
        for _ in range(600):
            for record in tail.poll(100, 0.1):
                if record.value is None and transactional_id in (record.key or b""):
                    return record.offset
    finally:
        tail.close()
    raise AssertionError("the broker did not forget the transactional id")


def outlive_its_id(scene: FaultyBroker, trainee: Trainee) -> None:
    """Freeze a trainer in the midst of publishing until the broker has forgotten it; let it go on."""
    daemon = trainee.begin()
    daemon.wait_for("model_published", times=5)
    daemon.freeze()
    try:
        wait_until_forgotten(scene.direct, trainee.settings.output.models_topic.encode(), 0)
        scene.counts["ids_expired"] += 1
    finally:
        daemon.thaw()
    trainee.finish()


@pytest.mark.long
def test_an_expired_id_is_renewed(forgetful: FaultyBroker) -> None:
    """The broker knows the producer no more: it takes the id anew, reads, and publishes what is missing, once."""
    trainee = forgetful.trainee("steady", "impatient")
    outlive_its_id(forgetful, trainee)
    assert trainee.daemon.events("producer_renewed")


@pytest.mark.faults_long
def test_an_expired_id_shows_a_trainer_that_gives_up(forgetful: FaultyBroker) -> None:
    """Planted: a trainer that ends when its producer is of no more use does not get through."""
    with pytest.raises(AssertionError, match="the process ended"):
        outlive_its_id(forgetful, forgetful.trainee("steady", "impatient", "gives-up"))


def outlive_a_rival(scene: FaultyBroker, trainee: Trainee) -> None:
    """Freeze a trainer until it is forgotten; let one on a copy of its directory finish, and be forgotten; thaw."""
    daemon, writer = trainee.begin(), trainee.settings.output.models_topic.encode()
    daemon.wait_for("model_published", times=5)
    daemon.freeze()
    try:
        forgotten = wait_until_forgotten(scene.direct, writer, 0)
        rival = scene.rival_of(trainee)
        rival.begin()
        rival.finish()
        wait_until_forgotten(scene.direct, writer, forgotten + 1)
        scene.counts["ids_expired"] += 2
    finally:
        daemon.thaw()
    models, pause = trainee.settings.output.models_topic, threading.Event()
    _, end = Cluster(scene.direct).log_range(models, 0)
    while daemon.ended() is None:
        assert Cluster(scene.direct).log_range(models, 0)[1] == end, "it publishes what the rival has published"
        pause.wait(LOOK_S)
    assert daemon.wait() == FENCED
    trainee.check()


@pytest.mark.long
def test_a_forgotten_rival_is_noticed(forgetful: FaultyBroker) -> None:
    """The broker remembers neither: the first one, thawed, reads who owns the model, and ends without publishing."""
    outlive_a_rival(forgetful, forgetful.trainee("steady", "impatient"))


@pytest.mark.faults_long
def test_a_forgotten_rival_shows_a_silent_renewal(forgetful: FaultyBroker) -> None:
    """Planted: a client that takes a new id by itself, unread, publishes numbers that the rival has published."""
    with pytest.raises(AssertionError, match="it publishes what"):
        outlive_a_rival(forgetful, forgetful.trainee("steady", "impatient", "renews-unread"))
