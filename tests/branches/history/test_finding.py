"""Rows of a person, found by their id or by the key of their records, and erased."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

from consumers.branches.history.deletes import Named, read_deletes
from consumers.branches.history.erasing import configuration_of
from consumers.branches.history.finding import rows_named
from consumers.settings import Settings
from streamsvm.errors import ConfigurationError
from streamsvm.ingest import encode
from streamsvm.kafka import Cluster, Connection, Recreated, TopicSpec
from streamsvm.points import Position
from tests.brokers.fixtures import TestBroker
from tests.consumers.command import run
from tests.consumers.recreated import WAY_OUT, AtTheQuestion, never_looking, recreate
from tests.consumers.trainers import produce, records, run_until, settings_for
from tests.streams import DIMENSION, gaussian

ROWS = 60
NOW_MS = int(time.time() * 1_000)
"""Records of long ago would be gone by retention."""


def fill(connection: Connection, settings: Settings) -> None:
    """Write a point a record, ids from 0 to 9 as numbers and as text by turns; then an array, a bad record, a key."""
    Cluster(connection).create([TopicSpec(settings.input.topic, 4)])
    producer, points = Producer(dict(connection.options)), gaussian(ROWS, 3)
    for place in range(ROWS):
        name = place % 10 if place % 2 else f"c{place % 10}"
        value = encode(points.X[place], int(points.y[place]), id=name)
        producer.produce(settings.input.topic, value, key=b"k%d" % (place % 20), partition=place % 2)
    several = [json.loads(encode(points.X[place], 1, id=name)) for place, name in enumerate(("c0", "x", "c0"))]
    producer.produce(settings.input.topic, json.dumps(several).encode(), partition=0)
    producer.produce(settings.input.topic, b'{"x": [1', key=b"k3", partition=1)
    assert not producer.flush(60.0)


@pytest.fixture
def settings(broker: TestBroker, tmp_path: Path) -> Settings:
    made = settings_for(broker.name("found"), tmp_path / "checkpoint")
    fill(broker.connection, made)
    return made


def test_rows_are_found_wherever_they_are(settings: Settings, broker: TestBroker) -> None:
    """Every row of an id, those within arrays too, and every row of a record with a key; what nobody has is said."""
    named = Named(dict.fromkeys(("c0", "7", "9x")), dict.fromkeys(("k3", "no")))
    found = rows_named(Cluster(broker.connection), settings.input.topic, settings.models(), named, timeout_s=60.0)
    even = [place for place in range(ROWS) if place % 10 == 0]
    odd = [place for place in range(ROWS) if place % 10 == 7 or place % 20 == 3]
    in_array = [Position(ROWS // 2, 0), Position(ROWS // 2, 2)]
    bad = [Position(ROWS // 2)]  # the bad record has the key
    assert found.places == {
        0: {*(Position(p // 2) for p in even), *in_array},
        1: {*(Position(p // 2) for p in odd), *bad},
    }
    assert (found.met_ids, found.met_keys) == ({"c0", "7"}, {"k3"})


def test_an_empty_topic_holds_nobody(settings: Settings, broker: TestBroker) -> None:
    """There is nothing to wait for."""
    name = broker.topic(4)
    found = rows_named(Cluster(broker.connection), name, settings.models(), Named({"a": None}), timeout_s=60.0)
    assert not found.places
    assert not found.met_ids


DELETES = (
    (b"x", b'{"op": "delete", "id": "a", "by": "mail"}', 500),
    (None, b'{"op": "delete", "id": 7}', 300),
    (None, b'{"op": "delete", "id": "a"}', 200),  # the newest of a name counts, in whatever order they come
    (b"k3", None, 400),
    (None, b'{"op": "insert", "id": "b"}', 500),
    (None, b'{"op": "delete", "id": ""}', 500),
    (None, b'{"op": "delete", "id": "' + b"z" * 1_001 + b'"}', 500),
    (None, b"[" * 10_000, 500),
    (b"", None, 500),
    (b"\xff", None, 500),
)


def test_deletes_name_ids_and_keys_and_the_rest_is_counted(broker: TestBroker) -> None:
    """A record of any bytes raises nothing."""
    topic, producer = broker.topic(2), Producer(dict(broker.connection.options))
    for number, (key, value, time_ms) in enumerate(DELETES):
        producer.produce(topic, value, key=key, partition=number % 2, timestamp=NOW_MS + time_ms)
    assert not producer.flush(60.0)
    named = Named({"given": None})
    read_deletes(Cluster(broker.connection), topic, named, 60.0)
    assert named == Named({"given": None, "a": NOW_MS + 500, "7": NOW_MS + 300}, {"k3": NOW_MS + 400}, unreadable=6)


def test_a_row_that_is_younger_than_its_delete_stays(settings: Settings, broker: TestBroker) -> None:
    """It is of somebody who is back."""
    name, producer = broker.topic(1), Producer(dict(broker.connection.options))
    for time_ms in (1_000, 2_000, 3_000):
        producer.produce(name, encode([0.5] * DIMENSION, 1, id="a"), key=b"k", partition=0, timestamp=NOW_MS + time_ms)
    assert not producer.flush(60.0)
    for named, met in ((Named({"a": NOW_MS + 2_000}), {"a"}), (Named({"a": NOW_MS + 999}), set())):
        found = rows_named(Cluster(broker.connection), name, settings.models(), named, timeout_s=60.0)
        assert found.met_ids == met
        assert found.places == ({0: {Position(0), Position(1)}} if met else {})


@pytest.mark.real_broker
def test_the_command_erases_all_rows_of_ids_and_of_a_topic_of_deletes(settings: Settings, broker: TestBroker) -> None:
    """It names the ids and each of their rows; asked of nobody, or of nothing, it changes nothing."""
    run_until(settings, broker.connection, ROWS + 4)
    assert configuration_of(settings) == settings.models()
    options = [
        "--name=m",
        f"--bootstrap-servers={broker.connection.options['bootstrap.servers']}",
        f"--input-topic={settings.input.topic}",
        f"--output-models-topic={settings.output.models_topic}",
        f"--checkpoint-directory={settings.checkpoint.directory}",
    ]
    assert "nothing is to be forgotten" in run("history", "forget", *options).stderr
    topic, producer = broker.topic(1), Producer(dict(broker.connection.options))
    for key, value in (
        (None, b'{"op": "delete", "id": "c2"}'),
        (b"k7", None),
        (None, b'{"op": "delete", "id": "who"}'),
    ):
        producer.produce(topic, value, key=key)
    producer.produce(topic, b"no delete")
    assert not producer.flush(60.0)
    batch = run("history", "forget", *options, f"--deletes={topic}", "--yes", "--json")
    said = json.loads(batch.stdout)
    assert (batch.returncode, said["done"], said["asked"][-3:]) == (1, True, ["id c2", "id who", "key k7"]), (
        batch.stderr
    )
    assert f"1 records of {topic} are not deletes" in batch.stderr
    assert said["absent"] == ["id who: the log holds no such row"]
    expected = [f"0:{place // 2}" for place in range(2, ROWS, 10)] + [f"1:{place // 2}" for place in range(7, ROWS, 20)]
    assert said["found"] == expected
    nobody = run("history", "forget", *options, "--id=nobody", "--yes", "--json")
    assert (nobody.returncode, json.loads(nobody.stdout)["absent"]) == (1, ["id nobody: the log holds no such row"])
    done = run("history", "forget", *options, "--id=c0", "--yes", "--json")
    said = json.loads(done.stdout)
    assert (done.returncode, said["done"]) == (0, True), done.stderr
    assert said["asked"][-1] == "id c0"
    assert said["found"] == [*(f"0:{place // 2}" for place in range(0, ROWS, 10)), f"0:{ROWS // 2}", f"0:{ROWS // 2}.2"]


def test_without_a_checkpoint_there_is_no_configuration(settings: Settings) -> None:
    """The refusal names the directory."""
    with pytest.raises(ConfigurationError, match="no checkpoint of m was found in"):
        configuration_of(settings)


@pytest.mark.real_broker
def test_rows_are_not_found_in_two_logs(
    real_broker: TestBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Places of one log would be applied to another."""
    connection, settings = real_broker.connection, never_looking(real_broker, tmp_path)
    topic, cluster = settings.input.topic, Cluster(connection)
    produce(connection, topic, records(20))
    question = AtTheQuestion(monkeypatch, topic, lambda: recreate(connection, topic), after=1)
    question.armed = True
    with pytest.raises(Recreated, match=WAY_OUT):
        rows_named(cluster, topic, settings.models(), Named({"a": None}), timeout_s=60.0)
