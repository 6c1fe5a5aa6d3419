"""`STDASVC` against scikit-learn's own checks, and against SVC, attribute by attribute."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from streamsvm import STDASVC
from streamsvm.estimators import stdasvc

KERNELS = [{"kernel": "linear"}, {"kernel": "rbf", "gamma": 0.1}]
TIGHT = 1e-10
"""Tolerance at which a point of weight 2 and a point given twice agree to the seven digits that scikit-learn asks."""


def svcs_own_failures(estimator: STDASVC) -> dict[str, str]:
    """Return the checks that SVC with the same settings does not pass, with the reason."""
    scaled = estimator.kernel != "linear" and estimator.gamma == "scale"
    if not scaled:
        return {}
    reason = "the variance in gamma='scale' does not count sample weights"
    return {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in ("dense", "sparse")}


def dense(values):
    return values.toarray() if sparse.issparse(values) else values


@pytest.fixture(scope="module")
def cancer() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.fixture(scope="module")
def weights(cancer: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    return 10.0 ** np.random.default_rng(3).uniform(-1.5, 1.5, len(cancer[1]))


@pytest.mark.long(keep=("STDASVC(tol=1e-10)-*",))
@parametrize_with_checks(
    [STDASVC(tol=TIGHT), STDASVC(tol=TIGHT, kernel="linear"), STDASVC(tol=1e-8, loss="squared_hinge")],
    expected_failed_checks=svcs_own_failures,
)
def test_scikit_learns_checks(estimator: STDASVC, check: object) -> None:
    """scikit-learn's checks pass, but for those that SVC fails, too."""
    check(estimator)  # type: ignore[operator]


def test_without_a_hard_margin_an_infinite_penalty_warns() -> None:
    """Where no plane separates the classes; where one does, nothing is said."""
    X, y = load_iris(return_X_y=True)
    with pytest.warns(ConvergenceWarning, match="does not separate"):
        STDASVC(kernel="linear", C=np.inf).fit(X[y > 0], y[y > 0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert STDASVC(kernel="linear", C=np.inf).fit(X[y < 2], y[y < 2]).score(X[y < 2], y[y < 2]) == 1.0


def test_the_squared_hinge_is_linear_svcs(cancer: tuple[np.ndarray, np.ndarray], weights: np.ndarray) -> None:
    """The same decisions as LinearSVC's, whose penalty of the bias is 1e-8 of ours of w."""
    X, y = cancer
    found = STDASVC(kernel="linear", loss="squared_hinge", C=0.1, tol=1e-8).fit(X, y, weights)
    theirs = LinearSVC(C=0.1, dual=False, tol=1e-10, intercept_scaling=1e4, max_iter=100_000).fit(X, y, weights)
    np.testing.assert_allclose(found.decision_function(X), theirs.decision_function(X), rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match="loss"):
        STDASVC(loss="log").fit(X, y)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("class_weight", [None, {0: 3.0, 1: 0.5}])
def test_every_attribute_is_svcs(cancer, weights, kernel, class_weight) -> None:
    """With two classes support, dual variables, bias and decision values are SVC's, weighted points included."""
    X, y = cancer
    options = {"C": 0.7, "kernel": kernel, "class_weight": class_weight, "gamma": "auto", "tol": 1e-6}
    ours = STDASVC(**options).fit(X, y, sample_weight=weights)
    theirs = SVC(**options).fit(X, y, sample_weight=weights)
    assert ours.support_.tolist() == theirs.support_.tolist()
    assert ours.n_support_.tolist() == theirs.n_support_.tolist()
    np.testing.assert_array_equal(ours.support_vectors_, theirs.support_vectors_)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-4)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-4)
    if kernel == "rbf":
        np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, atol=1e-3)
    else:
        np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)


def test_scale_is_svcs_without_weights(cancer) -> None:
    """`gamma="scale"` and `class_weight="balanced"` are SVC's where points weigh the same."""
    X, y = cancer
    ours = STDASVC(class_weight="balanced", tol=1e-6).fit(X, y)
    theirs = SVC(class_weight="balanced", tol=1e-6).fit(X, y)
    np.testing.assert_allclose(ours.class_weight_, theirs.class_weight_)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-4)


@pytest.mark.parametrize(
    ("kind", "options"), [(np.asarray, KERNELS[1]), (sparse.csr_array, KERNELS[0]), (sparse.csr_matrix, KERNELS[1])]
)
def test_many_classes_are_svcs_pairs(options, kind) -> None:
    """Ten digits, dense and sparse, give SVC's machines, one for each pair of classes."""
    X, y = load_digits(return_X_y=True)
    X, rest = kind(X[:500] / 16.0), X[500:900] / 16.0
    ours, theirs = (machine(tol=1e-6, **options).fit(X, y[:500]) for machine in (STDASVC, SVC))
    assert ours.support_.tolist() == theirs.support_.tolist()
    assert ours.n_support_.tolist() == theirs.n_support_.tolist()
    assert ours.n_iter_.shape == theirs.n_iter_.shape == (45,)
    assert ours.shape_fit_ == theirs.shape_fit_
    assert type(ours.dual_coef_) is type(theirs.dual_coef_)
    assert type(ours.support_vectors_) is type(theirs.support_vectors_)
    np.testing.assert_allclose(dense(ours.dual_coef_), dense(theirs.dual_coef_), atol=1e-3)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-4)
    np.testing.assert_array_equal(ours.predict(kind(rest)), theirs.predict(kind(rest)))
    for machine in (ours, theirs):
        machine.decision_function_shape = "ovo"
    np.testing.assert_allclose(ours.decision_function(kind(rest)), theirs.decision_function(kind(rest)), atol=1e-4)
    if options["kernel"] == "linear":
        np.testing.assert_allclose(dense(ours.coef_), dense(theirs.coef_), atol=1e-4)


@pytest.mark.parametrize("options", KERNELS, ids=lambda options: options["kernel"])
def test_rows_that_stay_sparse_give_the_machines_of_dense_ones(options, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sparse rows too large to be made dense are solved as they are, to the same optimum."""
    X, y = load_digits(return_X_y=True)
    X = X[:900] / 16.0
    whole = STDASVC(tol=1e-6, decision_function_shape="ovo", **options).fit(X, y[:900])
    monkeypatch.setattr(stdasvc, "DENSE_BYTES", dict.fromkeys(stdasvc.DENSE_BYTES, 0))
    rows = sparse.csr_array(X)
    found = clone(whole).fit(rows, y[:900])
    np.testing.assert_allclose(found.decision_function(rows), whole.decision_function(X), atol=1e-4)
    again = clone(whole).fit(rows, y[:900])
    assert again.dual_coef_.data.tobytes() == found.dual_coef_.data.tobytes()


def test_wide_sparse_text_is_svcs() -> None:
    """Rows of a few words among 2^16 hashed ones give SVC's plane."""
    words = sparse.random(400, 1 << 16, density=2e-4, format="csr", random_state=np.random.default_rng(0))
    y = np.asarray(words[:, : 1 << 15].sum(axis=1)).ravel() > np.asarray(words[:, 1 << 15 :].sum(axis=1)).ravel()
    ours, theirs = (kind(kernel="linear", C=10.0, tol=1e-6).fit(words, y) for kind in (STDASVC, SVC))
    np.testing.assert_allclose(ours.decision_function(words), theirs.decision_function(words), atol=1e-4)


@pytest.mark.parametrize("break_ties", [False, True])
@pytest.mark.parametrize("shape", ["ovr", "ovo"])
def test_shapes_of_decision_values_and_ties_are_svcs(shape, break_ties) -> None:
    """Three classes: what is asked for, and how a tie of votes is broken, is as in SVC."""
    X, y = load_iris(return_X_y=True)
    options = {"decision_function_shape": shape, "break_ties": break_ties, "tol": 1e-6}
    ours, theirs = (kind(**options).fit(X, y) for kind in (STDASVC, SVC))
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-4)
    if shape == "ovo" and break_ties:
        with pytest.raises(ValueError, match="break_ties must be False"):
            ours.predict(X)
    else:
        np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_weights_of_zero_take_no_part(cancer, kernel) -> None:
    """The machine is SVC's, and that of the other points alone; `support_` holds places in X."""
    X, y = cancer
    weight = np.maximum(np.random.default_rng(0).uniform(-0.5, 1.0, len(y)), 0.0)
    ours, theirs = (kind(kernel=kernel, gamma=0.05, tol=1e-6).fit(X, y, weight) for kind in (STDASVC, SVC))
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-4)
    np.testing.assert_array_equal(ours.support_vectors_, theirs.support_vectors_)
    np.testing.assert_array_equal(X[ours.support_], ours.support_vectors_)
    kept = weight > 0
    alone = clone(ours).fit(X[kept], y[kept], weight[kept])
    np.testing.assert_allclose(alone.decision_function(X), ours.decision_function(X), atol=1e-9)


def test_an_infinite_penalty_is_the_largest_margin() -> None:
    """With C = inf, classes that a plane separates get the plane of the largest margin, as from SVC."""
    X, y = load_iris(return_X_y=True)
    ours, theirs = (kind(C=np.inf, kernel="linear", tol=1e-8).fit(X[:100], y[:100]) for kind in (STDASVC, SVC))
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-5)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-5)


def test_the_same_fit_gives_the_same_bits(cancer) -> None:
    """Two fits agree to the last bit."""
    X, y = cancer
    first, second = STDASVC().fit(X, y), clone(STDASVC()).fit(X.copy(order="F"), y)
    assert first.dual_coef_.tobytes() == second.dual_coef_.tobytes()


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_copies_decide_alike(cancer, kernel) -> None:
    """To the last bit as the original, through skops, too, where it is the only type to trust; a clone has learned
    nothing."""
    skops = pytest.importorskip("skops.io")
    machine = STDASVC(kernel=kernel, class_weight={0: 2.0}).fit(*cancer)
    kept = skops.dumps(machine)
    trusted = skops.get_untrusted_types(data=kept)
    assert trusted == ["streamsvm.estimators.stdasvc.STDASVC"]
    for copied in (copy.deepcopy(machine), skops.loads(kept, trusted=trusted)):
        assert copied.decision_function(cancer[0]).tobytes() == machine.decision_function(cancer[0]).tobytes()
    assert not hasattr(clone(machine), "classes_")
    assert clone(machine).get_params() == machine.get_params()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"C": 0.0}, "'C' parameter of STDASVC .* Got 0.0"),
        ({"gamma": "sclae"}, "'gamma' parameter of STDASVC .* Got 'sclae'"),
        ({"tol": 0.0}, "'tol' parameter of STDASVC .* Got 0.0"),
        ({"kernel": "cubic"}, "'kernel' parameter of STDASVC .* Got 'cubic'"),
        ({"max_iter": -2}, "'max_iter' parameter of STDASVC .* Got -2"),
        ({"kernel": "poly"}, "STDASVC supports 'linear' and 'rbf'. Use sklearn.svm.SVC"),
        ({"kernel": lambda A, B: A @ B.T}, "STDASVC supports 'linear' and 'rbf'. Use sklearn.svm.SVC"),
        ({"probability": True}, "Use sklearn.calibration.CalibratedClassifierCV"),
    ],
)
def test_a_wrong_parameter_is_named(cancer, options, said) -> None:
    """What has no meaning is refused at `fit`, by name and value; of what scikit-learn has, its class is named."""
    with pytest.raises(ValueError, match=said):
        STDASVC(**options).fit(*cancer)


def test_an_early_end_is_said(cancer) -> None:
    """A machine that met its bound on iterations says so, as SVC does."""
    machine = STDASVC(max_iter=1, tol=1e-9, C=1e4)
    with pytest.warns(ConvergenceWarning, match="the solver ended before the KKT gap met tol = 1e-09"):
        machine.fit(*cancer)
    assert machine.fit_status_ == 1
