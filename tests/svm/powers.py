"""Powers of two of a whole array, by the compiled function of one number."""

from __future__ import annotations

from numba import njit

from streamsvm.vector_math import least, power_of_two, widest_vectors


@njit(nogil=True)
def powers_of_two(x):  # type: ignore[no-untyped-def]
    """Replace every x, taken as 0 if positive, by 2^x.

    Parameters
    ----------
    x : ndarray of shape (m,), float32 or float64
    """
    widest_vectors()
    zero = x.dtype.type(0.0)
    for j in range(len(x)):
        x[j] = power_of_two(least(x[j], zero))
