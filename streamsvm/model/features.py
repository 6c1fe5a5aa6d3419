"""Features as people give them, checked: rows of numbers, a mapping of names, or a data frame.

What is refused would be scored in silence otherwise: numpy stretches an array of one column to any number of features,
a comparison with NaN is false and so means a label, and text that reads as a number is taken for one.

Data frames are told by what they offer, so that none of their packages is imported: named columns, each of which numpy
can read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.errors import StreamsvmError
from streamsvm.field_paths import repeated

MOST_SHOWN: Final = 5
"""Names of features in a message."""


class InvalidFeatures(StreamsvmError, ValueError):
    """The values to score are not rows of the model's features."""


def features_of(X: Any, dimension: int, names: Sequence[str] = ()) -> NDArray[Any]:
    """Return features as an array of numbers of shape (n, dimension); not copied if it is one.

    Parameters
    ----------
    X : array_like, mapping, sequence of mappings, or data frame
        Rows; a mapping of names to numbers is one row, of names to columns several. Where there are names their order
        does not matter.
    dimension : int
    names : sequence of str
        The features' names in their order; empty: the model has none.

    Raises
    ------
    InvalidFeatures
        If the shape, a type or a name is another one. Whether numbers are finite is not looked at: see `check_finite`.
    """
    if type(X) is np.ndarray and X.ndim == 2 and X.shape[1] == dimension and X.dtype.kind in "fiub":
        return X
    columns = _columns_of(X, dimension, names)
    if columns is not None:
        return columns
    return _array_of(X, dimension, names)


def check_finite(X: NDArray[Any], names: Sequence[str] = ()) -> None:
    """Refuse what is not a number, or infinite.

    Raises
    ------
    InvalidFeatures
        Naming the first such entry.
    """
    finite = np.isfinite(X)
    if finite.all():
        return
    row, column = (int(at) for at in np.argwhere(~finite)[0])
    raise InvalidFeatures(
        f"row {row}: {_entry(column, names)} is {X[row, column]!s}; a feature must be a finite number",
        "Fill in missing values in the same way as in training, or remove the row.",
    )


def check_decided(decision: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return decision values that mean a label.

    Raises
    ------
    InvalidFeatures
        If one is not a number: features so large that float64 does not hold what is made of them.
    """
    missing = np.isnan(decision)
    unknown = np.flatnonzero(missing.any(axis=1) if missing.ndim == 2 else missing)
    if len(unknown):
        raise InvalidFeatures(f"row {unknown[0]} has no score, because a feature is too large", "Remove the row.")
    return decision


def _entry(column: int, names: Sequence[str]) -> str:
    return repr(names[column]) if names else f"x[{column}]"


# ---------------------------------------------------------------------- by name


def _columns_of(X: Any, dimension: int, names: Sequence[str]) -> NDArray[np.float64] | None:
    """Return what has named columns as an array; None if it has none."""
    if isinstance(X, Mapping):
        return _of_mapping(X, dimension, names)
    if isinstance(X, list | tuple) and X and all(isinstance(row, Mapping) for row in X):
        return np.concatenate([_of_mapping(row, dimension, names) for row in X])
    found = column_names(X)
    if found is None:
        return None
    if found == list(range(len(found))):  # pandas counts columns that were given no name
        return _array_of(np.asarray(X), dimension, names)
    _check_names(found, names, "column")
    return _stacked({name: X[name] for name in names}, dimension)


def column_names(X: Any) -> list[Any] | None:
    """Return the names of a data frame's columns: of pandas or polars, or of a table of pyarrow; else None.

    Raises
    ------
    InvalidFeatures
        If two columns have one name.
    """
    if isinstance(X, np.ndarray):
        return None if X.dtype.names is None else list(X.dtype.names)
    for offered in ("column_names", "columns"):
        found = getattr(X, offered, None)
        if found is not None and not callable(found) and hasattr(X, "__getitem__"):
            if (twice := repeated(list(found))) is not None:
                raise InvalidFeatures(f"two columns are named {twice}", "Rename one of them, or leave it out.")
            return list(found)
    return None


def _of_mapping(X: Mapping[Any, Any], dimension: int, names: Sequence[str]) -> NDArray[np.float64]:
    _check_names(list(X), names, "name")
    columns = {name: X[name] for name in names}
    if all(np.ndim(column) == 0 for column in columns.values()):
        columns = {name: [column] for name, column in columns.items()}
    return _stacked(columns, dimension)


def _check_names(found: Sequence[Any], names: Sequence[str], kind: str) -> None:
    if not names:
        raise InvalidFeatures(
            f"the version has no feature names, so a {kind} cannot be matched to its features",
            "Pass an array in the order of training, or train with points.feature_names.",
        )
    if len(set(names)) < len(names):
        raise InvalidFeatures(
            f"two features of the version have the same name, so a {kind} cannot be matched to them",
            "Pass an array in the order of training.",
        )
    missing = [name for name in names if name not in found]
    unknown = [name for name in found if name not in names]
    twice = sorted({str(name) for name in found if list(found).count(name) > 1})
    faults = [
        f"{what} {shown_names(which)}"
        for what, which in (("missing", missing), ("unknown", unknown), ("given twice", twice))
        if which
    ]
    if faults:
        raise InvalidFeatures(
            f"the {kind}s do not match the version's {len(names)} features: {'; '.join(faults)}",
            f"The version's features are {shown_names(names)}; remove all others.",
        )


def shown_names(names: Iterable[Any]) -> str:
    """Return the first `MOST_SHOWN` names, and how many more there are."""
    listed = [repr(name) for name in names]
    more = f" and {len(listed) - MOST_SHOWN} more" if len(listed) > MOST_SHOWN else ""
    return ", ".join(listed[:MOST_SHOWN]) + more


def _stacked(columns: Mapping[str, Any], dimension: int) -> NDArray[np.float64]:
    """Return columns side by side."""
    made = {name: _numbers(_asarray(column), (name,), rowwise=False) for name, column in columns.items()}
    for name, column in made.items():
        if column.ndim != 1:
            raise InvalidFeatures(
                f"{name!r} has the shape {column.shape}", "Pass one number, or a list of numbers, for each feature."
            )
    lengths = {name: len(column) for name, column in made.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name!r} {length}" for name, length in list(lengths.items())[:MOST_SHOWN])
        raise InvalidFeatures(
            f"the columns are of different lengths: {shown}", "Pass the same number of values for each feature."
        )
    return np.column_stack([np.asarray(column, np.float64) for column in made.values()]).reshape(-1, dimension)


# ------------------------------------------------------------------ by position


def _array_of(X: Any, dimension: int, names: Sequence[str]) -> NDArray[Any]:
    made = _asarray(X)
    if made.shape == (0,):
        return np.empty((0, dimension))
    if made.ndim == 0 and made.dtype.kind == "O":
        raise InvalidFeatures(
            f"X is a {type(X).__name__}", "Pass rows of numbers, such as a list of lists or an array."
        )
    if made.ndim != 2:
        raise InvalidFeatures(
            f"X has the shape {made.shape}; it must be (n, {dimension}), one row per point",
            "For a single point x pass [x].",
        )
    if made.shape[1] != dimension:
        raise InvalidFeatures(f"{dimension} features expected, {made.shape[1]} given: X has the shape {made.shape}")
    return _numbers(made, names, rowwise=True)


def _asarray(X: Any) -> NDArray[Any]:
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise InvalidFeatures("X has masked entries", "Fill in the masked entries, or remove those rows.")
    try:
        made = np.asarray(X)
        is_mixed = made.dtype.kind in "US" and not isinstance(X, np.ndarray)
        return np.asarray(X, object) if is_mixed else made  # else numbers beside a text are texts, too
    except ValueError:
        lengths = sorted({len(row) if hasattr(row, "__len__") else 1 for row in X})
        raise InvalidFeatures(
            f"the rows of X have different numbers of features: {', '.join(map(str, lengths[:MOST_SHOWN]))}",
            "Each row must have the same number of features.",
        ) from None


def _numbers(made: NDArray[Any], names: Sequence[str], *, rowwise: bool) -> NDArray[Any]:
    """Return an array whose entries are numbers; of a column (not `rowwise`) `names` has its own name."""
    if made.dtype.kind in "fiub":
        return made
    if made.dtype.kind == "O":
        for at, entry in np.ndenumerate(made):
            if not isinstance(entry, Real | Decimal | np.number | np.bool_):
                column = at[1] if rowwise else 0
                raise _no_number(at[0], _entry(column, names), entry)
        return made.astype(np.float64)
    first = made.flat[0] if made.size else made.dtype.name
    raise _no_number(0, _entry(0, names), first)


def _no_number(row: int, where: str, entry: object) -> InvalidFeatures:
    shown = repr(entry.item() if isinstance(entry, np.generic) else entry)
    return InvalidFeatures(
        f"row {row}: {where} is {shown if len(shown) <= 40 else shown[:37] + '...'}, not a number",
        "Pass numbers only: encode text and times, and fill in missing values, in the same way as in training.",
    )
