"""The quality gate: which points it judges by, and what it says."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score

from streamsvm.coreset import Sampled
from streamsvm.model import ClassModel, LinearMachine, LinearMachines, Model, Scaler, balanced_accuracy
from streamsvm.points import Points, Position
from streamsvm.quality.gate import LEAST_OF_A_LABEL, EvaluationWindow, Evidence, audit_evidence, judge
from tests.streams import DIMENSION, gaussian, rows_of

GOOD_MODEL = Model(Scaler.identity(DIMENSION), LinearMachine(np.ones(DIMENSION), 0.0))
GOOD = GOOD_MODEL.predict_codes
BAD = Model(Scaler.identity(DIMENSION), LinearMachine(-np.ones(DIMENSION), 0.0)).predict_codes


def evidence(n: int = 600, seed: int = 1) -> Evidence:
    return Evidence(gaussian(n, seed))


def sampled(points: Points, threshold: float) -> Sampled:
    return Sampled(points, threshold, np.array([1.0, 1.0]), np.full(len(points), np.inf))


@pytest.mark.parametrize("seed", range(5))
def test_balanced_accuracy_is_scikit_learns(seed: int) -> None:
    """Weighted, on any model."""
    points = gaussian(300, seed)
    expected = balanced_accuracy_score(points.y, GOOD_MODEL.predict_sign(points.X), sample_weight=points.weight)
    assert balanced_accuracy(GOOD(points.X), points.y, points.weight) == pytest.approx(expected, abs=1e-12)


def test_balanced_accuracy_of_three_labels_is_scikit_learns() -> None:
    """Labels of different size and weight count alike; one that no point has does not count."""
    random = np.random.default_rng(1)
    codes = random.choice(3, size=400, p=[0.7, 0.2, 0.1]).astype(np.int8)
    points = Points(random.normal(size=(400, 2)) + codes[:, np.newaxis], codes, random.uniform(0.5, 2.0, 400))
    machines = LinearMachines(np.array([[-1.0, -1.0], [0.2, 0.2], [1.0, 1.0], [0.1, 0.0]]), np.array([1.0, 0, -2, 0]))
    model = ClassModel(Scaler.identity(2), machines, 4, "one_vs_rest")
    points = points.take(np.flatnonzero(model.predict_codes(points.X) < 3))
    answers = model.predict_codes(points.X)
    assert {*answers.tolist()} == {0, 1, 2}
    expected = balanced_accuracy_score(points.y, answers, sample_weight=points.weight)
    assert balanced_accuracy(answers, points.y, points.weight) == pytest.approx(expected, abs=1e-12)


def test_a_worse_candidate_is_refused_and_a_better_one_passes() -> None:
    """Both figures are given, of the same points."""
    refused, passed = judge(BAD, GOOD, evidence(), None, 0.1), judge(GOOD, BAD, evidence(), None, 0.1)
    assert (refused.outcome, refused.scored_on, refused.points) == ("refused", "window", 600)
    assert passed.outcome == "passed"
    assert (refused.candidate, refused.present) == (passed.present, passed.candidate)
    assert refused.candidate is not None
    assert refused.present is not None
    assert refused.candidate < 0.5 < refused.present


def test_the_margin_is_what_a_candidate_may_be_worse() -> None:
    """At the margin it passes, a hair below it does not."""
    verdict = judge(BAD, GOOD, evidence(), None, 0.1)
    assert verdict.candidate is not None
    assert verdict.present is not None
    worse = verdict.present - verdict.candidate
    assert judge(BAD, GOOD, evidence(), None, worse + 1e-9).outcome == "passed"
    assert judge(BAD, GOOD, evidence(), None, worse - 1e-9).outcome == "refused"


def test_too_few_points_after_the_cut_leave_it_to_the_audit_sample() -> None:
    """And too few of either kind are no verdict, saying so."""
    few, audit = evidence(40), evidence(500, 2)
    assert judge(BAD, GOOD, few, audit, 0.1).scored_on == "audit"
    assert judge(BAD, GOOD, None, audit, 0.1).outcome == "refused"
    unscored = judge(BAD, GOOD, few, None, 0.1)
    assert (unscored.outcome, unscored.why) == ("unscored", "too few points of one of the labels among 40")
    assert judge(BAD, GOOD, None, None, 0.1).outcome == "unscored"


def test_a_rare_label_leaves_it_to_the_training_set() -> None:
    """Which has both, where window and audit sample have not."""
    few, training = evidence(40), evidence(700, 4)
    verdict = judge(BAD, GOOD, few, few, 0.1, training=training)
    assert (verdict.outcome, verdict.scored_on, verdict.points) == ("refused", "training", 700)


def test_the_best_of_those_before_counts() -> None:
    """Within the margin of the present one, but not of an earlier one: refused; the order does not matter."""
    half = Model(Scaler.identity(DIMENSION), LinearMachine(np.array([1.0, 0.0, 0.0]), 0.0)).predict_codes
    least = Model(Scaler.identity(DIMENSION), LinearMachine(np.array([1.0, -0.2, 0.0]), 0.0)).predict_codes
    alone = judge(least, half, evidence(), None, 0.1)
    assert alone.outcome == "passed"
    for earlier in ([GOOD], [GOOD, BAD], [BAD, GOOD]):
        verdict = judge(least, half, evidence(), None, 0.1, earlier=earlier)
        assert verdict.outcome == "refused"
        assert (verdict.candidate, verdict.present) == (alone.candidate, alone.present)
        assert len(verdict.earlier) == len(earlier)
    assert judge(least, half, evidence(), None, 0.1, earlier=[BAD]).outcome == "passed"


def test_one_heavy_point_is_not_the_verdict() -> None:
    """Of the weight 1e15, answered right by the worse model alone."""
    points = gaussian(600, 1)
    weight = points.weight.copy()
    wrong = int(np.flatnonzero(GOOD_MODEL.predict_sign(points.X) != points.y)[0])
    weight[wrong] = 1e15
    heavy = Evidence(points.reweighted(weight))
    assert judge(BAD, GOOD, heavy, None, 0.1).outcome == "refused"
    assert judge(GOOD, BAD, heavy, None, 0.1).outcome == "passed"


def test_a_label_that_is_nearly_missing_is_no_evidence() -> None:
    """However many points the other one has."""
    points = gaussian(2_000, 3)
    positive = np.flatnonzero(points.y > 0)[: LEAST_OF_A_LABEL - 1]
    rare = points.take(np.concatenate([np.flatnonzero(points.y < 0), positive]))
    assert not Evidence(rare).enough
    assert Evidence(points).enough


def test_the_window_holds_the_newest_accepted_points_and_no_more() -> None:
    """Rejected rows take no place, and what was handed in may change afterwards."""
    points = gaussian(50)
    accepted = np.arange(50) % 5 != 0
    rows = rows_of(points, accepted=accepted)
    window = EvaluationWindow(12)
    for first in range(0, 50, 7):
        window.add(rows.slice(first, min(first + 7, 50)))
        assert len(window) <= 12 + 7
    expected = points.X[np.flatnonzero(accepted)[-12:]].copy()
    points.X[:] = 0.0
    found = window.after({0: Position(0)})
    assert found is not None
    np.testing.assert_array_equal(found.points.X, expected)
    assert found.spans == {0: (Position(int(np.flatnonzero(accepted)[-12])), Position(50))}


def test_only_points_after_the_cut_are_taken() -> None:
    """By offset and row, in each partition by its own, those not learned yet last; a partition that the cut does not
    name has none.
    """
    window = EvaluationWindow(100)
    counts = np.array([3, 1, 2, 4])
    window.add(rows_of(gaussian(10, 1), 0, record_rows=counts))
    window.add(rows_of(gaussian(10, 2), 1))
    window.add(rows_of(gaussian(10, 3), 2))
    unlearned = rows_of(gaussian(4, 4), 0, first_offset=4)
    found = window.after({0: Position(2, 1), 1: Position(8)}, [unlearned])
    assert found is not None
    expected = [gaussian(10, 1).X[5:], gaussian(10, 2).X[8:], gaussian(4, 4).X]
    np.testing.assert_array_equal(found.points.X, np.concatenate(expected))
    assert found.spans == {0: (Position(2, 1), Position(8)), 1: (Position(8), Position(10))}
    assert window.after({0: Position(4), 1: Position(10), 2: Position(10)}) is None


def test_an_audit_sample_stands_for_what_its_weights_say() -> None:
    """Points lighter than their partition's threshold count as much as that."""
    points = gaussian(20)
    found = audit_evidence([sampled(points, 1.2), sampled(Points.empty(DIMENSION, np.dtype("f4")), 0.0)])
    assert found is not None
    np.testing.assert_array_equal(found.points.weight, np.maximum(points.weight, 1.2))
    assert audit_evidence([sampled(Points.empty(DIMENSION, np.dtype("f4")), 0.0)]) is None
