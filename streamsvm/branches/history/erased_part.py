"""The part ``erased``: which record of erased rows a checkpoint was made under.

A build that does not know the part would learn the rows into what was learned without them, so its name does not say
that it may be passed over.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any, Final

from streamsvm.branches.history.erased import MOST, Erased
from streamsvm.checkpoint.forms import Form, OptionalPart
from streamsvm.checkpoint.parts import PartOf
from streamsvm.checkpoint.snapshot import RememberedPart, Snapshot
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


def obeyed_of(snapshot: Snapshot) -> Obeyed | None:
    """Return what a checkpoint was made under; None where no row was erased of the input."""
    return snapshot.part(PART, Obeyed)


def obeying(snapshot: Snapshot, obeyed: Obeyed | None) -> Snapshot:
    """Return a checkpoint that says what it was made under."""
    return snapshot.with_part(PART, obeyed)


class SnapshotErased(Form, tag_field="part", tag=PART):
    """Of a snapshot: the SHA-256 of the record, the incarnation that is continued, and which rows were known."""

    sha256: str
    continues: int
    rows: int
    rows_sha256: str


def _joined(snapshot: Snapshot, **own: Any) -> Snapshot:
    obeyed = Obeyed(**own)
    sha256, continues, rows = obeyed.sha256, obeyed.continues, obeyed.rows
    hashes = _SHA256.fullmatch(sha256) and _SHA256.fullmatch(obeyed.rows_sha256)
    if not hashes or not 0 <= continues < snapshot.incarnation or not 0 < rows <= MOST:
        raise CorruptCheckpoint(
            f"incarnation {snapshot.incarnation} is described as made under the record of erased rows {sha256[:64]!r}, "
            f"of {rows} rows, and as what continues incarnation {continues}"
        )
    return obeying(snapshot, obeyed)


SNAPSHOT: Final = OptionalPart(
    form=SnapshotErased,
    has=lambda snapshot: obeyed_of(snapshot) is not None,
    of=lambda snapshot: asdict(snapshot.parts[PART]),
    joined=_joined,
)
PLUGGED: Final = PartOf("snapshot", SNAPSHOT)
