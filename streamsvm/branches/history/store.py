"""The archive's directory: buckets under their own names, each written whole or not at all.

Beside the buckets stand `archive.json`, which says of what they are and where their numbers begin, a file
``open-<partition>.state`` for each partition with its open span, so that a restart reads nothing again, and
`forgotten.json`, the places of rows that no bucket may be made of. While rows are being forgotten, `forgetting.json`
names them, and the buckets that must go. All of it but these two only caches what the log gave: whatever is lost is
made again from the log while that holds the rows, byte for byte. What the log has lost by then, only the archive has:
back it up.

Invariant: a name leads to the bytes that it was given for, checked at every read. A bucket is on the disk before the
state that needs it no more, and both are before the checkpoint that passes over their rows.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from streamsvm.branches.history import forgotten as forgotten_rows
from streamsvm.branches.history.names import Node
from streamsvm.checkpoint.disk import Disk
from streamsvm.checkpoint.records import decode_bucket, decode_partition, encode_bucket, encode_partition
from streamsvm.config import ModelConfig
from streamsvm.coreset.spans import OPEN
from streamsvm.coreset.structure import Bucket
from streamsvm.errors import CorruptCheckpoint, StateError, TransientError
from streamsvm.learning.partition_state import PartitionState
from streamsvm.model.left_out import LeftOut
from streamsvm.points import Position

FORMAT: Final = "streamsvm.archive/1"
IDENTITY: Final = "archive.json"
FORGOTTEN: Final = "forgotten.json"
UNDER_WAY: Final = "forgetting.json"
PARTIAL: Final = ".partial"
DAMAGED: Final = ".damaged"
"""What is added to the name of a file that is not what it says."""
LARGEST_FILE_BYTES: Final = 1 << 32
_LENGTH: Final = struct.Struct("<Q")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderWay:
    """A forgetting that was begun.

    Attributes
    ----------
    positions : mapping of partition to positions
        Of its rows.
    old : tuple of Node
        The buckets that hold them.
    saved : bool
        Whether everything that takes the place of these buckets, and that the log is needed for, is on the disk.
    archive_only : bool
        Whether the rows leave the archive alone, and not what its trainer learned.
    """

    positions: forgotten_rows.Forgotten
    old: tuple[Node, ...]
    saved: bool = False
    archive_only: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Of what an archive is.

    Attributes
    ----------
    name : str
        Of the model beside whose checkpoints it stands.
    topic, topic_id : str
        The input.
    config : ModelConfig
        By which buckets are made, as of `streamsvm.branches.history.stretches.archived`.
    base : mapping of partition to Position
        Where the numbers of the newest incarnation begin.
    """

    name: str
    topic: str
    topic_id: str
    config: ModelConfig
    base: Mapping[int, Position]

    def encode(self) -> bytes:
        """Return the bytes of `archive.json`."""
        plain = {
            "format": FORMAT,
            "name": self.name,
            "topic": self.topic,
            "topic_id": self.topic_id,
            "configuration": self.config.canonical(),
            "base": {str(partition): list(at) for partition, at in sorted(self.base.items())},
        }
        return json.dumps(plain, indent=1, sort_keys=True).encode() + b"\n"

    @staticmethod
    def decode(content: bytes) -> Identity:
        """Read the bytes of `archive.json`.

        Raises
        ------
        CorruptCheckpoint
        """
        try:
            plain: dict[str, Any] = json.loads(content)
            if plain["format"] != FORMAT:
                raise CorruptCheckpoint(f"its format is {plain['format']}; this build reads {FORMAT}")
            return Identity(
                name=str(plain["name"]),
                topic=str(plain["topic"]),
                topic_id=str(plain["topic_id"]),
                config=ModelConfig.of_canonical(plain["configuration"]),
                base={int(partition): Position(int(at[0]), int(at[1])) for partition, at in plain["base"].items()},
            )
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError) as error:
            raise CorruptCheckpoint(f"it is damaged: {(str(error).splitlines() or ['?'])[0]}") from None


class Store:
    """The files of an archive. Only a writer locks the directory; readers find whole files or none.

    Parameters
    ----------
    disk : Disk
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def __str__(self) -> str:
        return str(self._disk)

    def identity(self) -> Identity | None:
        """Return of what the archive is; None if nothing is archived there.

        Raises
        ------
        StateError
            If that cannot be read.
        """
        try:
            if IDENTITY not in self._disk.names():
                return None
            return Identity.decode(self._disk.read(IDENTITY))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StateError(f"the archive {self} cannot be read: {error.strerror}") from None
        except CorruptCheckpoint as error:
            raise StateError(
                f"{IDENTITY} in the archive {self} cannot be used: {error.what}",
                "Restore the file from a backup, or choose another directory with archive.directory.",
            ) from None

    def claim(self, identity: Identity) -> None:
        """Say of what the archive is from now on, or that its newest incarnation begins elsewhere.

        Raises
        ------
        StateError
            If it is of another model, topic or configuration.
        TransientError
            If the disk refuses.
        """
        found = self.identity()
        if found is not None:
            for what, theirs, ours in (
                ("the model", found.name, identity.name),
                ("the topic", found.topic, identity.topic),
                ("the topic id", found.topic_id, identity.topic_id),
                ("the configuration of buckets with the SHA-256", found.config.sha256(), identity.config.sha256()),
            ):
                if theirs != ours:
                    raise StateError(
                        f"the archive {self} is of {what} {theirs or 'unknown'}, not {ours or 'unknown'}",
                        "Choose another directory with archive.directory, or move the old archive away.",
                    )
        if found != identity:
            self._put({IDENTITY: identity.encode()})

    def forgotten(self) -> forgotten_rows.Listed:
        """Return the rows that no bucket may be made of, and the record of erased rows that they obey.

        Raises
        ------
        StateError
            If their list cannot be read: to go on without it would bring them back.
        """
        if FORGOTTEN not in self._listed():
            return forgotten_rows.Listed()
        try:
            return forgotten_rows.decode(self._disk.read(FORGOTTEN))
        except (OSError, CorruptCheckpoint) as error:
            raise StateError(
                f"{FORGOTTEN} in the archive {self} cannot be used: {error}", "Restore the file from a backup."
            ) from None

    def forget(self, forgotten: forgotten_rows.Listed) -> None:
        """Replace the list of rows that no bucket may be made of.

        Raises
        ------
        TransientError
        """
        self._put({FORGOTTEN: forgotten_rows.encode(forgotten)})

    def under_way(self) -> UnderWay | None:
        """Return the forgetting that was begun and not finished; None if there is none.

        Raises
        ------
        StateError
            If its file cannot be read.
        """
        if UNDER_WAY not in self._listed():
            return None
        try:
            plain = json.loads(self._disk.read(UNDER_WAY))
            nodes = [Node.parse(name) for name in plain["old"]]
            if None in nodes:
                raise CorruptCheckpoint("a name in it cannot be parsed as one of a bucket")
            return UnderWay(
                positions=forgotten_rows.decode_rows(plain["positions"]),
                old=tuple(node for node in nodes if node is not None),
                saved=bool(plain["saved"]),
                archive_only=bool(plain["archive_only"]),
            )
        except (OSError, CorruptCheckpoint, ValueError, KeyError, TypeError, RecursionError) as error:
            raise StateError(
                f"{UNDER_WAY} in the archive {self} cannot be used: {error}", "Restore the archive from a backup."
            ) from None

    def mark(self, under_way: UnderWay | None) -> None:
        """Say that a forgetting is under way, or that none is any more.

        Raises
        ------
        TransientError
        """
        if under_way is not None:
            plain = {
                "positions": forgotten_rows.encode_rows(under_way.positions),
                "old": [node.name for node in under_way.old],
                "saved": under_way.saved,
                "archive_only": under_way.archive_only,
            }
            self._put({UNDER_WAY: json.dumps(plain, sort_keys=True).encode() + b"\n"})
            return
        try:
            with suppress(FileNotFoundError):
                self._disk.remove(UNDER_WAY)
            self._disk.sync_names()
        except OSError as error:
            raise TransientError(f"{UNDER_WAY} in the archive {self} cannot be removed: {error.strerror}") from None

    def require_finished(self) -> None:
        """Refuse an archive that holds rows that are being forgotten.

        Raises
        ------
        StateError
            The remedy is the command that finishes it.
        """
        begun = self.under_way()
        if begun is not None:
            rows = _shown(begun.positions)
            row = f"--position {rows[0] if rows else '0:0'}"
            options = f"--archive-only {row}" if begun.archive_only else f"{row} --yes"
            raise StateError(
                f"in the archive {self} rows are half forgotten: {_few(rows)}",
                f"Finish it, with the trainer's options: streamsvm history forget {options}",
            )

    def obeying(self, erased: LeftOut | None) -> forgotten_rows.Listed:
        """Return the rows that nothing may be made of, those of the record of erased rows included.

        Parameters
        ----------
        erased : LeftOut or None
            That of the archive's model and topic; None where there is none.

        Raises
        ------
        StateError
            If a bucket, or an open span, may hold a row of the record that the archive's own list does not name: who
            erased the rows did not look at this archive. The remedy is the command that takes them out.
        """
        self.require_finished()
        listed = self.forgotten()
        if erased is None:
            return listed
        places = erased.places()
        missing = {p: own - listed.rows.get(p, frozenset()) for p, own in places.items()}
        remaining = [(p, at) for p, own in sorted(missing.items()) for at in sorted(own) if self._may_hold(p, at)]
        if remaining:
            rows = _shown({p: [at for other, at in remaining if other == p] for p, _ in remaining})
            raise StateError(
                f"rows were erased of {self.identity_name()}, and the archive {self} may still hold them: {_few(rows)}",
                f"Take them out: streamsvm history forget --archive-only --position {rows[0]}",
            )
        return forgotten_rows.Listed(forgotten_rows.union(listed.rows, places), erased.sha256)

    def holding(self, positions: forgotten_rows.Forgotten) -> list[Node]:
        """Return the buckets that are of some positions."""
        return [
            node
            for node in self.nodes()
            if any(node.start <= at < node.end for at in positions.get(node.partition, ()))
        ]

    def _may_hold(self, partition: int, at: Position) -> bool:
        """Return whether a bucket or the open span is of a position; of an open span that is damaged nobody knows."""
        if self.holding({partition: [at]}):
            return True
        try:
            saved = self.state(partition)
        except CorruptCheckpoint:
            return True
        return saved is not None and begin_of(saved[1]) <= at < saved[1].position

    def identity_name(self) -> str:
        """Return the name of the archive's model; of an archive of nothing, a word for people."""
        found = self.identity()
        return found.name if found is not None else "its model"

    def nodes(self) -> list[Node]:
        """Return all buckets, sorted by partition and position."""
        try:
            names = self._disk.names()
        except FileNotFoundError:
            return []
        found = (Node.parse(name) for name in names)
        return sorted(node for node in found if node is not None)

    def read(self, node: Node) -> Bucket:
        """Return a bucket.

        Raises
        ------
        CorruptCheckpoint
            If the file is gone, or is not what its name says.
        """
        try:
            if self._disk.size(node.name) > LARGEST_FILE_BYTES:
                raise CorruptCheckpoint(f"the file has more than {LARGEST_FILE_BYTES} bytes")
            value = self._disk.read(node.name)
        except OSError as error:
            raise CorruptCheckpoint(f"the file cannot be read: {error.strerror}") from None
        name, bucket = decode_bucket(value)
        extent = bucket.extent
        times = (extent.first_time_ms, extent.last_time_ms)
        own = (bucket.level, bucket.index, extent.start, extent.end, times, name.sha256)
        if own != (node.level, node.number, node.start, node.end, (node.first_time_ms, node.last_time_ms), node.sha256):
            raise CorruptCheckpoint("its content is not what its name says")
        return bucket

    def size(self, node: Node) -> int:
        """Return the bytes of a bucket's file; 0 if it is gone."""
        with suppress(OSError):
            return self._disk.size(node.name)
        return 0

    def save(
        self,
        buckets: Iterable[tuple[int, Position, Bucket]],
        states: Mapping[int, tuple[Position, PartitionState]],
    ) -> list[tuple[Node, int]]:
        """Make buckets durable, and then the states of partitions that go on after them.

        Parameters
        ----------
        buckets : iterable of (partition, base, Bucket)
        states : mapping of partition to (base, PartitionState)

        Returns
        -------
        list of (Node, int)
            The buckets that were not there before, with their bytes.

        Raises
        ------
        TransientError
            If the disk refuses; what stood there before is untouched.
        """
        there, files, made = set(self._listed()), dict[str, bytes](), list[tuple[Node, int]]()
        for partition, base, bucket in buckets:
            record = encode_bucket(bucket)
            node = Node.of(partition, base, bucket, record)
            if node.name not in there and node.name not in files:
                files[node.name] = record.value
                made.append((node, len(record.value)))
        self._put(files)
        self._put({self.state_name(partition): _encode_state(partition, *own) for partition, own in states.items()})
        return made

    @staticmethod
    def state_name(partition: int) -> str:
        """Return the name of the file with a partition's open span."""
        return f"open-{partition}.state"

    def state(self, partition: int) -> tuple[Position, PartitionState] | None:
        """Return base and open span of a partition, as they were saved last; None if they were not.

        Raises
        ------
        CorruptCheckpoint
            If the file is damaged.
        """
        name = self.state_name(partition)
        try:
            return _decode_state(partition, self._disk.read(name)) if name in self._listed() else None
        except OSError as error:
            raise CorruptCheckpoint(f"the file cannot be read: {error.strerror}") from None

    def remove(self, nodes: Iterable[Node]) -> None:
        """Remove buckets.

        Raises
        ------
        TransientError
        """
        try:
            for node in nodes:
                with suppress(FileNotFoundError):
                    self._disk.remove(node.name)
            self._disk.sync_names()
        except OSError as error:
            raise TransientError(f"a bucket of the archive {self} cannot be removed: {error.strerror}") from None

    def damaged(self) -> list[str]:
        """Return the names of the files that were set aside."""
        return sorted(name for name in self._listed() if name.endswith(DAMAGED))

    def discard(self, names: Iterable[str]) -> None:
        """Remove files that were set aside, or an open span that is damaged.

        Raises
        ------
        TransientError
        """
        gone = list(names)
        try:
            for name in gone:
                with suppress(FileNotFoundError):
                    self._disk.remove(name)
            if gone:
                self._disk.sync_names()
        except OSError as error:
            raise TransientError(f"a file of the archive {self} cannot be removed: {error.strerror}") from None

    def set_aside(self, node: Node) -> None:
        """Give the file of a damaged bucket another name, so that it can be made again.

        Raises
        ------
        TransientError
        """
        try:
            self._disk.rename(node.name, node.name + DAMAGED)
            self._disk.sync_names()
        except OSError as error:
            raise TransientError(f"{node.name} in the archive {self} cannot be renamed: {error.strerror}") from None

    def _listed(self) -> list[str]:
        try:
            return self._disk.names()
        except FileNotFoundError:
            return []

    def _put(self, files: Mapping[str, bytes]) -> None:
        """Make files durable before they get their names, and then the names."""
        if not files:
            return
        try:
            for name, content in files.items():
                self._disk.write(name + PARTIAL, content)
                self._disk.sync(name + PARTIAL)
                self._disk.rename(name + PARTIAL, name)
            self._disk.sync_names()
        except OSError as error:
            raise TransientError(
                f"the archive {self} cannot be written: {error.strerror}",
                "Free space or repair the disk. What is archived already is untouched.",
            ) from None

    def leftovers(self) -> Iterator[str]:
        """Yield files that a writer left half-written."""
        return (name for name in self._listed() if name.endswith(PARTIAL))

    def clean(self) -> None:
        """Remove what a writer left half-written; only for who holds the lock."""
        for name in list(self.leftovers()):
            with suppress(OSError):
                self._disk.remove(name)


def begin_of(state: PartitionState) -> Position:
    """Return where an open span begins."""
    return state.buckets[0].extent.start if state.buckets else state.leaf_extent.start


def _shown(positions: forgotten_rows.Forgotten) -> list[str]:
    return [f"{p}:{at.offset}.{at.row}" for p, own in sorted(positions.items()) for at in sorted(own)]


def _few(rows: list[str]) -> str:
    return f"{', '.join(rows[:5])}{', ...' if rows[5:] else ''}"


def _encode_state(partition: int, base: Position, state: PartitionState) -> bytes:
    """Write a state with its open bucket; those that wait for siblings stand in files of their own."""
    own = [bucket for bucket in state.buckets if bucket.level == OPEN]
    records = [encode_bucket(bucket) for bucket in own]
    parts = [
        json.dumps(list(base)).encode(),
        *(record.value for record in records),
        encode_partition(partition, state, [record.name for record in records]),
    ]
    return b"".join(_LENGTH.pack(len(part)) + part for part in parts)


def _decode_state(partition: int, content: bytes) -> tuple[Position, PartitionState]:
    parts, rest = list[bytes](), memoryview(content)
    while rest:
        if len(rest) < _LENGTH.size or _LENGTH.unpack_from(rest)[0] > len(rest) - _LENGTH.size:
            raise CorruptCheckpoint("bytes are missing at its end")
        end = _LENGTH.size + _LENGTH.unpack_from(rest)[0]
        parts.append(bytes(rest[_LENGTH.size : end]))
        rest = rest[end:]
    if len(parts) < 2:
        raise CorruptCheckpoint("bytes are missing at its end")
    try:
        offset, row = json.loads(parts[0])
        base = Position(int(offset), int(row))
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise CorruptCheckpoint(f"its base is damaged: {error}") from None
    found, state = decode_partition(parts[-1], dict(map(decode_bucket, parts[1:-1])))
    if found != partition:
        raise CorruptCheckpoint(f"it is of partition {found}")
    return base, state
