"""The few calls on which durability depends, as a port: one directory, its files, and when each is on the disk.

A file system promises less than its calls suggest. What `Disk.write` wrote may be lost, in part or as zeros, until
`Disk.sync`; what `Disk.rename` and `Disk.remove` did may be undone, one without the other, until `Disk.sync_names`.
Code that uses a disk through this port can be tested against every state that a power loss may leave.

Invariant: nothing here retries. After a failed `sync` the content is unknown for good, even if a later one succeeds
(Rebello et al. 2020, "Can Applications Recover from fsync Failures?"): such a file must be written again.
"""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from streamsvm.errors import ConfigurationError, StateError, TransientError
from streamsvm.private import OWNER_ONLY_DIRECTORY, check_directory, open_lock, open_new, open_to_read, tighten_files

LOCK: Final = "lock"
LEFT_BYTES: Final = 1_024
"""Most bytes that are read of the line which a process leaves in its lock file."""
FULL: Final = (errno.ENOSPC, errno.EDQUOT)
"""Errors of a disk that is full. They pass, unlike those of a directory that this user may not write."""
_CHECKPOINTS: Final = "checkpoint-"


class LockLost(OSError):
    """The directory was removed or replaced: its name no longer leads to the directory that this process locked."""

    def __init__(self, why: str) -> None:
        super().__init__(errno.ESTALE, why)


class Disk(Protocol):
    """One flat directory; ``str()`` of it names it in messages.

    Every method may raise OSError, and `LockLost` once the directory is not the one that was locked.
    """

    def lock(self) -> str:
        """Make the directory if there is none, take it for this process, and return what the last `unlock` left there.

        Raises
        ------
        ConfigurationError
            If it cannot be made or written.
        StateError
            If another process holds it.
        """

    def unlock(self, left: str = "") -> None:
        """Release it, and leave a line for the next process; an empty one leaves what is there."""

    def names(self) -> list[str]:
        """Return the names of all its files, in no order."""

    def size(self, name: str) -> int:
        """Return a file's length in bytes."""

    def read(self, name: str) -> bytes:
        """Return a file's content; see its `size` first."""

    def write(self, name: str, content: bytes) -> None:
        """Create or truncate a file and fill it; not durable before `sync` and, if it is new, `sync_names`."""

    def sync(self, name: str) -> None:
        """Return when a file's content survives a power loss."""

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, in place of any file that had it; not durable before `sync_names`."""

    def remove(self, name: str) -> None:
        """Remove a file; not durable before `sync_names`."""

    def sync_names(self) -> None:
        """Return when all names survive a power loss."""


class FileSystem:
    """A directory of the machine.

    Parameters
    ----------
    directory : Path
        Made by `lock` if it does not exist, for this user alone, as its files are.
    trusted : bool
        Whether to use a directory that other users may write or own; see `streamsvm.private.check_directory`.
    """

    def __init__(
        self,
        directory: Path,
        *,
        trusted: bool = False,
    ) -> None:
        self._directory = directory
        self._trusted = trusted
        self._lock: int | None = None
        self._written: dict[str, int] = {}

    def __str__(self) -> str:
        return str(self._directory)

    def lock(self) -> str:
        """Make the directory if there is none, and take it by ``flock`` on the file ``lock``."""
        try:
            _make(self._directory)
            if not self._trusted:
                check_directory(self._directory)
            tighten_files(self._directory, _CHECKPOINTS)
            handle = open_lock(self._directory / LOCK)
        except OSError as error:
            if error.errno in FULL:
                raise TransientError(
                    f"the checkpoint directory {self} cannot be made: {error.strerror}",
                    "Free space, or choose a directory on another disk with --checkpoint-directory.",
                ) from None
            raise ConfigurationError(
                f"the checkpoint directory {self} cannot be written: {error.strerror}",
                "Make the directory writable for this user, or choose another with --checkpoint-directory.",
            ) from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise StateError(
                f"another process holds the checkpoint directory {self}",
                "Stop that process, or give each trainer its own directory.",
            ) from None
        except OSError as error:
            os.close(handle)
            raise ConfigurationError(
                f"the checkpoint directory {self} cannot be locked: {error.strerror}",
                "Choose a directory on a file system that supports flock with --checkpoint-directory.",
            ) from None
        self._lock = handle
        return os.pread(handle, LEFT_BYTES, 0).decode(errors="replace")

    def unlock(self, left: str = "") -> None:
        """Release the lock; a disk that is full takes no line."""
        for name in list(self._written):
            self._forget(name)
        if self._lock is not None:
            with suppress(OSError):
                if left:
                    os.truncate(self._lock, os.pwrite(self._lock, left.encode(), 0))
            with suppress(OSError):
                os.close(self._lock)
            self._lock = None

    def names(self) -> list[str]:
        """Return the names of all files of the directory."""
        self._refuse_if_lost()
        return [entry.name for entry in os.scandir(self._directory) if entry.is_file(follow_symlinks=False)]

    def size(self, name: str) -> int:
        """Return a file's length in bytes."""
        return (self._directory / name).lstat().st_size

    def read(self, name: str) -> bytes:
        """Return a file's content."""
        with os.fdopen(open_to_read(self._directory / name), "rb") as file:
            return file.read()

    def write(self, name: str, content: bytes) -> None:
        """Make a file, in place of any of its name; it stays open until `sync`, which thus sees errors in between."""
        self._forget(name)
        self._refuse_if_lost()
        handle = open_new(self._directory / name)
        # Kept open until `sync`: some kernels report a failed write-back only to handles that were open when it failed.
        self._written[name] = handle
        # `os.write` may write less than it was given.
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(handle, rest) :]

    def sync(self, name: str) -> None:
        """Flush a file's content to the disk."""
        if name not in self._written:
            self._written[name] = open_to_read(self._directory / name)
        try:
            os.fsync(self._written[name])
        finally:
            self._forget(name)

    def rename(self, old: str, new: str) -> None:
        """Give a file another name."""
        self._refuse_if_lost()
        (self._directory / old).rename(self._directory / new)

    def remove(self, name: str) -> None:
        """Remove a file."""
        self._forget(name)
        self._refuse_if_lost()
        (self._directory / name).unlink()

    def sync_names(self) -> None:
        """Flush the directory to the disk."""
        _sync_directory(self._directory)

    def _refuse_if_lost(self) -> None:
        """Raise `LockLost` if the lock's name no longer leads to the file that this process has locked."""
        if self._lock is None:
            return
        try:
            there = (self._directory / LOCK).stat()
        except (FileNotFoundError, NotADirectoryError):
            raise LockLost("the directory or its lock file was removed") from None
        if not os.path.samestat(there, os.fstat(self._lock)):
            raise LockLost("the directory's lock file is not the one that this process locked")

    def _forget(self, name: str) -> None:
        handle = self._written.pop(name, None)
        if handle is not None:
            with suppress(OSError):
                os.close(handle)


def _make(directory: Path) -> None:
    """Create a directory and its parents; on return the entry of each survives a power loss."""
    if directory.is_dir():
        return
    _make(directory.parent)
    directory.mkdir(OWNER_ONLY_DIRECTORY, exist_ok=True)
    _sync_directory(directory.parent)


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
