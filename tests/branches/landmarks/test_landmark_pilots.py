"""Pilots over landmarks: what they say of points, and what a stream learned by them comes to."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from streamsvm.branches.landmarks.landmark_pilots import POINTS, LandmarkPilot, landmark_pilot
from streamsvm.config import ModelConfig, PointsConfig, SvmConfig
from streamsvm.coreset import Moments
from streamsvm.learning import Learner, kernel_pilot, make
from streamsvm.points import Points, Position
from tests.config.sizes import sized
from tests.learning.test_learner import check_batches, check_restart
from tests.streams import ring, rows_of


def config_of(**coreset: object) -> ModelConfig:
    sizes: dict[str, object] = {"leaf_rows": 40, "bucket_points": 200, "audit_points": 20}
    return ModelConfig(
        points=PointsConfig(dimension=3),
        coreset=sized(**{**sizes, **coreset}),
        svm=SvmConfig(kernel="rbf", alpha=1e-3),
    )


def learner(**coreset: object) -> Learner:
    return Learner(config_of(**coreset), {0: Position(0)}, 1 << 30)


def noisy(points: Points, share: float) -> Points:
    """Return points of which some have the other label."""
    flipped = np.random.default_rng(9).random(len(points)) < share
    return Points(points.X, np.where(flipped, -points.y, points.y).astype(np.int8), points.weight)


def test_margins_are_those_of_the_whole_machine() -> None:
    """On rows that no pilot was solved on, nearly; also where it is solved on a part of the points."""
    points = ring(POINTS + 1_000)
    seen, config = Moments.zero(3).add(points), config_of()
    found = landmark_pilot(points, seen.weight, seen, config)
    whole = kernel_pilot(points, seen.weight, seen, config.svm)
    assert isinstance(found, LandmarkPilot)
    assert found.landmarks is not None
    assert not found.crowded
    assert found.decisions is not None
    assert whole.decisions is not None
    near = [np.clip(points.y * decisions, -1.0, 2.0) for decisions in (found.decisions, whole.decisions)]
    assert np.corrcoef(*near)[0, 1] > 0.95
    assert found.landmarks.coefficients.shape[0] <= 256


def test_label_noise_makes_points_crowded() -> None:
    """Where a third of the labels is wrong, more than a third of the weight is active whatever is solved."""
    points = noisy(ring(2_000), 0.3)
    seen = Moments.zero(3).add(points)
    found = landmark_pilot(points, seen.weight, seen, config_of())
    assert isinstance(found, LandmarkPilot)
    assert found.crowded
    assert found.landmarks is None


@pytest.mark.parametrize("noise", [0.0, 0.3])
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_batches_and_restarts_do_not_matter(noise: float, data: st.DataObject) -> None:
    """A stream in other portions, or restored from a checkpoint in the middle of a screened leaf, is the same."""
    rows = rows_of(noisy(ring(3_000), noise))
    borders = sorted(data.draw(st.sets(st.integers(1, 2_999), max_size=6)))
    whole = check_batches(learner, rows, borders)
    check_restart(learner, rows, data.draw(st.integers(1, 2_999)))
    assert whole.state().partitions[0].screened is not None
    assert whole.observed().reductions > 0


def test_noise_samples_and_its_absence_does_not() -> None:
    """What is counted says which rule held."""
    clean, turned = learner(), learner()
    clean.learn(rows_of(ring(3_000)))
    turned.learn(rows_of(noisy(ring(3_000), 0.3)))
    assert clean.observed().crowded < 0.1 * clean.observed().reductions
    # Of a sealed leaf two are counted: that of the leaf itself, which meets totals, and that of the bucket.
    assert turned.observed().crowded > 0.4 * turned.observed().reductions
    weight = turned.cut().points.weight
    assert weight.max() < 40.0 * weight.min()


def test_a_leaf_grows_with_the_stream() -> None:
    """Late rows are screened by one pilot for many of them: the buffer is small, the span is long."""
    held = learner()
    held.learn(rows_of(ring(20_000)))
    leaf = held.open_leaves()[0]
    assert leaf.span >= 20 * 40
    assert leaf.points <= 40
    assert held.points_held <= 200 + 40 + 20


def test_nothing_is_dropped_while_there_is_room() -> None:
    """Below the memory's points, the coreset is the stream."""
    held, points = learner(leaf_rows=100, bucket_points=1_500), ring(1_590)
    held.learn(rows_of(points))
    assert held.cut().points.sha256() == points.sha256()


def test_one_label_is_learned_as_before() -> None:
    """There is no machine to ask then: points are sampled by weight, and the model is a constant."""
    points = ring(2_000)
    same = Points(points.X, np.ones(len(points), np.int8), points.weight)
    held = learner()
    held.learn(rows_of(same))
    made = make(held.cut(), config_of())
    assert (made.trained.model.predict_sign(points.X[:50]) == 1).all()


def test_a_published_machine_has_so_many_terms() -> None:
    """It answers nearly as the whole one does, and its duality gap says that it is not the optimum."""
    points = noisy(ring(3_000), 0.05)
    held = learner(bucket_points=2_000)
    held.learn(rows_of(points))
    cut = held.cut()
    svm = {"kernel": "rbf", "alpha": 1e-3}
    whole, fewer = (
        make(cut, config_of().model_copy(update={"svm": SvmConfig(**svm, landmarks=most)})).trained
        for most in (None, 60)
    )
    assert whole.fit.support_vectors > 200
    assert fewer.fit.support_vectors == len(fewer.model.machine.dual) <= 60
    agreed = np.mean(whole.model.predict_sign(points.X) == fewer.model.predict_sign(points.X))
    assert agreed > 0.95
    assert fewer.fit.dual_objective == whole.fit.dual_objective
    assert fewer.fit.objective > whole.fit.objective
    assert fewer.fit.kkt_gap is None
