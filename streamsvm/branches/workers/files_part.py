"""A cut of files: which files were learned before the stream, and where in the topic it goes on.

It is a record of the coresets topic, under one key in every partition, and the part `info_files` of the versions that
were made of these files. Rows of files have places as rows of the topic have:

- where the topic holds the same rows (`in_topic`), one a record from its base on, row k has the place of that record;
- else all rows of a partition have the places of one record that the topic no longer holds, the last one before `next`.

Either way the stream goes on at `next`, and what comes out are the bytes of a stream of such records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any, Final

import msgspec

from streamsvm.errors import InvalidMessage
from streamsvm.model.arrays import SHA256
from streamsvm.model.parts.draft import Draft
from streamsvm.model.parts.part import MessagePart
from streamsvm.model.version import Version
from streamsvm.places import ROWS, Count, Offset, Partition
from streamsvm.points import Position

FORMAT: Final = 1
"""Of the record."""
MOST_FILES: Final = 5_000
"""Of a cut, as the versions of it name them all."""


class NamedFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file: its name below the folder that was given, the SHA-256 of its bytes, and its rows."""

    name: str
    sha256: str
    rows: Count


class FilesOfPartition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the files hold of a partition.

    Attributes
    ----------
    partition : int
    rows : int
    next : int
        The offset of the topic at which the stream goes on.
    """

    partition: Partition
    rows: Annotated[int, msgspec.Meta(ge=0, lt=ROWS)]
    next: Offset


class Layout(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the columns of the files are.

    Attributes
    ----------
    label : str
    features : tuple of str
        One number a column, or one column of vectors.
    weight : str
        Empty: each row weighs 1.
    key : str
        By whose bytes the producer chooses the partition; empty where `partition` or a single partition decides.
    partitioner : str
        ``murmur2`` or ``crc32``.
    partition : str
        Which holds the partition itself; empty where the key decides.
    time : str
        When the record of a row was written; empty: rows have no time.
    """

    label: str
    features: tuple[str, ...]
    weight: str
    key: str
    partitioner: str
    partition: str
    time: str

    @classmethod
    def of(cls, label: str, features: tuple[str, ...], **given: str) -> Layout:
        """Return a layout of which only some columns are there; the key's partitioner is ``murmur2`` unless given."""
        whole = {"weight": "", "key": "", "partitioner": "murmur2", "partition": "", "time": ""} | given
        return cls(label=label, features=features, **whole)

    @property
    def columns(self) -> tuple[str, ...]:
        """All of them, each once."""
        named = (*self.features, self.label, self.weight, self.key, self.partition, self.time)
        return tuple(dict.fromkeys(filter(None, named)))


class FilesOrigin(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Of which files a version was made, before the stream.

    Attributes
    ----------
    files : tuple of NamedFile
        In the order in which they were read.
    layout : Layout
    in_topic : bool
        Whether the topic holds the same rows, one a record.
    partitions : tuple of FilesOfPartition
        All of the topic, in ascending order.
    """

    files: tuple[NamedFile, ...]
    layout: Layout
    in_topic: bool
    partitions: tuple[FilesOfPartition, ...]

    @property
    def next(self) -> dict[int, int]:
        """The offset of the topic at which the stream goes on, of each partition."""
        return {one.partition: one.next for one in self.partitions}

    @property
    def rows(self) -> dict[int, int]:
        """Rows of each partition."""
        return {one.partition: one.rows for one in self.partitions}

    @property
    def base(self) -> dict[int, Position]:
        """The place of the first row of each partition; where it has none, where the stream goes on."""
        found = {}
        for one in self.partitions:
            before = one.rows if self.in_topic else min(one.rows, 1)
            found[one.partition] = Position(one.next - before)
        return found

    def row_at(self, partition: int, position: Position) -> int:
        """Return how many of a partition's rows lie before a position."""
        rows = self.rows[partition]
        if position >= Position(self.next[partition]):
            return rows
        return min(rows, position.offset - self.base[partition].offset if self.in_topic else position.row)


class FilesCut(FilesOrigin, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The record of a cut in the coresets topic.

    Attributes
    ----------
    format : int
    name : str
        The model's.
    topic, topic_id : str
        The input, whose partitions the rows belong to; the id is empty where the broker tells none.
    """

    format: int
    name: str
    topic: str
    topic_id: str

    def encode(self) -> bytes:
        """Return it as a record's value."""
        return msgspec.json.encode(self, order="deterministic")

    @property
    def origin(self) -> FilesOrigin:
        """What versions say of it."""
        return FilesOrigin(files=self.files, layout=self.layout, in_topic=self.in_topic, partitions=self.partitions)


def changed_file(known: Sequence[NamedFile], found: Sequence[NamedFile]) -> str:
    """Say, for people, in which file two cuts differ; empty where in none."""
    before, now = ({one.name: one for one in files} for files in (known, found))
    for name, one in before.items():
        if name not in now:
            return f"{name} (SHA-256 {one.sha256}) is not among these"
        if now[name].sha256 != one.sha256:
            return f"{name} has the SHA-256 {now[name].sha256} now, and had {one.sha256}"
    added = next((name for name in now if name not in before), None)
    if added is not None:
        return f"{added} (SHA-256 {now[added].sha256}) was not among them"
    return "" if tuple(known) == tuple(found) else "they are in another order"


def with_files(origin: FilesOrigin, log: Mapping[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """Return what a log and files hold together: first offset and end of each partition."""
    base = origin.base
    return {p: (min(first, base[p].offset) if p in base else first, end) for p, (first, end) in log.items()}


def files_key(name: str) -> bytes:
    """Return the key of a model's cut of files."""
    return f"{name}/f".encode()


def decode_cut(value: bytes | None, name: str) -> FilesCut | None:
    """Decode the record of a model; None where there is none.

    Raises
    ------
    InvalidMessage
        If it is damaged, or of another format or model.
    """
    if value is None:
        return None
    try:
        cut = msgspec.json.decode(value, type=FilesCut)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidMessage(f"the record {files_key(name).decode()} is damaged: {error}") from None
    if (cut.format, cut.name) != (FORMAT, name):
        raise InvalidMessage(f"the record {files_key(name).decode()} is of format {cut.format} and of {cut.name!r}")
    _check(cut)
    return cut


class FilesPart(FilesOrigin, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="part", tag="info_files"):
    """A `FilesOrigin`, named."""


def encode(version: Version) -> FilesPart | None:
    """Return the part; None of a version that was made of its topic alone."""
    found = version.lineage.fact(FilesOrigin)
    return None if found is None else FilesPart(**_fields(found))


def decode(part: FilesPart, draft: Draft) -> None:
    """Add the files; raises `InvalidMessage` if they contradict each other or the lineage."""
    found = FilesOrigin(**_fields(part))
    _check(found)
    base = {one.partition: Position(one.offset, one.row) for one in draft.lineage.base}
    if any(base.get(partition) != at for partition, at in found.base.items()):
        raise InvalidMessage("info_files does not begin at the version's base")
    draft.facts.append(found)


def _fields(origin: FilesOrigin) -> dict[str, Any]:
    return {name: getattr(origin, name) for name in FilesOrigin.__struct_fields__}


def _check(origin: FilesOrigin) -> None:
    if not 1 <= len(origin.files) <= MOST_FILES:
        raise InvalidMessage(f"info_files names {len(origin.files)} files; possible are 1 to {MOST_FILES}")
    names = {one.name for one in origin.files}
    if len(names) < len(origin.files) or not all(SHA256.fullmatch(one.sha256) for one in origin.files):
        raise InvalidMessage("info_files names a file twice, or a digest that is not a SHA-256")
    if sum(one.rows for one in origin.files) != sum(one.rows for one in origin.partitions):
        raise InvalidMessage("info_files has other rows in its files than in its partitions")
    if any(before.partition >= after.partition for before, after in pairwise(origin.partitions)):
        raise InvalidMessage("info_files does not name its partitions in ascending order")
    if any(at.offset < 0 for at in origin.base.values()):
        raise InvalidMessage("info_files begins before the topic's first offset")


PART: Final = MessagePart(FilesPart, encode, decode)
