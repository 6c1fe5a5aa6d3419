"""The part ``erased``: which record of erased rows a checkpoint was made under.

A build that does not know the part refuses the checkpoint: it would learn the rows into what was learned without them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from streamsvm.branches.history.erased import MOST, Erased
from streamsvm.checkpoint.snapshot import RememberedPart, Snapshot
from streamsvm.coreset.state import Kind
from streamsvm.errors import CorruptCheckpoint

_SHA256: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
PART: Final = "erased"
"""The name of the part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Obeyed(RememberedPart):
    """Which record of erased rows a checkpoint was made under, from the first row that was learned on.

    Attributes
    ----------
    sha256 : str
        Of the record `name@erased`.
    continues : int
        The incarnation whose newest version this one continues: nothing is published before its cut is reached again.
        0: there is none.
    rows : int
        How many rows the record named.
    rows_sha256 : str
        SHA-256 of their places. Later records begin with the same ones, and with it a checkpoint shows which it knew.
    """

    sha256: str
    continues: int
    rows: int
    rows_sha256: str

    @classmethod
    def of(cls, erased: Erased, continues: int) -> Obeyed:
        """Return what a checkpoint says that is made under a record."""
        rows = len(erased.rows)
        return cls(sha256=erased.sha256, continues=continues, rows=rows, rows_sha256=erased.rows_sha256(rows))

    def check(self, incarnation: int) -> None:
        """Refuse what cannot be a record of erased rows."""
        hashes = _SHA256.fullmatch(self.sha256) and _SHA256.fullmatch(self.rows_sha256)
        if not hashes or not 0 <= self.continues < incarnation or not 0 < self.rows <= MOST:
            raise CorruptCheckpoint(
                f"incarnation {incarnation} is described as made under the record of erased rows {self.sha256[:64]!r}, "
                f"of {self.rows} rows, and as what continues incarnation {self.continues}"
            )


def obeyed_of(snapshot: Snapshot) -> Obeyed | None:
    """Return what a checkpoint was made under; None where no row was erased of the input."""
    return snapshot.part(PART, Obeyed)


def obeying(snapshot: Snapshot, obeyed: Obeyed | None) -> Snapshot:
    """Return a checkpoint that says what it was made under."""
    return snapshot.with_part(PART, obeyed)


KINDS: Final = (Kind(Obeyed, part=PART),)
