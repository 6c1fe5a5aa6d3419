"""A broker that decides a transaction and does not mark every partition: nothing is doubled, lost, torn or stuck."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import KafkaException

from consumers.settings import Settings
from consumers.streams.settling import PersonNeeded, Unsettled
from consumers.streams.version_settlement import VersionSettlement
from streamsvm.kafka import Cluster, Connection, Stamp, TopicSpec
from tests.consumers.losing import TIMEOUT_S, Died, dying
from tests.consumers.trainers import Running, ends_by, produce, records, settings_for
from tests.kafka import foreign
from tests.live.proxy import Proxy
from tests.live.unmarked import Unmarked
from tests.promise.topics import check_promise

pytestmark = pytest.mark.real_broker


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
    """Assert that readers see versions 1 to `count`, and all that belongs to them, and that nothing hangs."""
    assert [version.number for version in check_promise(connection, settings)] == list(range(1, count + 1))
    marks = Cluster(connection).marks([(name, 0) for name in topics(settings).values()])
    assert {place: mark.end - mark.stable for place, mark in marks.items()} == dict.fromkeys(marks, 0)


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
        ends_by(Died, None, settings, connection, cluster=Cluster(connection, transaction_timeout_s=TIMEOUT_S))
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
