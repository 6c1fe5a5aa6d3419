"""Fields of a record that nobody reads: counted, because a misspelt one changes what is learned without an error.

Decoders refuse a field that they do not know, which costs nothing where there is none, and are made anew with each
field that was met. So a stream in which every record has such fields is decoded as fast as one in which none has.

Invariant: what is watched changes no row: a record is accepted, and read, as `msgspec` reads a `Point`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from streamsvm.errors import InvalidPoint
from streamsvm.ingest.deletions import MARKERS
from streamsvm.ingest.row import Point, excerpt

READ: Final = frozenset({"x", "y", "w", "id", "op"}) | MARKERS
MOST_FIELDS: Final = 16
"""Fields told apart; of records with more, the others are not counted."""


@dataclass(frozen=True, slots=True)
class Unread:
    """Rows of a batch that had a field which nobody reads, by the field's name, shortened."""

    rows: Mapping[str, int]

    def __bool__(self) -> bool:
        return bool(self.rows)


class UnreadFields:
    """Decodes JSON points, and counts the fields of them that are not read.

    Attributes
    ----------
    one, many : msgspec.json.Decoder
        Of one point, and of an array; they fail on a field that was not met before, which `note` then makes known.
        Whoever uses them decodes what they fail on by a decoder that never changes.
    """

    def __init__(self) -> None:
        self._names: list[str] = []
        self._unnameable: set[str] = set()
        """Names that were met, and that no decoder can be made for."""
        self._counts: Counter[str] = Counter()
        self._make()

    def take(self) -> Unread:
        """Return what was counted since the last call."""
        counts, self._counts = self._counts, Counter()
        return Unread(counts)

    def count(self, names: Iterable[str], rows: int) -> None:
        """Count rows of a format whose schema names its fields."""
        for name in names:
            self._counts[excerpt(name)] += rows

    def note(self, value: bytes, rows: Sequence[Point | InvalidPoint]) -> None:
        """Count the fields of a value's rows, and learn those that were not met before."""
        if rows and type(rows[0]) is self._point:
            self.note_all(rows)
        elif self._watching:
            self._meet(value)

    def note_all(self, points: Sequence[Any]) -> None:
        """Count the fields of points that `one` or `many` decoded."""
        for index, name in enumerate(self._names):
            field = f"unread_{index}"
            found = sum(getattr(point, field, msgspec.UNSET) is not msgspec.UNSET for point in points)
            if found:
                self._counts[excerpt(name)] += found

    def _meet(self, value: bytes) -> None:
        """Learn the fields of a value; of one that is no JSON there are none."""
        try:
            found: Any = _fields.decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return
        rows = found if isinstance(found, list) else [found]
        counted = Counter(name for row in rows for name in row.keys() - READ)
        for name, count in counted.items():
            self._counts[excerpt(name)] += count
        new = [name for name in counted if name not in self._names and name not in self._unnameable]
        for name in new[: MOST_FIELDS - len(self._names) - len(self._unnameable)]:
            if _UNNAMEABLE.search(name):
                self._unnameable.add(name)
            else:
                self._names.append(name)
        if new:
            self._make()

    @property
    def _watching(self) -> bool:
        """Whether a field that was not met yet is looked at."""
        return len(self._names) + len(self._unnameable) < MOST_FIELDS

    def _make(self) -> None:
        """Make decoders that know the fields met so far; with as many as are counted apart, they let any other pass."""
        fields = [
            (f"unread_{index}", msgspec.Raw | msgspec.UnsetType, msgspec.UNSET) for index in range(len(self._names))
        ]
        self._point = msgspec.defstruct(
            "Point",
            fields,
            bases=(Point,),
            rename={field[0]: name for field, name in zip(fields, self._names, strict=True)},
            forbid_unknown_fields=self._watching,
        )
        self.one: msgspec.json.Decoder[Any] = msgspec.json.Decoder(self._point)
        self.many: msgspec.json.Decoder[Any] = msgspec.json.Decoder(list[self._point])  # type: ignore[name-defined]


_UNNAMEABLE: Final = re.compile(r'[\x00-\x1f"\\]')
"""What msgspec refuses in the name of a field."""
_fields: Final = msgspec.json.Decoder(dict[str, msgspec.Raw] | list[dict[str, msgspec.Raw]])
