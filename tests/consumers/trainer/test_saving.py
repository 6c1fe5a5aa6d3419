"""When checkpoints are due, and what becomes of their directory while the trainer runs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from streamsvm.checkpoint import CheckpointDirectory, FileSystem
from streamsvm.errors import DirectoryTaken
from streamsvm.kafka import Cluster, TopicSpec
from tests.brokers.fixtures import TestBroker
from tests.consumers.trainers import Running, produce, records, run_until, settings_for


def test_a_trainer_goes_on_in_a_directory_made_anew(broker: TestBroker, tmp_path: Path) -> None:
    """Removed while it runs: it makes it again, and the next start goes on from there."""
    settings = settings_for(broker.name("s"), tmp_path / "checkpoint")
    Cluster(broker.connection).create([TopicSpec(settings.input.topic, 1)])
    produce(broker.connection, settings.input.topic, records(50))
    with Running(settings, broker.connection) as running:
        running.wait_for_rows(50)
        settings.checkpoint.directory.rename(tmp_path / "removed")  # at once: it saves while a tree is removed
        shutil.rmtree(tmp_path / "removed", ignore_errors=True)
        running.wait_until(lambda: bool(list(settings.checkpoint.directory.glob("checkpoint-*.ssvm"))))
        running.wait_until(lambda: running.health.ready()[0])
    produce(broker.connection, settings.input.topic, records(10, seed=1))
    run_until(settings, broker.connection, 10)


def test_a_trainer_ends_when_its_directory_is_anothers(broker: TestBroker, tmp_path: Path) -> None:
    """It stands behind a symbolic link that is turned to a directory which another process holds."""
    (tmp_path / "own").mkdir()
    link = tmp_path / "checkpoint"
    link.symlink_to(tmp_path / "own")
    settings = settings_for(broker.name("s"), link)
    Cluster(broker.connection).create([TopicSpec(settings.input.topic, 1)])
    fresh = tmp_path / "fresh"
    fresh.symlink_to(tmp_path / "others")
    running = Running(settings, broker.connection)

    def run() -> None:
        with running:
            running.wait_until_started()
            fresh.replace(link)
            running.wait_until(lambda: False)

    with (
        CheckpointDirectory(FileSystem(tmp_path / "others"), 3),
        pytest.raises(DirectoryTaken, match="another process holds"),
    ):
        run()
    assert not running.health.healthy()[0]
    assert [path.name for path in (tmp_path / "others").iterdir()] == ["lock"]
