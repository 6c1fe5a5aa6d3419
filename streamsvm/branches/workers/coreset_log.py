"""The coresets topic as it is read back: which manifest of a partition is complete, and what can be cleared away.

Records are offered in the order of the log, whoever wrote them: what is damaged, foreign or incomplete is passed over
by name. What they mean is `streamsvm.branches.workers.coreset_records`; in which order honest writers write them, so
that at every prefix of the log the highest manifest is complete, `streamsvm.branches.workers.coreset_writer`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple, TypeVar

import msgspec

from streamsvm.branches.workers.coreset_records import (
    FORMAT,
    KEY,
    PIECE_BYTES,
    Complete,
    Manifest,
    Opening,
    PartEntry,
    placed,
)
from streamsvm.branches.workers.coreset_stored import PIECE_COST, StoredIncarnation, StoredManifest
from streamsvm.coreset.buckets import Bucket
from streamsvm.coreset.partition import PartitionState
from streamsvm.coreset.state import CHECKSUM_BYTES, check_partition, decode_state
from streamsvm.errors import CorruptCheckpoint
from streamsvm.places import whole_number
from streamsvm.points import Position, Rows

LARGEST_PART: Final = 1 << 34
"""Most bytes of a part: a manifest that names a larger one is damaged."""
LARGEST_SMALL: Final = 1 << 20
"""Most bytes of an opening or a manifest."""
LONGEST_KEY: Final = 1_000
"""Most characters of a key that is remembered."""
MANIFEST_COST: Final = 2_048
MOST_INCARNATIONS: Final = 100_000_000
"""Keys have eight digits of the number."""

Kind = TypeVar("Kind")


class SkippedRecord(NamedTuple):
    """A record that was passed over, and why."""

    offset: int
    key: str
    why: str


class PartitionLog:
    """What a partition of the coresets topic holds of one model; records are offered in the order of the log.

    Whoever may write to the topic may write what nobody needs. So what is held of it is bounded by bytes: records whose
    opening is not there yet, parts that no manifest names, and manifests that are not complete. What honest writers
    leave is far below the bounds, and what is given up beyond them is read again where it is needed (`again`).

    Parameters
    ----------
    name : str
        The model's; records of others are passed over.
    partition : int
    dimension : int
        Number of features, which every state must have.

    Attributes
    ----------
    faults : list of SkippedRecord
        What was passed over since somebody took it; at most `MOST_FAULTS`.
    more_faults : int
        How many there were beyond these.
    rewritten_headers : mapping of str to bytes
        Headers of the adopted manifest, where it was written again since.
    """

    MOST_FAULTS: Final = 20
    MOST_EARLY_BYTES: Final = 64 << 20
    MOST_UNNAMED_BYTES: Final = 256 << 20
    MOST_MANIFEST_BYTES: Final = 16 << 20
    MOST_KEYS: Final = 200_000
    """Keys that `garbage` looks at: what is beyond them is cleared away later."""

    def __init__(self, name: str, partition: int, dimension: int) -> None:
        self._name, self._partition, self._dimension = name, partition, dimension
        self._newest: StoredIncarnation | None = None
        self._early: list[tuple[int, str, bytes | None, Mapping[str, bytes]]] = []
        self._early_bytes = 0
        self._early_lost = self._parts_lost = self._pinned = self._lacks = False
        self._closed: set[int] = set()
        self._ignored: frozenset[int] = frozenset()
        self._adopted = Position(-1)
        self._alive: tuple[tuple[Position, Position], ...] = ()
        self._live: dict[str, None] = {}
        self.faults: list[SkippedRecord] = []
        self.more_faults = 0
        self.rewritten_headers: Mapping[str, bytes] = {}

    @property
    def partition(self) -> int:
        """Of the topic."""
        return self._partition

    @property
    def opening(self) -> Opening | None:
        """Of the highest incarnation; None before any was read."""
        return None if self._newest is None else self._newest.opening

    @property
    def again(self) -> bool:
        """Whether the log is to be read again from its beginning, by what `rest` returns.

        An opening was taken back, so that another one counts, or something that was given up is needed.
        """
        return self._lacks or (self.taken_back and not self._pinned)

    @property
    def taken_back(self) -> bool:
        """Whether the opening that is followed has a tombstone."""
        return self.opening is not None and self.opening.incarnation in self._closed

    def rest(self) -> PartitionLog:
        """Return what reads the log again, and knows beforehand what it will need."""
        found = PartitionLog(self._name, self._partition, self._dimension)
        found._live, found._pinned, own = self._live, self._pinned, self._newest
        found._ignored = found._ignored | self._closed
        if own is not None and (self._pinned or own.opening.incarnation not in self._closed):
            found._newest = StoredIncarnation(own.opening)
            found._adopted, found._alive = self._adopted, self._alive
            found._newest.decoded, found._newest.met = own.decoded, own.met
            for stored in own.manifests.values():
                found._newest.put(stored)
        return found

    def pin(self, opening: Opening) -> None:
        """Follow this opening from now on, and no other, whatever comes."""
        self._begin(opening)
        self._pinned, self._lacks, self._early = True, False, []

    def feed(self, offset: int, key: bytes | None, value: bytes | None, headers: Mapping[str, bytes]) -> None:
        """Take in a record; a value of None is a tombstone."""
        text = "" if key is None else key.decode("utf-8", "replace")
        if not text.startswith(f"{self._name}/"):
            return
        if value is None:
            self._live.pop(text, None)
        elif len(self._live) < self.MOST_KEYS and len(text) <= LONGEST_KEY:
            self._live[text] = None
        if text.startswith(f"{self._name}/o/"):
            self._open(offset, text, value)
            return
        if self._newest is None or not text.startswith(self._newest.opening.prefix):
            # Of an incarnation that is over, or whose opening was written anew behind it: compaction keeps the last.
            if not self._pinned and (self._newest is None or text > self._newest.opening.prefix):
                self._hold_early(offset, text, value, headers)
            return
        self._take(self._newest, offset, text, value, headers)

    def _hold_early(self, offset: int, key: str, value: bytes | None, headers: Mapping[str, bytes]) -> None:
        self._early_bytes += PIECE_COST + len(key) + len(value or b"")
        if self._early_bytes > self.MOST_EARLY_BYTES:
            if not self._early_lost:
                self._fault(offset, key, "there is no opening yet for more bytes of records than are held")
            self._early, self._early_lost = [], True
            return
        self._early.append((offset, key, value, headers))

    def _open(self, offset: int, key: str, value: bytes | None) -> None:
        number = whole_number(key.removeprefix(f"{self._name}/o/"), MOST_INCARNATIONS)
        if value is None:
            if number is not None and len(self._closed) < self.MOST_KEYS:
                self._closed.add(number)
            return
        try:
            opening = _decoded(value, Opening)
            if opening.format != FORMAT or opening.name != self._name or opening.key.decode() != key:
                raise CorruptCheckpoint(f"the opening is of format {opening.format} and of {opening.key.decode()}")
            if opening.partition != self._partition:
                raise CorruptCheckpoint(f"the opening is of partition {opening.partition}")
        except CorruptCheckpoint as error:
            self._fault(offset, key, error.what)
            return
        known = self._newest
        self._closed.discard(opening.incarnation)
        if self._pinned:
            if known is not None and opening.incarnation > known.opening.incarnation:
                self._fault(offset, key, f"this trainer is at incarnation {known.opening.incarnation}")
            return
        over = known is not None and opening.incarnation < known.opening.incarnation
        if not over and opening.incarnation not in self._ignored:
            self._begin(opening)

    def _begin(self, opening: Opening) -> None:
        if self._newest is not None and self._newest.opening.prefix == opening.prefix:
            return
        own = self._newest = StoredIncarnation(opening)
        self._adopted, self._alive = Position(-1), ()
        early, self._early = self._early, []
        self._lacks, self._early_lost, self._early_bytes = self._early_lost, False, 0
        for one in early:
            if one[1].startswith(opening.prefix):
                self._take(own, *one)
            elif one[1] > opening.prefix:
                self._hold_early(*one)

    def _take(
        self, own: StoredIncarnation, offset: int, key: str, value: bytes | None, headers: Mapping[str, bytes]
    ) -> None:
        found = KEY.fullmatch(key.removeprefix(own.opening.prefix))
        if found is None:
            self._fault(offset, key, "the key is of no kind that this build knows")
            return
        if found["manifest"] is not None:
            self._take_manifest(own, offset, key, placed(found["manifest"]), value, headers)
            return
        part, piece = found["part"], int(found["piece"])
        if value is None:
            own.drop_piece(part, piece)
        elif len(value) > PIECE_BYTES:
            self._fault(offset, key, f"the piece has {len(value)} bytes, more than {PIECE_BYTES}")
        elif not self._is_dead(found) and part not in own.decoded:
            own.put_piece(part, piece, value)
            while own.unnamed_bytes > self.MOST_UNNAMED_BYTES:
                oldest = next(iter(own.unnamed))
                own.drop_part(oldest)
                if not self._parts_lost:
                    why = "there are more bytes of parts that no manifest names than are held"
                    self._fault(offset, own.opening.prefix + oldest, why)
                self._parts_lost = True

    def _take_manifest(
        self,
        own: StoredIncarnation,
        offset: int,
        key: str,
        position: Position,
        value: bytes | None,
        headers: Mapping[str, bytes],
    ) -> None:
        if value is None:
            own.drop(position)
            return
        try:
            manifest = _decoded(value, Manifest)
            if manifest.at != position:
                raise CorruptCheckpoint(f"the manifest is of position {(*manifest.at,)}")
            for part in manifest.parts:
                if not 0 < part.size <= LARGEST_PART or KEY.fullmatch(f"{part.name}/0") is None:
                    raise CorruptCheckpoint(f"the manifest names a part of {part.size} bytes, {part.name!r}")
        except CorruptCheckpoint as error:
            self._fault(offset, key, error.what)
            return
        if position > self._adopted:
            own.put(StoredManifest(manifest, headers, offset, MANIFEST_COST + 3 * len(value)))
            if own.manifest_bytes > self.MOST_MANIFEST_BYTES:
                self._shed(own)
        elif position == self._adopted:
            self.rewritten_headers = headers

    def _shed(self, own: StoredIncarnation) -> None:
        """Hold half as many manifests: give up those that are not complete, the oldest first."""
        half, offset = self.MOST_MANIFEST_BYTES // 2, -1
        for stored in sorted(own.manifests.values(), key=lambda one: one.offset):
            if own.manifest_bytes > half and self._missing(own, stored.manifest):
                own.drop(stored.manifest.at)
                offset, self.more_faults = stored.offset, self.more_faults + 1
        if own.manifest_bytes > half:  # all that is left seems complete: nothing below the highest that is, is needed
            highest = self.highest()
            for position in list(own.manifests):
                if highest is None or position < highest.manifest.at or own.manifests[position].fault:
                    own.drop(position)
                    self.more_faults += 1
        if offset >= 0:
            self._fault(offset, own.opening.prefix + "m/", "there are more manifests without their parts than are held")

    def claimed(self) -> tuple[int, int]:
        """Return the most rows, and the highest offset, that a manifest names which may be complete; (0, -1) of none.

        Nobody has looked whether it is: this only tells whether it is worth looking. Below one that is, none counts.
        """
        own = self._newest
        may = [] if own is None else [one for one in own.manifests.values() if not one.fault]
        least = max((one.manifest.at for one in may if one.complete is not None), default=self._adopted)
        found = [one.manifest for one in may if one.manifest.at >= least]
        return max((one.rows for one in found), default=0), max((one.at.offset for one in found), default=-1)

    def highest(self, end: int | None = None) -> Complete | None:
        """Return the manifest of the highest position that is complete, past what was adopted; None if there is none.

        Those above it are passed over by name, once each, until one of their parts comes.

        Parameters
        ----------
        end : int, optional
            Where the input ends: nobody can have learned what lies beyond, so manifests there are passed over.
        """
        own = self._newest
        if own is None:
            return None
        for position in sorted(own.manifests, reverse=True):
            stored = own.manifests[position]
            if end is not None and position > Position(end):
                if not stored.beyond:
                    stored.beyond = True
                    key = own.opening.prefix + stored.manifest.key
                    self._fault(stored.offset, key, f"the input ends at {end}: nobody has learned what lies beyond")
                continue
            if stored.complete is not None:
                return stored.complete
            if stored.fault:
                continue
            try:
                complete = self._completed(own, stored)
                for other in own.manifests.values():
                    other.complete = None
                stored.complete, own.met = complete, _by_name(complete)
                return complete
            except CorruptCheckpoint as error:
                stored.fault = str(error)
                self._lacks |= self._parts_lost and bool(self._missing(own, stored.manifest))
                self._fault(stored.offset, own.opening.prefix + stored.manifest.key, stored.fault)
        return None

    def adopt(self, complete: Complete) -> None:
        """Forget what lies below a complete manifest; its buckets are kept as they were decoded."""
        own, manifest = self._newest, complete.manifest
        assert own is not None
        self.rewritten_headers = {}
        self._adopted = manifest.at
        self._alive = tuple((bucket.extent.start, bucket.extent.end) for bucket in complete.state.buckets)
        own.decoded = own.met = _by_name(complete)
        for position in [position for position in own.manifests if position <= manifest.at]:
            own.drop(position)
        for name in [name for name in own.pieces if name in own.decoded or self._is_dead(_match(name))]:
            own.drop_part(name)

    def garbage(self) -> list[bytes]:
        """Return the keys in the log that no manifest past the adopted one will name: to be given tombstones.

        Records of incarnations that are over are among them; what may belong to a higher manifest is not.
        """
        own, found = self._newest, list[str]()
        if own is None:
            return []
        prefix = own.opening.prefix
        for key in self._live:
            if key.startswith(prefix):
                matched = KEY.fullmatch(key.removeprefix(prefix))
                if matched is None:
                    continue
                if matched["manifest"] is not None:
                    dead = placed(matched["manifest"]) < self._adopted
                else:
                    dead = self._is_dead(matched)
            else:
                dead = self._is_over(key, own.opening)
            if dead:
                found.append(key)
        return [key.encode() for key in found]

    def take_faults(self) -> list[SkippedRecord]:
        """Return what was passed over since the last call."""
        faults, self.faults, self.more_faults = self.faults, [], 0
        return faults

    def _is_dead(self, key: re.Match[str]) -> bool:
        """Return whether a part lies below what was adopted, and is certain to be named by no higher manifest."""
        if key["at"] is not None:
            return placed(key["at"]) < self._adopted
        start, end = placed(key["start"]), placed(key["end"])
        if not self._alive:
            return False
        # Merged into one that lives, or forgotten. One that holds living ones may be yet to come.
        return end <= self._alive[0][0] or any(
            low <= start and end <= high and (low, high) != (start, end) for low, high in self._alive
        )

    def _is_over(self, key: str, opening: Opening) -> bool:
        """Return whether a key that is not of this incarnation is of one before it."""
        plain = key.removeprefix(f"{self._name}/o/")
        number = whole_number(plain.removeprefix(f"{self._name}/")[:8])
        if number is None:
            return False
        # One of the same number, but another base or configuration, was begun before this one under the same key.
        return number < opening.incarnation or (plain == key and number == opening.incarnation)

    def _completed(self, own: StoredIncarnation, stored: StoredManifest) -> Complete:
        manifest = stored.manifest
        missing = self._missing(own, manifest)
        if missing:
            raise CorruptCheckpoint(
                f"the manifest at {(*manifest.at,)} names {len(manifest.parts)} parts, but {len(missing)} of them are "
                f"not there whole, such as {missing[0]}"
            )
        buckets = tuple(self._bucket(own, part) for part in manifest.buckets)
        state = replace(self._value(own, manifest.rest, PartitionState), buckets=buckets)
        if state.position != manifest.at:
            raise CorruptCheckpoint(f"the parts of the manifest at {(*manifest.at,)} end at {(*state.position,)}")
        config = own.config
        if not config:
            raise CorruptCheckpoint("the opening has options that this build does not know")
        if state.leaf.dimension != self._dimension:
            raise CorruptCheckpoint(
                f"the manifest at {(*manifest.at,)} is of rows of {state.leaf.dimension} features, and not of this "
                f"trainer's {self._dimension}"
            )
        check_partition(state, config)
        if state.learned.rows != manifest.rows:
            raise CorruptCheckpoint(
                f"the manifest at {(*manifest.at,)} is of {manifest.rows} rows, its parts of {state.learned.rows} rows"
            )
        newest = None
        if manifest.newest is not None:
            newest = self._value(own, manifest.newest, Rows)
            if (newest.partition, newest.points.dimension) != (self._partition, self._dimension):
                raise CorruptCheckpoint(
                    f"the newest rows of the manifest at {(*manifest.at,)} are of another partition"
                )
        return Complete(manifest, state, newest, stored.headers)

    def _missing(self, own: StoredIncarnation, manifest: Manifest) -> list[str]:
        return [part.name for part in manifest.parts if not self._is_there(own, part)]

    def _is_there(self, own: StoredIncarnation, part: PartEntry) -> bool:
        if part.name in own.decoded:
            return True
        pieces = own.pieces.get(part.name, {})
        return len(pieces) >= part.pieces and sum(len(pieces.get(at, b"")) for at in range(part.pieces)) == part.size

    def _bucket(self, own: StoredIncarnation, part: PartEntry) -> Bucket:
        return own.decoded.get(part.name) or own.met.get(part.name) or self._value(own, part, Bucket)

    def _value(self, own: StoredIncarnation, part: PartEntry, kind: type[Kind]) -> Kind:
        pieces = own.pieces[part.name]
        value = b"".join(pieces[at] for at in range(part.pieces))
        if value[-CHECKSUM_BYTES:].hex() != part.name.rpartition("#")[2]:
            raise CorruptCheckpoint(f"the part {part.name} has the bytes of another one")
        names, found = decode_state(value, kind, f"part {part.name}")
        if names != own.opening.names:
            raise CorruptCheckpoint(f"the part {part.name} is of another state, named {names}")
        return found

    def _fault(self, offset: int, key: str, why: str) -> None:
        if len(self.faults) < self.MOST_FAULTS:
            self.faults.append(SkippedRecord(offset, key[:LONGEST_KEY], why))
        else:
            self.more_faults += 1


def _by_name(complete: Complete) -> dict[str, Bucket]:
    return {part.name: one for part, one in zip(complete.manifest.buckets, complete.state.buckets, strict=True)}


def _match(part: str) -> re.Match[str]:
    found = KEY.fullmatch(f"{part}/0")
    assert found is not None
    return found


def _decoded(value: bytes, kind: type[Kind]) -> Kind:
    if len(value) > LARGEST_SMALL:
        raise CorruptCheckpoint(f"the record has {len(value)} bytes, more than {LARGEST_SMALL}")
    try:
        return msgspec.json.decode(value, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CorruptCheckpoint(f"the record is damaged: {error}") from None
