"""The broker away for longer than a transaction may be open: daemons move again by themselves, nothing lost or doubled.

A broker that comes back so late may finish a transaction without marking its partitions. `tests.faults.outages` plays
the same over many kills and counts what they come to; what is looked at is there.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from streamsvm.kafka import Connection
from tests.brokers.jvm import CannotRun
from tests.faults.outages import LOOK_S, SETTINGS, START_AGAIN, OneBroker, Plan, Play, Site, await_work, running
from tests.faults.subjects import TIMEOUTS_S, TrainerSubject
from tests.kafka.foreign import TIMEOUT_S, Silent

Note = Callable[[str, object], None]
AWAY_S = 25.0
TWO_MINUTES_S = 120.0
"""Nothing may stand still for longer while /healthz is green."""
KILLS = 3
LONGEST_TRANSACTION_MS = 900_000
"""What a broker allows by default."""
COMMAND = "kafka-transactions"
CLEAN = {"doubled": 0, "missing": 0, "verify": 0, "scores_missing": 0, "scores_doubled": 0, "apart": 0}
EVERY_SETTING = pytest.mark.parametrize("settings", ["frequent", "defaults"])
EVERYBODY = pytest.mark.parametrize("what", ["trainer", "scorer", "both"])


def played(plan: Plan, note: Note, kills: int = KILLS, planted: str = "") -> Site:
    """Play some kills; skips where no broker can be had."""
    seed = random.SystemRandom().randrange(1 << 32)
    note("seed", seed)
    try:
        play = Play(plan, seed, TWO_MINUTES_S, planted)
    except CannotRun as error:
        pytest.skip(f"no broker to ill-treat: {error}")
    site = play.run(kills)
    note("broker_kills", site.kills)
    for name in ("versions", "scores"):
        note(name, site.found.get(name, 0))
    note("ended_75", site.ended_75)
    return site


def check(site: Site, kills: int = KILLS) -> None:
    """Check that everybody moved on without a person, and that readers have everything once."""
    assert not site.hung, f"{site.hung} hang, {site.green} of them with /healthz green: {site.notes}"
    assert not site.ended_otherwise, site.notes
    assert site.kills == kills
    found: dict[str, Any] = {name: site.found[name] for name in CLEAN if name in site.found}
    assert found == {name: CLEAN[name] for name in found}, site.notes
    assert found, "nothing was looked at"


@pytest.mark.long
@pytest.mark.timeout(600)
def test_an_outage_longer_than_a_transaction_only_delays(record_property: Note) -> None:
    """The broker dies under a trainer whose transactions may be open for 4 s, and is away for 6 s."""
    plan = Plan(what="trainer", settings="frequent", away_s=6.0, timeout_s=4.0)
    check(played(plan, record_property, 1), 1)


@pytest.mark.faults_long
@pytest.mark.timeout(1_800)
@EVERY_SETTING
@EVERYBODY
def test_a_long_outage_only_delays(what: str, settings: str, record_property: Note) -> None:
    """The broker dies in mid-transaction and is away for 25 s; the daemons live."""
    check(played(Plan(what=what, settings=settings, away_s=AWAY_S), record_property))


@pytest.mark.faults_long
@pytest.mark.timeout(1_800)
@EVERY_SETTING
@EVERYBODY
def test_a_power_loss_only_delays(what: str, settings: str, record_property: Note) -> None:
    """Broker and daemons die at once, and come back after 12 s: what the dead left open is ended."""
    check(played(Plan(what=what, settings=settings, away_s=12.0, double=True), record_property))


@pytest.mark.faults_long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("brokers", ["coordinator", "three"])
def test_a_cluster_only_delays(brokers: str, record_property: Note) -> None:
    """Of three brokers the coordinator of transactions dies, and another takes over; or all three at once."""
    plan = Plan(what="both", settings="frequent", away_s=AWAY_S, brokers=brokers)
    check(played(plan, record_property, 2), 2)


@contextmanager
def stranger(connection: Connection, topic: str) -> Iterator[None]:
    """Hold a transaction open that nobody of ours can end, and that outlives every patience."""
    options = {"transactional.id": f"stranger-{topic}", "transaction.timeout.ms": LONGEST_TRANSACTION_MS}
    producer = Producer({**connection.options, **options}, logger=Silent())
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, b"a stranger's", b"stranger", partition=0)
    assert producer.flush(TIMEOUT_S) == 0
    try:
        yield
    finally:
        producer.close()


def says_so(subject: TrainerSubject) -> bool:
    """Tell whether a daemon is red, ended to be started again, or names what a person has to do."""
    subject.daemon.catch_up()
    if subject.daemon.ended() is not None:
        return subject.daemon.ended() == START_AGAIN
    return not subject.green() or COMMAND in subject.says()


@pytest.mark.faults_long
@pytest.mark.timeout(900)
def test_nothing_stands_still_in_silence(tmp_path: Path, record_property: Note) -> None:
    """What hides the topic never ends: within two minutes it is red, ends with 75, or says which command ends that."""
    try:
        power = OneBroker(SETTINGS["frequent"])
    except CannotRun as error:
        pytest.skip(f"no broker to ill-treat: {error}")
    with running(power) as connection, ExitStack() as stack:
        subject = TrainerSubject(connection, tmp_path, TIMEOUTS_S["trainer"], shortened=False)
        stack.callback(subject.end)
        subject.begin()
        subject.feed()
        await_work(subject)
        with stranger(connection, subject.settings.output.aliases_topic):
            power.fail()
            power.come_back()
            returned = time.monotonic()
            while not says_so(subject):
                waited_s = time.monotonic() - returned
                assert waited_s < TWO_MINUTES_S, f"green and stuck: {subject.says()}"
                time.sleep(LOOK_S)
        record_property("said_after_s", round(time.monotonic() - returned))
