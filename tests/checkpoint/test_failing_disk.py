"""Disk full, I/O errors, directory read-only: the old checkpoint stays, publishing goes on, an alarm is raised."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from consumers import constants
from streamsvm.checkpoint.directory import CheckpointDirectory
from streamsvm.checkpoint.disk import FileSystem
from streamsvm.errors import TransientError
from streamsvm.kafka import Cluster, TopicSpec
from tests.brokers.fixtures import TestBroker
from tests.checkpoint.disks import RefusingDisk
from tests.consumers.trainers import Running, produce, records, settings_for
from tests.defects.disturbances import EIO_FILE
from tests.kafka.foreign import committed
from tests.kafka.steps import eventually
from tests.live.process import Daemon, ask
from tests.live.stage import Stage
from tests.promise.topics import check_counts, check_promise

RETRYABLE = 75
DISK_KIB = 1024
SOON = {"MOST_CHECKPOINT_AGE_S": 1}
"""Options under which a trainer without a fresh checkpoint is soon not ready."""


def usable(directory: Path, copy: Path) -> list[str]:
    """Return the generations that a start could use now, looking at a copy."""
    copy.mkdir()
    for path in directory.glob("checkpoint-*.ssvm"):
        shutil.copy(path, copy)
    with CheckpointDirectory(FileSystem(copy), 100) as copied:
        return [found.name for found in copied.generations() if found.snapshot is not None]


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


class FullDisk:
    """A file system of a megabyte in memory, and a file that fills it."""

    told = os.strerror(errno.ENOSPC)
    planted = ""

    def __init__(self, root: Path) -> None:
        self._mount = root / "mount"
        self._mount.mkdir()
        run("mount", "-t", "tmpfs", "-o", f"size={DISK_KIB}k", "tmpfs", str(self._mount))
        self.directory = self._mount / "checkpoint"
        self.environment: Mapping[str, str] = {}

    def fail(self) -> None:
        with (self._mount / "ballast").open("wb", buffering=0) as ballast, suppress(OSError):
            while True:
                ballast.write(bytes(4096))

    def mend(self) -> None:
        (self._mount / "ballast").unlink()

    def clear(self) -> None:
        run("umount", "--lazy", str(self._mount))


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


class ReadOnlyDirectory:
    """A directory in which nobody may create, rename or remove a file."""

    planted = ""

    def __init__(self, root: Path) -> None:
        self.directory = root / "checkpoint"
        self.environment: Mapping[str, str] = {}
        self._root = os.geteuid() == 0
        self.told = os.strerror(errno.EPERM if self._root else errno.EACCES)

    def fail(self) -> None:
        if self._root:
            run("chattr", "+i", str(self.directory))
        else:
            self.directory.chmod(0o555)

    def mend(self) -> None:
        if self._root:
            run("chattr", "-i", str(self.directory))
        else:
            self.directory.chmod(0o755)

    def clear(self) -> None:
        if self.directory.exists():
            self.mend()


class BrokenDisk:
    """The disk answers EIO when the process wants to know whether its bytes arrived."""

    told = os.strerror(errno.EIO)
    planted = "loses-its-disk"

    def __init__(self, root: Path) -> None:
        self.directory = root / "checkpoint"
        self._broken = root / "broken"
        self.environment: Mapping[str, str] = {EIO_FILE: str(self._broken)}

    def fail(self) -> None:
        self._broken.touch()

    def mend(self) -> None:
        self._broken.unlink()

    def clear(self) -> None:
        """Nothing is left behind."""


Fault = FullDisk | ReadOnlyDirectory | BrokenDisk


def run(*command: str) -> None:
    """Run a command, or skip the test, saying why, where this machine does not allow it."""
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip(f"there is no {command[0]}")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"{' '.join(command)}: {error.stderr.strip()}")


@pytest.fixture(
    params=[
        pytest.param(FullDisk, id="full"),
        pytest.param(ReadOnlyDirectory, id="readonly", marks=pytest.mark.faults_long),
        pytest.param(BrokenDisk, id="eio", marks=pytest.mark.faults_long),
    ]
)
def fault(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fault]:
    made: Fault = request.param(tmp_path)
    yield made
    made.clear()


def group_of(stage: Stage) -> str:
    return f"streamsvm-{stage.settings.name}"


@pytest.mark.long
def test_a_daemon_goes_on_without_its_disk(
    stage: Stage, fault: Fault, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """A real disk fails under a real process: versions, an alarm, offsets that stay; a start refused; recovery."""
    stage = stage.in_directory(fault.directory)

    def observed() -> int:
        return committed(stage.connection, group_of(stage), stage.settings.input.topic, 0)

    options: dict[str, Any] = dict(SOON)
    stage.create()
    stage.feed(records(60))

    def start() -> Daemon:
        return stage.start(fault.planted, fault.environment, **options)

    first = start()
    assert first.reaches_version(1)
    eventually(lambda: observed() == 60, "the first rows' checkpoint")

    fault.fail()
    assert fault.told in first.wait_for("checkpoint_failed", times=2)["what"]
    stage.feed(records(140, seed=1))
    assert first.reaches_version(5)
    assert fault.told in first.wait_for("checkpoint_failed", times=2)["what"]
    assert observed() == 60
    assert usable(fault.directory, tmp_path / "meanwhile")
    eventually(lambda: ask(first, "readyz")[0] == 503, "an alarm")
    assert "checkpoint" in ask(first, "readyz")[1]
    assert ask(first, "healthz")[0] == 200
    assert "streamsvm_checkpoint_failures_total 0" not in ask(first, "metrics")[1]

    first.kill()
    refused = start()
    assert refused.wait() == RETRYABLE
    assert fault.told in refused.log[-1]
    assert "Traceback" not in refused.said
    assert usable(fault.directory, tmp_path / "later")
    fault.mend()
    second = start()
    second.wait_for("started")
    eventually(lambda: observed() == 200, "a checkpoint of all rows")
    eventually(lambda: ask(second, "readyz")[0] == 200, "the end of the alarm")
    stage.feed(records(40, seed=2))
    assert second.reaches_version(6)
    assert second.stop() == 0
    assert not list(fault.directory.glob("*.partial"))
    found = check_promise(stage.connection, stage.settings)
    check_counts(found)
    assert len(found) == 6
    record_property("versions", len(found))
