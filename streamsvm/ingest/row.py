"""One row of a record before it is checked, in whatever format it came."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from streamsvm.ingest.deletions import DELETED, OPERATION, says_delete, says_deleted
from streamsvm.points import LARGEST_FEATURE as LARGEST_FEATURE

EXCERPT_CHARACTERS: Final = 80

SMALLEST_WEIGHT: Final = 1e-15
LARGEST_WEIGHT: Final = 1e15
"""Within these bounds a weight times C neither underflows to 0 nor overflows. LIBSVM refuses a class of weight 0."""

LARGEST_EXACT: Final = 2**53
"""Largest magnitude of a label up to which float64 represents all integers."""


class Point(msgspec.Struct):
    """What every format's rows become, typed but not checked against the configuration."""

    x: list[float]
    y: int | float | str | bool | None = None
    w: float = 1.0
    id: str | int | None = None
    op: Any = None
    deleted: Any = msgspec.field(default=None, name=DELETED)
    operation: Any = msgspec.field(default=None, name=OPERATION)

    @property
    def is_deleted(self) -> bool:
        """Whether the row says of itself that it was deleted."""
        return says_deleted(self.deleted) or says_delete(self.operation)


def excerpt(text: str) -> str:
    """Shorten what is shown of a foreign value."""
    return text if len(text) <= EXCERPT_CHARACTERS else text[: EXCERPT_CHARACTERS - 3] + "..."


def encodable(text: str) -> str:
    """Escape what UTF-8 cannot say of a text, halves of surrogate pairs: it goes into headers and logs."""
    return text.encode(errors="backslashreplace").decode()
