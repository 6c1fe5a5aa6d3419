"""Files that only their owner may read: how they are made, opened, and in which directories they may lie.

Checkpoints hold points. Who may read one reads the input, who may open the lock may hold it, and who may plant a link
where a file is about to be written chooses what is overwritten.

Invariant: nothing here follows a symbolic link in the last part of a path, and what is made is readable by its owner
alone, whatever the umask.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from streamsvm.errors import ConfigurationError

OWNER_ONLY_FILE: Final = 0o600
OWNER_ONLY_DIRECTORY: Final = 0o700
_OTHERS: Final = 0o077


def check_directory(directory: Path) -> None:
    """Refuse a directory in which another user could plant or replace files.

    A directory of root's is accepted when it is writable by a group of ours, as a Kubernetes volume is by `fsGroup`.
    What stands above the directory is not looked at: inside ``/tmp`` the sticky bit keeps others from renaming it.

    Raises
    ------
    ConfigurationError
        If every user may write it, or if it belongs to another user than this one or root.
    OSError
        If it cannot be looked at.
    """
    found = directory.stat()
    way_out = (
        f"Make this user the owner (chown {os.geteuid()} {directory}; chmod 700 {directory}), or choose another "
        "directory with --checkpoint-directory. If no other process can reach the directory, set "
        "checkpoint.trust_directory."
    )
    if found.st_mode & stat.S_IWOTH:
        raise ConfigurationError(
            f"every user may write to the checkpoint directory {directory} (mode {stat.S_IMODE(found.st_mode):04o}) "
            "and so could replace checkpoints",
            way_out,
        )
    if found.st_uid not in (os.geteuid(), 0):
        raise ConfigurationError(
            f"the checkpoint directory {directory} belongs to user {found.st_uid}, but this process runs as user "
            f"{os.geteuid()}: the owner could replace checkpoints",
            way_out,
        )


def open_lock(path: Path) -> int:
    """Open a file to be locked, made if there is none; others lose the right to open it.

    Without it another user could take the lock by a handle that may only read.

    Raises
    ------
    ConfigurationError
        If it is a symbolic link.
    OSError
        If it cannot be opened.
    """
    if path.is_symlink():  # O_NOFOLLOW refuses one that comes between; this is for the message
        raise ConfigurationError(
            f"{path} is a symbolic link to {path.readlink()}", "Find out who created the link, then remove it."
        )
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, OWNER_ONLY_FILE)
    except OSError as error:
        if error.errno != errno.EROFS or not path.exists():
            raise
        return open_to_read(path)  # a lock needs no right to write
    with suppress(PermissionError):  # of another owner, on a volume that maps users: its mode is not ours to change
        _tighten(handle)
    return handle


def open_new(path: Path) -> int:
    """Make a file of this name for writing, in place of one that may be left over; a link is removed, not followed.

    Raises
    ------
    OSError
        If it cannot be made.
    """
    with suppress(FileNotFoundError):
        path.unlink()
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, OWNER_ONLY_FILE)


def open_to_read(path: Path) -> int:
    """Open a file for reading.

    Raises
    ------
    OSError
        If it cannot be opened, or is a symbolic link.
    """
    return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)


def tighten_files(directory: Path, prefix: str) -> None:
    """Take from others the right to open the files whose name begins with a prefix; those of other owners stay."""
    for entry in os.scandir(directory):
        if entry.name.startswith(prefix) and entry.is_file(follow_symlinks=False):
            with suppress(OSError):
                handle = open_to_read(Path(entry.path))
                try:
                    _tighten(handle)
                finally:
                    os.close(handle)


def _tighten(handle: int) -> None:
    mode = stat.S_IMODE(os.fstat(handle).st_mode)
    if mode & _OTHERS:
        os.fchmod(handle, mode & ~_OTHERS)
