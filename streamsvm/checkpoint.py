"""Checkpoint files: written whole or not at all, several generations, one writer.

A checkpoint only caches a pure function of the log: any valid generation may be loaded, and a worse one costs time,
never truth. File names order the generations: ``checkpoint-<incarnation>-<head number>-<sequence>.ssvm``.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from streamsvm.codec.checkpoint import Snapshot, decode, encode
from streamsvm.errors import ConfigurationError, CorruptCheckpoint, StateError, TransientError

LOCK: Final = "lock"
LARGEST_FILE_BYTES: Final = 1 << 34
_NAME: Final = re.compile(r"checkpoint-(\d{6,})-(\d{12,})-(\d{12,})\.ssvm")


@dataclass(frozen=True, slots=True)
class Generation:
    """One checkpoint file: a snapshot, or why it cannot be used."""

    path: Path
    snapshot: Snapshot | None
    fault: str


class CheckpointDirectory:
    """A directory of checkpoints, locked against a second writer.

    Parameters
    ----------
    directory : Path
        Made if it does not exist.
    generations : int
        Files to keep.

    Raises
    ------
    ConfigurationError
        If the directory cannot be made or written.
    StateError
        If another process holds it.
    """

    def __init__(self, directory: Path, generations: int) -> None:
        self._directory = directory
        self._generations = generations
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise ConfigurationError(
                f"the checkpoint directory {directory} cannot be written: {error.strerror}",
                "Make it writable for this user, or name another with --checkpoint-directory.",
            ) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise StateError(
                f"another process holds the checkpoint directory {directory}",
                "Stop it, or give each trainer a directory of its own.",
            ) from None
        for leftover in directory.glob("*.partial"):
            leftover.unlink()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the lock."""
        with suppress(OSError):
            os.close(self._lock)

    def generations(self) -> Iterator[Generation]:
        """Read the checkpoints, the newest first."""
        for path in self._files():
            try:
                if path.stat().st_size > LARGEST_FILE_BYTES:
                    raise CorruptCheckpoint(f"it has more than {LARGEST_FILE_BYTES} bytes")
                yield Generation(path, decode(path.read_bytes()), "")
            except CorruptCheckpoint as error:
                yield Generation(path, None, str(error))
            except OSError as error:
                yield Generation(path, None, f"it cannot be read: {error.strerror}")

    def save(self, snapshot: Snapshot) -> int:
        """Write a checkpoint and drop the oldest; on return it survives a crash of the machine.

        Returns
        -------
        int
            Bytes written.

        Raises
        ------
        TransientError
            If the disk refuses; the checkpoints before it are untouched.
        """
        head = snapshot.head.number if snapshot.head else 0
        final = self._directory / f"checkpoint-{snapshot.incarnation:06d}-{head:012d}-{snapshot.sequence:012d}.ssvm"
        partial = final.with_suffix(".partial")
        content = encode(snapshot)
        try:
            with partial.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            partial.rename(final)
            self._sync_directory()
            for old in self._files()[self._generations :]:
                old.unlink()
        except OSError as error:
            with suppress(OSError):
                partial.unlink(missing_ok=True)
            raise TransientError(
                f"the checkpoint {final} cannot be written: {error.strerror}",
                "Free space or mend the disk; the checkpoints before it are untouched.",
            ) from None
        return len(content)

    def _files(self) -> list[Path]:
        named = ((_NAME.fullmatch(path.name), path) for path in self._directory.iterdir())
        ordered = sorted(
            (([int(part) for part in match.groups()], path) for match, path in named if match), reverse=True
        )
        return [path for _, path in ordered]

    def _sync_directory(self) -> None:
        handle = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
