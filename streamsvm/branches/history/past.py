"""Checkpoints that are kept at doubling distances: where learning begins again after rows are erased.

A generation that is superfluous in its directory is renamed instead of removed, to
``checkpoint-<incarnation>-<head>-<sequence>.<rows>.<model>.kept``: nothing is written twice. Of these those go that
others can stand for: some file, or the beginning, is from before a row that was learned `a` rows ago, and no older than
about `2 a` rows. So there are at most two files for each doubling of the rows.

Invariant: the number of rows in a name decides which files are kept, never what may be learned from one: that is what
the checkpoint itself says (`streamsvm.branches.history.erasure.lacks`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import inf
from typing import Final

from streamsvm.checkpoint.directory import LARGEST_FILE_BYTES
from streamsvm.checkpoint.disk import Disk
from streamsvm.checkpoint.format import decode
from streamsvm.checkpoint.snapshot import Snapshot
from streamsvm.errors import CorruptCheckpoint, TransientError

_NAME: Final = re.compile(r"(checkpoint-\d{6,}-\d{12,}-\d{12,})\.(\d{12,})\.(.+)\.kept", re.ASCII)


class Past:
    """The kept checkpoints of one model in a directory.

    Parameters
    ----------
    disk : Disk
    model : str
    """

    def __init__(self, disk: Disk, model: str) -> None:
        self._disk, self._model = disk, model

    @property
    def names(self) -> list[str]:
        """The files' names, the one with the most rows first."""
        return [name for _, name in self._files()]

    def snapshots(self) -> Iterator[Snapshot]:
        """Yield what they hold, the one with the most rows first; those that cannot be read are passed over."""
        for name in self.names:
            snapshot = self.read(name)
            if snapshot is not None:
                yield snapshot

    def read(self, name: str) -> Snapshot | None:
        """Return what a file holds; None where it cannot be read, or is another model's."""
        try:
            if self._disk.size(name) > LARGEST_FILE_BYTES:
                return None
            snapshot = decode(self._disk.read(name))
        except (OSError, CorruptCheckpoint):
            return None
        return snapshot if snapshot.name == self._model else None

    def keep(self, name: str, most_bytes: int, rows: int | None = None) -> None:
        """Keep a generation that is superfluous, under another name, and remove what it makes superfluous.

        Parameters
        ----------
        name : str
        most_bytes : int
            As of `superfluous`.
        rows : int, optional
            How many it has learned; where that is not known the file is read.

        Raises
        ------
        OSError
        """
        if rows is None:
            snapshot = self.read(name)
            rows = 0 if snapshot is None else rows_of(snapshot)
        if not rows:  # the beginning needs no file
            self._disk.remove(name)
            return
        self._disk.rename(name, f"{name.removesuffix('.ssvm')}.{rows:012d}.{self._model}.kept")
        learned, names = zip(*self._files(), strict=True)
        for at in superfluous(learned, [self._disk.size(kept) for kept in names], most_bytes):
            self._disk.remove(names[at])

    def remove_unless(self, kept: Callable[[Snapshot], bool]) -> list[str]:
        """Remove all files but those that are to be kept, also those that cannot be read; return their names.

        Raises
        ------
        TransientError
            If the disk refuses.
        """
        with _told(self._disk):
            gone = [name for name in self.names if (found := self.read(name)) is None or not kept(found)]
            for name in gone:
                self._disk.remove(name)
            if gone:
                self._disk.sync_names()
        return gone

    def _files(self) -> list[tuple[int, str]]:
        """Return rows and names, the most rows first."""
        found = [match for name in self._disk.names() if (match := _NAME.fullmatch(name)) and match[3] == self._model]
        return sorted(((int(match[2]), match[0]) for match in found), reverse=True)


def rows_of(snapshot: Snapshot) -> int:
    """Return how many rows a checkpoint has learned, of all partitions."""
    return sum(state.learned.rows for state in snapshot.learner.partitions.values())


def superfluous(rows: Sequence[int], sizes: Sequence[int], most_bytes: int) -> list[int]:
    """Return which files are to go.

    Parameters
    ----------
    rows : sequence of int
        Of each file, the most first. Behind the last one stands the beginning, which has none.
    sizes : sequence of int
        Bytes of each.
    most_bytes : int
        As much may stay; if all that are needed have more, those go that cost the least to do without.
    """
    left, gone = list(range(len(rows))), []
    while left:
        ages = [*(rows[left[0]] - rows[at] for at in left), rows[left[0]]]
        # Without a file, a row right before the next newer one costs what the next older one costs.
        ratios = [inf, *(ages[at + 1] / max(ages[at - 1], 1) for at in range(1, len(left)))]
        least = min(range(len(left)), key=lambda at: (ratios[at], -at))
        if ratios[least] > 2.0 and sum(sizes[at] for at in left) <= most_bytes:
            break
        gone.append(left.pop(least))
    return gone


@contextmanager
def _told(disk: Disk) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TransientError(
            f"checkpoints that were kept in {disk} cannot be removed: {error.strerror}", "Repair the disk."
        ) from None
