"""RBF pilots over landmarks, for any number of labels."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig, SvmConfig
from streamsvm.coreset.buckets import Moments, label_weights
from streamsvm.coreset.landmarks import Landmarks, _fit, measured_by_landmarks
from streamsvm.coreset.partition import Partition
from streamsvm.coreset.state import check_partition
from streamsvm.model import RbfKernel
from streamsvm.points import Points, Position
from streamsvm.svm import fitted_over
from tests.coreset.streams import batches, rows_of


def rings(n: int, labels: int = 2, seed: int = 0, noise: float = 0.1) -> Points:
    """Return rings around 0, one a label: no line tells them apart."""
    random = np.random.default_rng(seed)
    y = random.integers(0, labels, n)
    angle, radius = random.uniform(0, 2 * np.pi, n), 1.0 + y + noise * random.standard_normal(n)
    X = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).astype(np.float32)
    return Points(X, (2 * y - 1 if labels == 2 else y).astype(np.int8), np.ones(n))


def config_of(labels: int, points: int = 1_500) -> ModelConfig:
    names = (-1, 1) if labels == 2 else tuple(range(labels))
    return ModelConfig(
        points=PointsConfig(dimension=2, labels=names),
        coreset=CoresetConfig(points=points),
        svm=SvmConfig(kernel="rbf", alpha=1e-4),
    )


def test_decision_values_are_sums_of_kernel_values() -> None:
    """They are those of scikit-learn's kernel to float32, and a row's value does not depend on the rows beside it."""
    random, gamma, k = np.random.default_rng(0), 0.7, 33
    X, places = random.standard_normal((1_000, 5)), random.standard_normal((k, 5))
    centre, scale = random.standard_normal(5), random.uniform(0.5, 2.0, 5)
    coefficients, intercepts = random.standard_normal((3, k)), random.standard_normal(3)
    stretch = np.sqrt(2.0 * gamma * np.log2(np.e))
    machines = Landmarks(
        np.stack([centre, stretch / scale]),
        np.ascontiguousarray((places * stretch).T.astype(np.float32)),
        coefficients,
        intercepts,
        0,
    )
    points = Points(X, np.ones(1_000, np.int8), np.ones(1_000))
    found = machines.decide(points)
    expected = coefficients @ rbf_kernel(places, (X - centre) / scale, gamma=gamma) + intercepts[:, None]
    np.testing.assert_allclose(found, expected, atol=2e-5)
    for size in (1, 7, 128, 129):
        parts = [machines.decide(points.take(slice(at, at + size))) for at in range(0, 1_000, size)]
        assert np.concatenate(parts, axis=1).tobytes() == found.tobytes()


@pytest.mark.parametrize("labels", [2, 3])
def test_margins_agree_with_those_of_the_exact_machines(labels: int) -> None:
    """On rows that the pilot has not seen, each problem's side is scikit-learn's for 97 of 100; gamma is the same."""
    config, points, new = config_of(labels), rings(1_200, labels), rings(1_000, labels, seed=1)
    seen = Moments.zero(2, labels).add(points)
    found = measured_by_landmarks(points, seen, len(points), config, None)
    assert found is not None
    assert len(found.pilot.side) == (1 if labels == 2 else labels)
    assert found.pilot.landmarks is not None
    np.testing.assert_allclose(found.pilot.landmarks.scaling[1] * seen.scale, np.sqrt(2.0 * 0.5 * np.log2(np.e)))
    decided = found.pilot.landmarks.decide(new)
    Z, other = (points.X - seen.mean) / seen.scale, (new.X - seen.mean) / seen.scale
    for problem, side in enumerate(found.pilot.side):
        own = side[(points.y > 0).astype(int) if labels == 2 else points.y]
        exact = SVC(C=1.0 / (1e-4 * len(points)), gamma=0.5).fit(Z, own)
        assert np.mean((decided[problem] > 0) == (exact.decision_function(other) > 0)) > 0.97


def test_a_machine_is_fitted_to_decision_values_as_a_trained_one_is() -> None:
    """Over few places, with which no fit is exact."""
    random, y = np.random.default_rng(1), np.repeat(np.array([-1, 1], np.int8), 200)
    Z, decision, scaling = random.standard_normal((400, 5)), 2.0 * random.standard_normal(400), np.zeros((2, 5))
    scaling[1] = np.sqrt(2.0 * 0.5 * np.log2(np.e))
    found = _fit(Z, scaling, np.ascontiguousarray((Z[:9] * scaling[1]).T.astype(np.float32)), y, decision)
    expected = fitted_over(Z, y, decision, np.ones(400), Z[:9], RbfKernel(0.5))
    np.testing.assert_allclose(found, np.append(*expected), rtol=1e-3)


def test_noise_is_crowded_and_sampled_by_weight() -> None:
    """Where labels say nothing no problem has a part, and every row is worth the same."""
    points = rings(2_000)
    points = Points(points.X, np.random.default_rng(5).choice([-1, 1], 2_000).astype(np.int8), points.weight)
    found = measured_by_landmarks(points, Moments.zero(2).add(points), 2_000, config_of(2), None)
    assert found is not None
    assert len(found.pilot.side) == 0
    assert np.unique(found.worth).tolist() == [1.0]


def test_a_machine_serves_until_the_stream_has_grown_by_half() -> None:
    """The same landmarks are asked again before, and new ones are fitted after."""
    points, config = rings(1_000), config_of(2)
    seen = Moments.zero(2).add(points)
    first = measured_by_landmarks(points, seen, 1_000, config, None)
    assert first is not None
    again = measured_by_landmarks(points, seen, 1_400, config, first.pilot)
    later = measured_by_landmarks(points, seen, 1_500, config, first.pilot)
    assert again is not None
    assert later is not None
    assert again.pilot.landmarks is first.pilot.landmarks
    assert later.pilot.landmarks is not first.pilot.landmarks


@pytest.mark.parametrize("labels", [2, 4])
def test_a_stream_is_screened_by_landmarks_and_its_weights_are_kept(labels: int) -> None:
    """Batches change no bit, and a machine of what is kept tells the rings apart."""
    config, rows, states = config_of(labels, 800), rows_of(rings(12_000, labels)), []
    for size in (1_000, 137):
        partition = Partition(0, Position(0), config)
        for batch in batches(rows, partition, size):
            partition.add(batch)
        check_partition(partition.state(), config)
        states.append(Points.union(partition.state().parts()))
    assert states[0].sha256() == states[1].sha256()
    kept, new = states[0], rings(2_000, labels, seed=9)
    assert len(kept) < 1_000
    assert label_weights(kept, labels) == pytest.approx(label_weights(rows.points, labels), rel=1e-9)
    machine = SVC(C=100.0, gamma=0.5).fit(kept.X, kept.y, sample_weight=kept.weight)
    assert machine.score(new.X, new.y) > 0.97
