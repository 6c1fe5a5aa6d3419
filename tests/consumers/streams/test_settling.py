"""A broker that decides a transaction and does not mark every partition: nothing is doubled, lost, torn or stuck."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import msgspec
import pytest
from confluent_kafka import KafkaException
from structlog.testing import capture_logs

import consumers.scorer.life as life_module
import consumers.scorer.scorer as scorer_module
from consumers.settings import ScoringConfig, Settings
from consumers.streams.settling import PersonNeeded, Unsettled
from consumers.streams.version_settlement import VersionSettlement
from streamsvm.kafka import HEADER, Cluster, Connection, Message, Outbox, Publisher, Record, Stamp, Standings, TopicSpec
from streamsvm.model import decode_head, head_key, message as model_codec
from streamsvm.places import rejected_source_of
from tests.brokers.jvm import CannotRun, JvmBroker
from tests.consumers.scorers import Running as Scoring
from tests.consumers.trainers import Running, produce, records, settings_for, topic, versions
from tests.live.proxy import ADD_OFFSETS_TO_TXN, END_TXN, PRODUCE, Proxy
from tests.live.unmarked import UNVERIFIED, Unmarked
from tests.registry.test_subscriber import NAME, Trainer as ModelTrainer, eventually, version_of

pytestmark = pytest.mark.real_broker

TIMEOUT_S = 5.0
"""Of transactions here: a marker is believed to be lost after as long. Much shorter, and a busy machine makes clients
give up by themselves, whose late records a broker that verifies nothing would take."""

CONCURRENT_TRANSACTIONS = 51
"""Kafka's answer to an end of a transaction that comes while the markers of the last one are written."""


@pytest.fixture(scope="module")
def proxy() -> Iterator[tuple[Proxy, JvmBroker]]:
    try:
        with Proxy() as between:
            broker = JvmBroker(UNVERIFIED, advertised=between.address)
            between.forward_to(broker.behind_proxy)
            try:
                broker.start()
                yield between, broker
            finally:
                broker.stop()
    except CannotRun as missing:
        pytest.skip(str(missing))


@pytest.fixture
def connection(proxy: tuple[Proxy, JvmBroker]) -> Iterator[Connection]:
    proxy[0].unmarked = None
    yield Connection(options={"bootstrap.servers": proxy[0].address, "fetch.wait.max.ms": 10})
    proxy[0].unmarked = None


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
    lost: tuple[str, ...], skip: int, proxy: tuple[Proxy, JvmBroker], settings: Settings, connection: Connection
) -> None:
    """A living trainer ends what hangs by an abort and completes what readers half see: same number, same bytes."""
    network = proxy[0].unmarked = Unmarked(f"streamsvm/{settings.name}/", [topics(settings)[one] for one in lost], skip)
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


class Died(Exception):
    """A process that ends at a point of its program, in a test that goes on."""


@contextmanager
def dying(module: str, point: str, network: Unmarked) -> Iterator[None]:
    """Let whoever passes a point of a module die there, once markers are lost."""

    def die(name: str) -> None:
        if name == point and network.happened.is_set():
            raise Died

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{module}.crash_point", die)
        yield


SETTLER = ("consumers.streams.settling", "settle.swept")
"""The settler has aborted: nothing hangs any more, and readers see a half."""

COMPLETER = ("consumers.streams.version_settlement", "settle.completed")
"""It has written again what was missing, and nobody has looked for the markers of that."""

TRAINER_DEATHS = [(("consumers.trainer.session", "publish.answered"), lost) for lost in LOSSES]
TRAINER_DEATHS += [(SETTLER, lost) for lost in LOSSES[:2]]
TRAINER_DEATHS += [(COMPLETER, lost) for lost in LOSSES[:2]]


def named_death(at: tuple[str, str], lost: tuple[str, ...]) -> str:
    return f"{at[1]}-{'+'.join(one or 'positions' for one in lost)}"


@pytest.mark.long(keep=("publish.answered-models+aliases+audit",))
@pytest.mark.parametrize(("at", "lost"), TRAINER_DEATHS, ids=[named_death(*each) for each in TRAINER_DEATHS])
def test_a_successor_completes_what_a_dead_trainer_left(
    at: tuple[str, str],
    lost: tuple[str, ...],
    proxy: tuple[Proxy, JvmBroker],
    settings: Settings,
    connection: Connection,
) -> None:
    """The process that was answered, or that had begun to settle, is gone; its successor finds the parts in the log."""
    network = proxy[0].unmarked = Unmarked(f"streamsvm/{settings.name}/", [topics(settings)[one] for one in lost], 2)
    produce(connection, settings.input.topic, records(240))
    with dying(*at, network):
        running = Running(settings, connection, Cluster(connection, transaction_timeout_s=TIMEOUT_S))
        with pytest.raises(Died), running:
            running.wait_until(lambda: False)
    with Running(settings, connection, Cluster(connection, transaction_timeout_s=TIMEOUT_S)) as again:
        again.wait_until(lambda: again.value("streamsvm_model_version") == 6)
    check_whole(connection, settings, 6)


# ------------------------------------------------------------------ the others


class Clock:
    """Seconds that pass when somebody waits, much faster than they do."""

    def __init__(self) -> None:
        self.now = 0.0

    def wait(self, seconds: float) -> None:
        self.now += 20 * seconds
        time.sleep(seconds)


@contextmanager
def left_open(connection: Connection, transactional_id: str, name: str, *, stamped_as: str = "") -> Iterator[Publisher]:
    """Hold a transaction open with one record in it, as its writer would stamp it, or as it says."""
    writer = Publisher(connection, transactional_id, transaction_timeout_s=600.0)
    writer.start()
    writer._begin()
    headers = (Stamp("a.1", 1, 1, stamped_as).header,) if stamped_as else ((HEADER, b"?"),)
    writer._store([Message(name, b"open", b"k", headers, partition=0)])
    try:
        yield writer
    finally:
        writer._producer.purge()
        with suppress(KafkaException):  # it was taken over
            writer._producer.close()


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
    with left_open(connection, holder, name, stamped_as=theirs), closing(cluster.publisher(own)) as publisher:
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


# ------------------------------------------------------------------ the scorer


def scoring_settings(settings: Settings, partitions: int, connection: Connection) -> Settings:
    prefix = settings.input.topic
    scoring = ScoringConfig(topic=f"{prefix}-points", output_topic=f"{prefix}-scores", group=prefix)
    Cluster(connection).create(
        [
            TopicSpec(scoring.topic, partitions),
            TopicSpec(settings.output.models_topic, 1),
            TopicSpec(settings.output.aliases_topic, 1, config={"cleanup.policy": "compact"}),
        ],
    )
    return settings.model_copy(update={"name": NAME, "scoring": scoring})


def feed(connection: Connection, settings: Settings, numbers: range) -> None:
    with closing(Outbox(connection)) as outbox:
        for number in numbers:
            value = b"bad" if number % 10 == 7 else json.dumps({"x": [float(number), 1.0], "id": number}).encode()
            outbox.send(Message(settings.scoring.topic, value, partition=number % 2))
        outbox.flush(20.0)


def answered(connection: Connection, settings: Settings) -> list[int]:
    """Return the number of each point that has a score or a dead letter, as readers of committed records see them."""
    scores = [
        json.loads(record.value or b"")["id"]
        for partition in range(2)
        for record in Cluster(connection).read_to_end(settings.scoring.output_topic, partition, timeout_s=20.0)
    ]
    letters = [rejected_source_of(record.headers) for record in topic(connection, settings.scoring.dead_letters)]
    return sorted([*scores, *(2 * offset + partition for _, partition, offset in filter(None, letters))])


def check_once(connection: Connection, settings: Settings, count: int) -> None:
    """Assert that each point was answered once, and that nothing hangs, the group's positions included."""
    assert answered(connection, settings) == list(range(count))
    scoring = settings.scoring
    places = [(scoring.output_topic, 0), (scoring.output_topic, 1), (scoring.dead_letters, 0)]
    marks = Cluster(connection).marks(places)
    assert {place: mark.end - mark.stable for place, mark in marks.items()} == dict.fromkeys(marks, 0)
    standings = Standings(connection, scoring.group, scoring.topic).of([0, 1])
    assert {partition: one.offset for partition, one in standings.items()} == {0: count // 2, 1: count // 2}


def score_until_it_ends(settings: Settings, connection: Connection) -> None:
    with Scoring(settings, connection) as running:
        for begin in range(0, 200, 40):
            feed(connection, settings, range(begin, begin + 40))
        eventually(running.ended, "it died")


SCORES_LOST = [("scores",), ("letters",), ("",), ("scores", "letters"), ("scores", "letters", "")]
"""The empty name stands for the group's positions."""


def lost_topics(settings: Settings, lost: tuple[str, ...]) -> list[str]:
    names = {"scores": settings.scoring.output_topic, "letters": settings.scoring.dead_letters, "": ""}
    return [names[one] for one in lost]


@pytest.mark.long(keep=("scores+letters+positions",))
@pytest.mark.parametrize("lost", SCORES_LOST, ids=lambda lost: "+".join(one or "positions" for one in lost))
def test_a_batch_whose_markers_are_lost_is_answered_once(
    lost: tuple[str, ...],
    proxy: tuple[Proxy, JvmBroker],
    settings: Settings,
    connection: Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A living scorer ends what hangs, completes what readers half see, and gives positions back where nothing is."""
    monkeypatch.setattr(life_module, "TRANSACTION_TIMEOUT_S", TIMEOUT_S)
    settings = scoring_settings(settings, 2, connection)
    with closing(ModelTrainer(connection, settings.output.models_topic)) as trainer:
        trainer.publish(version_of(3))
    network = proxy[0].unmarked = Unmarked(f"{settings.scoring.group}-", lost_topics(settings, lost), skip=2)
    with Scoring(settings, connection) as running:
        for begin in range(0, 200, 40):
            feed(connection, settings, range(begin, begin + 40))
        eventually(network.happened.is_set, "markers are lost")
        eventually(lambda: len(answered(connection, settings)) >= 200, "all is answered")
        eventually(lambda: running.health.ready()[0], "it is ready")
    check_once(connection, settings, 200)


def test_a_commit_that_arrives_twice_doubles_no_score(
    doubling: Doubling, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scores are visible, dead letters and positions of the same batch were refused: nothing is scored again."""
    monkeypatch.setattr(life_module, "TRANSACTION_TIMEOUT_S", TIMEOUT_S)
    connection = Connection(options={"bootstrap.servers": doubling.address, "fetch.wait.max.ms": 10})
    settings = scoring_settings(settings_for("twice-scored", tmp_path / "checkpoint"), 2, connection)
    with closing(ModelTrainer(connection, settings.output.models_topic)) as trainer:
        trainer.publish(version_of(3))
    doubling.parts = 2
    with capture_logs() as told, Scoring(settings, connection):
        for copies in doubling.until(lambda: "transaction_completed" in [line["event"] for line in told]):
            doubling.writer, doubling.copy = f"{settings.scoring.group}-".encode(), b""
            for begin in range(400 * (copies - 1), 400 * copies, 40):
                feed(connection, settings, range(begin, begin + 40))
            eventually(lambda copies=copies: len(answered(connection, settings)) >= 400 * copies, "all is answered")
    assert set(doubling.answers) <= {0, CONCURRENT_TRANSACTIONS}
    check_once(connection, settings, 400 * copies)


SCORER_DEATHS = [((scorer_module.__name__, "scores.answered"), lost) for lost in SCORES_LOST]
SCORER_DEATHS += [(SETTLER, lost) for lost in (("scores",), ("scores", ""))]


@pytest.mark.long(keep=("settle.swept-scores+positions",))
@pytest.mark.parametrize(("at", "lost"), SCORER_DEATHS, ids=[named_death(*each) for each in SCORER_DEATHS])
def test_the_next_scorer_of_a_slot_completes_what_a_dead_one_left(
    at: tuple[str, str],
    lost: tuple[str, ...],
    proxy: tuple[Proxy, JvmBroker],
    settings: Settings,
    connection: Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Scorer and broker die together, or its settler after the abort; whoever comes next settles it before it reads."""
    monkeypatch.setattr(life_module, "TRANSACTION_TIMEOUT_S", TIMEOUT_S)
    settings = scoring_settings(settings, 2, connection)
    with closing(ModelTrainer(connection, settings.output.models_topic)) as trainer:
        trainer.publish(version_of(3))
    network = proxy[0].unmarked = Unmarked(f"{settings.scoring.group}-", lost_topics(settings, lost), skip=2)
    with dying(*at, network), pytest.raises(Died):
        score_until_it_ends(settings, connection)
    with Scoring(settings, connection):
        eventually(lambda: len(answered(connection, settings)) >= 200, "all is answered")
    check_once(connection, settings, 200)
