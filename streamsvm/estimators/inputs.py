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

from streamsvm.ingest.decoder import LARGEST_FEATURE, LARGEST_WEIGHT, SMALLEST_WEIGHT
from streamsvm.model.kernels import Float

LARGEST_INDEX = np.iinfo(np.int32).max
"""Largest column, and most entries, of sparse rows that LIBSVM and our solver can index."""
NO_WEIGHT = "Invalid input - all samples have zero or negative weights: give at least one row a positive sample_weight"
"""SVC's words, and what to do."""


def checked_weight(sample_weight: Any, rows: int) -> Float:
    """Return the weight of each row, shape (rows,): ones where none are given, and a number is that of each row.

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


def check_sizes(features: NDArray[Any], weight: Float, stored: str) -> None:
    """Refuse numbers whose squares or products overflow, as a trainer does; rows of weight 0 do not count.

    `stored` is the type in which the stream keeps features.
    """
    counts = weight > 0.0
    wrong = counts & ((weight < SMALLEST_WEIGHT) | (weight > LARGEST_WEIGHT))
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"sample_weight[{row}] is {weight[row]:g}; a weight must be 0 or from {SMALLEST_WEIGHT:g} to "
            f"{LARGEST_WEIGHT:g}: scale the weights"
        )
    far = (np.abs(features) > LARGEST_FEATURE[stored]) & counts[:, None]
    if far.any():
        row, column = (int(at) for at in np.unravel_index(int(far.argmax()), far.shape))
        raise ValueError(
            f"X[{row}, {column}] is {features[row, column]:g}; a feature must be at most "
            f"{LARGEST_FEATURE[stored]:g} in magnitude, as this stream is kept as {stored}: scale the features"
        )


def check_every_class(weight: Float, label: NDArray[np.intp], classes: NDArray[Any]) -> None:
    """Refuse weights that leave a class without rows, in SVC's words where SVC refuses them.

    `label` has the place of each row's class in `classes`.
    """
    if not (weight > 0.0).any():
        raise ValueError(NO_WEIGHT)
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

    None and what is not an array are left to scikit-learn's checks. `name` is what messages call the labels.
    """
    if y is None or sparse.issparse(y):
        return
    labels = np.asarray(y)
    if labels.dtype.kind not in "OTU":
        return
    is_list = isinstance(y, (list, tuple))
    if labels.dtype.kind == "U" and not is_list:
        return
    given = y if is_list else labels.ravel()
    text = next((place for place, label in enumerate(given) if isinstance(label, str)), None)
    for place, label in enumerate(given):
        is_nan = isinstance(label, (float, np.floating)) and np.isnan(label)
        if is_nan or label is None or type(label).__name__ in ("NAType", "NaTType"):
            raise ValueError(
                f"Input {name} contains NaN: {name}[{place}] is {label!r}, a missing value; remove the row, or give "
                "its label"
            )
        is_number = isinstance(label, (bool, int, float, np.generic)) and not isinstance(label, str)
        if is_list and is_number and text is not None:
            raise ValueError(
                f"{name} mixes text and numbers: {name}[{place}] is {label!r} and {name}[{text}] is {given[text]!r}; "
                "give labels of one type"
            )


def class_weights(class_weight: Any, classes: NDArray[Any], label: NDArray[np.intp], weight: Float) -> Float:
    """Return the factor of each class's weights, shape (k,).

    `balanced` counts weights, not rows: a row of weight 2 is two rows. A class that is not among the keys of a dict has
    the factor 1. Keys and classes are compared as Python compares them: 1 and "1" differ, and so do "1" and "01".

    Parameters
    ----------
    class_weight : dict, "balanced" or None
    classes : ndarray of shape (k,)
    label : ndarray of shape (n,), int
        Place of each row's class in `classes`.
    weight : ndarray of shape (n,), float64
        Of each class a positive one.

    Raises
    ------
    ValueError
        If a key is not a class, or a factor is not a positive finite number.
    """
    factors, known = np.ones(len(classes)), classes.tolist()
    if isinstance(class_weight, Mapping):
        for key in class_weight:
            if key not in known:
                shown = key.item() if isinstance(key, np.generic) else key
                listed = f"{known[:10]} and {len(known) - 10} more" if len(known) > 10 else str(known)
                raise ValueError(f"The class {shown!r} of class_weight is not in y: the classes of y are {listed}")
        for key, factor in class_weight.items():
            if not (isinstance(factor, (int, float, np.number)) and 0.0 < factor < np.inf):
                raise ValueError(f"class_weight of the class {key!r} is {factor!r}: give a positive number")
            factors[known.index(key)] = factor
    elif class_weight is not None:
        counts = np.bincount(label, weights=weight, minlength=len(classes)).astype(np.float64)
        with np.errstate(over="ignore"):
            factors = np.asarray(counts.sum() / (len(classes) * counts), dtype=np.float64)
        if not np.isfinite(factors).all():
            least = int(counts.argmin())
            raise ValueError(
                f"class_weight='balanced' has no finite factor for the class {known[least]!r}: its weights sum to "
                f"{counts[least]:g} of {counts.sum():g}; scale the weights"
            )
    return factors


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
    # Columns must ascend in each row; scipy's own flag may be of before the arrays were changed.
    ascending = np.diff(rows.indices) > 0
    begins = rows.indptr[1:-1]
    ascending[begins[(begins > 0) & (begins < rows.nnz)] - 1] = True
    if not ascending.all():
        # A new matrix: scipy keeps what it once found out of the order of another one's entries.
        rows = kind((rows.data.copy(), rows.indices.copy(), rows.indptr.copy()), shape=rows.shape)
        rows.sum_duplicates()
    places = (rows.indices.astype(np.int32, copy=False), rows.indptr.astype(np.int32, copy=False))
    return kind((rows.data, *places), shape=rows.shape)
