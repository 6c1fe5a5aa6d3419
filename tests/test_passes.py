"""Passes over arrays are counted, and counting changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streamsvm.config import ModelConfig, PointsConfig
from streamsvm.coreset.row_kernels import fill_scaled
from streamsvm.learning.learner import Learner
from streamsvm.points import Position
from tests.benchmarks.reduce_rate import generated
from tests.benchmarks.seal import batches
from tests.passes import ROWS, PassCount, noted_points

Array = NDArray[Any]


@pytest.mark.parametrize(
    ("work", "passes"),
    [
        (lambda X: X @ np.ones(X.shape[1]), {"matmul": 1}),
        (lambda X: X + 1.0, {"add": 1}),
        (lambda X: np.concatenate([X, X]), {"np.concatenate": 1}),
        (lambda X: X[X[:, 0] > 0.0], {"greater": 1, "[array]": 1}),
        (lambda X: X.copy(), {".copy": 1}),
        (lambda X: np.add.reduce(X), {"add.reduce": 1}),
        (lambda X: fill_scaled(X, X[0], X[0] + 1.0, X), {"kernel fill_scaled": 1}),
        (lambda X: X[: ROWS - 1] * 2.0, {}),
    ],
)
def test_a_pass_is_counted_by_its_name(work: Callable[[Array], object], passes: dict[str, int]) -> None:
    """An operator, a function, an index by an array, a method, a reduction, a kernel; of few rows none is counted."""
    count = PassCount()
    with count.running():
        X = np.zeros((ROWS, 3))
        X + 1.0  # outside of what is counted
        count(lambda: bool(work(X) is None))
    assert count.passes == passes


def test_counting_changes_nothing_that_is_learned() -> None:
    """The same cut, byte for byte; and it ends with the block: what is made afterwards is plain."""
    points, count = generated(20_000, 3), PassCount()
    config = ModelConfig(points=PointsConfig(dimension=3))

    def learned() -> Learner:
        learner = Learner(config, {0: Position(0)}, every_leaves=1 << 40)
        for rows in batches(points, 1, len(points)):
            count(lambda rows=rows: learner.learn(rows))  # type: ignore[misc]
        return learner

    plain = learned().cut()
    assert not count.passes
    with count.running():
        points = noted_points(points)
        counted = learned().cut()
    assert count.passes
    assert type(np.zeros(ROWS)) is np.ndarray
    for name in ("X", "y", "weight"):
        assert getattr(plain.points, name).tobytes() == getattr(counted.points, name).tobytes()
    assert plain.rows == counted.rows
