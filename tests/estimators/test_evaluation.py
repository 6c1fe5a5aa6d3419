"""The measure that evaluations go by: against scikit-learn's own machines, and by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from streamsvm.config import SvmConfig
from streamsvm.datasets import load_htru2
from streamsvm.estimators.evaluation import EmpiricalObjective, ReservoirBaseline, optimum, scores, split
from streamsvm.model import KernelMachine, LinearMachine, Model, RbfKernel, Scaler
from streamsvm.points import Points


@pytest.fixture(scope="module")
def part() -> Points:
    X, y, _ = load_htru2()
    rows = np.random.default_rng(3).permutation(len(y))[:1_500]
    return Points(X[rows].astype(np.float64), np.where(y[rows] > 0, 1, -1).astype(np.int8), np.ones(len(rows)))


def hinge(y: np.ndarray, decision: np.ndarray, C: Any) -> float:
    return float(np.sum(C * np.maximum(0.0, 1.0 - y * decision)))


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("heaviest", [1, 3])
def test_the_linear_optimum_is_scikit_learns(part: Points, C: float, heaviest: int) -> None:
    """F* is SVC's own objective, computed here from its coefficients over StandardScaler's features, or better; a point
    of weight 3 counts three times, by class_weight, too."""
    weight = np.random.default_rng(0).integers(1, heaviest + 1, len(part)).astype(np.float64)
    factor = 1.0 if heaviest == 1 else 5.0
    Z = StandardScaler().fit(part.X, sample_weight=weight).transform(part.X)
    machine = SVC(kernel="linear", C=C, class_weight={1: factor}, tol=1e-5).fit(Z, part.y, sample_weight=weight)
    boxes = C * weight * np.where(part.y > 0, factor, 1.0)
    theirs = 0.5 * float(machine.coef_[0] @ machine.coef_[0]) + hinge(part.y, machine.decision_function(Z), boxes)
    objective = EmpiricalObjective.over(part.reweighted(weight), SvmConfig(C=C, class_weight=(1.0, factor)))
    best = optimum(objective)
    assert best.objective == pytest.approx(theirs, rel=1e-4)
    assert best.lower_bound <= best.objective <= theirs * (1.0 + 1e-6)
    assert best.uncertainty < 1e-5
    measured = objective.value(Model(objective.scaler, LinearMachine(machine.coef_[0], float(machine.intercept_[0]))))
    assert measured == pytest.approx(theirs, rel=1e-11)  # sums of 1,500 terms, which BLAS orders by the processor
    worse = objective.value(Model(objective.scaler, LinearMachine(0.9 * machine.coef_[0], 0.0)))
    assert best.gap(worse) == pytest.approx(worse / best.objective - 1.0, abs=1e-5)


def test_the_rbf_optimum_is_scikit_learns(part: Points) -> None:
    """F* with the norm in the kernel's space, computed here from SVC's dual variables and its full kernel matrix."""
    Z = StandardScaler().fit_transform(part.X)
    objective = EmpiricalObjective.over(part, SvmConfig(C=1.0, kernel="rbf", loss="hinge"))
    assert objective.kernel == RbfKernel(pytest.approx(1.0 / 8.0))
    machine = SVC(C=1.0, gamma=objective.kernel.gamma, tol=1e-5).fit(Z, part.y)
    support, dual = machine.support_vectors_, machine.dual_coef_[0]
    norm = float(dual @ rbf_kernel(support, support, gamma=machine.gamma) @ dual)
    theirs = 0.5 * norm + hinge(part.y, machine.decision_function(Z), 1.0)
    best = optimum(objective)
    assert best.objective == pytest.approx(theirs, rel=1e-5)
    assert best.uncertainty < 1e-5
    reached = KernelMachine(objective.kernel, support, dual, float(machine.intercept_[0]))
    measured = objective.value(Model(objective.scaler, reached))
    assert measured == pytest.approx(theirs, rel=1e-9)


def test_units_do_not_matter(part: Points) -> None:
    """A linear rule has one F, whatever the scaler it is written under."""
    objective = EmpiricalObjective.over(part, SvmConfig(C=1.0))
    best = optimum(objective)
    machine = best.model.machine
    w = machine.coefficients / objective.scaler.scale
    raw = Model(Scaler.identity(8), LinearMachine(w, machine.intercept - float(w @ objective.scaler.mean)))
    assert objective.value(raw) == pytest.approx(best.objective, rel=1e-9)


def test_alpha_follows_the_points(part: Points) -> None:
    """C = 1 / (alpha n), and few points that stand for all are solved under that C, not their own."""
    objective = EmpiricalObjective.over(part, SvmConfig(alpha=1e-3))
    assert objective.penalty == pytest.approx(1.0 / (1e-3 * len(part)))
    best = optimum(objective)
    assert best.gap(objective.value(objective.of_few(part))) < 1e-3
    half = part.take(slice(None, None, 2))
    gap = best.gap(objective.value(objective.of_few(half.reweighted(2.0 * half.weight))))
    assert 0.0 < gap < 0.5


@pytest.mark.parametrize("multiclass", ["one_vs_rest", "one_vs_one"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_of_several_labels_f_is_the_sum_over_scikit_learns_machines(part: Points, multiclass: str, kernel: str) -> None:
    """Of each label against the rest, or of each pair; the optimum and its bound are sums, too."""
    y = np.digitize(part.X[:, 0], [80.0, 110.0])
    svm = SvmConfig(C=0.5, kernel=kernel, loss="hinge", gamma=0.1, multiclass=multiclass)
    objective = EmpiricalObjective.over(Points(part.X, y.astype(np.int8), part.weight), svm, classes=3)
    best, theirs, Z = optimum(objective), 0.0, StandardScaler().fit_transform(part.X)
    against_the_rest = [(label, (0, 1, 2)) for label in range(3)]
    of_pairs = [(1, (0, 1)), (2, (0, 2)), (2, (1, 2))]
    for positive, labels in against_the_rest if multiclass == "one_vs_rest" else of_pairs:
        own = np.isin(y, labels)
        sign = np.where(y[own] == positive, 1, -1)
        machine = SVC(C=0.5, kernel=kernel, gamma=0.1, tol=1e-5).fit(Z[own], sign)
        support, dual = machine.support_vectors_, machine.dual_coef_[0]
        gram = support @ support.T if kernel == "linear" else rbf_kernel(support, gamma=0.1)
        theirs += 0.5 * float(dual @ gram @ dual) + hinge(sign, machine.decision_function(Z[own]), 0.5)
    assert best.objective == pytest.approx(theirs, rel=1e-4)
    assert best.uncertainty < 1e-4
    assert objective.value(objective.of_few(objective.points)) == pytest.approx(theirs, rel=0.01)


def test_a_reservoir_is_uniform() -> None:
    """Every row of the stream, the first and the last alike, is held as often as its share says."""
    stream, trials = rows(40), 3_000
    counts = np.zeros(40)
    for seed in range(trials):
        reservoir = ReservoirBaseline(8, seed)
        for start in range(0, 40, 6):
            reservoir.learn(stream.take(slice(start, start + 6)))
        held = reservoir.points.X[:, 0].astype(int)
        assert len(set(held)) == 8
        counts[held] += 1
    expected = trials * 8 / 40
    assert np.abs(counts - expected).max() < 5.0 * np.sqrt(expected * 0.8)


def test_a_reservoir_stands_for_the_whole_stream() -> None:
    """It has the stream's weight, no more rows than its size, and each row's own label; its input is left alone."""
    stream = rows(1_000)
    before = stream.sha256()
    reservoir = ReservoirBaseline(50, 1)
    for start in range(0, 1_000, 130):
        reservoir.learn(stream.take(slice(start, start + 130)))
    held = reservoir.points
    assert len(held) == 50
    assert held.weight.sum() == pytest.approx(stream.weight.sum())
    np.testing.assert_array_equal(held.y, stream.y[held.X[:, 0].astype(int)])
    assert stream.sha256() == before


def test_a_short_stream_is_held_whole() -> None:
    """As it came, weights included."""
    stream, reservoir = rows(30), ReservoirBaseline(50, 1)
    reservoir.learn(stream.take(slice(20)))
    reservoir.learn(stream.take(slice(20, 30)))
    np.testing.assert_array_equal(reservoir.points.X, stream.X)
    np.testing.assert_allclose(reservoir.points.weight, stream.weight)


def test_scores_count_weights() -> None:
    """A point of weight 3 is three points; the area under the curve needs both labels."""
    test = Points(np.zeros((3, 1)), np.array([-1, 1, 1], np.int8), np.array([1.0, 3.0, 1.0]))
    found = scores(test, np.array([-1.0, 2.0, -2.0]))
    assert found.accuracy == pytest.approx(4 / 5)
    assert found.balanced_accuracy == pytest.approx((1.0 + 3 / 4) / 2)
    assert found.auc == pytest.approx(3 / 4)
    assert scores(test.take(slice(1, 3)), np.array([1.0, 1.0])).auc is None


def test_a_split_goes_by_the_seed() -> None:
    """Every row is in one part, in an order that the seed alone decides."""
    stream = rows(100)
    train, test = split(stream, 0.2, 4)
    assert (len(train), len(test)) == (80, 20)
    assert sorted([*train.X[:, 0], *test.X[:, 0]]) == list(range(100))
    assert split(stream, 0.2, 4)[0].sha256() == train.sha256() != split(stream, 0.2, 5)[0].sha256()


@pytest.mark.parametrize("rare", [2, 3, 5, 40])
@pytest.mark.parametrize("seed", range(5))
def test_a_rare_label_is_on_both_sides_of_a_split(rare: int, seed: int) -> None:
    """Of two rows one is held out; of more a fifth, within chance where they are many."""
    y = np.full(2_000, -1, np.int8)
    y[np.random.default_rng(seed).permutation(2_000)[:rare]] = 1
    train, test = split(Points(np.arange(2_000.0)[:, None], y, np.ones(2_000)), 0.2, seed)
    assert 1 <= np.sum(test.y == 1) < rare
    assert np.sum(test.y == 1) == pytest.approx(0.2 * rare, abs=1.0)
    assert sorted([*train.X[:, 0], *test.X[:, 0]]) == list(range(2_000))


def test_groups_stay_together_in_a_split() -> None:
    """And about the share that was asked for is set aside."""
    groups = np.concatenate([np.arange(1_000), np.arange(600)])
    y = np.where(groups % 5 == 0, 1, -1).astype(np.int8)
    train, test = split(Points(groups[:, None].astype(np.float64), y, np.ones(1_600)), 0.2, 0, groups)
    assert not {*train.X[:, 0]} & {*test.X[:, 0]}
    assert 0.15 < len(test) / 1_600 < 0.25


def rows(n: int) -> Points:
    """Return n points, each the number of its row; labels and weights follow it."""
    number = np.arange(n)
    y = np.where(number % 3 == 0, 1, -1).astype(np.int8)
    return Points(number[:, None].astype(np.float64), y, 1.0 + number % 2)
