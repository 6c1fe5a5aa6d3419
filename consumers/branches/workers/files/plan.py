"""What a survey of files found, as every process of a backfill is given it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from streamsvm.branches.workers.files_part import FilesOrigin
from streamsvm.errors import StateError


class FoundFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file on this machine.

    Attributes
    ----------
    path, name : str
        Where it is, and what a cut calls it.
    size, changed_ns : int
        Of the file as it was hashed: another one is refused.
    constants : dict of str to str
        Columns that stand in the names of its folders, ``column=value``.
    """

    path: str
    name: str
    size: int
    changed_ns: int
    constants: dict[str, str]

    def require_unchanged(self) -> None:
        """Refuse a file that was written to since it was hashed.

        Raises
        ------
        StateError
        """
        try:
            found = Path(self.path).stat()
        except OSError as error:
            raise StateError(f"{self.path} cannot be read any more: {error.strerror}", RESTORE) from None
        if (found.st_size, found.st_mtime_ns) != (self.size, self.changed_ns):
            raise StateError(
                f"{self.path} was changed while it was read: it had {self.size:,} bytes and has {found.st_size:,}",
                RESTORE,
            )


RESTORE = "Restore the file, and start the backfill again; or let the trainer begin anew, and backfill the new files."


class FilePart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a file that can be read by itself: a row group, a record batch, or a whole CSV file.

    Attributes
    ----------
    file : int
        Index of the file.
    index : int
        Of the part in its file.
    first_row : int
        Rows of the file before it.
    rows : tuple of int
        Rows of each partition, in ascending order of partition.
    """

    file: int
    index: int
    first_row: int
    rows: tuple[int, ...]


class FilesPlan(msgspec.Struct, frozen=True, kw_only=True):
    """All that a process needs to read files.

    Attributes
    ----------
    origin : FilesOrigin
    files : tuple of FoundFile
        As in `origin`, in its order.
    parts : tuple of FilePart
        In the order in which their rows follow each other.
    dead_letters : str
        Folder of what is rejected.
    """

    origin: FilesOrigin
    files: tuple[FoundFile, ...]
    parts: tuple[FilePart, ...]
    dead_letters: str
