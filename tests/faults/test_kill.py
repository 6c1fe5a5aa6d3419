"""SIGKILL in the middle of a stream, on a real broker: nothing lost, nothing doubled."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamsvm.config import Settings
from streamsvm.kafka import Connection, TopicSpec, create_topics
from tests.brokers.fixtures import TestBroker
from tests.consumers.trainers import produce, records, settings_for, topic, versions
from tests.faults.daemon import Daemon, arguments

ROWS = 3_000
VERSIONS = ROWS // 40


@pytest.fixture
def clean(real_broker: TestBroker, tmp_path: Path) -> Settings:
    """A trainer's settings, and an input topic with all of the stream."""
    made = settings_for(real_broker.name("kill"), tmp_path / "clean")
    create_topics(real_broker.connection, [TopicSpec(made.input.topic, 1)])
    produce(real_broker.connection, made.input.topic, records(ROWS))
    return made


def elsewhere(settings: Settings, directory: Path) -> Settings:
    """Return the same trainer of the same input with other outputs."""
    return settings.model_copy(
        update={
            "output": settings.output.model_copy(update={"models_topic": f"{settings.output.models_topic}-killed"}),
            "checkpoint": settings.checkpoint.model_copy(update={"directory": directory}),
        }
    )


def published(connection: Connection, settings: Settings) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in topic(connection, settings.output.models_topic)]


def run_through(settings: Settings, connection: Connection) -> None:
    daemon = Daemon(arguments(settings, connection))
    while daemon.wait_for("model_published")["version"] != f"m@{VERSIONS}":
        pass
    assert daemon.stop() == 0


def test_a_killed_trainer_publishes_what_an_unkilled_one_does(
    clean: Settings, real_broker: TestBroker, tmp_path: Path
) -> None:
    """Killed six times, each time a few versions further: keys and values of the models topic are byte-identical."""
    connection = real_broker.connection
    run_through(clean, connection)
    killed = elsewhere(clean, tmp_path / "killed")
    for _ in range(6):
        daemon = Daemon(arguments(killed, connection))
        daemon.wait_for("model_published", times=5)
        daemon.kill()
    run_through(killed, connection)
    assert published(connection, killed) == published(connection, clean)
    found = versions(connection, killed)
    assert [version.number for version in found] == list(range(1, VERSIONS + 1))
    assert [version.stream.points for version in found] == list(range(40, ROWS + 1, 40))


def test_a_kill_before_the_first_poll_keeps_the_start(real_broker: TestBroker, tmp_path: Path) -> None:
    """start = latest is resolved and saved before anything is read: a kill right then does not move it."""
    settings = settings_for(real_broker.name("kill"), tmp_path / "checkpoint")
    connection = real_broker.connection
    create_topics(connection, [TopicSpec(settings.input.topic, 1)])
    produce(connection, settings.input.topic, records(30))
    command = [*arguments(settings, connection), "--input-start", "latest"]
    daemon = Daemon(command)
    daemon.wait_for("started")
    daemon.kill()
    produce(connection, settings.input.topic, records(50, seed=1))
    daemon = Daemon(command)
    daemon.wait_for("model_published")
    assert daemon.stop() == 0
    (version,) = versions(connection, settings)
    assert version.lineage.base[0].offset == 30
    assert version.stream.points == 40


def test_a_second_trainer_on_the_same_directory_is_refused(clean: Settings, real_broker: TestBroker) -> None:
    """One clear line and exit status 78; the first goes on."""
    first = Daemon(arguments(clean, real_broker.connection))
    first.wait_for("started")
    second = Daemon(arguments(clean, real_broker.connection))
    assert second.wait() == 78
    assert "another process holds the checkpoint directory" in second.log[-1]
    assert first.stop() == 0


def test_a_second_trainer_elsewhere_fences_the_first(clean: Settings, real_broker: TestBroker, tmp_path: Path) -> None:
    """Whoever starts last with the same name and topic publishes; the other one ends with status 70."""
    connection = real_broker.connection
    first = Daemon(arguments(clean, connection))
    first.wait_for("model_published", times=VERSIONS)
    first_copy = clean.model_copy(
        update={"checkpoint": clean.checkpoint.model_copy(update={"directory": tmp_path / "copy"})}
    )
    (tmp_path / "copy").mkdir()
    newest = max(clean.checkpoint.directory.glob("checkpoint-*"))
    (tmp_path / "copy" / newest.name).write_bytes(newest.read_bytes())
    second = Daemon(arguments(first_copy, connection))
    second.wait_for("started")
    produce(connection, clean.input.topic, records(40, seed=9))
    assert first.wait() == 70
    assert "Traceback" not in "".join(first.log)
    second.wait_for("model_published")
    assert second.stop() == 0
    numbers = [version.number for version in versions(connection, clean)]
    assert numbers == list(range(1, VERSIONS + 2))
