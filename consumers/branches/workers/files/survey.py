"""What files hold: their digests, and the rows of each partition in each part. Each file is gone through once.

Of the columns only that is read by which a row's partition is chosen.
"""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from consumers.branches.workers.files.plan import FilePart, FoundFile
from consumers.branches.workers.files.tables import FORMATS, TableFile, format_of, texts, whole_numbers
from streamsvm.branches.workers.files_part import MOST_FILES, Layout, NamedFile
from streamsvm.branches.workers.key_partitions import partitions_of
from streamsvm.errors import ConfigurationError
from streamsvm.ingest.files.faults import listed, reading

ANEW: Final = "Give files of one schema, or convert them."


def found_in(paths: Sequence[Path]) -> list[FoundFile]:
    """Return the files of some paths in the order of reading: as given, those of a folder by their names.

    Raises
    ------
    ConfigurationError
        If there are none, too many, one of an unknown format, or two of one name.
    """
    files = [file for path in paths for file in (_below(path) if path.is_dir() else [_found(path, path.parent)])]
    if not files:
        raise ConfigurationError(
            f"no points were found in {listed([str(path) for path in paths])}",
            f"Give files, or folders of files, that end in {', '.join(FORMATS)}.",
        )
    if len(files) > MOST_FILES:
        raise ConfigurationError(
            f"there are {len(files):,} files, but a version can name only {MOST_FILES:,}", "Join small files."
        )
    names = [file.name for file in files]
    twice = next((name for index, name in enumerate(names) if name in names[:index]), None)
    if twice is not None:
        raise ConfigurationError(
            f"two of the files would be called {twice}",
            "Give the folder that holds both, so that their names differ, and each file once.",
        )
    return files


def _below(folder: Path) -> list[FoundFile]:
    """Return the files of a folder, hidden ones and those of other formats (``_SUCCESS``) left out."""
    below = (path for path in folder.rglob("*") if path.is_file() and format_of(path) is not None)
    shown = [path for path in below if not any(part[0] in "._" for part in path.relative_to(folder).parts)]
    return [_found(path, folder) for path in sorted(shown, key=lambda path: path.relative_to(folder).parts)]


def _found(path: Path, root: Path) -> FoundFile:
    try:
        known = path.stat()
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}", "Give a file or a folder.") from None
    if format_of(path) is None:
        raise ConfigurationError(f"{path} is of an unknown format", f"Give files that end in {', '.join(FORMATS)}.")
    if not stat.S_ISREG(known.st_mode):
        raise ConfigurationError(f"{path} is a pipe: it cannot be read twice", "Give a regular file or a folder.")
    relative = path.relative_to(root)
    try:
        relative.as_posix().encode()
    except UnicodeEncodeError:
        raise ConfigurationError(
            f"the name {str(path)!a} is not UTF-8, and versions name their files", "Rename the file."
        ) from None
    pairs = (part.split("=", 1) for part in relative.parts[:-1] if "=" in part)
    return FoundFile(
        path=str(path.absolute()),
        name=relative.as_posix(),
        size=known.st_size,
        changed_ns=known.st_mtime_ns,
        constants={name: value for name, value in pairs if name},
    )


def opened(file: FoundFile) -> TableFile:
    """Return a file, opened; raises `ConfigurationError` if it cannot be read."""
    return TableFile(Path(file.path), file.constants)


def require_one_schema(files: Sequence[FoundFile], layout: Layout) -> None:
    """Refuse files of which one has other columns, or columns of other types, than the first.

    Raises
    ------
    ConfigurationError
    """
    first = opened(files[0]).kinds(layout)
    for file in files[1:]:
        kinds = opened(file).kinds(layout)
        other = next((name for name in first if kinds[name] != first[name]), None)
        if other is not None:
            raise ConfigurationError(
                f"the schema changes at {file.name}: the column {other} is {kinds[other]} there, and {first[other]} in "
                f"{files[0].name}",
                ANEW,
            )


@dataclass(frozen=True, slots=True)
class Survey:
    """What was found.

    Attributes
    ----------
    named : tuple of NamedFile
    parts : tuple of FilePart
    rows : tuple of int
        Of each partition.
    """

    named: tuple[NamedFile, ...]
    parts: tuple[FilePart, ...]
    rows: tuple[int, ...]


def survey(
    files: Sequence[FoundFile], layout: Layout, partitions: int, show: Callable[[int], None] = lambda _: None
) -> Survey:
    """Go through files once.

    Parameters
    ----------
    files : sequence of FoundFile
    layout : Layout
    partitions : int
        Of the topic.
    show : callable
        Takes the bytes of the files that are done.

    Raises
    ------
    ConfigurationError
        If a file cannot be read, changes its schema, or has a row of which nobody can say the partition.
    StateError
        If a file is changed meanwhile.
    """
    require_one_schema(files, layout)
    parts, named, done = list[FilePart](), list[NamedFile](), 0
    for index, file in enumerate(files):
        digest = sha256_of(Path(file.path))
        first_row = 0
        for part in range((table := opened(file)).parts):
            table.require_bounded(part, layout.columns)
            counts = np.zeros(partitions, np.int64)
            for found in _partitions_in(table, file, part, layout, partitions, first_row):
                counts += np.bincount(found, minlength=partitions)
            rows = tuple(counts.tolist())
            parts.append(FilePart(file=index, index=part, first_row=first_row, rows=rows))
            first_row += sum(rows)
        file.require_unchanged()
        named.append(NamedFile(file.name, digest, first_row))
        done += file.size
        show(done)
    totals = tuple(sum(part.rows[partition] for part in parts) for partition in range(partitions))
    return Survey(tuple(named), tuple(parts), totals)


def sha256_of(path: Path) -> str:
    """Return the digest of a file's bytes; raises `ConfigurationError` if it cannot be read."""
    with reading(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _partitions_in(
    table: TableFile, file: FoundFile, part: int, layout: Layout, partitions: int, first_row: int
) -> Iterator[NDArray[np.int64]]:
    """Yield the partition of each row of a part, batch by batch."""
    by = layout.partition or layout.key
    row = first_row
    for batch in table.tables(part, [by] if by else list(layout.columns[:1])):
        column = batch.column(by) if by else None
        yield partitions_in(column, len(batch), file.name, row, layout, partitions)
        row += len(batch)


def partitions_in(
    column: Any | None, rows: int, name: str, first_row: int, layout: Layout, partitions: int
) -> NDArray[np.int64]:
    """Return the partition of each row of a batch, by the column that decides; None: there is one partition.

    Raises
    ------
    ConfigurationError
        If a row has no key, or the topic does not have its partition.
    """
    if column is None:
        return np.zeros(rows, np.int64)
    decided = texts(column) if layout.key and not layout.partition else whole_numbers(column)
    if decided.null_count:
        at = int(np.flatnonzero(decided.is_null().to_numpy(zero_copy_only=False))[0])
        raise _undecided(name, first_row + at, layout, "is empty, or cannot be read")
    if layout.key and not layout.partition:
        _, borders, text = decided.buffers()
        ends = np.frombuffer(borders, np.int64, rows + 1, decided.offset * 8)
        if layout.partitioner == "crc32" and (empty := np.flatnonzero(ends[1:] == ends[:-1])).size:
            raise _undecided(name, first_row + int(empty[0]), layout, "has no bytes, for which librdkafka draws lots")
        own = np.frombuffer(text, np.uint8) if text is not None and text.size else np.zeros(0, np.uint8)
        return partitions_of(own, ends, partitions, layout.partitioner)  # type: ignore[arg-type]
    found = np.asarray(decided.to_numpy(zero_copy_only=False), np.int64)
    wrong = (found < 0) | (found >= partitions)
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        raise _undecided(name, first_row + at, layout, f"is {found[at]}, but the topic has {partitions} partitions")
    return found


def _undecided(name: str, row: int, layout: Layout, problem: str) -> ConfigurationError:
    column = layout.partition or layout.key
    return ConfigurationError(
        f"{name}: row {row + 1}, column {column}: it {problem}: nobody can say in which partition such a row lies",
        "Correct the row or remove it. Streaming can go on only where each row has its partition.",
    )
