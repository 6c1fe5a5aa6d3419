"""What has no meaning is refused by name, and what counts for nothing changes nothing, in both estimators.

The oracles are scikit-learn on dense rows, and a weight as so many copies of a row.
"""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import check_dataframe_column_names_consistency

from streamsvm import STDASVC, CoresetSVC
from streamsvm.estimators.inputs import canonical_rows

CLASSIFIERS = [STDASVC(), STDASVC(kernel="linear"), CoresetSVC()]


def numbers(n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    X = random.integers(-8, 8, (n, 6)).astype(float)
    X[random.random((n, 6)) < 0.5] = 0.0
    X[::17] = 0.0
    return X, (X[:, 0] + 0.3 * X[:, 1] + random.standard_normal(n) > 0).astype(int)


MEMORIES: list[dict[str, Any]] = [
    {},
    {"points": 16},
    {"memory": "window", "window": 60, "points": 600},
    {"memory": "decay", "half_life": 30},
    {"memory": "adaptive"},
    {"kernel": "rbf", "gamma": 0.5},
    {"class_weight": "balanced"},
    {"probability": "sigmoid"},
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("options", "size", "begin"),
    [(one, *((1, 0), (10, 20))[at % 2]) for at, one in enumerate([{}, *MEMORIES])],
    ids=str,
)
def test_portions_of_weight_0_are_ignored(options, size, begin) -> None:
    """Portions in which no row counts, the first included, change nothing: the model is that of the other rows."""
    random = np.random.default_rng(0)
    X = random.standard_normal((120, 3))
    y = (X[:, 0] > 0).astype(int)
    weight = np.where((np.arange(120) % 5 == 0) | (np.arange(120) < begin), 0.0, 1.0)
    kept = weight > 0.0
    whole = CoresetSVC(**options).partial_fit(X[kept], y[kept], classes=[0, 1])
    ours = CoresetSVC(**options)
    for at in range(0, 120, size):
        part = slice(at, at + size)
        ours.partial_fit(X[part], y[part], classes=[0, 1], sample_weight=weight[part])
    np.testing.assert_array_equal(ours.decision_function(X), whole.decision_function(X))
    assert ours.training_set_sha256_ == whole.training_set_sha256_


def test_a_first_portion_of_weight_0_without_classes_is_ignored() -> None:
    """The first row that counts begins the stream; until then nothing is learned. A later one changes no state."""
    X, y = numbers(40)
    ours = CoresetSVC().partial_fit(X[:5] + 1.0, np.full(5, 9), sample_weight=np.zeros(5))
    assert not hasattr(ours, "classes_")
    ours.partial_fit(X, y)
    whole = CoresetSVC().partial_fit(X, y)
    before = pickle.dumps(ours)
    ours.partial_fit(X, y, sample_weight=np.zeros(40))
    assert pickle.dumps(ours) == before
    np.testing.assert_array_equal(ours.coef_, whole.coef_)


def test_rows_of_weight_0_alone_are_no_model() -> None:
    """Where all classes are known and no row counted yet, a prediction is refused as before the first call."""
    X, y = numbers(40)
    ours = CoresetSVC().partial_fit(X, y, classes=[0, 1], sample_weight=np.zeros(40))
    for machine in (ours, pickle.loads(pickle.dumps(ours))):
        with pytest.raises(NotFittedError):
            machine.predict(X)
        np.testing.assert_array_equal(machine.partial_fit(X, y).coef_, CoresetSVC().fit(X, y).coef_)


def test_a_value_is_refused_by_the_type_that_is_stored() -> None:
    """A row of float64 that a stream of float32 cannot hold is refused as float32, by its row as given."""
    X, y = numbers(40)
    ours = CoresetSVC().partial_fit(X.astype(np.float32), y)
    X[3, 1] = 1e300
    for weight in (np.ones(40), (np.arange(40) > 1).astype(float)):
        with pytest.raises(ValueError, match=r"X\[3, 1\] is 1e\+300; .*3\.40282e\+38 .*kept as float32"):
            ours.partial_fit(X, y, sample_weight=weight)


@pytest.fixture(scope="module")
def iris() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_iris(return_X_y=True)
    return X, y


ABC = np.repeat(["a", "b", "c"], 50)


def with_one(values: Any, at: int, value: object) -> list[Any]:
    """Return the values as a list, but for the one at a place."""
    return [value if index == at else one for index, one in enumerate(np.asarray(values).tolist())]


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=str)
@pytest.mark.parametrize(
    ("labels", "weight", "class_weight", "said"),
    [
        (ABC, with_one(np.ones(150), 7, np.nan), None, r"NaN: sample_weight\[7\]"),
        (ABC, with_one(np.ones(150), 7, np.inf), None, r"infinity: sample_weight\[7\]"),
        (ABC, with_one(np.ones(150), 7, -0.5), None, r"sample_weight\[7\] is -0.5"),
        (ABC, np.zeros(150), None, "all samples have zero or negative weights"),
        (np.repeat([-3, 5, 10], 50), None, {10: 2, -3: 1, 5: 1, 7: 1}, "class_weight.*7|7 of class_weight"),
        (np.repeat(["1", "2", "3"], 50), None, {1: 2.0}, "class_weight.*1|1 of class_weight"),
        (ABC, None, {"d": 2.0}, "class_weight.*'d'|'d' of class_weight"),
        *((ABC, None, {"b": factor}, "class_weight") for factor in (np.nan, -1.0, 0.0, np.inf)),
        (with_one(np.repeat([0, 1, 2], 50), 5, "0"), None, None, "y mixes text and numbers"),
    ],
)
def test_what_has_no_meaning_is_named(iris, estimator, labels, weight, class_weight, said) -> None:
    """Weights by their row, class weights by their class, also where only its type differs from the label's; labels of
    two types, of which numpy would make text."""
    with pytest.raises(ValueError, match=said):
        clone(estimator).set_params(class_weight=class_weight).fit(iris[0], labels, sample_weight=weight)


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=str)
@pytest.mark.parametrize("missing", [pd.NA, None, np.nan])
def test_a_missing_label_is_named(iris, estimator, missing) -> None:
    """A label that pandas calls missing is refused by its place, in every array of text."""
    labels = with_one(ABC, 3, missing)
    for given in (pd.Series(labels, dtype="string"), np.array(labels, object), labels):
        with pytest.raises(ValueError, match=r"y contains NaN: y\[3\]"):
            clone(estimator).fit(iris[0], given)


@pytest.mark.parametrize("estimator", CLASSIFIERS[:-1], ids=str)
@pytest.mark.parametrize("classes", [["a", "b"], ["a", "b", "c"]])
def test_a_class_without_weight_is_named(iris, estimator, classes) -> None:
    """A class of which no row counts is refused by its name, of two classes and of three."""
    X, labels = iris[0][: 50 * len(classes)], np.repeat(classes, 50)
    with pytest.raises(ValueError, match="no sample of the class 'b' has a positive weight"):
        clone(estimator).fit(X, labels, sample_weight=(labels != "b").astype(float))


@pytest.mark.parametrize(("kernel", "n"), [("linear", 150), ("rbf", 2_000)])
def test_balanced_counts_weights(kernel, n) -> None:
    """The machine of weighted rows is SVC's of as many copies of each."""
    random = np.random.default_rng(0)
    X = random.standard_normal((n, 3))
    y = (X[:, 0] + 0.5 * random.standard_normal(n) > 0.8).astype(int)
    copies = random.integers(0, 4, n)
    options = {"kernel": kernel, "class_weight": "balanced", "gamma": 0.02, "tol": 1e-8}
    ours = STDASVC(**options).fit(X, y, sample_weight=copies)
    theirs = SVC(**options).fit(np.repeat(X, copies, axis=0), np.repeat(y, copies))
    np.testing.assert_allclose(ours.class_weight_, theirs.class_weight_)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-4)


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=str)
def test_text_that_looks_like_numbers_stays_text(iris, estimator) -> None:
    """Labels and keys "1", "01" and "2" are three classes; the machine is that of other names in the same order."""
    X, y = iris
    weights = {"01": 2.0, "1": 1.0, "2": 5.0}
    ours = clone(estimator).set_params(class_weight=weights).fit(X, np.array(["01", "1", "2"])[y])
    named = dict(zip("abc", weights.values(), strict=True))
    other = clone(estimator).set_params(class_weight=named).fit(X, np.array(["a", "b", "c"])[y])
    assert ours.classes_.tolist() == ["01", "1", "2"]
    np.testing.assert_array_equal(ours.decision_function(X), other.decision_function(X))
    np.testing.assert_array_equal(
        ours.predict(X), np.array(["01", "1", "2"])[np.searchsorted(other.classes_, other.predict(X))]
    )


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=str)
def test_names_of_columns_are_kept_and_checked(estimator) -> None:
    """By a check of scikit-learn that is not among those it makes of every estimator."""
    check_dataframe_column_names_consistency(type(estimator).__name__, estimator)


def shuffled(dense: np.ndarray) -> sparse.coo_array:
    """Return entries in a random order, each in two halves."""
    rows, columns = dense.nonzero()
    order = np.random.default_rng(1).permutation(2 * len(rows))
    values = np.tile(dense[rows, columns] / 2, 2)
    return sparse.coo_array((values[order], (np.tile(rows, 2)[order], np.tile(columns, 2)[order])), shape=dense.shape)


def raw_csr(dense: np.ndarray, index: type = np.int32) -> sparse.csr_array:
    """Return CSR whose entries are in halves and unordered, and whose flags say that they are not."""
    entries = shuffled(dense)
    order = np.argsort(entries.coords[0], kind="stable")
    starts = np.searchsorted(entries.coords[0][order], np.arange(len(dense) + 1))
    X = sparse.csr_array(dense.shape)
    X.data, X.indices, X.indptr = entries.data[order], entries.coords[1][order].astype(index), starts.astype(index)
    X.has_canonical_format = X.has_sorted_indices = True
    return X


def frozen(dense: np.ndarray) -> sparse.csr_array:
    X = raw_csr(dense)
    for part in (X.data, X.indices, X.indptr):
        part.flags.writeable = False
    return X


FORMS = {
    "unordered csr_array": raw_csr,
    "read-only": frozen,
    "int64": lambda dense: raw_csr(dense, np.int64),
    "csr_matrix": lambda dense: sparse.csr_matrix(raw_csr(dense)),
    "csc_array": sparse.csc_array,
    "csc_matrix": sparse.csc_matrix,
    "coo_array": shuffled,
    "coo_matrix": lambda dense: sparse.coo_matrix(shuffled(dense)),
}


def parts_of(X: Any) -> list[np.ndarray]:
    return [getattr(X, name).copy() for name in ("data", "indices", "indptr", "row", "col") if hasattr(X, name)]


@pytest.mark.parametrize(
    ("form", "n", "kernel"),
    [
        *((name, 100, ("linear", "rbf")[at % 2]) for at, name in enumerate(FORMS)),
        ("unordered csr_array", 900, "rbf"),
        ("int64", 900, "linear"),
    ],
    ids=str,
)
def test_every_form_of_sparse_rows_is_one_machine(form, n, kernel) -> None:
    """Fit, predict and decision_function are those of sorted CSR, and near those of dense rows; X stays as it was."""
    dense, y = numbers(n)
    X = FORMS[form](dense)
    before = parts_of(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, plain, rows = (
            STDASVC(tol=1e-6, gamma=0.1, kernel=kernel).fit(one, y) for one in (X, sparse.csr_array(dense), dense)
        )
    values, of_rows = ours.decision_function, rows.decision_function
    np.testing.assert_array_equal(values(X), plain.decision_function(sparse.csr_array(dense)))
    np.testing.assert_array_equal(ours.predict(X), plain.predict(sparse.csr_array(dense)))
    scale = float(np.abs(of_rows(dense)).max())
    np.testing.assert_allclose(values(X), of_rows(dense), atol=1e-4 * scale)
    for part, copy in zip(parts_of(X), before, strict=True):
        np.testing.assert_array_equal(part, copy)


def test_rows_in_order_are_not_copied() -> None:
    """Entries that are already in order are the caller's own; others are copied."""
    X = sparse.csr_array(numbers()[0])
    assert np.shares_memory(canonical_rows(X).data, X.data)
    assert canonical_rows(numbers()[0]) is not None
    np.testing.assert_array_equal(canonical_rows(raw_csr(X.toarray())).toarray(), X.toarray())


def test_balanced_needs_a_finite_factor(iris) -> None:
    """A class whose weights are as good as 0 beside the others is named."""
    weight = np.where(iris[1] == 0, 1e-320, 1.0)
    with pytest.raises(ValueError, match="no finite factor for the class 0"):
        STDASVC(class_weight="balanced").fit(*iris, sample_weight=weight)
