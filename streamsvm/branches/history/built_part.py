"""The part `info_built`: of which stretch of the past a version was built (`streamsvm model build`)."""

from __future__ import annotations

from typing import Final

import msgspec

from streamsvm.errors import InvalidMessage
from streamsvm.model.arrays import SHA256
from streamsvm.model.parts.draft import Draft
from streamsvm.model.parts.part import Part
from streamsvm.model.version import MOST_PARTS, Built, BuiltOf, LineageTrunk, Version


class BuiltPart(Built, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="part", tag="info_built"):
    """A `Built`, named."""


def encode(version: Version) -> BuiltPart | None:
    """Return the part; None of a version of everything up to its cut."""
    built = version.lineage.built
    return None if built is None else BuiltPart(**msgspec.structs.asdict(built))


def decode(part: BuiltPart, draft: Draft) -> None:
    """Add the stretch; raises `InvalidMessage` if its parts contradict each other or the lineage."""
    built = Built(**msgspec.structs.asdict(part))
    _check(built, draft.lineage)
    draft.more["built"] = built


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


PART: Final = Part(BuiltPart, encode, decode)
