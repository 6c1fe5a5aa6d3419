"""When checkpoints are due, and what becomes of their directory while the trainer runs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from consumers.host.exit_codes import EXIT_RETRYABLE, exit_code
from consumers.host.runtime import Health
from consumers.metrics import TRAINER, Metrics
from consumers.settings import CheckpointConfig
from consumers.trainer.checkpointing import LOOK_INTERVAL_S, STEPS_S, Saver
from streamsvm.checkpoint.directory import CheckpointDirectory
from streamsvm.checkpoint.disk import FileSystem
from streamsvm.errors import DirectoryTaken, TransientError
from streamsvm.kafka import Cluster, TopicSpec
from tests.brokers.fixtures import TestBroker
from tests.checkpoint.test_checkpoint import snapshot
from tests.consumers.trainers import Running, produce, records, run_until, settings_for


class Saving:
    """A saver with a clock that stands still."""

    def __init__(self, directory: Path) -> None:
        self.time_s = 0.0
        self.health, self.metrics = (
            Health(stuck_after_s=60.0, clock=lambda: self.time_s),
            Metrics(TRAINER).with_process(),
        )
        self.checkpoints = CheckpointDirectory(FileSystem(directory), 3)
        config = CheckpointConfig(directory=directory, interval_s=30.0)
        self.saver = Saver(
            config, self.checkpoints, self.metrics, self.health, lambda: self.time_s, lambda: datetime.now(UTC)
        )
        self.saver.save(snapshot())
        self.watch()

    def watch(self) -> None:
        """Let a second pass, and the saver look."""
        self.time_s += LOOK_INTERVAL_S
        self.health.beat()
        self.saver.watch()

    @property
    def missing(self) -> str:
        """What readiness waits for."""
        return str(self.health.ready()[1]["waiting_for"].get("checkpoint", ""))

    @property
    def failures(self) -> float | None:
        return self.metrics.registry.get_sample_value("streamsvm_checkpoint_failures_total")


@pytest.fixture
def saving(tmp_path: Path) -> Iterator[Saving]:
    made = Saving(tmp_path / "held")
    yield made
    made.checkpoints.close()


def test_a_checkpoint_may_take_several_turns(saving: Saving, tmp_path: Path) -> None:
    """No turn works long on it; none is due meanwhile, and nothing is on the disk before the last step."""
    step_s = STEPS_S / 2

    def passing() -> float:
        saving.time_s += step_s / 2  # looked at twice a step
        return saving.time_s

    names = {file.name for file in (tmp_path / "held").iterdir()}
    saving.saver = Saver(
        CheckpointConfig(directory=tmp_path / "held", interval_s=30.0),
        saving.checkpoints,
        saving.metrics,
        saving.health,
        passing,
        lambda: datetime.now(UTC),
    )
    saving.saver.begin(snapshot(2))
    assert not saving.saver.go_on()
    assert {file.name for file in (tmp_path / "held").iterdir()} == names
    assert saving.saver.saving
    while not saving.saver.go_on():
        pass
    assert not saving.saver.saving
    assert len({file.name for file in (tmp_path / "held").iterdir()} - names) == 1


def test_a_removed_directory_is_said_at_once_and_a_checkpoint_is_due(saving: Saving, tmp_path: Path) -> None:
    """Not ready, and loud, until the directory made anew has a checkpoint."""
    assert not saving.missing
    assert not saving.saver.due
    shutil.rmtree(tmp_path / "held")
    with capture_logs() as said:
        saving.watch()
    assert [entry["event"] for entry in said] == ["checkpoint_directory_lost"]
    assert f"the checkpoint directory {tmp_path / 'held'} was replaced while it was in use" in saving.missing
    assert saving.failures == 1
    assert saving.saver.due
    saving.saver.save(snapshot(2))
    saving.watch()
    assert not saving.missing
    assert not saving.saver.due
    assert list((tmp_path / "held").glob("checkpoint-*"))


def test_a_directory_that_cannot_be_made_is_said_once_and_tried_again(saving: Saving, tmp_path: Path) -> None:
    """Here a file stands in its way."""
    shutil.rmtree(tmp_path / "held")
    (tmp_path / "held").touch()
    with capture_logs() as said:
        for _ in range(3):
            saving.watch()
    assert len(said) == 1
    assert "cannot be written" in saving.missing
    with pytest.raises(TransientError, match="cannot be written"):
        saving.saver.save(snapshot(2))
    (tmp_path / "held").unlink()
    saving.watch()
    assert saving.saver.due


def test_a_directory_that_another_process_took_ends_the_trainer(saving: Saving, tmp_path: Path) -> None:
    """Whether the saver looks, or saves: status 75."""
    shutil.rmtree(tmp_path / "held")
    with CheckpointDirectory(FileSystem(tmp_path / "held"), 3):
        with pytest.raises(DirectoryTaken) as taken:
            saving.watch()
        with pytest.raises(DirectoryTaken):
            saving.saver.save(snapshot(2))
        with pytest.raises(DirectoryTaken):
            saving.saver.failed(taken.value)
    assert exit_code(taken.value) == EXIT_RETRYABLE


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
