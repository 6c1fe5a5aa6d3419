"""Events, and points, that say of themselves that their row was deleted.

Debezium's `ExtractNewRecordState` takes the envelope off a change and can leave markers in its place: `__deleted`, the
text "true" or "false" (deletions that are rewritten), and `__op`, the operation (`add.fields = op`). A row is deleted
if `__deleted` is `true` or "true", or `__op` is "d".

Invariant: the rule is the same in every format, for points and raw events, and whatever is around them.
Source: Debezium 3, "New Record State Extraction".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.features.fields import Coded, FieldValues, Numeric, listed
from streamsvm.features.paths import Path

DELETED: Final = "__deleted"
OPERATION: Final = "__op"
MARKERS: Final = frozenset({DELETED, OPERATION})
_PATHS: Final[tuple[Path, ...]] = ((DELETED,), (OPERATION,))


def with_markers(paths: Sequence[Path]) -> tuple[Path, ...]:
    """Return fields to read, and those that say whether the row was deleted."""
    return tuple(dict.fromkeys((*paths, *_PATHS)))


def is_deleted(row: Mapping[str, Any]) -> bool:
    """Tell whether a row says of itself that it was deleted."""
    return (DELETED in row and says_deleted(row[DELETED])) or (OPERATION in row and says_delete(row[OPERATION]))


def says_deleted(value: Any) -> bool:
    """Tell whether a value of the field `__deleted` means a deletion."""
    return value is True or (type(value) is str and value == "true")


def says_delete(value: Any) -> bool:
    """Tell whether a value of the field `__op` means a deletion."""
    return type(value) is str and value == "d"


def deleted_rows(fields: Mapping[Path, FieldValues], rows: int) -> NDArray[np.bool_] | None:
    """Return which of so many rows were deleted, shape (rows,); None if none was.

    Parameters
    ----------
    fields : mapping of Path to sequence, Coded, Numeric or Instants
        Of `with_markers`.
    rows : int
    """
    found = np.zeros(rows, np.bool_)
    for path, says in zip(_PATHS, (says_deleted, says_delete), strict=True):
        field = fields[path]
        if isinstance(field, Coded):
            codes = [code for code, value in enumerate(field.values) if says(value)]
            if codes:
                found |= np.isin(field.codes, codes)
        elif isinstance(field, Numeric):
            if field.array.dtype.kind == "b" and says is says_deleted:
                found |= field.array if field.missing is None else field.array & ~field.missing
        elif _has_any(values := listed(field)):
            found |= np.fromiter(map(says, values), np.bool_, rows)
    return found if found.any() else None


def _has_any(values: Collection[Any]) -> bool:
    return values.count(None) < len(values) if isinstance(values, list) else True
