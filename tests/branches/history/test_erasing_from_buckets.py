"""Rows taken out while all are held as they came: the bytes of a stream that rejected them; later, a refusal."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsvm.branches.history.exact_removal import without
from streamsvm.checkpoint.records import encode_partition
from streamsvm.config import ModelConfig
from streamsvm.estimators import CoresetSVC
from streamsvm.learning.learner import Learner
from streamsvm.learning.partition_state import PartitionState
from streamsvm.learning.removal import CannotForget
from streamsvm.points import Points, Position
from tests.streams import gaussian, rows_of, small_config

ROWS = 30


def roomy() -> ModelConfig:
    return small_config(leaf_rows=40, bucket_points=20, audit_points=200)


def learned(points: Points, accepted: np.ndarray | None = None, config: ModelConfig | None = None) -> PartitionState:
    learner = Learner(config or roomy(), {0: Position(0)}, 1 << 30)
    learner.learn(rows_of(points, accepted=accepted))
    return learner.state().partitions[0]


@given(st.sets(st.integers(0, ROWS - 1), max_size=ROWS))
def test_what_is_left_is_as_if_the_rows_had_been_rejected(gone: set[int]) -> None:
    points = gaussian(ROWS, 4)
    accepted = ~np.isin(np.arange(ROWS), sorted(gone))
    found = without(learned(points), points.take(~accepted), 2)
    assert encode_partition(0, found, ()) == encode_partition(0, learned(points, accepted), ())


def test_of_equal_rows_as_many_go_as_are_given() -> None:
    points = gaussian(6, 1)
    twice = points.take(np.array([0, 1, 0, 2, 0]))
    found = without(learned(twice), points.take(np.array([0, 0])), 2)
    np.testing.assert_array_equal(found.leaf_points.X, points.X[[1, 2, 0]])
    with pytest.raises(CannotForget, match="1 of the 4 rows are not held with these labels: none was taken out"):
        without(learned(twice), points.take(np.array([0, 0, 0, 0])), 2)


def test_what_is_reduced_is_not_forgotten_from() -> None:
    """Nor once the audit sample is a draw; nor a row that never came, or came under the other label."""
    points = gaussian(90, 2)
    with pytest.raises(CannotForget, match="90 rows were learned, and most are held in reduced form"):
        without(learned(points), points.take(slice(0, 1)), 2)
    drawn = small_config(leaf_rows=40, bucket_points=20, audit_points=10)
    with pytest.raises(CannotForget, match="the audit sample is a draw by now"):
        without(learned(points.take(slice(0, 30)), config=drawn), points.take(slice(0, 1)), 2)
    one = points.take(slice(0, 1))
    with pytest.raises(CannotForget, match="1 of the 1 rows are not held"):
        without(learned(points.take(slice(1, 20))), one, 2)
    with pytest.raises(CannotForget, match="1 of the 1 rows are not held"):
        without(learned(points.take(slice(0, 20))), replace(one, y=-one.y), 2)


@pytest.mark.parametrize("classes", [2, 3])
def test_an_estimator_forgets_while_it_holds_every_row(classes: int) -> None:
    """The answers of one that never had them, to rounding; after a full leaf it refuses, and stays what it is."""
    points = gaussian(2_600, 7)
    X, y = points.X, np.where(points.X[:, 0] > 1.0, classes - 1, points.y > 0).astype(int)
    gone = np.array([3, 77, 299])
    machine = CoresetSVC(points=2_000).partial_fit(X[:300], y[:300], classes=range(classes))
    before = machine.decision_function(X)
    machine.forget(X[gone], y[gone])
    assert not np.array_equal(machine.decision_function(X), before)
    again = CoresetSVC(points=2_000).partial_fit(
        np.delete(X[:300], gone, axis=0), np.delete(y[:300], gone), classes=range(classes)
    )
    np.testing.assert_allclose(machine.decision_function(X), again.decision_function(X), rtol=1e-6, atol=1e-6)
    machine.partial_fit(X[300:], y[300:])
    after = machine.decision_function(X)
    with pytest.raises(ValueError, match="are held in reduced form"):
        machine.forget(X[400:401], y[400:401])
    np.testing.assert_array_equal(machine.decision_function(X), after)
