"""Arithmetic that the compiler turns into vector instructions: powers of two, fused multiply-add, least and most.

numba's own `exp` is a call for every number, and its `min` and `max` are branches: loops over them stay scalar. These
are plain LLVM operations, so a loop over an array becomes one over vectors, in float32 and in float64 alike. Powers of
two are what an exponential is after one multiplication, which the caller does once for each point, not for each pair.

Invariant: a number's result depends on that number only, never on its place in an array or on the array's alignment:
products are fused with sums where the code says so and nowhere else.

Method: x = k + r with k whole and |r| <= 1/2, exactly; 2^r = 1 + r g(r), g the polynomial that interpolates
(2^r - 1) / r at the Chebyshev nodes, of degree 5 in float32 and 10 in float64; k is added to the exponent's bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

LEAST_32, LEAST_64 = -125.0, -1021.0
"""2 to these is about the least normal number, 2e-38 and 4e-308; it stands for everything below."""


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


def _wide(typing):  # type: ignore[no-untyped-def] # noqa: ARG001
    """Let the function that calls this use the widest vectors there are.

    LLVM halves them on processors with AVX-512, whose first generation paid for wide ones with its clock rate; here
    they are 1.3 to 1.6 times as fast. llvmlite checks the names of attributes, and does not know this one.
    """

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:  # noqa: ARG001
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return types.none(), generate


widest_vectors: Any = intrinsic(_wide)


def power_of_two(x: Any) -> Any:
    """Return 2^x for x <= 0; within compiled code only.

    Relative error below 1e-7 for float32 and 4e-16 for float64, down to `LEAST_32` or `LEAST_64`.
    """
    raise NotImplementedError


@overload(power_of_two, inline="always")
def _power_of_two(x):  # type: ignore[no-untyped-def]
    return _power_32 if x == types.float32 else _power_64


_f = np.float32
_LEAST_32, _ONE_32, _SHIFT_32 = _f(LEAST_32), _f(1.0), np.int32(23)
_ROUNDER_32, _ROUNDER_64 = _f(12582912.0), 6755399441055744.0
"""1.5 times 2^23 and 2^52: adding one rounds to a whole number that then stands in the lowest bits."""
_G5, _G4, _G3 = _f(1.5453162945e-4), _f(1.3390863365e-3), _f(9.6180825573e-3)
_G2, _G1, _G0 = _f(5.5503571142e-2), _f(2.4022650761e-1), _f(6.9314718803e-1)


def _power_32(x):  # type: ignore[no-untyped-def]
    x = most(x, _LEAST_32)
    s = x + _ROUNDER_32
    r = x - (s - _ROUNDER_32)
    g = fused(fused(fused(_G5, r, _G4), r, _G3), r, _G2)
    p = fused(fused(fused(g, r, _G1), r, _G0), r, _ONE_32)
    return _number(np.int32(_bits(p) + (_bits(s) << _SHIFT_32)))


def _power_64(x):  # type: ignore[no-untyped-def]
    x = most(x, LEAST_64)
    s = x + _ROUNDER_64
    r = x - (s - _ROUNDER_64)
    g = fused(4.4547981526298326e-10, r, 7.072590056147165e-09)
    g = fused(fused(g, r, 1.0178063384696805e-07), r, 1.3215442567259741e-06)
    g = fused(fused(g, r, 1.525273382794192e-05), r, 1.5403530441766218e-04)
    g = fused(fused(g, r, 1.333355814641853e-03), r, 9.61812910760688e-03)
    g = fused(fused(g, r, 5.550410866482159e-02), r, 2.4022650695910097e-01)
    p = fused(fused(g, r, 6.931471805599453e-01), r, 1.0)
    return _number(_bits(p) + (_bits(s) << 52))
