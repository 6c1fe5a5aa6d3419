"""The part ``erased``: which record of erased rows a checkpoint was made under.

A build that does not know the part would learn the rows into what was learned without them, so its name does not say
that it may be passed over.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from streamsvm.checkpoint.forms import Form, Part
from streamsvm.checkpoint.parts import PartOf
from streamsvm.checkpoint.snapshot import Obeyed, Snapshot
from streamsvm.errors import CorruptCheckpoint

_SHA256: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


class SnapshotErased(Form, tag_field="part", tag="erased"):
    """Of a snapshot: the SHA-256 of the record, and the incarnation that is continued."""

    sha256: str
    continues: int


def _joined(snapshot: Snapshot, sha256: str, continues: int) -> Snapshot:
    if not _SHA256.fullmatch(sha256) or not 0 <= continues < snapshot.incarnation:
        raise CorruptCheckpoint(
            f"incarnation {snapshot.incarnation} is described as made under the record of erased rows {sha256[:64]!r}, "
            f"and as what continues incarnation {continues}"
        )
    return replace(snapshot, erased=Obeyed(sha256=sha256, continues=continues))


SNAPSHOT: Final = Part(
    form=SnapshotErased,
    has=lambda snapshot: snapshot.erased is not None,
    of=lambda snapshot: {"sha256": snapshot.erased.sha256, "continues": snapshot.erased.continues},
    joined=_joined,
)
PLUGGED: Final = PartOf("snapshot", SNAPSHOT)
