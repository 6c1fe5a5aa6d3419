"""The vectorised power of two: accurate, and a function of its argument alone."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from streamsvm.vector_math import LEAST_32, LEAST_64
from tests.svm.powers import powers_of_two


def arguments(kind: type, least: float) -> NDArray[np.float32 | np.float64]:
    drawn = -np.random.default_rng(0).exponential(-least / 6, 20_000)
    return np.concatenate([[0.0, -1e-30, -0.5, -1.5, least], drawn[drawn > least]]).astype(kind)


@pytest.mark.parametrize(("kind", "least", "accuracy"), [(np.float32, LEAST_32, 1e-7), (np.float64, LEAST_64, 4e-16)])
def test_it_is_accurate(kind: type, least: float, accuracy: float) -> None:
    """Relative error, against a wider type, from 0 down to the least power."""
    x = arguments(kind, least)
    y = x.copy()
    powers_of_two(y)
    exact = np.exp2(x.astype(np.longdouble))
    assert float(np.abs(y / exact - 1).max()) < accuracy


@pytest.mark.parametrize(("kind", "least"), [(np.float32, LEAST_32), (np.float64, LEAST_64)])
def test_the_ends_are_held(kind: type, least: float) -> None:
    """Below the least power all is that power, above 0 all is 1: no overflow, no zero."""
    x = np.array([least, 2 * least, -1e30, 0.0, 1e-3, 1e30], kind)
    powers_of_two(x)
    assert (x[:3] == x[0]).all()
    assert 0 < x[0] < 1e-36
    assert (x[3:] == 1.0).all()


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_value_does_not_depend_on_its_place(kind: type) -> None:
    """Alone, in a vector's middle or in its rest: the same bits."""
    x = arguments(kind, -120.0)[:1_003]
    whole = x.copy()
    powers_of_two(whole)
    for start, stop in ((0, 1), (1, 1_003), (5, 12), (500, 1_001)):
        part = x[start:stop].copy()
        powers_of_two(part)
        assert part.tobytes() == whole[start:stop].tobytes()
