"""Bounds hold in exact fractions, on streams made to break them, and meet on streams that are not."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.svm import SVC, LinearSVC

from streamsvm.certificate import MOST_COLUMNS, Certificate, Design, balanced, over_columns, percent
from streamsvm.choices import Loss
from streamsvm.datasets import load_htru2
from streamsvm.errors import ConfigurationError
from streamsvm.estimators import CoresetSVC
from streamsvm.model import AdditiveMachine, LinearMachine, Model, Scaler, Surface
from streamsvm.points import Points
from tests.certificate.hostile import Case, Float, case, contradictions, violations, wild

CASES, OF_CURVES, TIGHT = 60, 12, 22
by_loss = pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])


@by_loss
@pytest.mark.parametrize("first", range(0, CASES, 10))
@pytest.mark.filterwarnings("ignore:Solver terminated early", "ignore:Liblinear failed to converge")
def test_no_bound_is_violated(first: int, loss: Loss) -> None:
    """`python -m tests.benchmarks.certificate --hostile 10000` is the long form."""
    for number in range(first, first + 10):
        assert violations(case(number, loss)) == [], number


@by_loss
@pytest.mark.filterwarnings("ignore:Solver terminated early", "ignore:Liblinear failed to converge")
def test_no_bound_of_an_additive_machine_is_violated(loss: Loss) -> None:
    """Over its knots and pairs; some knots are a few roundings apart. Long: `--hostile 10000 --kernel additive`."""
    for number in range(OF_CURVES):
        assert violations(case(number, loss, "additive")) == [], number
    with np.errstate(all="ignore"):
        for number in range(5):
            assert violations(wild(number, loss, "additive"), 3) == [], number


@by_loss
@pytest.mark.filterwarnings("ignore:Solver terminated early", "ignore:Liblinear failed to converge")
def test_columns_that_are_wrong_would_be_found(loss: Loss, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns a thousandth too large, as a map might make them that is not the machine's."""
    columns = Design.columns
    monkeypatch.setattr(Design, "columns", lambda design, X: columns(design, X) * 1.001)
    found = sum(violations(case(number, loss, "additive")) != [] for number in range(OF_CURVES))
    assert found > 2


def test_roundings_of_hat_functions_are_paid_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream whose bound would be too high without: of values that lie among knots a few roundings apart."""
    assert violations(made := case(TIGHT, "squared_hinge", "additive")) == []
    begin = Design.__init__

    def careless(design: Design, model: Model) -> None:
        begin(design, model)
        design.moved[:] = 0.0

    monkeypatch.setattr(Design, "__init__", careless)
    assert violations(made) != []


@by_loss
@pytest.mark.parametrize("number", [*range(1, 6), *range(7, 17)])
def test_no_bound_of_several_reads_is_violated(number: int, loss: Loss) -> None:
    """Magnitudes that a trainer accepts, up to its limits; `--hostile` takes more of them."""
    with np.errstate(all="ignore"):
        assert violations(wild(number, loss), 3) == []


@by_loss
@pytest.mark.filterwarnings("ignore:Solver terminated early", "ignore:Liblinear failed to converge")
def test_a_violation_would_be_found(loss: Loss) -> None:
    """The check can fail: bounds that are off by a millionth of themselves are reported, from either side."""
    near = 0
    for number in range(CASES):
        made = case(number, loss)
        certifier = made.certifier(1_000)
        found = made.read(certifier)
        if found.gap is not None and found.gap < 1e-7:
            near += 1
            own, best = made.exactly(made.machine), made.exactly(certifier.behind_the_bound())
            assert contradictions(found, own, [own], [best]) == []
            assert contradictions(replace(found, bound=found.bound * (1 + 1e-6)), own, [own], [best])
            assert contradictions(replace(found, objective=found.objective * (1 - 1e-6)), own, [own], [best])
            assert contradictions(replace(found, reached=found.reached * (1 - 1e-6)), own, [own], [best])
    assert near > 3


def test_multipliers_are_balanced_exactly() -> None:
    random = np.random.default_rng(1)
    for _ in range(200):
        n = int(random.integers(1, 60))
        y = random.choice(np.array([-1, 1], np.int8), n)
        alpha = 10.0 ** random.uniform(-12, 6, n) * (random.random(n) < 0.8)
        made = balanced(y, alpha)
        assert (made <= alpha).all()
        assert (made >= 0.0).all()
        # Each is a whole multiple of one power of two: so are the sums, and float64 holds them.
        assert made[y > 0].sum() == made[y < 0].sum()
        if (y > 0).any() and (y < 0).any():
            least = min(alpha[y > 0].sum(), alpha[y < 0].sum())
            assert made.sum() == pytest.approx(2.0 * least, rel=1e-9, abs=alpha.max() * 1e-12)


@by_loss
@pytest.mark.filterwarnings("ignore:Solver terminated early")
def test_a_fitted_additive_machine_is_certified(loss: Loss) -> None:
    """Little lies between what is proven and the optimum that scikit-learn finds over its columns."""
    X, y, _ = load_htru2()
    some = np.random.default_rng(0).permutation(len(y))[:6_000]
    X, y = X[some], y[some]
    clf = CoresetSVC(C=1.0, points=2_000, loss=loss, kernel="additive").fit(X, y)
    machine = clf.model_.machine
    assert isinstance(machine, AdditiveMachine)
    found, wanted = clf.certify(X, y, keep=1_000, reads=8), clf.certify(X, y, keep=10_000)
    signs = np.where(y == clf.classes_[1], 1, -1).astype(np.int8)
    whole = Points(np.asarray(X, np.float64), signs, np.ones(len(y)))
    made = Case([whole], clf.model_.scaler, clf.C_, (1.0, 1.0), machine, 1, loss)
    assert over_columns(machine) is not None

    def plain(decision: Float, squared_norm: float) -> float:
        slack = np.maximum(0.0, 1.0 - signs * decision)
        return float(0.5 * squared_norm + clf.C_ * (slack if loss == "hinge" else slack**2).sum())

    own = plain(clf.decision_function(X), machine.squared_norm)
    near = made.by_sklearn()
    best = plain(made.columns() @ near.coefficients + near.intercept, float(near.coefficients @ near.coefficients))
    assert found.objective == wanted.objective == pytest.approx(own, rel=1e-9)
    for one in (found, wanted):
        assert one.bound <= best * (1 + 1e-12)
        assert one.columns == len(near.coefficients)
    assert wanted.bound == pytest.approx(best, rel=1e-4)
    assert wanted.gap is not None
    assert wanted.gap < 0.05
    assert "of the best possible model of its knots and pairs over all 6,000 rows" in str(found)


def test_a_machine_that_no_map_has_is_none() -> None:
    """One whose knot nearest 0 has a value, or whose surfaces have other knots of the same feature."""
    knots, few = np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0])
    surface = Surface(0, 1, few, few, np.ones((2, 2)))
    right = AdditiveMachine((knots, few), (np.array([0.0, 1.0, 2.0]), np.array([0.0, 3.0])), (surface,), 0.5)
    made = over_columns(right)
    assert made is not None
    assert made.coefficients.tolist() == [1.0, 2.0, 3.0, 1.0, 1.0, 1.0, 1.0]
    assert over_columns(replace(right, values=(np.ones(3), np.array([0.0, 3.0])))) is None
    assert over_columns(replace(right, surfaces=(surface, surface._replace(rows=np.array([0.0, 2.0]))))) is None


def test_too_many_columns_are_refused() -> None:
    knots = np.arange(MOST_COLUMNS + 2.0)
    machine = AdditiveMachine((knots,), (np.zeros(len(knots)),), (), 0.0)
    with pytest.raises(ConfigurationError, match=r"has 4,097 columns .* of at most 4,096"):
        replace(case(0), scaler=Scaler.identity(1), machine=machine).certifier()


@by_loss
def test_a_fitted_model_is_certified(loss: Loss) -> None:
    """The certificate of a model of HTRU2 has the objective that float64 gives, and little lies below it."""
    X, y, _ = load_htru2()
    shuffled = np.random.default_rng(0).permutation(len(y))
    X, y = X[shuffled], y[shuffled]
    clf = CoresetSVC(C=1.0, points=2_000, loss=loss).fit(X, y)
    found = clf.certify(X, y)
    machine = clf.model_.machine
    plain = made_objective(clf, X, y == clf.classes_[1], machine.coefficients, machine.intercept)
    assert found.objective == pytest.approx(plain, rel=1e-12)
    assert found.objective >= plain * (1 - 1e-15)
    assert found.gap is not None
    assert 0.0 <= found.gap < 1e-3
    assert (found.rows, found.kept) == (len(y), 10_000)
    assert "of the best possible model over all 17,898 rows" in str(found)
    rougher = clf.certify(X, y, keep=64)
    assert rougher.bound <= found.objective
    assert rougher.gap is None or rougher.gap >= found.gap


def test_what_has_no_certificate_is_refused() -> None:
    random = np.random.default_rng(0)
    X, y = random.standard_normal((90, 2)), np.arange(90) % 3
    with pytest.raises(ValueError, match="y has 3 labels: a certificate is of two"):
        CoresetSVC().fit(X, y).certify(X, y)
    with pytest.raises(ValueError, match="rbf: in a kernel's space the rows' sums cannot be held"):
        CoresetSVC(kernel="rbf").fit(X, y > 0).certify(X, y > 0)
    with pytest.raises(ValueError, match="keeps at least 64 rows, not 3"):
        CoresetSVC().fit(X, y > 0).certify(X, y > 0, keep=3)
    with pytest.raises(ValueError, match="which is not one of the classes"):
        CoresetSVC().fit(X, y > 0).certify(X, y)


def test_one_label_proves_nothing() -> None:
    made = case(0)
    parts = [replace(part, y=np.ones_like(part.y)) for part in made.parts]
    found = replace(made, parts=parts).proven()
    assert found.bound == 0.0
    assert found.gap is None


def test_numbers_that_overflow_prove_nothing_and_raise_nothing() -> None:
    made = case(3)
    assert isinstance(made.machine, LinearMachine)
    far = LinearMachine(np.full_like(made.machine.coefficients, 1e200), 0.0)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = replace(made, machine=far).proven()
    assert found.objective == np.inf
    assert found.bound >= 0.0


@pytest.mark.parametrize(("loss", "reads"), [("hinge", 8), ("squared_hinge", 20)])
def test_more_reads_prove_more(loss: Loss, reads: int) -> None:
    """A machine far from the best: one look says little, some looks find the optimum that scikit-learn finds."""
    random = np.random.default_rng(2)
    X = random.standard_normal((3_000, 5))
    y = X @ [1.0, -1.0, 0.5, 0.0, 0.0] + random.standard_normal(3_000) > 0.3
    clf = CoresetSVC(C=1.0, loss=loss).fit(X[:200], y[:200])
    one, more = clf.certify(X, y, keep=100), clf.certify(X, y, keep=100, reads=reads)
    assert one.gap is not None
    assert more.gap is not None
    assert more.objective == one.objective
    assert more.bound > one.bound
    assert more.gap < one.gap
    svc = SVC(kernel="linear", tol=1e-8)
    if loss == "squared_hinge":
        svc = LinearSVC(dual=False, tol=1e-10, intercept_scaling=1e4)
    svc.fit(clf.model_.scaler.transform(X), y)
    best = made_objective(clf, X, y, svc.coef_[0], float(svc.intercept_[0]))
    assert more.bound <= best * (1 + 1e-12)
    assert more.bound == pytest.approx(best, rel=1e-5)
    assert more.reached == pytest.approx(best, rel=1e-5)
    assert 1 < more.reads <= reads


def made_objective(clf: CoresetSVC, X: Float, y: NDArray[np.bool_], w: Float, b: float) -> float:
    decision = clf.model_.scaler.transform(X) @ w + b
    slack = np.maximum(0.0, 1.0 - np.where(y, 1, -1) * decision)
    return float(0.5 * w @ w + clf.C_ * (slack if clf.loss == "hinge" else slack**2).sum())


@pytest.mark.parametrize("gap", [1e-12, 3.33e-9, 1e-6, 0.000123, 0.002049, 0.0999, 7.5, 1234.5])
def test_a_gap_is_never_rounded_down(gap: float) -> None:
    number, sign = percent(gap).split()
    assert sign == "%"
    step = 10.0 ** (math.floor(math.log10(100.0 * gap)) - 1)
    assert 100 * Fraction(gap) <= Fraction(number)
    assert float(number) < 100.0 * gap + step


def test_what_is_said_is_rounded_outwards() -> None:
    """The ninth digit of the sentence must not claim more than the bounds do."""
    found = Certificate(
        objective=123456789.4, bound=123456788.6, gap=6.5e-9, reached=123456789.4, rows=9, kept=9, reads=1
    )
    assert "objective is at most 123456790, and that of no model is below 123456788" in str(found)
    nothing = replace(found, bound=0.0, gap=None)
    assert str(nothing) == "nothing is proven over all 9 rows: its objective is at most 123456790, and the bound is 0"
    assert "beyond what float64 holds" in str(replace(found, objective=math.inf, gap=None))


BIG = 1.5e118
OVERFLOWS = {
    "a decision that is infinity less infinity": ([1e100] * 2, [1e120, -1.1e120], 1e-100, 1e-15),
    "a sum that is infinite only on the way": ([1e100] * 4, [BIG, BIG, -1.7e118, -1.7e118], 1e-90, 1e-15),
    "magnitudes whose sum alone overflows": ([1e100] * 4, [BIG, BIG, -1.7e118, -1.7e118], 1e-90, 1.0),
    "a length": ([1.0, 1.0], [1.3e154, 1.3e154], 1.0, 1.0),
}


def test_an_overflow_is_never_a_bound() -> None:
    """Light rows far away whose margins overflow: their loss is not 0, and sums of finite numbers may not be finite.

    Multipliers near 1e300 times features of 1e100 are infinity less infinity, which has no sum.
    """
    zero = np.zeros
    for what, (row, coefficients, scale, weight) in OVERFLOWS.items():
        d = len(row)
        points = Points(np.array([row, [0.0] * d]), np.array([1, -1], np.int8), np.array([weight, 1.0]))
        scaler, machine = Scaler(zero(d), np.full(d, scale)), LinearMachine(np.array(coefficients), 0.0)
        made = Case([points], scaler, 1.0, (1.0, 1.0), machine, 1)
        with np.errstate(all="ignore"):
            found = made.proven()
        assert found.objective >= made.exactly(made.machine), what
        assert found.bound <= made.exactly(LinearMachine(zero(d), 0.0)), what
    points = Points(np.array([[1e100], [-1e100], [9e99]]), np.array([1, 1, -1], np.int8), np.ones(3))
    made = Case([points], Scaler.identity(1), 1e300, (1.0, 1.0), LinearMachine(np.ones(1), 0.0), 1)
    with np.errstate(all="ignore"):
        found = made.proven()
    assert found.bound == 0.0
    assert found.objective >= made.exactly(made.machine)
