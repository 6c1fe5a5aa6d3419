"""A disk whose calls fail: the old checkpoint stays, publishing goes on, and a start says what is missing."""

from __future__ import annotations

import errno
import subprocess
from pathlib import Path

import pytest

from consumers import constants
from streamsvm.checkpoint.directory import CheckpointDirectory
from streamsvm.checkpoint.disk import FileSystem
from streamsvm.errors import TransientError
from streamsvm.kafka import Cluster, TopicSpec
from tests.brokers.fixtures import TestBroker
from tests.checkpoint.disks import RefusingDisk
from tests.consumers.trainers import Running, produce, records, settings_for
from tests.kafka.foreign import committed
from tests.promise.topics import check_counts, check_promise


def goes_on_without(broker: TestBroker, directory: Path, method: str, number: int) -> None:
    """Let one call of the disk fail while a version falls due, and then no more."""
    connection = broker.connection
    settings = settings_for(broker.name("disk"), directory)
    group = f"streamsvm-{settings.name}"
    Cluster(connection).create([TopicSpec(settings.input.topic, 1)])
    produce(connection, settings.input.topic, records(45))
    disk = RefusingDisk()

    def observed() -> int:
        return committed(connection, group, settings.input.topic, 0)

    with Running(settings, connection, disk=disk) as running:
        running.wait_until(lambda: observed() == 45)
        disk.refuse[method] = number
        produce(connection, settings.input.topic, records(40, seed=1))
        running.wait_until(lambda: running.value("streamsvm_model_version") == 2)
        running.wait_until(lambda: running.value("streamsvm_checkpoint_failures_total") >= 2 or observed() > 45)
        assert observed() == 45, "the offsets went on without a checkpoint"
        assert running.health.healthy()[0]
        disk.refuse.clear()
        running.wait_until(lambda: observed() == 85)
        running.wait_until(lambda: running.health.ready()[0])
    with CheckpointDirectory(disk, 100) as left:
        assert [found.fault for found in left.generations()] == [""] * constants.CHECKPOINTS
    check_counts(check_promise(connection, settings))


@pytest.mark.parametrize(
    ("method", "number"),
    [
        ("write", errno.ENOSPC),
        ("write", errno.EROFS),
        ("sync", errno.EIO),
        ("sync", errno.ENOSPC),
        ("rename", errno.EROFS),
        ("sync_names", errno.EIO),
    ],
)
def test_publishing_goes_on_whatever_call_fails(
    embedded_broker: TestBroker, tmp_path: Path, method: str, number: int
) -> None:
    """While a call of the disk fails: versions appear, the group's offsets stay; when it works again, so do they."""
    goes_on_without(embedded_broker, tmp_path, method, number)


def test_a_failed_write_taken_for_a_success_is_found(
    embedded_broker: TestBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row can fail: with errors of the disk passed over, the offsets go on without a checkpoint."""
    write = CheckpointDirectory._write

    def careless(directory: CheckpointDirectory, name: str, content: bytes) -> None:
        try:
            write(directory, name, content)
        except OSError:
            return

    monkeypatch.setattr(CheckpointDirectory, "_write", careless)
    with pytest.raises(AssertionError, match="the offsets went on without a checkpoint"):
        goes_on_without(embedded_broker, tmp_path, "sync", errno.EIO)


def test_a_start_on_a_full_disk_says_what_is_missing(tmp_path: Path) -> None:
    """That may pass, so it is tried again (75); who may not write there at all is refused (78)."""
    full = tmp_path / "full"
    full.mkdir()
    run("mount", "-t", "tmpfs", "-o", "nr_inodes=1", "tmpfs", str(full))
    try:
        with pytest.raises(TransientError, match=r"directory .*/full/m cannot be made: No space left") as refused:
            FileSystem(full / "m").lock()
    finally:
        run("umount", "--lazy", str(full))
    assert "Free space, or choose a directory on another disk with --checkpoint-directory" in refused.value.remedy


def run(*command: str) -> None:
    """Run a command, or skip the test, saying why, where this machine does not allow it."""
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip(f"there is no {command[0]}")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"{' '.join(command)}: {error.stderr.strip()}")
