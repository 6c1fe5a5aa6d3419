"""Prequential quality: who is asked about which point, and what the figures say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import accuracy_score, balanced_accuracy_score, hinge_loss

from streamsvm.coreset import Moments
from streamsvm.model import (
    AnyModel,
    ClassModel,
    KernelMachine,
    KernelMachines,
    LinearMachine,
    LinearMachines,
    Model,
    RbfKernel,
    Scaler,
)
from streamsvm.points import Points
from streamsvm.quality.prequential import (
    BASELINE_ALPHA,
    BASELINE_BATCH,
    MOST_KERNELS,
    Baseline,
    ClassWeight,
    Prequential,
)
from tests.streams import DIMENSION, gaussian

RATE = 0.01
GOOD = Model(Scaler.identity(DIMENSION), LinearMachine(np.ones(DIMENSION), 0.2))
BAD = Model(Scaler.identity(DIMENSION), LinearMachine(-np.ones(DIMENSION), 0.0))


OF_THREE = ClassModel(Scaler.identity(DIMENSION), LinearMachines(np.eye(3, DIMENSION), np.zeros(3)), 3, "one_vs_rest")


def of(model: AnyModel, n: int, seed: int = 0) -> Points:
    """Return points of as many labels as a model has; of three, those that `OF_THREE` answers, but for noise."""
    points = gaussian(n, seed)
    noisy = OF_THREE.decision_function(points.X) + np.random.default_rng(seed).normal(size=(n, 3))
    return points if model.classes == 2 else Points(points.X, noisy.argmax(axis=1).astype(np.int8), points.weight)


def kernel_model(support: int) -> Model:
    """Return a kernel machine of so many support vectors."""
    points = gaussian(support, 9)
    machine = KernelMachine(RbfKernel(0.5), points.X.astype(np.float64), points.y * 1.0, 0.0)
    return Model(Scaler.identity(DIMENSION), machine)


def fed(points: Points, sizes: list[int], model: AnyModel, window: int = 400) -> Prequential:
    """Return what has scored the points, given to it in batches of these sizes, over and over."""
    made, start, turn = Prequential(DIMENSION, window, classes=model.classes), 0, 0
    made.serve(model)
    while start < len(points):
        stop = start + sizes[turn % len(sizes)]
        made.add(points.take(slice(start, stop)))
        start, turn = stop, turn + 1
    return made


@pytest.mark.parametrize("model", [GOOD, OF_THREE])
@pytest.mark.parametrize("window", [100, 400, 5_000])
def test_figures_of_the_model_are_scikit_learns(window: int, model: AnyModel) -> None:
    """Weighted accuracy, balanced accuracy and, of two labels, hinge loss of the newest points of the window."""
    points = of(model, 1_000)
    newest = points.take(slice(-window, None))
    found = fed(points, [137], model, window).figures()["model"]
    answered, values = model.predict_codes(newest.X), model.decision_function(newest.X)
    weight = newest.weight
    assert found.points == len(newest)
    assert found.accuracy == pytest.approx(accuracy_score(newest.y, answered, sample_weight=weight))
    assert found.balanced_accuracy == pytest.approx(balanced_accuracy_score(newest.y, answered, sample_weight=weight))
    hinge = hinge_loss(newest.y, values, sample_weight=weight) if model is GOOD else None
    assert found.hinge_loss == pytest.approx(hinge)


@pytest.mark.parametrize("model", [GOOD, OF_THREE])
@settings(deadline=None, max_examples=20)
@given(sizes=st.lists(st.integers(1, 700), min_size=1, max_size=5))
def test_batches_do_not_matter(model: AnyModel, sizes: list[int]) -> None:
    """However the points are cut into batches, every scorer's figures are the same, up to rounding."""
    points = of(model, 3_000, 4)
    whole, cut = fed(points, [3_000], model).figures(), fed(points, sizes, model).figures()
    assert whole.keys() == cut.keys() == {"model", "sgd", "majority"}
    for scorer, quality in whole.items():
        assert cut[scorer].points == quality.points
        assert cut[scorer].accuracy == pytest.approx(quality.accuracy, abs=1e-12)
        assert cut[scorer].hinge_loss == pytest.approx(quality.hinge_loss)


def test_points_are_scored_by_the_model_of_their_time() -> None:
    """A model that comes later changes no answer given before it."""
    points = gaussian(200)
    prequential = Prequential(DIMENSION, 200)
    prequential.serve(GOOD)
    prequential.add(points.take(slice(0, 100)))
    before = prequential.figures()["model"]
    prequential.serve(BAD)
    assert prequential.figures()["model"] == before
    prequential.add(points.take(slice(100, 200)))
    answered = np.concatenate((GOOD.predict_sign(points.X[:100]), BAD.predict_sign(points.X[100:])))
    expected = accuracy_score(points.y, answered, sample_weight=points.weight)
    assert prequential.figures()["model"].accuracy == pytest.approx(expected)


def test_nothing_is_scored_without_a_model() -> None:
    """The baseline learns meanwhile, so that it can answer from the first scored point on."""
    prequential = Prequential(DIMENSION, 100)
    prequential.add(gaussian(2_000))
    assert (prequential.scored, prequential.figures()) == (0, {})
    prequential.serve(GOOD)
    prequential.add(gaussian(10, 5))
    assert prequential.scored == 10
    assert prequential.figures()["sgd"].points == 10
    without = Prequential(DIMENSION, 100, baseline_every=0)
    without.serve(GOOD)
    without.add(gaussian(5_000))
    assert without.figures().keys() == {"model", "majority"}


def test_baseline_is_not_asked_about_what_it_learns() -> None:
    """Of its first two batches' points, none has an answer in the first, and all but the learned ones in the second."""
    every, points = 8, gaussian(2 * 8 * BASELINE_BATCH)
    (values,), _ = Baseline(DIMENSION, every).add(points)
    half = len(points) // 2
    assert np.isnan(values[:half]).all()
    assert np.flatnonzero(np.isnan(values[half:])).tolist() == list(range(every - 1, half, every))


def test_baseline_does_not_know_a_point_that_it_is_asked_about() -> None:
    """Turned labels of the newest points change nothing of what it says of them."""
    points = gaussian(4_000)
    turned = Points(points.X, np.where(np.arange(4_000) < 3_072, points.y, -points.y).astype(np.int8), points.weight)
    (first,), (other,) = Baseline(DIMENSION, 64).add(points)[0], Baseline(DIMENSION, 64).add(turned)[0]
    np.testing.assert_array_equal(first, other)
    assert np.isfinite(first[3_072:]).sum() > 900


def factors(class_weight: ClassWeight, moments: Moments) -> np.ndarray:
    """Return what the weights of negative and positive points are multiplied by."""
    if class_weight == "balanced":
        return moments.weight / (2 * np.asarray(moments.class_weight))
    return np.array([1.0, 1.0] if class_weight == "none" else class_weight)


@pytest.mark.parametrize("class_weight", ["none", "balanced", (3.0, 0.5)])
def test_baseline_takes_the_steps_of_scikit_learn(class_weight: ClassWeight) -> None:
    """On features of known scale, its answers are those of SGDClassifier that was given the same points."""
    every, n = 4, 4 * 40 * BASELINE_BATCH
    random = np.random.default_rng(3)
    X = np.where(random.random((n, DIMENSION)) < 0.5, -1.0, 1.0)
    y = np.where(X @ np.ones(DIMENSION) + random.normal(size=n) > 1, 1, -1).astype(np.int8)
    points = Points(X, y, random.uniform(0.5, 2.0, n))
    machine = SGDClassifier(loss="hinge", alpha=BASELINE_ALPHA, learning_rate="constant", eta0=RATE, shuffle=False)
    moments, asked, learned = (
        Moments.zero(DIMENSION),
        Baseline(DIMENSION, every, (RATE,), class_weight=class_weight),
        np.arange(n) % every == every - 1,
    )
    values = np.full(n, np.nan)
    for start in range(0, n, every * BASELINE_BATCH):
        part = slice(start, start + every * BASELINE_BATCH)
        if start:
            scale = np.sqrt(moments.square / moments.weight)
            values[part] = machine.decision_function((X[part] - moments.mean) / scale)
        own = points.take(np.flatnonzero(learned[part]) + start)
        moments = moments.add(own)
        scale = np.sqrt(moments.square / moments.weight)
        Z, shares = (own.X - moments.mean) / scale, own.weight * moments.count / moments.weight
        shares *= factors(class_weight, moments)[(own.y > 0).astype(int)]
        machine.partial_fit(Z, own.y, classes=(-1, 1), sample_weight=shares)
    values[learned] = np.nan
    np.testing.assert_allclose(asked.add(points)[0][0], values, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("good", "bad"), [(0.01, 1e-7), (0.01, 30.0)])
def test_the_rate_that_does_best_answers(good: float, bad: float) -> None:
    """Of a rate that learns and one that does not, or that never settles, in whatever order."""
    points = gaussian(20_000, 2)
    alone = Baseline(DIMENSION, 8, (good,)).add(points)[0][0, 10_000:]
    for rates in ((good, bad), (bad, good)):
        np.testing.assert_array_equal(Baseline(DIMENSION, 8, rates).add(points)[0][0, 10_000:], alone)


def test_baseline_follows_a_turned_stream() -> None:
    """When labels turn, the fixed model answers wrong, and the baseline has forgotten what it learned."""
    points = gaussian(120_000, 3)
    turned = Points(points.X, np.where(np.arange(120_000) < 40_000, points.y, -points.y).astype(np.int8), points.weight)
    found = fed(turned, [5_000], GOOD, 10_000).figures()
    assert found["model"].accuracy < 0.5 < found["sgd"].accuracy


@pytest.mark.filterwarnings("error")
def test_wild_points_do_not_end_the_baseline() -> None:
    """Features and weights at the ends of their types leave its answers to other points finite."""
    points = gaussian(20_000)
    X, weight = points.X.copy(), points.weight.copy()
    X[63::640], weight[127::640] = 3e38, 1e12
    (values,), _ = Baseline(DIMENSION, 64).add(Points(X, points.y, weight))
    learned = np.arange(20_000) % 64 == 63
    assert np.isfinite(values[1_024:][~learned[1_024:]]).all()


def test_majority_is_the_commoner_label_before_each_point() -> None:
    """It answers with what it has seen more of, by weight, and has no hinge loss."""
    y = np.array([1, 1, -1, -1, -1, -1, 1], np.int8)
    points = Points(np.zeros((7, DIMENSION), np.float32), y, np.ones(7))
    found = fed(points, [2], GOOD).figures()["majority"]
    answered = np.array([-1, 1, 1, 1, -1, -1, -1])  # a tie is the first label's
    assert found.accuracy == pytest.approx((answered == y).mean())
    assert found.hinge_loss is None


def test_one_label_has_no_balanced_accuracy() -> None:
    """A window that lacks a label tells no mean over both."""
    points = Points(np.ones((5, DIMENSION), np.float32), np.ones(5, np.int8), np.ones(5))
    found = fed(points, [5], GOOD).figures()["model"]
    assert (found.accuracy, found.balanced_accuracy) == (1.0, None)


@pytest.mark.parametrize(
    ("support", "stride"), [(1, 1), (MOST_KERNELS, 1), (MOST_KERNELS + 1, 2), (8 * MOST_KERNELS, 8)]
)
def test_large_kernel_machines_score_a_share(support: int, stride: int) -> None:
    """One point in so many, the same ones however they are batched."""
    two = kernel_model(support)
    one = two.machine
    assert isinstance(one, KernelMachine)
    three = KernelMachines(one.kernel, one.support, np.outer((1.0, -1.0, 0.5), one.dual), np.zeros(3))
    for model in (two, ClassModel(two.scaler, three, 3, "one_vs_rest")):
        points = of(model, 1_000)
        made = fed(points, [7, 64, 129], model, 1_000)
        assert made.scored == len(range(0, 1_000, stride))
        chosen = points.take(slice(None, None, stride))
        expected = accuracy_score(chosen.y, model.predict_codes(chosen.X), sample_weight=chosen.weight)
        assert made.figures()["model"].accuracy == pytest.approx(expected)
