"""The vectorised power of two: accurate, and a function of its argument alone."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit
from numpy.typing import NDArray

from streamsvm.vector_math import LEAST_32, LEAST_64, least, power_of_two, widest_vectors


@njit(nogil=True)
def powers_of_two(x):  # type: ignore[no-untyped-def]
    """Replace every x, taken as 0 if positive, by 2^x."""
    widest_vectors()
    zero = x.dtype.type(0.0)
    for j in range(len(x)):
        x[j] = power_of_two(least(x[j], zero))


def arguments(kind: type, lowest: float) -> NDArray[np.float32 | np.float64]:
    drawn = -np.random.default_rng(0).exponential(-lowest / 6, 20_000)
    return np.concatenate([[0.0, -1e-30, -0.5, -1.5, lowest], drawn[drawn > lowest]]).astype(kind)


@pytest.mark.parametrize(("kind", "lowest", "accuracy"), [(np.float32, LEAST_32, 1e-7), (np.float64, LEAST_64, 4e-16)])
def test_it_is_accurate(kind: type, lowest: float, accuracy: float) -> None:
    """Relative error, against a wider type, from 0 down to the least power."""
    x = arguments(kind, lowest)
    y = x.copy()
    powers_of_two(y)
    exact = np.exp2(x.astype(np.longdouble))
    assert float(np.abs(y / exact - 1).max()) < accuracy


@pytest.mark.parametrize(("kind", "lowest"), [(np.float32, LEAST_32), (np.float64, LEAST_64)])
def test_the_ends_are_held(kind: type, lowest: float) -> None:
    """Below the least power all is that power, above 0 all is 1: no overflow, no zero."""
    x = np.array([lowest, 2 * lowest, -1e30, 0.0, 1e-3, 1e30], kind)
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
