"""`STDASVC` against scikit-learn's own checks, and against SVC, attribute by attribute."""

from __future__ import annotations

import copy
import doctest

import numpy as np
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from streamsvm import STDASVC, CoresetSVC
from streamsvm.drop_in import base, stdasvc
from streamsvm.drop_in.threads import Threads, number_of

KERNELS = [{"kernel": "linear"}, {"kernel": "rbf", "gamma": 0.1}, {"kernel": "poly", "gamma": 0.1, "coef0": 1.0}]
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


# Some checks have features of 100 and more: their third powers round by more than the tolerance, which is said.
@pytest.mark.long(keep=("STDASVC(gamma=0.1,tol=1e-10)-*", "STDASVC(kernel='sigmoid')-*"))
@pytest.mark.filterwarnings("ignore:the solver ended before the KKT gap:sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [
        STDASVC(tol=TIGHT),
        STDASVC(tol=TIGHT, gamma=0.1),
        STDASVC(tol=TIGHT, kernel="linear"),
        STDASVC(tol=TIGHT, kernel="linear", alpha=1e-3),
        STDASVC(tol=TIGHT, gamma=0.1, class_weight="balanced"),
        STDASVC(kernel="poly"),
        STDASVC(kernel="sigmoid"),
    ],
    expected_failed_checks=svcs_own_failures,
)
def test_scikit_learns_checks(estimator: STDASVC, check: object) -> None:
    """scikit-learn's checks pass, but for those that SVC fails, too."""
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


@pytest.mark.parametrize("options", KERNELS, ids=lambda options: options["kernel"])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, sparse.csr_matrix])
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
    monkeypatch.setattr(base, "DENSE_BYTES", dict.fromkeys(base.DENSE_BYTES, 0))
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


def test_sparse_rows_may_be_unsorted_and_repeat_places() -> None:
    """Entries of a row count in any order, and those of the same place are summed."""
    places, starts = np.array([1, 0, 1, 0, 1], np.int32), np.array([0, 3, 4, 5], np.int32)
    rows = sparse.csr_array(([1.0, 2.0, 1.0, 3.0, 1.0], places, starts), shape=(3, 2))
    found = STDASVC(kernel="linear", C=10.0).fit(rows, [0, 1, 0])
    expected = STDASVC(kernel="linear", C=10.0).fit(rows.toarray(), [0, 1, 0])
    np.testing.assert_allclose(found.coef_.toarray(), expected.coef_, atol=1e-9)


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


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("options", KERNELS, ids=lambda options: options["kernel"])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_probabilities_are_svcs(cancer, weights, options, kind) -> None:
    """Folds, sigmoids and coupled probabilities are SVC's, of two classes with weights and of three without."""
    X, y = cancer
    for rows, labels, weight in ((X, y, np.where(weights < 0.1, 0.0, weights)), (*load_iris(return_X_y=True), None)):
        made = {"tol": 1e-7, "probability": True, "random_state": 5, **options}
        ours, theirs = (machine(**made).fit(kind(rows), labels, weight) for machine in (STDASVC, SVC))
        np.testing.assert_allclose(ours.probA_, theirs.probA_, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(ours.probB_, theirs.probB_, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(ours.predict_proba(kind(rows)), theirs.predict_proba(kind(rows)), atol=1e-3)


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


def test_a_class_without_weight_is_refused() -> None:
    """Where SVC would go on with fewer machines than classes, the class is named."""
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="no sample of the class 1 has a positive weight"):
        STDASVC().fit(X, y, (y != 1).astype(float))


def test_weights_need_one_dimension(cancer) -> None:
    """A column of weights is refused with its shape."""
    X, y = cancer
    with pytest.raises(ValueError, match=r"sample_weight has shape \(569, 1\)"):
        STDASVC().fit(X, y, np.ones((len(y), 1)))


def test_an_infinite_penalty_is_the_largest_margin() -> None:
    """With C = inf, classes that a plane separates get the plane of the largest margin, as from SVC."""
    X, y = load_iris(return_X_y=True)
    ours, theirs = (kind(C=np.inf, kernel="linear", tol=1e-8).fit(X[:100], y[:100]) for kind in (STDASVC, SVC))
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-5)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-5)


@pytest.mark.parametrize(
    "options",
    [{"kernel": "sigmoid"}, {"kernel": "poly", "coef0": -1.0}, {"kernel": lambda A, B: np.tanh(A @ B.T)}],
    ids=["sigmoid", "poly", "callable"],
)
def test_kernels_that_may_be_indefinite_are_left_to_libsvm(cancer, options) -> None:
    """There the dual problem has many answers, and the answer is SVC's to the last bit."""
    X, y = cancer
    ours, theirs = (kind(max_iter=20_000, **options).fit(X, y) for kind in (STDASVC, SVC))
    np.testing.assert_array_equal(ours.dual_coef_, theirs.dual_coef_)
    np.testing.assert_array_equal(ours.decision_function(X), theirs.decision_function(X))
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


def test_a_given_matrix_is_left_to_libsvm(cancer) -> None:
    """A precomputed matrix gives SVC's answer, and `alpha` counts there, too."""
    X, y = cancer
    K = X @ X.T
    ours = STDASVC(kernel="precomputed").fit(K, y)
    np.testing.assert_array_equal(ours.decision_function(K), SVC(kernel="precomputed").fit(K, y).decision_function(K))
    by_alpha = STDASVC(kernel="precomputed", alpha=1e-3).fit(K, y)
    by_c = SVC(kernel="precomputed", C=1.0 / (1e-3 * len(y))).fit(K, y)
    np.testing.assert_allclose(by_alpha.decision_function(K), by_c.decision_function(K), atol=1e-9)


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
    expected = cross_val_score(make_pipeline(StandardScaler(), SVC(C=search.best_params_["stdasvc__C"])), X, y, cv=3)
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
    assert trusted == ["streamsvm.drop_in.stdasvc.STDASVC"]
    loaded = skops.loads(kept, trusted=trusted)
    assert loaded.decision_function(cancer[0]).tobytes() == machine.decision_function(cancer[0]).tobytes()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"C": 0.0}, "'C' parameter of STDASVC .* Got 0.0"),
        ({"alpha": -1.0}, "alpha = -1.0"),
        ({"gamma": "sclae"}, "'gamma' parameter of STDASVC .* Got 'sclae'"),
        ({"tol": 0.0}, "'tol' parameter of STDASVC .* Got 0.0"),
        ({"kernel": "cubic"}, "'kernel' parameter of STDASVC .* Got 'cubic'"),
        ({"max_iter": -2}, "'max_iter' parameter of STDASVC .* Got -2"),
        ({"threads": 0}, "threads = 0"),
    ],
)
def test_a_wrong_parameter_is_named(cancer, options, said) -> None:
    """A parameter without meaning is refused at `fit`, by name and value."""
    with pytest.raises(ValueError, match=said):
        STDASVC(**options).fit(*cancer)


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_threads_share_the_work(kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads give the machine of one, with the RBF kernel to the bit, and the same bits again."""
    random = np.random.default_rng(4)
    X = random.normal(size=(1_500, 6))
    y = X[:, 0] * X[:, 1] + 0.3 * random.normal(size=len(X)) > 0
    options = {"kernel": kernel, "gamma": 0.2, "coef0": 1.0, "tol": 1e-4}
    one = STDASVC(**options).fit(X, y)
    asked = []
    run = Threads.run
    monkeypatch.setattr(Threads, "run", lambda self, parts: (asked.append(len(parts)), run(self, parts))[1])
    for threads in (2, 3, -1):
        asked.clear()
        many = STDASVC(threads=threads, **options).fit(X, y)
        assert max(asked) == number_of(threads)
        np.testing.assert_allclose(many.dual_coef_, one.dual_coef_, rtol=0, atol=1e-4 if kernel == "poly" else 0)
        assert STDASVC(threads=threads, **options).fit(X, y).dual_coef_.tobytes() == many.dual_coef_.tobytes()


@pytest.mark.filterwarnings("ignore:Solver terminated early:sklearn.exceptions.ConvergenceWarning")
def test_what_libsvm_ends_in_few_steps_is_its_answer(cancer) -> None:
    """Few points: SVC's bits. Where LIBSVM's steps do not suffice, our solver meets the tolerance; no bound stays."""
    X, y = cancer
    for options in ({"kernel": "linear", "C": 0.1}, {"gamma": 0.01}):
        ours, theirs = (kind(**options).fit(X[:400], y[:400]) for kind in (STDASVC, SVC))
        np.testing.assert_array_equal(ours.dual_coef_, theirs.dual_coef_)
        np.testing.assert_array_equal(ours.intercept_, theirs.intercept_)
    hard = {"kernel": "linear", "C": 1e4, "tol": 1e-6}
    ours = STDASVC(**hard).fit(X[:400, :3], y[:400])
    assert SVC(**hard, max_iter=50 * 400).fit(X[:400, :3], y[:400]).fit_status_ == 1
    assert ours.fit_status_ == 0
    assert ours.max_iter == -1


def test_an_early_end_is_said(cancer) -> None:
    """A machine that met its bound on iterations says so, as SVC does."""
    machine = STDASVC(max_iter=1, tol=1e-9, C=1e4)
    with pytest.warns(ConvergenceWarning, match=r"Solver terminated early \(max_iter=1\)"):
        machine.fit(*cancer)
    assert machine.fit_status_ == 1


def test_the_examples_of_the_docstring() -> None:
    """The docstring's example says what it prints."""
    assert doctest.testmod(stdasvc).attempted > 0
    assert doctest.testmod(stdasvc).failed == 0


def test_a_callable_kernel_decides_as_its_matrix_does(cancer) -> None:
    """Its rows have no number of features that could be missing."""
    X, y = cancer[0][:100], cancer[1][:100]
    machine = STDASVC(kernel=lambda A, B: A @ B.T).fit(X, y)
    np.testing.assert_allclose(
        machine.decision_function(X), STDASVC(kernel="precomputed").fit(X @ X.T, y).decision_function(X @ X.T)
    )
