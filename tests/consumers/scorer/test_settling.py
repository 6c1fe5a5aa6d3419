"""A broker that decides a scorer's transaction and does not mark every partition: each point is answered once."""

from __future__ import annotations

import json
from contextlib import closing

import pytest

import consumers.scorer.life as life_module
from consumers.settings import Settings
from streamsvm.ingest import encode
from streamsvm.kafka import Cluster, Connection
from streamsvm.places import rejected_source_of
from tests.consumers.losing import TIMEOUT_S, Died, dying
from tests.consumers.scorer.running import Running as Scoring, settings_for
from tests.consumers.trainers import produce, stored, topic
from tests.live.proxy import Proxy
from tests.live.unmarked import Unmarked
from tests.registry.test_subscriber import Trainer, eventually, version_of

pytestmark = pytest.mark.real_broker

COUNT = 200
"""Points, of which each tenth is none; each other one goes to the other partition."""


@pytest.fixture
def connection(lossy: Connection) -> Connection:
    return lossy


@pytest.fixture
def settings(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings of a scorer that soon believes a marker to be lost, of two partitions, with a version to score by."""
    monkeypatch.setattr(life_module, "TRANSACTION_TIMEOUT_S", TIMEOUT_S)
    made = settings_for(connection, partitions=2)
    with closing(Trainer(connection, made.output.models_topic)) as trainer:
        trainer.publish(version_of(3))
    return made


def feed(connection: Connection, settings: Settings, numbers: range) -> None:
    points = [b"bad" if number % 10 == 7 else encode([float(number), 1.0], id=number) for number in numbers]
    for partition in (0, 1):
        produce(connection, settings.scoring.topic, points[partition::2], partition)


def answered(connection: Connection, settings: Settings) -> list[int]:
    """Return the number of each point that has a score or a dead letter, as readers of committed records see them."""
    scores = [json.loads(record.value or b"")["id"] for record in stored(connection, settings.scoring.output_topic)]
    letters = [rejected_source_of(record.headers) for record in topic(connection, settings.scoring.dead_letters)]
    return sorted([*scores, *(2 * offset + partition for _, partition, offset in filter(None, letters))])


def check_once(connection: Connection, settings: Settings) -> None:
    """Assert that each point was answered once, and that nothing hangs, and how far the input is scored."""
    assert answered(connection, settings) == list(range(COUNT))
    scoring = settings.scoring
    places = [(name, number) for name in (scoring.output_topic, scoring.progress) for number in (0, 1)]
    places.append((scoring.dead_letters, 0))
    marks = Cluster(connection).marks(places)
    assert {place: mark.end - mark.stable for place, mark in marks.items()} == dict.fromkeys(marks, 0)
    progress = [
        record for number in (0, 1) for record in Cluster(connection).read_to_end(scoring.progress, number, timeout_s=9)
    ]
    newest = {record.partition: json.loads(record.value or b"")["offset"] for record in progress}
    assert newest == {0: COUNT // 2, 1: COUNT // 2}


ALL = ("scores", "letters", "progress", "positions")
LOSSES = [("scores",), ("letters",), ("progress",), ("positions",), ("scores", "letters"), ALL]
DEATHS = [("scores.answered", lost) for lost in LOSSES]
DEATHS += [("settle.swept", lost) for lost in (("scores",), ("scores", "progress"))]


def unmarked(settings: Settings, lost: tuple[str, ...]) -> Unmarked:
    """Return what loses the markers of a scorer's third transaction in these topics, or of the group's positions."""
    names = {
        "scores": settings.scoring.output_topic,
        "letters": settings.scoring.dead_letters,
        "progress": settings.scoring.progress,
        "positions": "",
    }
    return Unmarked(f"{settings.scoring.group}-", [names[one] for one in lost], skip=2)


def feed_all(connection: Connection, settings: Settings) -> None:
    for begin in range(0, COUNT, 40):
        feed(connection, settings, range(begin, begin + 40))


@pytest.mark.long(keep=("scores+letters+progress+positions",))
@pytest.mark.parametrize("lost", LOSSES, ids="+".join)
def test_a_batch_whose_markers_are_lost_is_answered_once(
    lost: tuple[str, ...], losing: Proxy, settings: Settings, connection: Connection
) -> None:
    """A living scorer ends what hangs, completes what readers half see, and reads on from before where nothing is."""
    network = losing.unmarked = unmarked(settings, lost)
    with Scoring(settings, connection) as running:
        feed_all(connection, settings)
        eventually(network.happened.is_set, "markers are lost")
        eventually(lambda: len(answered(connection, settings)) >= COUNT, "all is answered")
        eventually(lambda: running.health.ready()[0], "it is ready")
    check_once(connection, settings)


@pytest.mark.long(keep=("settle.swept-scores+progress",))
@pytest.mark.parametrize(("at", "lost"), DEATHS, ids=[f"{at}-{'+'.join(lost)}" for at, lost in DEATHS])
def test_the_next_scorer_of_a_slot_completes_what_a_dead_one_left(
    at: str, lost: tuple[str, ...], losing: Proxy, settings: Settings, connection: Connection
) -> None:
    """Scorer and broker die together, or its settler after the abort; whoever comes next settles it before it reads."""
    network = losing.unmarked = unmarked(settings, lost)
    with dying(at, network), Scoring(settings, connection) as running:
        feed_all(connection, settings)
        eventually(running.ended, "it died")
        failure, running.failure = running.failure, None
    assert isinstance(failure, Died)
    with Scoring(settings, connection):
        eventually(lambda: len(answered(connection, settings)) >= COUNT, "all is answered")
    check_once(connection, settings)
