"""What is set aside: of a rare label some rows, and of copies all or none."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from streamsvm.estimators.evaluation import split
from streamsvm.points import Points


def rows_of(n: int, rare: int, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.int8]]:
    """Return rows without a pattern, so many of them positive."""
    chance = np.random.default_rng(seed)
    y = np.full(n, -1, np.int8)
    y[chance.permutation(n)[:rare]] = 1
    return chance.standard_normal((n, 3)), y


@pytest.mark.parametrize("rare", [2, 3, 5, 40])
@pytest.mark.parametrize("seed", range(5))
def test_a_rare_label_is_on_both_sides(rare: int, seed: int) -> None:
    """Of two rows one is held out; of more a fifth, within chance where they are many."""
    X, y = rows_of(2_000, rare, seed)
    train, test = split(Points(X, y, np.ones(len(y))), 0.2, seed)
    assert len(train) + len(test) == 2_000
    assert 1 <= np.sum(test.y == 1) < rare
    assert np.sum(test.y == 1) == pytest.approx(0.2 * rare, abs=1.0)
    assert len({row.tobytes() for row in (*train.X, *test.X)}) == 2_000


def test_groups_stay_together() -> None:
    """And about the share that was asked for is set aside."""
    X, y = rows_of(1_600, 300)
    groups = np.concatenate([np.arange(1_000), np.arange(600)])
    X = X[groups]
    train, test = split(Points(X, y[groups], np.ones(1_600)), 0.2, 0, groups)
    assert not {row.tobytes() for row in train.X} & {row.tobytes() for row in test.X}
    assert 0.15 < len(test) / 1_600 < 0.25
