"""Rows of a person, found by their id or by the key of their records, and erased."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import Producer

from consumers.branches.history.erasing import configuration_of
from consumers.branches.history.finding import found_by
from consumers.settings import Settings
from streamsvm.errors import ConfigurationError
from streamsvm.ingest.decoder import encode
from streamsvm.kafka import Cluster, Connection, TopicSpec
from streamsvm.points import Position
from tests.brokers.fixtures import TestBroker
from tests.consumers.test_cli import run
from tests.consumers.trainers import run_until, settings_for
from tests.streams import gaussian

ROWS = 60


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
    found, missing = found_by(
        Cluster(broker.connection),
        settings.input.topic,
        settings.models(),
        ["c0", "7", "9x"],
        ["k3", "no"],
        timeout_s=60.0,
    )
    even = [place for place in range(ROWS) if place % 10 == 0]
    odd = [place for place in range(ROWS) if place % 10 == 7 or place % 20 == 3]
    in_array = [Position(ROWS // 2, 0), Position(ROWS // 2, 2)]
    bad = [Position(ROWS // 2)]  # the bad record has the key
    assert found == {0: [*(Position(p // 2) for p in even), *in_array], 1: [*(Position(p // 2) for p in odd), *bad]}
    assert missing == ["id 9x", "key no"]


def test_an_empty_topic_holds_nobody(settings: Settings, broker: TestBroker) -> None:
    """There is nothing to wait for."""
    name = broker.topic(4)
    assert found_by(Cluster(broker.connection), name, settings.models(), ["a"], [], timeout_s=60.0) == ({}, ["id a"])


@pytest.mark.real_broker
def test_the_command_erases_all_rows_of_an_id(settings: Settings, broker: TestBroker) -> None:
    """It names the id and each of its rows; asked of nobody, or of nothing, it changes nothing."""
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
