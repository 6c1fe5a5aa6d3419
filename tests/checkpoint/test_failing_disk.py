"""A start on a full disk says what is missing; a disk that fails under a trainer is a scenario of `tests.live`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from streamsvm.checkpoint.disk import FileSystem
from streamsvm.errors import TransientError


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
