"""Whether an estimator is fitted, and still what was fitted.

LIBSVM reads the arrays of a machine without a look at their sizes, and of arrays that do not fit together it reads
foreign memory. So shapes, places and finiteness are checked once, before anything decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import isfinite
from types import NoneType
from typing import Any, Final

import numpy as np
import sklearn
from scipy import sparse
from sklearn.utils.fixes import parse_version

from streamsvm.estimators.inputs import altered

_PARTS: Final[dict[str, Any]] = {
    "_sparse": (bool, np.bool_),
    "_gamma": (int, float, np.number),
    "_gap": (int, float, np.number),
    "_centred": (tuple, NoneType),
    "n_features_in_": (int, np.integer),
    "shape_fit_": tuple,
}
"""What a fitted `DropIn` has beside arrays, and of which types."""
if parse_version(sklearn.__version__) >= parse_version("1.9"):
    _PARTS["_effective_probability"] = (bool, np.bool_, str)


def forget(estimator: Any) -> None:
    """Remove what fitting set, so that scikit-learn counts the estimator as not fitted."""
    for name in [name for name in vars(estimator) if name.endswith("_") and not name.startswith("__")]:
        delattr(estimator, name)


@contextmanager
def unfitted_by_errors(estimator: Any) -> Iterator[None]:
    """Leave the estimator not fitted where an exception goes by: attributes are set before the last check."""
    try:
        yield
    except BaseException:
        forget(estimator)
        raise


def check_machine(machine: Any) -> None:
    """Check the arrays of a fitted `DropIn`.

    Raises
    ------
    ValueError
        If an array is missing, has another shape than the others ask for, or is not finite; names the array.
    """
    _check_parts(machine)
    classes = len(_array(machine, "classes_")) if machine.counts_classes else 2
    given = machine.kernel == "precomputed" or callable(machine.kernel)
    rows = _shape(machine, "support_", 1)[0] if given else _shape(machine, "support_vectors_", 2)[0]
    if given:
        _array(machine, "support_vectors_")
        _check_places(machine, rows)
    else:
        _expect(machine, "support_vectors_", (rows, machine.n_features_in_))
    _expect(machine, "support_", (rows,))
    counts = _array(machine, "_n_support")
    _expect(machine, "_n_support", (classes,))
    counted = counts.astype(np.int64).sum()
    if (counts < 0).any() or counted != rows:
        raise altered(machine, "_n_support", f"counts {counts.tolist()} support vectors, of which there are {rows}")
    _expect(machine, "_dual_coef_", (classes - 1, rows))
    machines = classes * (classes - 1) // 2
    _expect(machine, "_intercept_", (machines,))
    for name in ("_probA", "_probB"):
        if len(_array(machine, name)):
            _expect(machine, name, (machines,))
    if machine._centred is not None:
        centres, intercepts, _, _ = machine._centred
        if centres.shape != (machines, machine.n_features_in_) or intercepts.shape != (machines,):
            raise altered(machine, "_centred", f"has the shapes {centres.shape} and {intercepts.shape}")


def _check_parts(machine: Any) -> None:
    """Check what is not an array, but is read by `predict`: a pickle that was read by half lacks it."""
    for name, kinds in _PARTS.items():
        if name == "n_features_in_" and callable(machine.kernel):
            continue  # rows are what the caller's kernel takes, and have no features
        found = getattr(machine, name, _PARTS)
        if not isinstance(found, kinds):
            raise altered(machine, name, "is missing" if found is _PARTS else f"is a {type(found).__name__}")
    if not isfinite(machine._gamma):
        raise altered(machine, "_gamma", "is not finite")
    if len(machine.shape_fit_) not in (1, 2):
        raise altered(machine, "shape_fit_", f"is {machine.shape_fit_}")


def check_planes(machine: Any) -> None:
    """Check the arrays of a fitted machine of LinearSVC's kind.

    Raises
    ------
    ValueError
        As `check_machine`.
    """
    columns: tuple[int, ...] = (_count(machine, "n_features_in_"),)
    rows: tuple[int, ...] = ()
    if hasattr(machine, "classes_"):
        classes = len(_array(machine, "classes_"))
        if classes < 2:
            raise altered(machine, "classes_", f"has {classes} classes")
        rows = (1,) if classes == 2 else (classes,)
    _expect(machine, "coef_", rows + columns)
    intercept = getattr(machine, "intercept_", None)
    if not machine.fit_intercept and isinstance(intercept, (int, float)) and isfinite(intercept):
        return  # a number of no machine
    _expect(machine, "intercept_", rows or (1,))


def _count(machine: Any, name: str) -> int:
    found = getattr(machine, name, None)
    if not isinstance(found, (int, np.integer)):
        raise altered(machine, name, "is missing" if found is None else f"is a {type(found).__name__}")
    return int(found)


def _check_places(machine: Any, rows: int) -> None:
    """Check that the support vectors are places of training rows: of a given matrix LIBSVM reads these columns."""
    support = _array(machine, "support_")
    if rows and not (support.min() >= 0 and support.max() < machine.shape_fit_[0]):
        raise altered(machine, "support_", f"has places beyond the {machine.shape_fit_[0]} training rows")


def _array(machine: Any, name: str) -> Any:
    found = getattr(machine, name, None)
    if not isinstance(found, np.ndarray) and not sparse.issparse(found):
        raise altered(machine, name, "is missing" if found is None else f"is a {type(found).__name__}")
    return found


def _shape(machine: Any, name: str, dimensions: int) -> tuple[int, ...]:
    shape: tuple[int, ...] = _array(machine, name).shape
    if len(shape) != dimensions:
        raise altered(machine, name, f"has shape {shape}")
    return shape


def _expect(machine: Any, name: str, shape: tuple[int, ...]) -> None:
    found = _array(machine, name)
    # Without support vectors sparse machines have a matrix of another shape, and no entry.
    if found.shape != shape and not (sparse.issparse(found) and 0 in shape and not found.nnz):
        raise altered(machine, name, f"has shape {found.shape}, not {shape}")
    values = found
    if sparse.issparse(found):
        _check_csr(machine, name, found)
        values = found.data
        if name == "_dual_coef_" and 0 not in shape and len(values) != shape[0] * shape[1]:
            raise altered(machine, name, f"has {len(values)} entries, not {shape[0] * shape[1]}")
    if values.dtype.kind not in "fiu" or not _is_finite(values):
        raise altered(machine, name, "is not finite")


def _check_csr(machine: Any, name: str, found: Any) -> None:
    starts, places = found.indptr, found.indices
    if found.format != "csr" or not (
        len(starts) == found.shape[0] + 1
        and starts[0] == 0
        and (np.diff(starts) >= 0).all()
        and starts[-1] == len(places) == len(found.data)
        and (not len(places) or (places.min() >= 0 and places.max() < found.shape[1]))
    ):
        raise altered(machine, name, "is not a CSR array whose parts fit together")


def _is_finite(values: Any) -> bool:
    flat = values.ravel("K")
    # A sum of squares takes a fraction of the time of a look at each entry, and is finite where all are.
    with np.errstate(over="ignore", invalid="ignore"):
        return isfinite(float(flat @ flat)) or bool(np.isfinite(flat).all())
