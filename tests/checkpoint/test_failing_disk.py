"""Disks that are full or read-only at a start; a disk that fails under a trainer is a scenario of `tests.live`."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from streamsvm.checkpoint import CheckpointDirectory, FileSystem, encode
from streamsvm.errors import ConfigurationError, StateError, TransientError
from tests.benchmarks.checkpoint import state


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


def test_a_disk_with_room_for_as_many_as_are_kept_is_enough(tmp_path: Path) -> None:
    """Of a real file system: each start and each save makes room, and what is left can be read."""
    small = tmp_path / "small"
    small.mkdir()
    size = (len(encode(state(10_000, 8))) // 4_096 + 2) * 4_096
    run("mount", "-t", "tmpfs", "-o", f"size={3 * size}", "tmpfs", str(small))
    try:
        for sequence in range(1, 9):
            with CheckpointDirectory(FileSystem(small / "m"), 3) as directory:
                directory.save(replace(state(10_000, 8), sequence=sequence))
                assert bool(directory.made_room) == (sequence > 3)
        with CheckpointDirectory(FileSystem(small / "m"), 3) as directory:
            assert [found.snapshot.sequence for found in directory.generations() if found.snapshot] == [8, 7, 6]
    finally:
        run("umount", "--lazy", str(small))


def test_a_read_only_file_system_is_locked_and_read(tmp_path: Path) -> None:
    """A start goes on from what is there; a second one is refused; a save fails and is tried again."""
    place = tmp_path / "disk"
    place.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place))
    try:
        with CheckpointDirectory(FileSystem(place / "m"), 3) as directory:
            directory.save(state(1_000, 8))
        run("mount", "-o", "remount,ro", str(place))
        with CheckpointDirectory(FileSystem(place / "m"), 3) as directory:
            assert [found.fault for found in directory.generations()] == [""]
            with pytest.raises(StateError, match="another process holds"):
                FileSystem(place / "m").lock()
            with pytest.raises(TransientError, match="Read-only file system"):
                directory.save(state(1_000, 8))
        with pytest.raises(ConfigurationError, match="Read-only file system"):
            FileSystem(place / "other").lock()
    finally:
        run("umount", "--lazy", str(place))


def run(*command: str) -> None:
    """Run a command, or skip the test, saying why, where this machine does not allow it."""
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip(f"there is no {command[0]}")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"{' '.join(command)}: {error.stderr.strip()}")
