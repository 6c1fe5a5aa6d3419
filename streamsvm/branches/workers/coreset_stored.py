"""What a reader of the coresets topic holds of one incarnation: manifests, and pieces of parts, by their bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from streamsvm.branches.workers.coreset_records import Complete, Manifest, Opening
from streamsvm.config import ModelConfig
from streamsvm.coreset.buckets import Bucket
from streamsvm.points import Position

PIECE_COST: Final = 4_096
"""Bytes that a piece, or a record without an opening, counts beside its value: some of memory, the rest for the time
that it takes to look at it at each adoption."""


@dataclass(slots=True)
class StoredManifest:
    """A manifest, and what is known of its parts."""

    manifest: Manifest
    headers: Mapping[str, bytes]
    offset: int
    size: int
    fault: str = ""
    """Why it is not complete; empty while nobody has looked, or since one of its parts came."""
    complete: Complete | None = None
    """What it is with its parts, where somebody has looked, and none of them came since."""
    beyond: bool = False
    """Whether it was said that it lies beyond the input."""


@dataclass(slots=True)
class StoredIncarnation:
    """What was read of one incarnation; the reader bounds the bytes of manifests, and of parts that none names.

    A bucket's name says its bytes, so one that was decoded for a manifest is decoded for no other: `decoded` has those
    of the adopted manifest, whose pieces are no longer held, and `met` those of the one that was complete last.
    """

    opening: Opening
    pieces: dict[str, dict[int, bytes]] = field(default_factory=dict)
    manifests: dict[Position, StoredManifest] = field(default_factory=dict)
    decoded: dict[str, Bucket] = field(default_factory=dict)
    met: dict[str, Bucket] = field(default_factory=dict)
    named: dict[str, set[Position]] = field(default_factory=dict)
    """Parts that manifests name, and where these stand."""
    unnamed: dict[str, int] = field(default_factory=dict)
    """Parts that no manifest names, the oldest first, and their bytes."""
    unnamed_bytes: int = 0
    manifest_bytes: int = 0
    config: ModelConfig | None = field(init=False)
    """That of the opening; None where this build does not know it, and then its states are not looked into."""

    def __post_init__(self) -> None:
        try:
            self.config = ModelConfig.model_validate(self.opening.configuration)
        except ValueError:
            self.config = None

    def put(self, stored: StoredManifest) -> None:
        """Hold a manifest."""
        self.drop(stored.manifest.at)
        self.manifests[stored.manifest.at] = stored
        self.manifest_bytes += stored.size
        for part in stored.manifest.parts:
            self.named.setdefault(part.name, set()).add(stored.manifest.at)
            self.unnamed_bytes -= self.unnamed.pop(part.name, 0)

    def drop(self, position: Position) -> None:
        """Hold a manifest no more; its parts may be those of a later one."""
        stored = self.manifests.pop(position, None)
        if stored is None:
            return
        self.manifest_bytes -= stored.size
        for part in stored.manifest.parts:
            positions = self.named.get(part.name, set())
            positions.discard(position)
            if not positions:
                self.named.pop(part.name, None)
                if part.name in self.pieces:
                    self._count(part.name)

    def put_piece(self, part: str, piece: int, value: bytes) -> None:
        """Hold a piece of a part."""
        self.pieces.setdefault(part, {})[piece] = value
        self._changed(part)

    def drop_piece(self, part: str, piece: int) -> None:
        """Hold a piece no more."""
        pieces = self.pieces.get(part, {})
        pieces.pop(piece, None)
        if not pieces:
            self.drop_part(part)
        self._changed(part)

    def drop_part(self, part: str) -> None:
        """Hold a part no more."""
        self.pieces.pop(part, None)
        self.unnamed_bytes -= self.unnamed.pop(part, 0)

    def _changed(self, part: str) -> None:
        for position in self.named.get(part, ()):
            stored = self.manifests[position]
            stored.fault, stored.complete = "", None
        if part not in self.named and part in self.pieces:
            self._count(part)

    def _count(self, part: str) -> None:
        size = sum(PIECE_COST + len(value) for value in self.pieces[part].values())
        self.unnamed_bytes += size - self.unnamed.get(part, 0)
        self.unnamed[part] = size
