"""`STDALinearSVC` and `STDALinearSVR` against scikit-learn's own checks, LIBLINEAR, and another optimiser."""

from __future__ import annotations

import doctest
import re
import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import LinearConstraint, minimize
from sklearn.base import clone
from sklearn.datasets import make_classification, make_regression
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC, LinearSVR
from sklearn.utils.estimator_checks import parametrize_with_checks

from streamsvm import STDALinearSVC, STDALinearSVR
from streamsvm.datasets import load_htru2
from streamsvm.drop_in import linear, squared_loss
from streamsvm.drop_in.squared_loss import SquaredLoss
from streamsvm.svm.block import interior_point

pytestmark = pytest.mark.filterwarnings("ignore:Liblinear failed to converge:sklearn.exceptions.ConvergenceWarning")
TIGHT = {"tol": 1e-10, "max_iter": 1_000_000}


def scikit_learns_own_failures(estimator: STDALinearSVC | STDALinearSVR) -> dict[str, str]:
    """Return the checks that scikit-learn's class with the same settings does not pass, with the reason."""
    if estimator.tol == TIGHT["tol"]:
        return {}
    reason = "a point of weight 2 and a point given twice agree to the tolerance, and the check asks seven digits"
    return {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in ("dense", "sparse")}


@pytest.mark.long(keep=("STDALinearSVC(loss='hinge',max_iter=1000000,tol=1e-10)-*",))
@parametrize_with_checks(
    [STDALinearSVC(), STDALinearSVC(loss="hinge", **TIGHT), STDALinearSVR(**TIGHT)],
    expected_failed_checks=scikit_learns_own_failures,
)
def test_scikit_learns_checks(estimator: object, check: object) -> None:
    """scikit-learn's checks pass."""
    check(estimator)  # type: ignore[operator]


@pytest.fixture(scope="module")
def pulsars() -> tuple[np.ndarray, np.ndarray]:
    X, y, _ = load_htru2()
    chosen = np.random.default_rng(0).permutation(len(y))[:3_000]
    X = X[chosen].astype(np.float64)
    return (X - X.mean(axis=0)) / X.std(axis=0), y[chosen]


def objective(machine, X, y, weight=1.0) -> float:
    """Return LIBLINEAR's objective of a machine of two classes."""
    w, scaled = machine.coef_.ravel(), float(np.ravel(machine.intercept_)[0]) / machine.intercept_scaling
    hinge = np.maximum(0.0, 1.0 - np.where(y == machine.classes_[1], 1.0, -1.0) * machine.decision_function(X))
    return float(0.5 * (w @ w + scaled**2) + machine.C * np.sum(weight * hinge))


def loss_of_targets(machine, X, y) -> float:
    w, scaled = machine.coef_, float(np.ravel(machine.intercept_)[0]) / machine.intercept_scaling
    away = np.maximum(0.0, np.abs(y - machine.predict(X)) - machine.epsilon)
    return float(0.5 * (w @ w + scaled**2) + machine.C * away.sum())


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("scaling", [1.0, 5.0])
@pytest.mark.parametrize("class_weight", [None, {-1: 0.5, 1: 4.0}])
def test_a_wide_problem_is_solved_where_liblinear_is_not(pulsars, kind, scaling, class_weight) -> None:
    """The objective is below that of a thousand passes, and at most 1e-6 above that of a million."""
    X, y = pulsars
    options = {"loss": "hinge", "C": 30.0, "intercept_scaling": scaling, "class_weight": class_weight}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours = STDALinearSVC(**options).fit(kind(X), y)
    weight = np.where(y > 0, 4.0, 0.5) if class_weight else 1.0
    found = objective(ours, X, y, weight)
    assert ours.n_iter_ < 1_000
    assert found < objective(LinearSVC(random_state=0, **options).fit(X, y), X, y, weight)
    best = objective(LinearSVC(random_state=0, max_iter=1_000_000, tol=1e-6, **options).fit(X, y), X, y, weight)
    assert found <= best * (1.0 + 1e-6)


def test_several_classes_and_weights_are_liblinears(pulsars) -> None:
    """One against the rest, with sample weights of which some are 0: every machine's objective is LIBLINEAR's."""
    X, _ = pulsars
    y = np.digitize(X[:, 0] + 0.3 * X[:, 1], [-0.5, 0.5])
    weight = np.random.default_rng(1).choice([0.0, 0.5, 1.0, 2.0], len(y))
    options = {"loss": "hinge", "C": 20.0, "class_weight": {0: 1.0, 1: 2.0, 2: 0.7}, "tol": 1e-6}
    ours = STDALinearSVC(**options).fit(X, y, weight)
    theirs = LinearSVC(random_state=0, max_iter=300_000, **options).fit(X, y, weight)
    for at, share in enumerate((1.0, 2.0, 0.7)):
        values = []
        for machine in (ours, theirs):
            w, b = machine.coef_[at], machine.intercept_[at]
            sign = np.where(y == at, 1.0, -1.0)
            hinge = np.maximum(0.0, 1.0 - sign * (X @ w + b))
            values.append(0.5 * (w @ w + b * b) + 20.0 * np.sum(weight * np.where(y == at, share, 1.0) * hinge))
        assert values[0] <= values[1] * (1.0 + 1e-6)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_regression_is_solved_where_liblinear_is_not(pulsars, fit_intercept, kind) -> None:
    """The objective is below that of a thousand passes; a general solver of quadratic programs finds no better one."""
    X = pulsars[0][:400]
    X, y = X[:, 1:], 100.0 * X[:, 0] + 7.0
    options = {"C": 10.0, "epsilon": 1.0, "fit_intercept": fit_intercept}
    ours = STDALinearSVR(**options).fit(kind(X), y)
    found = loss_of_targets(ours, X, y)
    assert found <= loss_of_targets(LinearSVR(random_state=0, **options).fit(X, y), X, y)
    rows = np.column_stack((X, np.ones(len(X)))) if fit_intercept else X
    n, d = rows.shape
    # Slack variables make it smooth: |y - r'v| <= 1 + s, s >= 0.
    within = LinearConstraint(
        np.block([[rows, np.eye(n)], [-rows, np.eye(n)]]), np.concatenate((y - 1.0, -y - 1.0)), np.inf
    )
    start = np.concatenate((ours.coef_, ours.intercept_)) if fit_intercept else ours.coef_
    slack = np.maximum(0.0, np.abs(y - rows @ start) - 1.0)
    best = minimize(
        lambda v: 0.5 * v[:d] @ v[:d] + 10.0 * v[d:].sum(),
        np.concatenate((start, slack + 1e-6)),
        jac=lambda v: np.concatenate((v[:d], np.full(n, 10.0))),
        constraints=[within],
        bounds=[(None, None)] * d + [(0.0, None)] * n,
        method="SLSQP",
        options={"maxiter": 50},
    )
    assert found <= float(best.fun) * (1.0 + 1e-5)


@pytest.mark.parametrize(
    "machine",
    [
        (STDALinearSVC(), LinearSVC),
        (STDALinearSVC(loss="hinge", C=0.01), LinearSVC),
        (STDALinearSVC(loss="hinge", C=100.0, max_iter=20), LinearSVC),
        (STDALinearSVC(multi_class="crammer_singer", max_iter=50), LinearSVC),
        (STDALinearSVR(loss="squared_epsilon_insensitive", dual=True), LinearSVR),
    ],
    ids=str,
)
def test_the_rest_is_liblinears_to_the_last_bit(pulsars, machine) -> None:
    """Other losses, narrow boxes, and a bound on passes below ours leave LIBLINEAR's answer as it is."""
    ours, kind = machine
    options = ours.get_params() | {"random_state": 3}
    found, theirs = (one(**options).fit(*pulsars) for one in (type(ours), kind))
    np.testing.assert_array_equal(found.coef_, theirs.coef_)
    np.testing.assert_array_equal(found.intercept_, theirs.intercept_)
    assert found.n_iter_ == theirs.n_iter_


def test_an_end_before_the_gap_is_said(pulsars, monkeypatch: pytest.MonkeyPatch) -> None:
    """With too few steps the machine says how far it did not get."""
    monkeypatch.setattr(interior_point, "MOST_STEPS", 3)
    with pytest.warns(ConvergenceWarning, match="before the duality gap met tol = 0.0001"):
        STDALinearSVC(loss="hinge", C=30.0).fit(*pulsars)


def squared(X, sign, penalty, height=1.0, absolute=False):
    """Return the objective of a squared loss and its gradient, plainly; the column of the intercept is in X."""

    def cost(v):
        short = np.maximum(0.0, height - sign * (X @ v))
        of_v = np.abs(v).sum() if absolute else 0.5 * v @ v
        return of_v + penalty @ short**2, v - 2.0 * X.T @ (penalty * short * sign)

    return cost


def least(cost, start) -> float:
    """Return the least value that scipy finds from several starts."""
    found = [
        minimize(cost, v, jac=True, method=method, options={"maxiter": 20_000}).fun
        for method in ("L-BFGS-B", "BFGS")
        for v in (start, np.zeros(len(start)))
    ]
    return float(min(found))


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize(("C", "dual", "classes"), [(1e2, False, 2), (1e4, False, 3), (1e3, True, 2), (1.0, True, 3)])
def test_what_liblinear_ends_of_squared_hinge_is_the_optimum(kind, C, dual, classes) -> None:
    """Without a warning each class's objective is scipy's within tol; LIBLINEAR's own is not always."""
    X, y = make_classification(
        120, 40, n_informative=5, n_classes=classes, class_sep=0.7, flip_y=0.2, random_state=classes
    )
    weight = np.random.default_rng(0).integers(0, 3, 120).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours = STDALinearSVC(C=C, dual=dual, max_iter=10**6, random_state=0).fit(kind(X), y, weight)
    beside = np.column_stack((X, np.ones(120)))
    for at, (w, b) in enumerate(zip(ours.coef_, ours.intercept_, strict=True)):
        sign = np.where(y == (1 if classes == 2 else at), 1.0, -1.0)
        cost, v = squared(beside, sign, C * weight), np.append(w, b)
        assert cost(v)[0] <= least(cost, v) * (1.0 + ours.tol)


@pytest.mark.parametrize("dual", [True, False])
def test_what_liblinear_ends_of_squared_tubes_is_the_optimum(dual) -> None:
    """The same of regression."""
    X, f = make_regression(150, 8, noise=20.0, random_state=0)
    f = f / f.std()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours = STDALinearSVR(loss="squared_epsilon_insensitive", dual=dual, C=50.0, epsilon=0.1, max_iter=10**6)
        ours.fit(X, f)
    both = np.vstack((np.column_stack((X, np.ones(150))),) * 2)
    sign = np.repeat([1.0, -1.0], 150)
    cost = squared(both, sign, np.full(300, 50.0), np.concatenate((f, -f)) - 0.1)
    v = np.append(ours.coef_, ours.intercept_)
    assert cost(v)[0] <= least(cost, v) * (1.0 + ours.tol)


def test_the_gap_of_a_squared_loss_bounds_how_far_it_is() -> None:
    """At any coefficients the gap is at least the distance to scipy's optimum, and small at the optimum."""
    chance = np.random.default_rng(1)
    S, height, penalty = chance.normal(size=(60, 5)), chance.normal(size=60), chance.uniform(0.1, 9.0, 60)
    problem = SquaredLoss(S=S, height=height, penalty=penalty)
    cost = squared(S, 1.0, penalty, height)
    best = minimize(cost, np.zeros(5), jac=True, method="BFGS", options={"gtol": 1e-12})
    assert problem.gap(best.x) < 1e-12
    for size in (1e-3, 0.1, 10.0):
        v = best.x + size * chance.normal(size=5)
        P = cost(v)[0]
        assert problem.gap(v) * P >= P - best.fun > 0.0
        absolute = SquaredLoss(S=S, height=height, penalty=penalty, absolute=True)
        nearby = minimize(lambda u: squared(S, 1.0, penalty, height, True)(u)[0], v, method="Powell").fun
        P = squared(S, 1.0, penalty, height, True)(v)[0]
        assert absolute.gap(v) * P >= P - nearby
    assert problem.gap(best.x * np.nan) == np.inf
    np.testing.assert_allclose(problem.newton(best.x * np.nan, 1e-9)[0], best.x, atol=1e-6)


@pytest.mark.parametrize("wrong", [0.0, np.nan, 1.5])
def test_liblinears_word_is_not_taken(wrong, monkeypatch: pytest.MonkeyPatch) -> None:
    """Coefficients that are not the optimum's, or not numbers, are mended; where they cannot be, it is said."""
    X, y = make_classification(200, 6, flip_y=0.2, random_state=0)
    right = STDALinearSVC(tol=1e-8, random_state=0).fit(X, y).coef_
    fit = LinearSVC.fit

    def altered(self, *given):
        fit(self, *given).coef_ *= wrong
        return self

    monkeypatch.setattr(LinearSVC, "fit", altered)
    np.testing.assert_allclose(STDALinearSVC(tol=1e-8).fit(X, y).coef_, right, rtol=1e-4)
    monkeypatch.setattr(squared_loss, "MOST_COLUMNS", 3)
    if np.isnan(wrong):
        with pytest.raises(ValueError, match="not finite"):
            STDALinearSVC().fit(X, y)
    else:
        with pytest.warns(ConvergenceWarning, match=r"the relative gap is \d"):
            STDALinearSVC().fit(X, y)


def test_passes_that_ran_out_state_the_gap() -> None:
    """LIBLINEAR's warning, and how far it came."""
    X, y = make_classification(300, 10, flip_y=0.2, random_state=0)
    with pytest.warns(ConvergenceWarning, match="Liblinear failed to converge.*the relative gap is 1, tol = 0.0001"):
        STDALinearSVC(dual=True, C=1e4, max_iter=5).fit(X, y)


def test_the_examples_of_the_docstrings() -> None:
    """Both examples say what they print."""
    assert doctest.testmod(linear).attempted > 0
    assert doctest.testmod(linear).failed == 0


TOO_LARGE = [
    (STDALinearSVC(), 1e100),
    (STDALinearSVC(C=1e10), 1e70),
    (STDALinearSVC(dual=False, class_weight={0: 1e10}), 1e70),
    (STDALinearSVR(loss="squared_epsilon_insensitive"), 1e100),
    (STDALinearSVR(loss="squared_epsilon_insensitive", dual=False, C=1e10), 1e70),
]


@pytest.mark.parametrize(("machine", "size"), TOO_LARGE, ids=str)
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_rows_over_which_liblinear_would_not_end_are_refused(machine, size, kind) -> None:
    """Of a squared loss in the primal: by the largest feature; in units of that they are learned."""
    X, y = make_classification(300, 4, random_state=0)
    rows = np.clip(X, -1.0, 1.0)
    said = f"The largest feature is {size:g} in magnitude, too large for LIBLINEAR's method"
    with pytest.raises(ValueError, match=re.escape(said)):
        clone(machine).fit(kind(rows * size), y)
    assert clone(machine).fit(kind(rows), y).score(rows, y) > 0.3


@pytest.mark.parametrize("options", [{}, {"loss": "hinge"}, {"dual": True}, {"penalty": "l1"}], ids=str)
def test_features_whose_squares_are_not_finite_are_refused(options) -> None:
    """LIBLINEAR would answer with coefficients of 0."""
    X, y = make_classification(300, 4, random_state=0)
    with pytest.raises(ValueError, match=r"at most 1e\+100 is supported: scale the features"):
        STDALinearSVC(**options).fit(X * 1e160, y)
    with pytest.raises(ValueError, match=r"at most 1e\+100 is supported: scale the features"):
        STDALinearSVR().fit(X * 1e160, y)
