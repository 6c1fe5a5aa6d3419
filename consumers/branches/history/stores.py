"""The archive as a store of rows."""

from __future__ import annotations

from typing import Final

from consumers.branches.history.settings import ArchiveConfig
from consumers.settings import Settings
from consumers.streams.row_stores import Files, RowStore
from streamsvm.branches.history.store import DAMAGED
from streamsvm.sections import section


def _archive(settings: Settings) -> tuple[Files, ...]:
    directory = section(settings, ArchiveConfig).directory
    return () if directory is None else (Files(directory),)


def _damaged(settings: Settings) -> tuple[Files, ...]:
    return tuple(Files(files.directory, f"*{DAMAGED}") for files in _archive(settings))


ARCHIVED: Final = RowStore(
    name="archive",
    holds="reduced points of every stretch of the past, and the open span",
    taken_out="the buckets and open spans of the rows are made again without them",
    remains="copies and backups made before this; a file system may keep removed bytes",
    files=_archive,
)
SET_ASIDE: Final = RowStore(
    name="damaged files",
    holds="buckets of the archive that cannot be read, which a rebuild set aside",
    taken_out="removed where they are of the rows by their names",
    remains="others, which nobody can look into by their names: they are named",
    files=_damaged,
)
