"""Thresholds: brute force and scikit-learn's curves as the oracles, and what every choice must hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray
from scipy.stats import binomtest
from sklearn.metrics import precision_recall_curve

from streamsvm.model import Figure
from streamsvm.model.threshold import check
from streamsvm.svm.threshold import LEAST_ALARMS, LEAST_POINTS, choose, fit_threshold, halves, judge

Float = NDArray[np.float64]
Labels = NDArray[np.int8]
SHARES: tuple[Figure, ...] = ("precision", "recall", "alarm_rate")


def scored(n: int, positive: float = 0.24, apart: float = 1.5, seed: int = 0) -> tuple[Float, Labels, Float]:
    random = np.random.default_rng(seed)
    y = np.where(random.random(n) < positive, 1, -1).astype(np.int8)
    return random.normal(size=n) + 0.5 * apart * y, y, np.ones(n)


@st.composite
def samples(draw: st.DrawFn) -> tuple[Float, Labels, Float]:
    """Few points, many of the same value."""
    n = draw(st.integers(1, 30))
    values = draw(st.lists(st.sampled_from([-2.0, -0.5, 0.0, 0.25, 1.0, 3.0]), min_size=n, max_size=n))
    y = draw(st.lists(st.sampled_from([-1, 1]), min_size=n, max_size=n))
    weight = draw(st.lists(st.sampled_from([1.0, 2.0, 0.5]), min_size=n, max_size=n))
    return np.array(values), np.array(y, np.int8), np.array(weight)


def table(threshold: float, decision: Float, y: Labels, weight: Float) -> tuple[float, float, float, float]:
    """Weight of true negatives, false alarms, missed and found."""
    pairs = [(own, told) for own in (False, True) for told in (False, True)]
    parts = [weight[((y > 0) == own) & ((decision > threshold) == told)].sum() for own, told in pairs]
    return float(parts[0]), float(parts[1]), float(parts[2]), float(parts[3])


def every_threshold(decision: Float) -> Float:
    """One beneath all values, each value itself: all that can be answered."""
    return np.concatenate(([decision.min() - 1.0], np.unique(decision)))


@settings(max_examples=60, deadline=None)
@given(sample=samples(), costs=st.tuples(st.sampled_from([1.0, 10.0]), st.sampled_from([1.0, 3.0])))
def test_no_threshold_costs_less(sample: tuple[Float, Labels, Float], costs: tuple[float, float]) -> None:
    """By brute force over all answers that a threshold can give."""
    decision, y, weight = sample

    def cost(threshold: float) -> float:
        _, false, missed, _ = table(threshold, decision, y, weight)
        return costs[0] * missed + costs[1] * false

    chosen, reached = choose("cost", costs, decision, y, weight)
    assert reached
    assert cost(chosen) == pytest.approx(min(map(cost, every_threshold(decision))), abs=1e-9)


@pytest.mark.parametrize(("pairs", "middle"), [(3, 2.5), (4, 2.5), (5, 4.5), (7, 6.5)])
def test_of_equal_costs_the_middle_one_is_chosen(pairs: int, middle: float) -> None:
    """Labels in turn: after each negative point the cost is the same; of two in the middle it is the lower."""
    y = np.array([-1, 1] * pairs, np.int8)
    assert choose("cost", (1.0, 1.0), np.arange(2.0 * pairs), y, np.ones(2 * pairs)) == (middle, True)


@settings(max_examples=60, deadline=None)
@given(sample=samples(), asked=st.sampled_from([0.125, 0.5, 0.875]))
def test_the_highest_threshold_that_finds_enough(sample: tuple[Float, Labels, Float], asked: float) -> None:
    """One mean positive point more is missed; the next higher answers find too few."""
    decision, y, weight = sample
    positive = weight[y > 0]
    if not len(positive):
        return
    enough = asked * (positive.sum() + positive.mean())
    chosen, reached = choose("recall", asked, decision, y, weight)
    found = {one: table(one, decision, y, weight)[3] for one in (chosen, *every_threshold(decision))}
    assert reached
    if max(found.values()) >= enough:
        assert found[chosen] >= enough
        higher = [one for one in every_threshold(decision) if (decision > one).sum() < (decision > chosen).sum()]
        assert all(found[one] < enough for one in higher)
    else:
        assert (decision > chosen).all()


@settings(max_examples=60, deadline=None)
@given(sample=samples(), asked=st.sampled_from([0.0625, 0.25, 0.625]))
def test_the_lowest_threshold_of_few_alarms(sample: tuple[Float, Labels, Float], asked: float) -> None:
    """One mean point more raises an alarm; without room for that, nothing in the sample does."""
    decision, y, weight = sample
    few = asked * (weight.sum() + weight.mean()) - weight.mean()
    chosen, _ = choose("alarm_rate", asked, decision, y, weight)
    alarms = weight[decision > chosen].sum()
    assert alarms <= max(few, 0.0) + 1e-12
    lower = [one for one in every_threshold(decision) if (decision > one).sum() > (decision > chosen).sum()]
    assert all(weight[decision > one].sum() > few - 1e-12 for one in lower)


@pytest.mark.parametrize("asked", [0.4, 0.6, 0.8])
@pytest.mark.parametrize("seed", range(5))
def test_a_precision_goes_with_the_most_recall(asked: float, seed: int) -> None:
    """No threshold of scikit-learn's curve has the precision, one false alarm more counted, and a higher recall."""
    decision, y, weight = scored(400, seed=seed)
    _, recall, at = precision_recall_curve(y, decision)
    alarms = np.array([(decision >= one).sum() for one in at])
    right = (recall[:-1] * (y > 0).sum() / (alarms + 1) >= asked) & (alarms >= LEAST_ALARMS)
    chosen, reached = choose("precision", asked, decision, y, weight)
    assert reached
    assert right.any()
    own = (decision > chosen)[y > 0].mean()
    assert own == pytest.approx(recall[:-1][right].max())


def test_a_precision_beyond_reach_is_said() -> None:
    """Labels by lot: nothing is right nine times in ten; the best there is stands in its place."""
    random = np.random.default_rng(0)
    y = np.where(random.random(2_000) < 0.1, 1, -1).astype(np.int8)
    decision = random.normal(size=2_000)
    threshold = fit_threshold("precision", 0.9, decision, y, np.ones(2_000), halves(y, np.random.default_rng(0)))
    assert (threshold.chosen, threshold.met) == (True, False)
    assert threshold.precision is not None
    assert threshold.precision.high < 0.9


def test_a_target_that_the_judging_half_contradicts_is_not_met() -> None:
    """Labels follow the decision value in the half that chooses, and its opposite in the other."""
    chosen_by, y = np.arange(80) < 40, np.tile(np.array([-1, 1], np.int8), 40)
    found = fit_threshold("recall", 0.9, np.where(chosen_by, 1.0, -1.0) * y, y, np.ones(80), chosen_by)
    assert (found.chosen, found.met, found.recall and found.recall.value) == (True, False, 0.0)


def test_the_luckiest_point_does_not_decide() -> None:
    """One positive point on top is a precision of 1, but says nothing."""
    decision = np.arange(100.0)
    y = np.full(100, -1, np.int8)
    y[99] = y[:20] = 1
    assert not choose("precision", 0.9, decision, y, np.ones(100))[1]


@pytest.mark.parametrize("figure", SHARES)
def test_the_judge_agrees_with_scipy(figure: Figure) -> None:
    """Wilson's intervals of scipy, for points of equal weight; of alarms it is no wider."""
    decision, y, weight = scored(500, seed=3)
    judged = judge(0.3, None, decision, y, weight)[figure]
    negatives, false, missed, hits = (round(one) for one in table(0.3, decision, y, weight))
    k, n = {
        "precision": (hits, hits + false),
        "recall": (hits, hits + missed),
        "alarm_rate": (hits + false, hits + false + missed + negatives),
    }[figure]
    interval = binomtest(k, n).proportion_ci(method="wilson")
    assert judged is not None
    assert judged.value == pytest.approx(k / n)
    if figure != "recall":  # each label's share is known
        assert interval.low <= judged.low < judged.value < judged.high <= interval.high
    else:
        assert (judged.low, judged.high) == pytest.approx((interval.low, interval.high))


def test_weights_count_by_their_effective_number() -> None:
    """A weight common to all changes nothing; one heavy point makes the interval wide."""
    decision, y, weight = scored(500)
    plain, scaled = (judge(0.3, (5.0, 1.0), decision, y, factor * weight) for factor in (1.0, 7.5))
    for figure, one in plain.items():
        other = scaled[figure]
        assert one is not None
        assert other is not None
        assert (one.value, one.low, one.high) == pytest.approx((other.value, other.low, other.high))
    heavy = weight.copy()
    heavy[np.flatnonzero(y > 0)[0]] = 1_000.0
    wide, narrow = judge(0.3, None, decision, y, heavy)["recall"], plain["recall"]
    assert wide is not None
    assert narrow is not None
    assert wide.high - wide.low > 3.0 * (narrow.high - narrow.low)


@pytest.mark.long(keep=("recall-0.9",))
@pytest.mark.parametrize(
    ("figure", "asked"), [("recall", 0.9), ("precision", 0.6), ("alarm_rate", 0.2), ("cost", (10.0, 1.0))]
)
def test_intervals_hold_what_comes(figure: Figure, asked: float | tuple[float, float]) -> None:
    """Of 300 samples of 400 points, 91 to 99 in 100 intervals hold the figure of a million points."""
    many, truth, _ = scored(1_000_000, seed=99)
    order = np.argsort(many)
    positive = np.append(np.cumsum((truth[order] > 0)[::-1])[::-1], 0)
    held = 0
    for seed in range(300):
        decision, y, weight = scored(400, seed=seed)
        found = fit_threshold(figure, asked, decision, y, weight, halves(y, np.random.default_rng(seed)))
        begin = int(np.searchsorted(many[order], found.value, side="right"))
        alarms, hits, all_ = len(many) - begin, int(positive[begin]), int(positive[0])
        missed, false = (all_ - hits) / len(many), (alarms - hits) / len(many)
        value = {
            "recall": hits / all_,
            "precision": hits / max(alarms, 1),
            "alarm_rate": alarms / len(many),
            "cost": 10.0 * missed + false,
        }[figure]
        assert found.judged is not None
        held += found.judged.low <= value <= found.judged.high
    assert 0.91 * 300 <= held <= 0.99 * 300


def test_what_is_asked_for_comes_on_average() -> None:
    """Recall at least, and alarms at most, what was asked for, over small samples."""
    many, truth, _ = scored(200_000, seed=99)
    recalls, alarms = [], []
    for seed in range(300):
        decision, y, weight = scored(200, seed=seed)
        chosen_by = halves(y, np.random.default_rng(seed))
        at = fit_threshold("recall", 0.9, decision, y, weight, chosen_by).value
        recalls.append((many[truth > 0] > at).mean())
        alarms.append((many > fit_threshold("alarm_rate", 0.1, decision, y, weight, chosen_by).value).mean())
    error = 2.0 * np.std(recalls) / np.sqrt(300), 2.0 * np.std(alarms) / np.sqrt(300)
    assert 0.9 - error[0] < np.mean(recalls) < 0.93
    assert 0.08 < np.mean(alarms) < 0.1 + error[1]


def test_halves_have_both_labels_and_hang_on_the_lot_only() -> None:
    """Each label is halved, whatever the order of the labels is."""
    y = np.array([1, -1] * 11 + [-1] * 7, np.int8)
    chosen = halves(y, np.random.default_rng(5))
    for label in (-1, 1):
        own = chosen[y == label]
        assert abs(int(own.sum()) - int((~own).sum())) <= 1
    np.testing.assert_array_equal(chosen, halves(y, np.random.default_rng(5)))
    assert (chosen != halves(y, np.random.default_rng(6))).any()


def test_too_few_points_choose_nothing() -> None:
    """The threshold stays 0, and what holds there is judged by all points."""
    decision, y, weight = scored(200)
    y[:] = -1
    y[: LEAST_POINTS - 1] = 1
    found = fit_threshold("recall", 0.9, decision, y, weight, halves(y, np.random.default_rng(0)))
    assert (found.value, found.chosen, found.met, found.positives) == (0.0, False, False, LEAST_POINTS - 1)
    assert found.recall is not None
    assert found.recall.value == pytest.approx((decision[y > 0] > 0.0).mean())
    assert fit_threshold("alarm_rate", 0.1, decision, y, weight, halves(y, np.random.default_rng(0))).chosen


@pytest.mark.parametrize("n", [0, 1, 40])
def test_values_that_are_not_finite_choose_nothing(n: int) -> None:
    """Nor does no point at all, and the figures that have no meaning are none."""
    decision, y, weight = scored(n)
    decision[:1] = np.inf
    found = fit_threshold("alarm_rate", 0.1, decision, y, weight, halves(y, np.random.default_rng(0)))
    assert not found.chosen
    assert (found.alarm_rate is None) == (n == 0)
    check(found)


@settings(max_examples=60, deadline=None)
@given(
    sample=samples(),
    goal=st.sampled_from([("recall", 0.9), ("precision", 0.6), ("alarm_rate", 0.2), ("cost", (10.0, 1.0))]),
)
def test_whatever_is_chosen_is_valid(sample: tuple[Float, Labels, Float], goal: tuple[Figure, float]) -> None:
    """Intervals hold their values, to the last bit, as a message requires."""
    decision, y, weight = sample
    check(fit_threshold(*goal, decision, y, weight, halves(y, np.random.default_rng(0))))
