"""Events, and points, that say of themselves that their row was deleted.

Debezium's `ExtractNewRecordState` takes the envelope off a change and can leave markers in its place: `__deleted`, the
text "true" or "false" (deletions that are rewritten), and `__op`, the operation (`add.fields = op`). A row is deleted
if `__deleted` is `true` or "true", or `__op` is "d".

Invariant: the rule is the same in every format, for points and raw events, and whatever is around them.
Source: Debezium 3, "New Record State Extraction".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

DELETED: Final = "__deleted"
OPERATION: Final = "__op"
MARKERS: Final = frozenset({DELETED, OPERATION})


def is_deleted(row: Mapping[str, Any]) -> bool:
    """Return whether a row says of itself that it was deleted."""
    return (DELETED in row and says_deleted(row[DELETED])) or (OPERATION in row and says_delete(row[OPERATION]))


def says_deleted(value: Any) -> bool:
    """Return whether a value of the field `__deleted` means a deletion."""
    return value is True or (type(value) is str and value == "true")


def says_delete(value: Any) -> bool:
    """Return whether a value of the field `__op` means a deletion."""
    return type(value) is str and value == "d"
