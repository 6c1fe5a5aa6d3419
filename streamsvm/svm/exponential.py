"""Scalars that the compiler turns into vector instructions: exp, fused multiply-add, least and most.

numba's own `exp` is a call for every number, and its `min` and `max` are branches: loops over them stay scalar. These
are plain LLVM operations, so a loop over an array becomes one over vectors, in float32 and in float64 alike.

Invariant: a number's result depends on that number only, never on its place in an array or on the array's alignment:
products are fused with sums where the code says so and nowhere else.

Source: argument reduction by Cody and Waite 1980 (x = k ln 2 + r, ln 2 in two parts); the polynomial of exp(r) on
|r| <= ln(2)/2 is in float32 that of the Cephes library (expf, Moshier 1989), in float64 Taylor's of degree 13.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic, overload

LEAST_32, LEAST_64 = -87.0, -708.0
"""exp of these is about the least normal number, 2e-38 and 3e-308; it stands for everything below."""


def _operation(name: str) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:  # noqa: ARG001
        kind = values[0].type
        function = builder.module.declare_intrinsic(name, [kind], ir.FunctionType(kind, [kind] * len(values)))
        return builder.call(function, values)

    return generate


def _fused(typing, a, b, c):  # type: ignore[no-untyped-def] # noqa: ARG001
    """Return a b + c, rounded once where the processor can; all of one type."""
    return a(a, a, a), _operation("llvm.fmuladd")


def _least(typing, a, b):  # type: ignore[no-untyped-def] # noqa: ARG001
    """Return the smaller of two numbers of one type."""
    return a(a, a), _operation("llvm.minnum")


def _most(typing, a, b):  # type: ignore[no-untyped-def] # noqa: ARG001
    """Return the larger of two numbers of one type."""
    return a(a, a), _operation("llvm.maxnum")


def _bits_of(typing, x):  # type: ignore[no-untyped-def] # noqa: ARG001
    """Return the integer that has the same bits."""
    integer, width = (types.int32, 32) if x == types.float32 else (types.int64, 64)
    return integer(x), lambda context, builder, signature, values: builder.bitcast(values[0], ir.IntType(width))  # noqa: ARG005


def _number_of(typing, x):  # type: ignore[no-untyped-def] # noqa: ARG001
    """Return the number that has the same bits."""
    number, kind = (types.float32, ir.FloatType()) if x == types.int32 else (types.float64, ir.DoubleType())
    return number(x), lambda context, builder, signature, values: builder.bitcast(values[0], kind)  # noqa: ARG005


fused: Any = intrinsic(_fused)
least: Any = intrinsic(_least)
most: Any = intrinsic(_most)
_bits: Any = intrinsic(_bits_of)
_number: Any = intrinsic(_number_of)


def exponential(x: Any) -> Any:
    """Return exp(x) for x <= 0; within compiled code only.

    Relative error below 1e-7 for float32 and 4e-16 for float64, down to `LEAST_32` or `LEAST_64`.
    """
    raise NotImplementedError


@overload(exponential, inline="always")
def _exponential(x):  # type: ignore[no-untyped-def]
    return _exponential_32 if x == types.float32 else _exponential_64


_f = np.float32
_LEAST_32, _LOG2_E_32, _ROUNDER_32 = _f(LEAST_32), _f(1.4426950408889634), _f(12582912.0)
_LN2_HIGH_32, _LN2_LOW_32, _ONE_32 = _f(-0.693145751953125), _f(-1.428606765330187e-06), _f(1.0)
_P5, _P4, _P3 = _f(1.9875691500e-4), _f(1.3981999507e-3), _f(8.3334519073e-3)
_P2, _P1, _P0 = _f(4.1665795894e-2), _f(1.6666665459e-1), _f(5.0000001201e-1)
_SHIFT_32, _BIAS_32 = np.int32(23), np.int32(127 - 0x4B400000)
_LOG2_E_64, _ROUNDER_64 = 1.4426950408889634, 6755399441055744.0
_LN2_HIGH_64, _LN2_LOW_64 = -6.93147180369123816490e-01, -1.90821492927058770002e-10
_BIAS_64 = 1023 - 0x4338000000000000


def _exponential_32(x):  # type: ignore[no-untyped-def]
    x = most(x, _LEAST_32)
    s = fused(x, _LOG2_E_32, _ROUNDER_32)
    k = s - _ROUNDER_32
    r = fused(k, _LN2_LOW_32, fused(k, _LN2_HIGH_32, x))
    p = fused(fused(fused(_P5, r, _P4), r, _P3), r, _P2)
    p = fused(fused(p, r, _P1), r, _P0)
    q = fused(p, r * r, r) + _ONE_32
    return q * _number(np.int32((_bits(s) + _BIAS_32) << _SHIFT_32))


def _exponential_64(x):  # type: ignore[no-untyped-def]
    x = most(x, LEAST_64)
    s = fused(x, _LOG2_E_64, _ROUNDER_64)
    k = s - _ROUNDER_64
    r = fused(k, _LN2_LOW_64, fused(k, _LN2_HIGH_64, x))
    p = fused(1.0 / 6227020800.0, r, 1.0 / 479001600.0)
    p = fused(fused(p, r, 1.0 / 39916800.0), r, 1.0 / 3628800.0)
    p = fused(fused(p, r, 1.0 / 362880.0), r, 1.0 / 40320.0)
    p = fused(fused(p, r, 1.0 / 5040.0), r, 1.0 / 720.0)
    p = fused(fused(p, r, 1.0 / 120.0), r, 1.0 / 24.0)
    p = fused(fused(p, r, 1.0 / 6.0), r, 0.5)
    q = fused(fused(p, r, 1.0), r, 1.0)
    return q * _number((_bits(s) + _BIAS_64) << 52)


@njit(cache=True, nogil=True)
def exponentials(x):  # type: ignore[no-untyped-def]
    """Replace every x, taken as 0 if positive, by exp(x).

    Parameters
    ----------
    x : ndarray of shape (m,), float32 or float64
    """
    zero = x.dtype.type(0.0)
    for j in range(len(x)):
        x[j] = exponential(least(x[j], zero))
