"""`STDASVC` against scikit-learn's own checks, and against SVC, attribute by attribute."""

from __future__ import annotations

import copy
import doctest

import numpy as np
import pyarrow as pa
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from streamsvm import STDASVC, CoresetSVC
from streamsvm.estimators import stdasvc

TIGHT = 1e-10
"""Tolerance at which a point of weight 2 and a point given twice agree to the seven digits that scikit-learn asks."""


@pytest.fixture(scope="module")
def cancer() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.fixture(scope="module")
def weights(cancer: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    return 10.0 ** np.random.default_rng(3).uniform(-1.5, 1.5, len(cancer[1]))


@parametrize_with_checks(
    [
        STDASVC(tol=TIGHT),
        STDASVC(tol=TIGHT, kernel="linear"),
        STDASVC(tol=TIGHT, class_weight="balanced"),
        STDASVC(tol=TIGHT, kernel="linear", alpha=1e-3),
    ]
)
def test_scikit_learns_checks(estimator: STDASVC, check: object) -> None:
    """scikit-learn's checks pass, that of sample weights at a tight tolerance included."""
    check(estimator)  # type: ignore[operator]


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
    assert ours.gamma_ == pytest.approx(theirs._gamma, rel=1e-12)
    np.testing.assert_allclose(ours.class_weight_, theirs.class_weight_)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-4)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_many_classes_are_one_against_the_rest(kernel) -> None:
    """Ten digits give the decision values of scikit-learn's one-vs-rest over SVC."""
    X, y = load_digits(return_X_y=True)
    X, gamma = X / 16.0, 0.1
    ours = STDASVC(kernel=kernel, gamma=gamma, tol=1e-5).fit(X[:900], y[:900])
    theirs = OneVsRestClassifier(SVC(kernel=kernel, gamma=gamma, tol=1e-5)).fit(X[:900], y[:900])
    np.testing.assert_allclose(ours.decision_function(X[900:]), theirs.decision_function(X[900:]), atol=2e-3)
    assert ours.dual_coef_.shape == (10, len(ours.support_))
    assert ours.n_support_.sum() == len(ours.support_)


def test_alpha_is_another_name_of_c(cancer, weights) -> None:
    """alpha gives the machine of C = 1 / (alpha U)."""
    X, y = cancer
    by_alpha = STDASVC(alpha=1e-3).fit(X, y, weights)
    by_c = STDASVC(C=1.0 / (1e-3 * weights.sum())).fit(X, y, weights)
    np.testing.assert_array_equal(by_alpha.decision_function(X), by_c.decision_function(X))


def test_the_same_fit_gives_the_same_bits(cancer) -> None:
    """Two fits agree to the last bit."""
    X, y = cancer
    first, second = STDASVC().fit(X, y), clone(STDASVC()).fit(X.copy(order="F"), y)
    assert first.dual_coef_.tobytes() == second.dual_coef_.tobytes()


def test_works_inside_search_and_pipeline() -> None:
    """A grid search over a pipeline chooses as it does for SVC, and sample weights are routed through it."""
    X, y = load_iris(return_X_y=True)
    with config_context(enable_metadata_routing=True):
        machine = STDASVC(tol=1e-6).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), machine)
        search = GridSearchCV(pipeline, {"stdasvc__C": [0.01, 1.0, 100.0]}, cv=3)
        search.fit(X, y, sample_weight=np.ones(len(y)))
    expected = cross_val_score(
        make_pipeline(StandardScaler(), OneVsRestClassifier(SVC(C=search.best_params_["stdasvc__C"]))), X, y, cv=3
    )
    assert search.best_score_ == pytest.approx(expected.mean(), abs=0.01)


def test_feature_names_are_kept_and_checked(cancer) -> None:
    """Names of a table's columns are kept; columns in another order are refused."""
    X, y = cancer
    names = list(load_breast_cancer().feature_names)
    table = pa.table(dict(zip(names, X.T, strict=True)))
    machine = STDASVC().fit(table, y)
    assert machine.feature_names_in_.tolist() == names
    np.testing.assert_array_equal(machine.decision_function(table), STDASVC().fit(X, y).decision_function(X))
    with pytest.raises(ValueError, match="same order"):
        machine.predict(table.select(names[::-1]))


@pytest.mark.parametrize("kind", [STDASVC, CoresetSVC])
def test_frames_of_a_scaler_reach_the_machine(cancer, kind) -> None:
    """In a pipeline whose steps pass data frames, the machine learns the columns' names."""
    pytest.importorskip("pandas")
    X, y = cancer
    names = list(load_breast_cancer().feature_names)
    table = pa.table(dict(zip(names, X.T, strict=True))).to_pandas()
    pipeline = make_pipeline(StandardScaler(), kind()).set_output(transform="pandas").fit(table, y)
    assert pipeline[-1].feature_names_in_.tolist() == names
    assert pipeline.score(table, y) > 0.95


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_copies_decide_alike(cancer, kernel) -> None:
    """A copy decides to the last bit as the original; a clone has learned nothing."""
    machine = STDASVC(kernel=kernel, class_weight={0: 2.0}).fit(*cancer)
    copied = copy.deepcopy(machine)
    assert copied.decision_function(cancer[0]).tobytes() == machine.decision_function(cancer[0]).tobytes()
    assert not hasattr(clone(machine), "classes_")
    assert clone(machine).get_params() == machine.get_params()


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_skops_brings_it_back(cancer, kernel) -> None:
    """Through skops the estimator comes back to the last bit, and is the only type to trust."""
    skops = pytest.importorskip("skops.io")
    machine = STDASVC(kernel=kernel).fit(*cancer)
    kept = skops.dumps(machine)
    trusted = skops.get_untrusted_types(data=kept)
    assert trusted == ["streamsvm.estimators.stdasvc.STDASVC"]
    loaded = skops.loads(kept, trusted=trusted)
    assert loaded.decision_function(cancer[0]).tobytes() == machine.decision_function(cancer[0]).tobytes()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"C": 0.0}, "C = 0.0"),
        ({"C": float("nan")}, "C = nan"),
        ({"alpha": -1.0}, "alpha = -1.0"),
        ({"gamma": "sclae"}, "gamma = 'sclae'"),
        ({"tol": 0}, "tol = 0"),
        ({"kernel": "poly"}, "kernel = 'poly'"),
        ({"max_iter": 0}, "max_iter = 0"),
    ],
)
def test_a_wrong_parameter_is_named(cancer, options, said) -> None:
    """A parameter without meaning is refused at `fit`, by name and value."""
    with pytest.raises(ValueError, match=said):
        STDASVC(**options).fit(*cancer)


def test_an_early_end_is_said(cancer) -> None:
    """A machine that met its bound on iterations says so, as SVC does."""
    machine = STDASVC(max_iter=1, tol=1e-9, C=1e4)
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        machine.fit(*cancer)
    assert machine.fit_status_ == 1


def test_the_examples_of_the_docstring() -> None:
    """The docstring's example says what it prints."""
    assert doctest.testmod(stdasvc).attempted > 0
    assert doctest.testmod(stdasvc).failed == 0
