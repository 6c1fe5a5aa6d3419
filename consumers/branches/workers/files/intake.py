"""What a worker reads files by, where it would read the input topic; and the files of what it rejects.

Dead letters are lines of JSON in one file for each partition: file, row, column, reason, message. No manifest passes
one that is not on the disk. Rows that are read again, after a kill, may have their lines twice.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from consumers.branches.workers.files.plan import FilesPlan
from consumers.branches.workers.files.rows import RejectedRow, Stretch, rows_in
from consumers.branches.workers.recordless import Recordless
from consumers.metrics import Metrics
from streamsvm.config import PointsConfig
from streamsvm.delivery.reading import Reading
from streamsvm.errors import ConfigurationError, TransientError
from streamsvm.ingest.decoder import REMEDIES
from streamsvm.points import Positions

MOST_REJECTED: Final = 1_000
"""Of the first rows: where so many are rejected and none is valid, the files, or the columns named, are wrong."""


class LetterFiles:
    """Files of rejected rows.

    Parameters
    ----------
    folder : Path
        It is made with the first of them.
    metrics : Metrics
    """

    def __init__(self, folder: Path, metrics: Metrics) -> None:
        self._folder, self._metrics = folder, metrics
        self._open: dict[int, int] = {}

    def write(self, rejected: tuple[RejectedRow, ...]) -> None:
        """Append lines; each is written at once, since others may append to the same file.

        Raises
        ------
        TransientError
            If the disk refuses.
        """
        try:
            for bad in rejected:
                line = msgspec.json.encode(bad) + b"\n"
                if os.write(self._file(bad.partition), line) < len(line):  # the disk became full within it
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                self._metrics.increase("streamsvm_dead_letters", 1, reason=bad.reason)
        except OSError as error:
            raise self._refused(error) from error

    def flush(self) -> None:
        """Return when all of it is on the disk; raises `TransientError` if the disk refuses."""
        try:
            for file in self._open.values():
                os.fsync(file)
        except OSError as error:
            raise self._refused(error) from error

    def close(self) -> None:
        """Let go of the files."""
        for file in self._open.values():
            os.close(file)
        self._open = {}

    def _file(self, partition: int) -> int:
        if partition not in self._open:
            self._folder.mkdir(parents=True, exist_ok=True)
            path = self._folder / f"partition-{partition:05d}.jsonl"
            self._open[partition] = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640)
        return self._open[partition]

    def _refused(self, error: OSError) -> TransientError:
        return TransientError(
            f"rejected rows cannot be written to {self._folder}: {error.strerror}",
            "Make room, or give another folder with --dead-letters, and start the backfill again.",
        )


class FilesIntake(Recordless):
    """Reads rows of files into what learns them: a `consumers.trainer.source.Source`.

    Parameters
    ----------
    plan : FilesPlan
    config : PointsConfig
    reading : Reading
        Where rows go.
    letters : LetterFiles
    """

    def __init__(self, plan: FilesPlan, config: PointsConfig, reading: Reading, letters: LetterFiles) -> None:
        super().__init__(reading)
        self._plan, self._config, self._reading, self._letters = plan, config, reading, letters
        self._stretches: Iterator[Stretch] = iter(())
        self._rejected = 0

    def surveyed(self) -> tuple[Positions, Positions]:
        """See `Source.surveyed`."""
        return self._reading.learner.positions, self._reading.learner.positions

    def assign(self, offsets: Mapping[int, int]) -> None:
        """Read on from the learner's positions, which offsets alone do not tell."""
        origin, positions = self._plan.origin, self._reading.learner.positions
        learned = {partition: origin.row_at(partition, positions[partition]) for partition in offsets}
        self._stretches = rows_in(self._plan, self._config, learned)

    def read(self, most: int, timeout_s: float) -> int:  # noqa: ARG002 - a file is there, or it is not
        """Take in rows, at least `most` where there are as many.

        Raises
        ------
        ConfigurationError
            If a file cannot be read, or nothing in it is valid.
        StateError
            If it is another one than was hashed.
        """
        came = 0
        for stretch in self._stretches:
            self._letters.write(stretch.rejected)
            self._reading.offer(stretch.rows)
            self._rejected += len(stretch.rejected)
            if stretch.rejected and self._rejected >= MOST_REJECTED and not self._reading.points_accepted():
                raise self._wrong(stretch.rejected[0])
            came += len(stretch.rows)
            if came >= most:
                break
        return came

    def flush(self, timeout_s: float) -> None:  # noqa: ARG002 - the disk takes what it takes
        """Return when all letters are on the disk; raises `TransientError` if it refuses."""
        self._letters.flush()

    def _wrong(self, first: RejectedRow) -> ConfigurationError:
        return ConfigurationError(
            f"the first {self._rejected:,} rows were rejected, for example row {first.row} of {first.file}, column "
            f"{first.column or '(several)'}: {first.message}",
            f"{REMEDIES[first.reason]} Or name the columns: --label, --features, --weight.",
        )
