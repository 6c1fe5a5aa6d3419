"""A training set and its machine in two dimensions: a projection, and where the decision surface crosses its plane.

The plane goes through the weighted mean of the points, along the two directions in which they vary most once they are
standardised by the model's own scaler (principal components). A point is drawn at its foot on the plane; the border is
the decision surface's *section* by the plane, so a point far off the plane may lie on the other side of the surface
than it seems to.

Invariant: the same points and model give the same picture; nothing here changes either. The work is bounded whatever
the number of features: `MOST_POINTS` points and `MOST_NUMBERS` numbers of them.

Sources: Pearson 1901 (principal components); Lorensen and Cline 1987 (marching squares, in two dimensions).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.model.kernels import Float
from streamsvm.model.machine import LinearMachine, Machine, Model
from streamsvm.points import Points, Signs

MOST_POINTS: Final = 1_500
MOST_NUMBERS: Final = 100_000
LEAST_POINTS: Final = 50
GRID: Final = 49
"""Nodes a side of the grid on which a kernel machine is evaluated."""
FARTHEST: Final = 1e6
"""Scaled features beyond this are drawn as if they were this far."""
FRAME_SHARE: Final = 0.01
"""Share of the points, at each end of each axis, that the frame need not hold."""
FRAME_MARGIN: Final = 0.1

Segments = NDArray[np.float64]
"""Pieces of a line, shape (s, 2, 2): piece, end, coordinate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """Points on the plane of their two principal components.

    Attributes
    ----------
    xy : ndarray of shape (n, 2), float64
        In standard deviations of the features.
    sign : ndarray of shape (n,), int8
    weight : ndarray of shape (n,), float64
        The greatest is 1.
    total : int
        Points that were there; n of them, at even steps through their order, are drawn.
    centre : ndarray of shape (d,), float64
        Weighted mean of the scaled features, the plane's origin.
    axes : ndarray of shape (2, d), float64
        Orthonormal; the largest entry of each is positive. The second is zero where there is one feature.
    share : tuple of two floats
        Each component's share of the variance.
    frame : tuple of four floats
        What to show: left, right, bottom, top.
    """

    xy: Float
    sign: Signs
    weight: Float
    total: int
    centre: Float
    axes: Float
    share: tuple[float, float]
    frame: tuple[float, float, float, float]

    @property
    def inside(self) -> NDArray[np.bool_]:
        """Which points the frame holds, shape (n,)."""
        left, right, bottom, top = self.frame
        x, y = self.xy.T
        return np.asarray((x >= left) & (x <= right) & (y >= bottom) & (y <= top))


def project(points: Points, model: Model) -> Projection:
    """Project a training set, at least one point, by its model's scaler."""
    total = len(points)
    drawn = drawn_of(points)
    with np.errstate(all="ignore"):  # a picture is no reason to stop: what is not finite, or absurdly far, is moved
        Z = np.clip(np.nan_to_num(model.scaler.transform(drawn.X)), -FARTHEST, FARTHEST)
    weight = np.asarray(drawn.weight, np.float64) / float(drawn.weight.max())
    centre = np.asarray(weight @ Z / weight.sum(), np.float64)
    Z = Z - centre
    axes, share = _principal(Z * np.sqrt(weight / weight.sum())[:, None])
    xy = np.asarray(Z @ axes.T, np.float64)
    return Projection(
        xy=xy, sign=drawn.y.copy(), weight=weight, total=total, centre=centre, axes=axes, share=share, frame=_frame(xy)
    )


def most_points(dimension: int) -> int:
    """Return how many points of so many features are drawn at most."""
    return min(MOST_POINTS, max(LEAST_POINTS, MOST_NUMBERS // max(dimension, 1)))


def border(projection: Projection, machine: Machine, level: float = 0.0) -> Segments:
    """Return where the decision value is `level` on the plane, within the frame.

    A straight line for a linear machine; for a kernel machine marching squares over `GRID` x `GRID` values.
    """
    if isinstance(machine, LinearMachine):
        slope = projection.axes @ machine.coefficients
        rest = float(projection.centre @ machine.coefficients) + machine.intercept - level
        return _straight(slope, rest, projection.frame)
    left, right, bottom, top = projection.frame
    x, y = np.linspace(left, right, GRID), np.linspace(bottom, top, GRID)
    nodes = np.column_stack([np.tile(x, GRID), np.repeat(y, GRID)])
    values = machine.decide(projection.centre + nodes @ projection.axes).reshape(GRID, GRID)
    return contour(x, y, values - level)


def contour(x: Float, y: Float, values: Float) -> Segments:
    """Return the zero line of a function known at the nodes of a grid, linear along every edge.

    Parameters
    ----------
    x, y : ndarray of shape (m,), (n,)
        Increasing.
    values : ndarray of shape (n, m)
        `values[j, i]` at (x[i], y[j]); zero counts as positive, not finite as positive, too.
    """
    above = ~(values < 0.0)
    corners = np.stack([above[:-1, :-1], above[:-1, 1:], above[1:, 1:], above[1:, :-1]])
    crossed = np.argwhere(corners.any(axis=0) & ~corners.all(axis=0))
    pieces = [piece for j, i in crossed for piece in _cell(x, y, values, int(i), int(j))]
    return np.array(pieces, np.float64).reshape(-1, 2, 2)


def _cell(x: Float, y: Float, values: Float, i: int, j: int) -> list[list[tuple[float, float]]]:
    """Return the pieces inside one cell; in a saddle the mean of the corners says which ones belong together."""
    nodes = [(i, j), (i + 1, j), (i + 1, j + 1), (i, j + 1)]
    at = [float(values[row, column]) for column, row in nodes]
    ends = []
    for edge in range(4):
        a, b = at[edge], at[(edge + 1) % 4]
        if (a < 0.0) != (b < 0.0):
            share = a / (a - b)
            (i0, j0), (i1, j1) = nodes[edge], nodes[(edge + 1) % 4]
            ends.append((float(x[i0] + share * (x[i1] - x[i0])), float(y[j0] + share * (y[j1] - y[j0]))))
    if len(ends) == 2:
        return [ends]
    first_apart = (sum(at) < 0.0) != (at[0] < 0.0)
    pairs = ((3, 0), (1, 2)) if first_apart else ((0, 1), (2, 3))
    return [[ends[one], ends[other]] for one, other in pairs]


def _straight(slope: Float, rest: float, frame: tuple[float, float, float, float]) -> Segments:
    """Return the part of <slope, p> + rest = 0 that the frame holds."""
    left, right, bottom, top = frame
    a, b = float(slope[0]), float(slope[1])
    ends = []
    if b:
        ends += [(x, -(rest + a * x) / b) for x in (left, right)]
    if a:
        ends += [(-(rest + b * y) / a, y) for y in (bottom, top)]
    slack = 1e-9 * max(right - left, top - bottom)
    inside = [p for p in ends if left - slack <= p[0] <= right + slack and bottom - slack <= p[1] <= top + slack]
    if len(inside) < 2:
        return np.empty((0, 2, 2))
    farthest = max(inside[1:], key=lambda p: (p[0] - inside[0][0]) ** 2 + (p[1] - inside[0][1]) ** 2)
    return np.array([[inside[0], farthest]], np.float64)


def drawn_of(points: Points) -> Points:
    """Return at most `most_points` of some points, at even steps."""
    most = min(len(points), most_points(points.dimension))
    return points.take(np.linspace(0, len(points) - 1, most).astype(np.intp))


def _principal(B: Float) -> tuple[Float, tuple[float, float]]:
    """Return the two leading right singular vectors of B, shape (2, d), and their shares of its square."""
    n, dimension = B.shape
    if dimension <= n:
        values, vectors = np.linalg.eigh(B.T @ B)
        leading = vectors[:, ::-1][:, :2].T
    else:
        values, left = np.linalg.eigh(B @ B.T)
        leading = _rows_of_length_one((B.T @ left[:, ::-1][:, :2]).T)
    values = np.maximum(values[::-1], 0.0)
    axes = np.zeros((2, dimension))
    axes[: len(leading)] = [axis * (1.0 if axis[np.argmax(np.abs(axis))] >= 0.0 else -1.0) for axis in leading]
    shares = np.zeros(2)
    if (whole := values.sum()) > 0.0:
        shares[: len(leading)] = (values / whole)[: len(leading)]
    return axes, (float(shares[0]), float(shares[1]))


def _rows_of_length_one(A: Float) -> Float:
    length = np.sqrt(np.einsum("ij,ij->i", A, A))[:, None]
    return np.asarray(np.divide(A, length, out=np.zeros_like(A), where=length > 0.0))


def _frame(xy: Float) -> tuple[float, float, float, float]:
    """Return a frame around nearly all points, with a margin; never empty."""
    low, high = np.quantile(xy, [FRAME_SHARE, 1.0 - FRAME_SHARE], axis=0)
    margin = np.maximum(FRAME_MARGIN * (high - low), 0.05)
    low, high = low - margin, high + margin
    return float(low[0]), float(high[0]), float(low[1]), float(high[1])
