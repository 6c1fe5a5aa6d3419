"""Raw events as people hold them in memory, mappings or the rows of a data frame, as events of JSON's types.

Data frames are told by what they offer, so that none of their packages is imported.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

import numpy as np

from streamsvm.field_paths import Unreachable
from streamsvm.model.features import column_names


def events_of(X: Any) -> Sequence[Mapping[str, Any]]:
    """Return rows as events.

    Parameters
    ----------
    X : sequence of mappings, or data frame
        Of a data frame (pandas, polars, pyarrow) each row is an event, whose fields are the columns. In both, NaN and
        nulls are missing, times become ISO 8601, decimals numbers: the rows of a frame are the same events as mappings.

    Raises
    ------
    ValueError
        If it is neither.
    """
    names = column_names(X)
    if names is not None:
        columns = [_values(X[name]) for name in names]
        return [dict(zip(map(str, names), row, strict=True)) for row in zip(*columns, strict=True)]
    rows = list(X) if isinstance(X, Sequence | np.ndarray) and not isinstance(X, str | bytes) else [X]
    strange = next((row for row in rows if not isinstance(row, Mapping)), None)
    if strange is not None or isinstance(X, Mapping):
        raise ValueError(
            f"events must be a list of mappings or a data frame, but a {type(X).__name__} "
            f"{'was given' if strange is None or strange is X else f'of {type(strange).__name__} was given'}"
        )
    return [row if _is_plain(row) else {name: plain(value) for name, value in row.items()} for row in rows]


def _is_plain(row: Mapping[str, Any]) -> bool:
    """Return whether an event is of JSON's plain types, and no number is missing."""
    return all(type(value) in _PLAIN and value == value for value in row.values())


_PLAIN: Final = frozenset({str, int, bool, float, type(None)})
_NOT_TEXT: Final = Unreachable("it is bytes that are not text in UTF-8; write text or a number")
_MISSING_OF_PANDAS: Final = frozenset({"NAType", "NaTType"})


def plain(value: Any) -> Any:
    """Return a value of a table as JSON has it; NaN is how tables write a missing number."""
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]")
    if isinstance(value, np.generic):
        value = value.item()
    if (isinstance(value, float) and math.isnan(value)) or type(value).__name__ in _MISSING_OF_PANDAS:
        return None
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str | bytes):
        return [plain(one) for one in value]
    return text_of(value) if isinstance(value, bytes) else value


def text_of(value: bytes) -> str | Unreachable:
    """Return bytes as the text that they are; older writers of tables have no other type for it."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return _NOT_TEXT
    return _NOT_TEXT if "\0" in text else text


def _values(column: Any) -> list[Any]:
    """Return a column's values; None where one is missing."""
    if hasattr(column, "to_pylist"):
        with suppress(ImportError):  # what only reads models comes without this module
            from streamsvm.branches.events.arrow_values import values_of

            return values_of(column)
    listed = next(found for name in ("to_pylist", "to_list", "tolist") if (found := getattr(column, name, None)))
    values: list[Any] = listed()
    if hasattr(column, "isna"):  # pandas has several objects that mean a missing value
        values = [None if gone else value for value, gone in zip(values, column.isna().tolist(), strict=True)]
    return values if {type(value) for value in values} <= {str, int, bool} else list(map(plain, values))
