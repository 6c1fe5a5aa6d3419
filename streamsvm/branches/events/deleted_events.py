"""Which of many events say of themselves that their row was deleted, as `streamsvm.ingest.deletions` has the rule."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.branches.events.features.fields import Coded, FieldValues, Numeric, listed
from streamsvm.field_paths import Path
from streamsvm.ingest.deletions import DELETED, OPERATION, says_delete, says_deleted

_PATHS: Final[tuple[Path, ...]] = ((DELETED,), (OPERATION,))


def with_markers(paths: Sequence[Path]) -> tuple[Path, ...]:
    """Return fields to read, and those that say whether the row was deleted."""
    return tuple(dict.fromkeys((*paths, *_PATHS)))


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
