"""A broker that decides a transaction and does not mark every partition: nothing is doubled, lost, torn or stuck."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import msgspec
import pytest
from confluent_kafka import KafkaException

from consumers.settings import Settings
from consumers.streams.settling import PersonNeeded, Unsettled
from consumers.streams.version_settlement import VersionSettlement
from streamsvm.kafka import Cluster, Connection, Record, Stamp, TopicSpec
from streamsvm.model import message as model_codec
from streamsvm.model.pointers import decode_head, head_key
from tests.brokers.jvm import CannotRun, JvmBroker
from tests.consumers.losing import TIMEOUT_S, Died, dying
from tests.consumers.trainers import Running, produce, records, settings_for, topic, versions
from tests.kafka import foreign
from tests.live.proxy import ADD_OFFSETS_TO_TXN, END_TXN, PRODUCE, Proxy
from tests.live.unmarked import Unmarked

pytestmark = pytest.mark.real_broker

CONCURRENT_TRANSACTIONS = 51
"""Kafka's answer to an end of a transaction that comes while the markers of the last one are written."""


@pytest.fixture
def connection(lossy: Connection) -> Connection:
    return lossy


@pytest.fixture
def settings(connection: Connection, tmp_path: Path) -> Settings:
    made = settings_for(f"t-{uuid4().hex[:8]}", tmp_path)
    Cluster(connection).create([TopicSpec(made.input.topic, 1)])
    return made


def topics(settings: Settings) -> dict[str, str]:
    output = settings.output
    return {"models": output.models_topic, "aliases": output.aliases_topic, "audit": output.audit_topic}


def check_whole(connection: Connection, settings: Settings, count: int) -> None:
    """Assert that readers see versions 1 to `count` once each, all that belongs to them, and that nothing hangs."""
    found = versions(connection, settings)
    assert [version.number for version in found] == list(range(1, count + 1))
    named = topics(settings)
    marks = Cluster(connection).marks([(name, 0) for name in named.values()])
    assert {place: mark.end - mark.stable for place, mark in marks.items()} == dict.fromkeys(marks, 0)
    by_number = {version.number: record for version, record in zip(found, models_of(connection, settings), strict=True)}
    told = [msgspec.json.decode(record.value or b"") for record in topic(connection, named["audit"])]
    moved = [entry["to"] for entry in told if entry["event"] in ("alias_moved", "gate_refused")]
    assert sorted(moved) == list(range(1, count + 1))
    heads = [r for r in topic(connection, named["aliases"]) if r.key == head_key(settings.name).encode()]
    newest = decode_head(heads[-1].value or b"")
    assert (newest.number, newest.offset) == (count, by_number[count].offset)
    assert newest.sha256 == model_codec.sha256(by_number[count].value or b"")


def models_of(connection: Connection, settings: Settings) -> list[Record]:
    return [record for record in topic(connection, settings.output.models_topic) if record.value is not None]


LOSSES = [("models",), ("aliases", "audit"), ("models", "aliases", "audit")]
"""Aliases and audit entries are added to a transaction by one request."""


@pytest.mark.long(keep=("the third-models+aliases+audit",))
@pytest.mark.parametrize("lost", LOSSES, ids="+".join)
@pytest.mark.parametrize("skip", [1, 3], ids=["the first version", "the third"])
def test_a_version_whose_markers_are_lost_is_published_once(
    lost: tuple[str, ...], skip: int, losing: Proxy, settings: Settings, connection: Connection
) -> None:
    """A living trainer ends what hangs by an abort and completes what readers half see: same number, same bytes."""
    network = losing.unmarked = Unmarked(f"streamsvm/{settings.name}/", [topics(settings)[one] for one in lost], skip)
    produce(connection, settings.input.topic, records(240))
    with Running(settings, connection, Cluster(connection, transaction_timeout_s=TIMEOUT_S)) as running:
        running.wait_for_rows(240)
        running.wait_until(network.happened.is_set)
        running.wait_until(lambda: running.value("streamsvm_model_version") == 6)
    check_whole(connection, settings, 6)


class Doubling(Proxy):
    """Delivers a copy of one end of a transaction when all but the last part of the next transaction are stored.

    On a machine that has time, a client sends all records in one request: then the group's positions are the last part.
    """

    def __init__(self) -> None:
        super().__init__()
        self.writer, self.answers, self.parts = b"?", list[int](), 3
        self.copy: bytes | None = b""
        self._produced = 0

    def breaks_on(self, frame: bytes) -> bool:
        """Look at a request before it is forwarded: the broker has the requests before it, or gets them at once."""
        key = int.from_bytes(frame[:2], "big")
        if self.writer in frame and key == END_TXN:
            self._produced = 0
            if self.copy == b"":
                self.copy = frame
        elif self.writer in frame and key in (PRODUCE, ADD_OFFSETS_TO_TXN) and self.copy:
            self._produced += int(key == PRODUCE)
            if self._produced == self.parts or (self._produced and key == ADD_OFFSETS_TO_TXN):
                copy, self.copy = self.copy, None  # at once: another connection's thread may come here meanwhile
                time.sleep(0.05)  # the fault itself: the parts before it are stored
                self.answers.append(self.deliver_late(copy))
        return super().breaks_on(frame)

    def until(self, seen: Callable[[], bool]) -> Iterator[int]:
        """Count copies to be delivered until what is waited for was seen; fail after twenty.

        Where in a transaction a copy arrives, and so what it tears, is up to the broker and the machine.
        """
        for copies in range(1, 21):
            yield copies
            if seen():
                return
        pytest.fail(f"no copy of {len(self.answers)} tore what it was to tear; answers: {self.answers}")


@pytest.fixture
def doubling() -> Iterator[Doubling]:
    """Give a network that can deliver a request twice, before a broker that verifies what it stores."""
    try:
        with Doubling() as network:
            broker = JvmBroker(advertised=network.address)
            network.forward_to(broker.behind_proxy)
            try:
                broker.start()
                yield network
            finally:
                broker.stop()
    except CannotRun as missing:
        pytest.skip(str(missing))


def test_a_commit_that_arrives_twice_doubles_no_version(doubling: Doubling, tmp_path: Path) -> None:
    """The copy ends the next transaction half sent, and the broker refuses the rest, which only the trainer knows."""
    connection = Connection(options={"bootstrap.servers": doubling.address, "fetch.wait.max.ms": 10})
    settings = settings_for("twice", tmp_path / "checkpoint")
    Cluster(connection).create([TopicSpec(settings.input.topic, 1)])
    with Running(settings, connection, Cluster(connection, transaction_timeout_s=TIMEOUT_S)) as running:
        for copies in doubling.until(lambda: doubling.answers.count(0) == 4):
            doubling.writer, doubling.copy = f"streamsvm/{settings.name}/".encode(), b""
            produce(connection, settings.input.topic, records(80, seed=copies))
            running.wait_for_rows(80 * copies)
            running.wait_until(lambda copies=copies: running.value("streamsvm_model_version") == 2 * copies)
        assert set(doubling.answers) <= {0, CONCURRENT_TRANSACTIONS}
        assert running.value("streamsvm_producer_renewals_total") == doubling.answers.count(0)
    check_whole(connection, settings, 2 * copies)


TRAINER_DEATHS = [
    *(("publish.answered", lost) for lost in LOSSES),
    *((point, lost) for point in ("settle.swept", "settle.completed") for lost in LOSSES[:2]),
]
"""It was answered and knows nothing else yet; or it has aborted what hangs; or has written again what was missing."""


@pytest.mark.long(keep=("publish.answered-models+aliases+audit",))
@pytest.mark.parametrize(("at", "lost"), TRAINER_DEATHS, ids=[f"{at}-{'+'.join(lost)}" for at, lost in TRAINER_DEATHS])
def test_a_successor_completes_what_a_dead_trainer_left(
    at: str, lost: tuple[str, ...], losing: Proxy, settings: Settings, connection: Connection
) -> None:
    """The process that was answered, or that had begun to settle, is gone; its successor finds the parts in the log."""
    network = losing.unmarked = Unmarked(f"streamsvm/{settings.name}/", [topics(settings)[one] for one in lost], 2)
    produce(connection, settings.input.topic, records(240))
    with dying(at, network):
        running = Running(settings, connection, Cluster(connection, transaction_timeout_s=TIMEOUT_S))
        with pytest.raises(Died), running:
            running.wait_until(lambda: False)
    with Running(settings, connection, Cluster(connection, transaction_timeout_s=TIMEOUT_S)) as again:
        again.wait_until(lambda: again.value("streamsvm_model_version") == 6)
    check_whole(connection, settings, 6)


class Clock:
    """Seconds that pass when somebody waits, much faster than they do."""

    def __init__(self) -> None:
        self.now = 0.0

    def wait(self, seconds: float) -> None:
        self.now += 20 * seconds
        time.sleep(seconds)


@contextmanager
def left_open(connection: Connection, transactional_id: str, name: str, stamped_as: str) -> Iterator[None]:
    """Hold a transaction open with one record in it, as its writer would stamp it, or as it says."""
    header = Stamp("a.1", 1, 1, stamped_as).header if stamped_as else ("streamsvm.transaction", b"?")
    held = foreign.open_transaction(connection, name, [b"open"], b"k", [header], transactional_id)
    with suppress(KafkaException), held:  # it may be taken over
        yield


NOT_OURS = {"nobody": "", "a stranger": "payments", "our own, forgotten": "streamsvm/m/t"}


@pytest.mark.parametrize("whose", [*NOT_OURS, "another model's"])
def test_who_holds_readers_up_is_named_and_only_our_own_kind_is_taken_over(whose: str, connection: Connection) -> None:
    """It waits for three timeouts; then a trainer's id is taken over, and for any other a person gets the command."""
    name = f"t-{uuid4().hex[:8]}"
    Cluster(connection).create([TopicSpec(f"{name}.aliases", 1), TopicSpec(name, 1)])
    clock, cluster = Clock(), Cluster(connection, transaction_timeout_s=TIMEOUT_S)
    own = "streamsvm/m/t"
    settlement = VersionSettlement(
        cluster,
        own,
        [(f"{name}.aliases", 0), (name, 0)],
        transaction_timeout_s=20.0,
        monotonic=lambda: clock.now,
        wait=clock.wait,
        models_topic=name,
    )
    theirs = NOT_OURS.get(whose, f"streamsvm/other/{name}")
    holder = theirs if whose == "another model's" else f"holder-{name}"
    with left_open(connection, holder, name, theirs), closing(cluster.publisher(own)) as publisher:
        publisher.start()
        with pytest.raises(Unsettled, match=rf"open at {name}\[0\]@0"):
            settlement.settle(publisher)
        clock.now += 100.0
        if whose == "another model's":
            settlement.settle(publisher)
            assert cluster.marks([(name, 0)])[name, 0].stable == cluster.marks([(name, 0)])[name, 0].end
        else:
            with pytest.raises(PersonNeeded, match=rf"abort --topic {name} --partition 0 --start-offset 0"):
                settlement.settle(publisher)
