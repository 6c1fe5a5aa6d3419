"""What every estimator checks before it trains: weights, labels, weights of classes, and sparse rows.

Invariant: what has no meaning is refused with its place and value before anything is left out for a weight of 0, and
nothing that the caller gave is changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from streamsvm.model.kernels import Float

LARGEST_INDEX = np.iinfo(np.int32).max
"""Largest column, and most entries, of sparse rows that LIBSVM and our solver can index."""


def checked_weight(sample_weight: Any, rows: int) -> Float:
    """Return the weight of each row; ones where none are given.

    Parameters
    ----------
    sample_weight : array-like of shape (rows,), number or None
    rows : int

    Returns
    -------
    ndarray of shape (rows,), float64

    Raises
    ------
    ValueError
        If the shape differs, or a weight is NaN, infinite or negative; the message names the first such weight.
    """
    if sample_weight is None:
        return np.ones(rows)
    if isinstance(sample_weight, (int, float, np.number)):
        sample_weight = np.full(rows, float(sample_weight))
    weight = given_weight(sample_weight)
    assert weight is not None
    if weight.shape != (rows,):
        raise ValueError(
            f"sample_weight and X have incompatible shapes: sample_weight.shape is {weight.shape}, X has {rows} rows"
        )
    if not np.isfinite(weight).all():
        row = int(np.isfinite(weight).argmin())
        what = "NaN" if np.isnan(weight[row]) else "infinity"
        raise ValueError(
            f"Input sample_weight contains {what}: sample_weight[{row}] is {weight[row]:g}; give a finite number, or 0 "
            "to leave the row out"
        )
    if (weight < 0.0).any():
        row = int((weight < 0.0).argmax())
        raise ValueError(
            f"Negative values in sample_weight: sample_weight[{row}] is {weight[row]:g}; give 0 to leave the row out"
        )
    return weight


def given_weight(sample_weight: Any) -> Float | None:
    """Return weights as an array of one number a row, or None where none are given; the numbers are not checked.

    Raises
    ------
    ValueError
        If they are not numbers, or not one-dimensional, or empty: SVC would take no weights for weights of 1.
    """
    if sample_weight is None:
        return None
    try:
        weight = np.array(sample_weight, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight: {error}; give one finite number a row") from None
    if weight.ndim != 1 or not len(weight):
        raise ValueError(f"sample_weight has shape {weight.shape}: give one number a sample (1D)")
    return weight


def check_some_weight(weight: Float) -> None:
    """Refuse weights of which none is positive, in SVC's words."""
    if not (weight > 0.0).any():
        raise ValueError(
            "Invalid input - all samples have zero or negative weights: give at least one row a positive sample_weight"
        )


def check_every_class(weight: Float, label: NDArray[np.intp], classes: NDArray[Any]) -> None:
    """Refuse weights that leave a class without rows, in SVC's words where SVC refuses them.

    Parameters
    ----------
    weight : ndarray of shape (n,), float64
    label : ndarray of shape (n,), int
        Place of each row's class in `classes`.
    classes : ndarray of shape (k,)

    Raises
    ------
    ValueError
        If no weight is positive, or a class has no positive weight; the message names the class.
    """
    check_some_weight(weight)
    counts = np.bincount(label[weight > 0.0], minlength=len(classes))
    if counts.all():
        return
    absent = classes.tolist()[int(counts.argmin())]
    begun = "no sample"
    if np.count_nonzero(counts) == 1:
        begun = "all samples with positive weights belong to the same class: no sample"
    raise ValueError(
        f"Invalid input - {begun} of the class {absent!r} has a positive weight: leave the class out, or give a weight "
        "to one of its samples"
    )


def check_labels(y: Any, name: str = "y") -> None:
    """Refuse missing labels, and a list of text and numbers, in which numpy would make text of the numbers.

    Parameters
    ----------
    y : array-like
        None and what is not an array are left to scikit-learn's checks.
    name : str
        What messages call it.

    Raises
    ------
    ValueError
        The message names the first such label.
    """
    if y is None or sparse.issparse(y):
        return
    labels = np.asarray(y)
    if labels.dtype.kind not in "OTU":
        return
    if isinstance(y, (list, tuple)):
        _check_kinds(y, name)
    elif labels.dtype.kind == "U":
        return
    for place, label in enumerate(y if isinstance(y, (list, tuple)) else labels.ravel()):
        if _is_missing(label):
            raise ValueError(
                f"Input {name} contains NaN: {name}[{place}] is {label!r}, a missing value; remove the row, or give "
                "its label"
            )


def class_weights(
    class_weight: Any, classes: NDArray[Any], label: NDArray[np.intp], weight: Float | None = None
) -> Float:
    """Return the factor of each class's weights, shape (k,).

    `balanced` counts weights, not rows: a row of weight 2 is two rows.

    Parameters
    ----------
    class_weight : dict, "balanced" or None
        A class that is not among the keys has the factor 1. Keys and classes are compared as Python compares them: 1
        and "1" differ, and so do "1" and "01".
    classes : ndarray of shape (k,)
    label : ndarray of shape (n,), int
        Place of each row's class in `classes`.
    weight : ndarray of shape (n,), float64, optional

    Raises
    ------
    ValueError
        If a key is not a class, a class has no weight, or a factor is not a positive finite number.
    """
    if isinstance(class_weight, Mapping):
        return _given_factors(class_weight, classes.tolist())
    if class_weight is None:
        return np.ones(len(classes))
    counts = np.bincount(label, weights=weight, minlength=len(classes)).astype(np.float64)
    if not counts.all():
        check_every_class(np.ones(len(label)) if weight is None else weight, label, classes)
    with np.errstate(over="ignore"):
        factors = np.asarray(counts.sum() / (len(classes) * counts), dtype=np.float64)
    if not np.isfinite(factors).all():
        least = int(counts.argmin())
        raise ValueError(
            f"class_weight='balanced' has no finite factor for the class {classes.tolist()[least]!r}: its weights sum "
            f"to {counts[least]:g} of {counts.sum():g}; scale the weights"
        )
    return factors


def altered(estimator: Any, name: str, what: str) -> ValueError:
    """Return the error of an estimator whose part of this name is no longer what fitting set."""
    kind = type(estimator).__name__
    return ValueError(f"The internal representation of {kind} was altered: {name} {what}; fit it again")


def canonical_rows(X: Any) -> Any:
    """Return sparse rows as CSR of int32 indices, ascending and without duplicates; anything else as it is.

    The arrays are the caller's where they are so already; other rows are copied. LIBSVM and our solver read rows in
    this form only: they would take two entries of one place for two features.
    """
    if not sparse.issparse(X) or X.ndim != 2:
        return X
    kind = sparse.csr_array if isinstance(X, sparse.sparray) else sparse.csr_matrix
    rows = X.tocsr()
    if X.shape[1] > LARGEST_INDEX or rows.nnz > LARGEST_INDEX:
        return X  # scikit-learn refuses it
    if not _is_canonical(rows):
        # A new matrix: scipy keeps what it once found out of the order of another one's entries.
        rows = kind((rows.data.copy(), rows.indices.copy(), rows.indptr.copy()), shape=rows.shape)
        rows.sum_duplicates()
    places = (rows.indices.astype(np.int32, copy=False), rows.indptr.astype(np.int32, copy=False))
    return kind((rows.data, *places), shape=rows.shape)


def _check_kinds(labels: list[Any] | tuple[Any, ...], name: str) -> None:
    """Refuse text beside numbers."""
    is_text = [isinstance(label, str) for label in labels]
    if not any(is_text) or all(is_text):
        return
    for place, label in enumerate(labels):
        if not isinstance(label, str) and isinstance(label, (bool, int, float, np.generic)) and not _is_missing(label):
            text = labels[is_text.index(True)]
            raise ValueError(
                f"{name} mixes text and numbers: {name}[{place}] is {label!r} and {name}[{is_text.index(True)}] is "
                f"{text!r}; give labels of one type"
            )


def _is_missing(label: Any) -> bool:
    if label is None or type(label).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(label, (float, np.floating)) and bool(np.isnan(label))


def _given_factors(class_weight: Mapping[Any, Any], classes: list[Any]) -> Float:
    absent = [key for key in class_weight if key not in classes]
    if absent:
        shown = getattr(absent[0], "item", lambda: absent[0])()
        raise ValueError(f"The class {shown!r} of class_weight is not in y: the classes of y are {_listed(classes)}")
    factors = np.ones(len(classes))
    for key, factor in class_weight.items():
        if not (isinstance(factor, (int, float, np.number)) and 0.0 < factor < np.inf):
            raise ValueError(f"class_weight of the class {key!r} is {factor!r}: give a positive number")
        factors[classes.index(key)] = factor
    return factors


def _listed(classes: list[Any]) -> str:
    return f"{classes[:10]} and {len(classes) - 10} more" if len(classes) > 10 else str(classes)


def _is_canonical(rows: Any) -> bool:
    """Whether columns ascend in each row; scipy's own flag may be of before the arrays were changed."""
    if rows.nnz < 2:
        return True
    ascending = np.diff(rows.indices) > 0
    begins = rows.indptr[1:-1]
    begins = begins[(begins > 0) & (begins < rows.nnz)]
    ascending[begins - 1] = True
    return bool(ascending.all())
