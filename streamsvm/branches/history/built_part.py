"""The part `info_built`: of which stretch of the past a version was built (`streamsvm history build`)."""

from __future__ import annotations

from typing import Final

import msgspec

from streamsvm.errors import InvalidMessage
from streamsvm.model.arrays import SHA256
from streamsvm.model.parts.draft import Draft
from streamsvm.model.parts.part import MessagePart
from streamsvm.model.version import LineageTrunk, Version

MOST_PARTS: Final = 1 << 16
"""Most parts of a stretch: two for each doubling of each partition's length, and more where holes are many."""


class BuiltOf(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A part of a stretch of the past.

    Attributes
    ----------
    partition : int
    start, end : tuple of (int, int)
        Offset and row of its first row, and of the one after its last.
    level : int
        Of the archive's bucket that it is, 1 for a span; 0: rows that were read from the log and learned by themselves.
    first_row : int
        Rows of the partition before it, by which a bucket is numbered; 0 of rows that were read.
    sha256 : str
        Of the bucket's record; empty of rows that were read.
    """

    partition: int
    start: tuple[int, int]
    end: tuple[int, int]
    level: int
    first_row: int
    sha256: str


class Built(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Of which stretch of the past a version was built: it is of exactly the rows of its parts.

    Attributes
    ----------
    model : str
        The trainer's model whose archive it was.
    erased : str
        SHA-256 of the record of rows erased of that model, `name@erased`, that the version obeys; empty where there
        was none.
    parts : tuple of BuiltOf
        By partition, the oldest first; none overlaps another.
    leaf_rows, span_rows, bucket_points : int
        Of the archive, by which a part follows from its rows.
    since_ms, until_ms : int or None
        What was asked for: rows from the first record of a time on, before that of another; None: from the beginning,
        to the end.
    without_ms : tuple of (int, int)
        Stretches that were left out of it.
    exact : bool
        Whether the parts are all that was asked for. False: rows at a border are left out, because the log no longer
        holds them, and a bucket holds them together with others.
    forgotten : tuple of (int, int, int)
        Partition, offset and row of rows within the parts that were forgotten: the version is not of them.
    """

    model: str
    erased: str
    parts: tuple[BuiltOf, ...]
    leaf_rows: int
    span_rows: int
    bucket_points: int
    since_ms: int | None
    until_ms: int | None
    without_ms: tuple[tuple[int, int], ...]
    exact: bool
    forgotten: tuple[tuple[int, int, int], ...]


class BuiltPart(Built, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="part", tag="info_built"):
    """A `Built`, named."""


def encode(version: Version) -> BuiltPart | None:
    """Return the part; None of a version of everything up to its cut."""
    built = version.lineage.fact(Built)
    return None if built is None else BuiltPart(**msgspec.structs.asdict(built))


def decode(part: BuiltPart, draft: Draft) -> None:
    """Add the stretch; raises `InvalidMessage` if its parts contradict each other or the lineage."""
    built = Built(**msgspec.structs.asdict(part))
    _check(built, draft.lineage)
    draft.facts.append(built)


LONGEST_NAME: Final = 100


def _check(built: Built, lineage: LineageTrunk) -> None:
    """See that a version's parts follow one another, and lie between its base and its cut."""
    if not 1 <= len(built.parts) <= MOST_PARTS:
        raise InvalidMessage(f"info_built has {len(built.parts)} parts; possible are 1 to {MOST_PARTS}")
    if not 1 <= len(built.model) <= LONGEST_NAME or (built.erased and not SHA256.fullmatch(built.erased)):
        raise InvalidMessage(
            f"info_built names the model {built.model[:100]!r} and the record of erased rows {built.erased[:64]!r}"
        )
    if min(built.leaf_rows, built.span_rows, built.bucket_points) < 1 or built.span_rows % built.leaf_rows:
        raise InvalidMessage(
            f"info_built has leaves of {built.leaf_rows} rows, spans of {built.span_rows} and buckets of "
            f"{built.bucket_points} points, which do not fit together"
        )
    first, last = dict[int, tuple[int, int]](), dict[int, tuple[int, int]]()
    for part in built.parts:
        at = last.get(part.partition, (0, 0))
        follows = at <= part.start < part.end and min(*part.start, *part.end) >= 0
        if not follows or (last and max(last) > part.partition) or not _is_part(part, built.span_rows):
            raise InvalidMessage(
                f"info_built has a part of partition {part.partition}, level {part.level}, offsets {part.start[0]} "
                f"to {part.end[0]}, which is not valid after the parts before it"
            )
        first.setdefault(part.partition, part.start)
        last[part.partition] = part.end
    if any(
        found != {cut.partition: (cut.offset, cut.row) for cut in named}
        for found, named in ((first, lineage.base), (last, lineage.cut))
    ):
        raise InvalidMessage("info_built does not begin at the version's base and end at its cut")


def _is_part(part: BuiltOf, span_rows: int) -> bool:
    if not part.level:
        return not part.first_row and not part.sha256
    rows = span_rows << min(part.level, 62) - 1
    return (
        1 <= part.level <= 62
        and 0 <= part.first_row < 1 << 62
        and not part.first_row % rows
        and bool(SHA256.fullmatch(part.sha256))
    )


PART: Final = MessagePart(BuiltPart, encode, decode)
