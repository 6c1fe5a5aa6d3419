"""What has no meaning is refused by name, and equal inputs give equal machines, in every estimator.

The oracles are scikit-learn on dense rows, and a weight as so many copies of a row.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.svm import SVC, SVR, LinearSVC, OneClassSVM

from streamsvm import STDASVC, STDASVR, CoresetSVC, STDALinearSVC, STDALinearSVR, STDAOneClassSVM
from streamsvm.estimators.inputs import canonical_rows
from tests.estimators.test_inputs import numbers

CLASSIFIERS = [
    STDASVC(),
    STDASVC(kernel="linear"),
    STDASVC(kernel="poly", coef0=-1.0),
    STDASVC(kernel="sigmoid"),
    STDALinearSVC(loss="hinge", random_state=0),
    STDALinearSVC(random_state=0),
    STDALinearSVC(multi_class="crammer_singer", random_state=0),
    CoresetSVC(),
]
OTHERS = [
    STDASVR(),
    STDASVR(kernel="sigmoid"),
    STDAOneClassSVM(),
    STDALinearSVR(),
    STDALinearSVR(loss="squared_epsilon_insensitive"),
]
ROW_KERNELS: list[dict[str, Any]] = [
    {"kernel": "linear"},
    {"kernel": "rbf", "gamma": 0.1},
    {"kernel": "poly", "gamma": 0.02, "coef0": 1.0},
    {"kernel": "sigmoid", "gamma": 0.01},
]


def told(estimator: Any) -> str:
    return str(estimator)


@pytest.fixture(scope="module")
def iris() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_iris(return_X_y=True)
    return X, y


@pytest.mark.parametrize("estimator", CLASSIFIERS + OTHERS, ids=told)
@pytest.mark.parametrize(
    ("value", "said"),
    [
        (np.nan, r"NaN: sample_weight\[7\]"),
        (np.inf, r"infinity: sample_weight\[7\]"),
        (-0.5, r"sample_weight\[7\] is -0.5"),
    ],
)
def test_a_weight_without_a_meaning_is_named(iris, estimator, value, said) -> None:
    """NaN, infinity and negative weights are refused by their row, whatever the kernel, the loss and the solver."""
    weight = np.ones(150)
    weight[7] = value
    with pytest.raises(ValueError, match=said):
        clone(estimator).fit(*iris, sample_weight=weight)


@pytest.mark.parametrize("estimator", CLASSIFIERS + OTHERS, ids=told)
def test_no_weight_at_all_is_an_error(iris, estimator) -> None:
    """Where no row counts, the error says so."""
    with pytest.raises(ValueError, match="all samples have zero or negative weights"):
        clone(estimator).fit(*iris, sample_weight=np.zeros(150))


@pytest.mark.parametrize("estimator", CLASSIFIERS[:-1], ids=told)
@pytest.mark.parametrize("classes", [["a", "b"], ["a", "b", "c"]])
def test_a_class_without_weight_is_named(iris, estimator, classes) -> None:
    """A class of which no row counts is refused by its name, of two classes and of three."""
    X, labels = iris[0][: 50 * len(classes)], np.repeat(classes, 50)
    with pytest.raises(ValueError, match="no sample of the class 'b' has a positive weight"):
        clone(estimator).fit(X, labels, sample_weight=(labels != "b").astype(float))


def test_a_class_without_weight_is_named_where_probabilities_are_asked_for(iris) -> None:
    """LIBSVM alone would give probabilities of two classes beside three."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        machine = STDASVC(kernel="sigmoid", probability=True)
        with pytest.raises(ValueError, match="the class 2 has a positive weight"):
            machine.fit(*iris, sample_weight=(iris[1] < 2).astype(float))


@pytest.mark.parametrize("ours", [STDASVC, STDASVR, STDAOneClassSVM])
@pytest.mark.parametrize("kernel", ["sigmoid", "precomputed", "callable"])
def test_rows_of_weight_0_are_absent_where_libsvm_solves(iris, ours, kernel) -> None:
    """A given matrix is read at the places in X, which LIBSVM counts among the rows that take part."""

    def similarity(A: Any, B: Any) -> np.ndarray:
        return np.exp(-((A[:, None] - B[None]) ** 2).sum(axis=2))

    X, y = iris
    weight = np.where(np.arange(150) % 3 == 0, 0.0, 1.0)
    kept = weight > 0.0
    machine = ours(kernel=similarity if kernel == "callable" else kernel, gamma=0.01)
    given = kernel == "precomputed"
    whole = clone(machine).fit(similarity(X, X) if given else X, y, sample_weight=weight)
    alone = clone(machine).fit(similarity(X[kept], X[kept]) if given else X[kept], y[kept])
    found = whole.predict(similarity(X, X) if given else X)
    np.testing.assert_array_equal(found, alone.predict(similarity(X, X[kept]) if given else X))
    np.testing.assert_array_equal(whole.support_, np.flatnonzero(kept)[alone.support_])


@pytest.mark.parametrize("kernel", ["linear", "rbf", "sigmoid"])
@pytest.mark.parametrize("n", [150, 2_000])
def test_balanced_counts_weights(kernel, n) -> None:
    """The machine of weighted rows is SVC's of as many copies of each."""
    random = np.random.default_rng(0)
    X = random.standard_normal((n, 3))
    y = (X[:, 0] + 0.5 * random.standard_normal(n) > 0.8).astype(int)
    copies = random.integers(0, 4, n)
    # LIBSVM alone solves `sigmoid`, with float32 kernel values, which leave a gap of some 1e-7.
    tol = 1e-6 if kernel == "sigmoid" else 1e-8
    options = {"kernel": kernel, "class_weight": "balanced", "gamma": 0.02, "tol": tol}
    ours = STDASVC(**options).fit(X, y, sample_weight=copies)
    theirs = SVC(**options).fit(np.repeat(X, copies, axis=0), np.repeat(y, copies))
    np.testing.assert_allclose(ours.class_weight_, theirs.class_weight_)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-4)


@pytest.mark.parametrize("options", [{"loss": "hinge"}, {}, {"loss": "hinge", "C": 50.0}])
def test_balanced_counts_weights_in_linear_machines(options) -> None:
    """LIBLINEAR's machine of weighted rows is that of as many copies, and so is ours where its passes do not end."""
    random = np.random.default_rng(0)
    X = random.standard_normal((1_500, 3))
    y = (X[:, 0] + 0.5 * random.standard_normal(1_500) > 0.8).astype(int)
    copies = random.integers(0, 4, 1_500)
    options = {"class_weight": "balanced", "tol": 1e-7, "max_iter": 100_000, "random_state": 0} | options
    ours = STDALinearSVC(**options).fit(X, y, sample_weight=copies)
    theirs = LinearSVC(**options).fit(np.repeat(X, copies, axis=0), np.repeat(y, copies))
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=2e-3)


@pytest.mark.filterwarnings("ignore:Liblinear failed to converge")
@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=told)
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


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=told)
@pytest.mark.parametrize(
    ("labels", "class_weight", "said"),
    [
        ([10, -3, 5], {10: 2, -3: 1, 5: 1, 7: 1}, "7"),
        (["1", "2", "3"], {1: 2.0}, "1"),
        (["a", "b", "c"], {"d": 2.0}, "'d'"),
    ],
)
def test_a_class_weight_of_an_absent_class_is_named(iris, estimator, labels, class_weight, said) -> None:
    """Also where every class that is there has its weight, and where only the type of the label differs."""
    machine = clone(estimator).set_params(class_weight=class_weight)
    with pytest.raises(ValueError, match=f"class_weight.*{said}|{said} of class_weight"):
        machine.fit(iris[0], np.array(labels)[iris[1]])


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=told)
@pytest.mark.parametrize("factor", [np.nan, -1.0, 0.0, np.inf])
def test_a_class_weight_without_a_meaning_is_refused(iris, estimator, factor) -> None:
    """A factor that leaves a class without weight, or has none, is refused."""
    with pytest.raises(ValueError, match="class_weight"):
        clone(estimator).set_params(class_weight={1: factor}).fit(*iris)


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=told)
@pytest.mark.parametrize("missing", [pd.NA, None, np.nan])
@pytest.mark.parametrize("kind", [lambda y: pd.Series(y, dtype="string"), lambda y: np.array(y, object), list])
def test_a_missing_label_is_named(iris, estimator, missing, kind) -> None:
    """A label that pandas calls missing is refused by its place, in every array of text."""
    labels: list[Any] = np.array(["a", "b", "c"])[iris[1]].tolist()
    labels[3] = missing
    with pytest.raises(ValueError, match=r"y contains NaN: y\[3\]"):
        clone(estimator).fit(iris[0], kind(labels))


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=told)
def test_a_list_of_text_and_numbers_is_refused(iris, estimator) -> None:
    """numpy would make text of the numbers, and one class of 1 and "1"."""
    labels: list[Any] = iris[1].tolist()
    labels[5] = "0"
    with pytest.raises(ValueError, match="y mixes text and numbers"):
        clone(estimator).fit(iris[0], labels)


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
    ("form", "n"), [*((name, 100) for name in FORMS), ("unordered csr_array", 900), ("int64", 900)], ids=str
)
@pytest.mark.parametrize("options", ROW_KERNELS, ids=lambda options: options["kernel"])
@pytest.mark.parametrize("kind", [STDASVC, STDASVR, STDAOneClassSVM])
def test_every_form_of_sparse_rows_is_one_machine(form, n, options, kind) -> None:
    """Fit, predict and decision_function are those of sorted CSR, and near those of dense rows; X stays as it was."""
    dense, y = numbers(n)
    X = FORMS[form](dense)
    before = parts_of(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, plain, rows = (kind(tol=1e-6, **options).fit(one, y) for one in (X, sparse.csr_array(dense), dense))
    values = ours.predict if kind is STDASVR else ours.decision_function
    expected = plain.predict if kind is STDASVR else plain.decision_function
    of_rows = rows.predict if kind is STDASVR else rows.decision_function
    np.testing.assert_array_equal(values(X), expected(sparse.csr_array(dense)))
    np.testing.assert_array_equal(ours.predict(X), plain.predict(sparse.csr_array(dense)))
    scale = float(np.abs(of_rows(dense)).max())
    np.testing.assert_allclose(values(X), of_rows(dense), atol=1e-4 * scale)
    for part, copy in zip(parts_of(X), before, strict=True):
        np.testing.assert_array_equal(part, copy)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize(
    "machine",
    [
        STDALinearSVC(loss="hinge", C=100.0, random_state=0),
        STDALinearSVC(random_state=0),
        STDALinearSVR(random_state=0, max_iter=50_000),
        STDALinearSVR(loss="squared_epsilon_insensitive", random_state=0, max_iter=50_000),
    ],
    ids=told,
)
def test_every_form_of_sparse_rows_is_one_linear_machine(form, machine) -> None:
    """Coefficients are those of sorted CSR; X stays as it was."""
    dense, y = numbers(1_500)
    X = form(dense)
    before = parts_of(X)
    ours, plain = clone(machine).fit(X, y), clone(machine).fit(sparse.csr_array(dense), y)
    np.testing.assert_array_equal(ours.coef_, plain.coef_)
    np.testing.assert_allclose(ours.predict(X), plain.predict(dense), atol=1e-12)
    for part, copy in zip(parts_of(X), before, strict=True):
        np.testing.assert_array_equal(part, copy)


def test_rows_in_order_are_not_copied() -> None:
    """Entries that are already in order are the caller's own; others are copied."""
    X = sparse.csr_array(numbers()[0])
    assert np.shares_memory(canonical_rows(X).data, X.data)
    assert canonical_rows(numbers()[0]) is not None
    np.testing.assert_array_equal(canonical_rows(raw_csr(X.toarray())).toarray(), X.toarray())


@pytest.mark.parametrize("n", [50, 300, 700, 2_000])
@pytest.mark.parametrize("nu_n", [2e-3, 0.05, 0.5, 1.0, 1.5])
@pytest.mark.parametrize("gamma", ["scale", 1e-7, 1e6])
def test_a_far_row_is_outside_whatever_nu_is(n, nu_n, gamma) -> None:
    """Values are as small as nu n: a tolerance that does not know that takes everything for inside."""
    X = np.random.default_rng(0).random((n, 4))
    machine = STDAOneClassSVM(nu=nu_n / n, gamma=gamma).fit(X)
    assert machine.predict([[5.0] * 4, [-40.0] * 4]).tolist() == [-1, -1]
    assert np.count_nonzero(machine.predict(X) < 0) <= nu_n


@pytest.mark.parametrize("nu_n", [2e-3, 0.05, 0.5])
def test_nearly_all_rows_are_inside_a_given_matrix_too(nu_n) -> None:
    """LIBSVM, which solves alone there, gets a tolerance in units of nu n; a border row's side is left to rounding."""
    X = np.random.default_rng(0).random((300, 4))

    def similarity(A: np.ndarray) -> np.ndarray:
        return np.exp(-((A[:, None] - X[None]) ** 2).sum(axis=2))

    machine = STDAOneClassSVM(nu=nu_n / 300, kernel="precomputed", tol=1e-3).fit(similarity(X))
    assert np.count_nonzero(machine.predict(similarity(X)) < 0) < 15
    assert machine.predict(similarity(np.full((1, 4), 5.0)))[0] == -1
    assert machine.tol == 1e-3


def test_balanced_needs_a_finite_factor(iris) -> None:
    """A class whose weights are as good as 0 beside the others is named, before LIBLINEAR is given infinity."""
    weight = np.where(iris[1] == 0, 1e-320, 1.0)
    for kind in (STDASVC, STDALinearSVC):
        with pytest.raises(ValueError, match="no finite factor for the class 0"):
            kind(class_weight="balanced").fit(*iris, sample_weight=weight)


@pytest.mark.parametrize("size", [1e-9, 1e-4, 1.0])
@pytest.mark.parametrize("n", [300, 800])
def test_small_weights_do_not_hide_far_rows(size, n) -> None:
    """Weights multiply all values alike: the sides are those of weights of 1."""
    X = np.random.default_rng(0).random((n, 4))
    ours = STDAOneClassSVM(nu=0.1003, gamma=1.0, tol=1e-6).fit(X, sample_weight=np.full(n, size))
    theirs = OneClassSVM(nu=0.1003, gamma=1.0, tol=1e-9).fit(X)
    assert ours.predict([[5.0] * 4])[0] == -1
    clear = np.abs(theirs.decision_function(X)) > 1e-4
    np.testing.assert_array_equal(ours.predict(X)[clear], theirs.predict(X)[clear])


def test_one_class_of_equal_rows_is_inside_without_a_warning() -> None:
    """Rows that are all the same lie on the border, and need no smaller tolerance."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        machine = STDAOneClassSVM(nu=0.01, gamma=1.0).fit(np.ones((20, 3)))
    assert machine.predict([[1.0] * 3, [3.0] * 3]).tolist() == [1, -1]


@pytest.mark.filterwarnings("ignore:The `probability` parameter was deprecated:FutureWarning")
@pytest.mark.parametrize("kernel", ["rbf", "linear", "sigmoid"])
def test_probabilities_in_reverse_order_are_warned_of(kernel) -> None:
    """Four rows leave folds whose machines rank the others the wrong way round; the warning names the classes."""
    X = np.array([[0.0], [1.0], [2.0], [3.0]])
    machine = STDASVC(kernel=kernel, probability=True, random_state=0)
    with pytest.warns(UserWarning, match="'a' and 'b' are in the reverse order"):
        machine.fit(X, ["a", "b", "b", "a"])
    values = machine.decision_function(X)
    reverse = np.diff(machine.predict_proba(X)[np.argsort(values), 1])
    assert (reverse <= 0.0).all()


def test_probabilities_in_order_are_not_warned_of(iris) -> None:
    """Where decision values and probabilities agree, nothing is said but scikit-learn's own."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", FutureWarning)
        STDASVC(probability=True, random_state=0).fit(*iris)


def test_weights_may_come_in_any_array() -> None:
    """Lists, frames' columns and integers are weights; what is empty or is text is refused."""
    X, y = numbers(40)
    expected = SVR(kernel="linear").fit(X, y, sample_weight=np.full(40, 2.0)).predict(X)
    for weight in ([2] * 40, pd.Series([2.0] * 40, dtype="Float64"), np.full(40, 2, np.int8)):
        np.testing.assert_allclose(STDASVR(kernel="linear").fit(X, y, weight).predict(X), expected, atol=1e-2)
    for wrong in ([], ["a"] * 40, 2.0):
        with pytest.raises(ValueError, match="sample_weight"):
            STDASVR().fit(X, y, sample_weight=wrong)
