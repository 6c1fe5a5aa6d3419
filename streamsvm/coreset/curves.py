"""Pilots of additive machines of two labels: margins of curves and surfaces, all else as of a linear pilot.

A rough additive machine is fitted to at most `CURVE_POINTS` points, and serves until the stream has twice the rows.
Where it is not better than the linear machine on points that neither has seen, it gives way to it: with few points for
each column it is a lottery.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.compiling import njit
from streamsvm.config import ModelConfig
from streamsvm.config.sizes import CURVE_POINTS, PILOT_COLUMNS, PILOT_PAIRS
from streamsvm.coreset.buckets import Float, Moments
from streamsvm.coreset.landmarks import some_of
from streamsvm.coreset.pilot import INFLUENTIAL, Measured, Pilot, again, influence, measured, scaled_rows
from streamsvm.model.additive import AdditiveMachine
from streamsvm.model.kernels import LinearKernel
from streamsvm.points import Features, Points
from streamsvm.svm.additive import hat_at, rough
from streamsvm.svm.problem import Problem

MOST_STEPS: Final = 1_000_000
DOUBLED: Final = 2.0


@dataclass(frozen=True, slots=True)
class Curves:
    """A rough additive machine over scaled features, in arrays; without knots where it gave way to the linear one.

    Attributes
    ----------
    scaling : ndarray of shape (2, d), float64
        Mean and inverse scale.
    knots, values : ndarray of shape (k,), float64
        Those of each curve in turn.
    begin : ndarray of shape (d + 1,), int64
        Where those of each feature begin.
    pairs : ndarray of shape (q, 2), int64
    coarse : ndarray of shape (c,), float64
        Knots of each feature in a surface.
    borders : ndarray of shape (d + 1,), int64
        Where those begin.
    cells : ndarray, float64
        Values of each surface in turn, row after row.
    intercept : float
    rows : int
        Rows of the stream when it was fitted.
    """

    scaling: Float
    knots: Float
    values: Float
    begin: NDArray[np.int64]
    pairs: NDArray[np.int64]
    coarse: Float
    borders: NDArray[np.int64]
    cells: Float
    intercept: float
    rows: int

    def decide(self, points: Points) -> Float:
        """Return the decision values at points, shape (1, n)."""
        decision = np.empty((1, len(points)))
        _decide(
            points.X, self.scaling, self.knots, self.values, self.begin, self.pairs, self.coarse, self.borders,
            self.cells, self.intercept, decision,
        )  # fmt: skip
        return decision


def are_curves(one: Curves, dimension: int) -> bool:
    """Return whether arrays of any shapes and values are curves: compiled code reads them without asking."""
    begin, borders, pairs = one.begin, one.borders, one.pairs
    shapes = [one.scaling.shape, begin.shape, borders.shape]
    if shapes != [(2, dimension), (dimension + 1,), (dimension + 1,)] or pairs.ndim != 2:
        return False
    of_curve, of_surface = np.diff(begin), np.diff(borders)
    for ends, knots in ((begin, one.knots), (borders, one.coarse)):  # no difference of these overflows
        if ends[0] or ends[-1] != len(knots) or ends.min() < 0 or ends.max() > len(knots) or (np.diff(ends) < 0).any():
            return False
        within = np.setdiff1d(np.arange(1, len(knots)), ends)
        if not np.isfinite(knots).all() or (knots[within] <= knots[within - 1]).any():
            return False
    if 1 in of_curve or not np.isfinite(one.intercept):
        return False
    if pairs.shape[1] != 2 or ((pairs < 0) | (pairs >= dimension)).any() or (of_surface[pairs] < 2).any():
        return False
    return (
        len(one.knots) == len(one.values)
        and len(one.cells) == int(of_surface[pairs].prod(axis=1).sum())
        and all(np.isfinite(part).all() for part in (one.scaling, one.values, one.cells))
    )


def measured_by_curves(
    points: Points, seen: Moments, rows: int, config: ModelConfig, random: np.random.Generator, before: Pilot | None
) -> Measured | None:
    """Measure points under curves, or under a linear pilot where they give way; arguments are those of `measured`.

    `seen` is of the `rows` that the points stand for.
    """
    found = measured(points, seen.weight, seen, config.pilots, random, before)
    if found is None or not len(found.margin):
        return found
    curves = None if before is None else before.curves
    if curves is None or rows >= DOUBLED * curves.rows:
        curves = _fitted(found, seen, rows, config)
    pilot = replace(found.pilot, curves=curves)
    if not len(curves.knots):
        return replace(found, pilot=pilot)
    v = points.weight * pilot.class_weight[found.label]
    margin = (2.0 * found.label - 1.0) * curves.decide(points)[0]
    mean = float((v * influence(found.rows, margin, pilot.root[0], pilot.loss)).sum() / v.sum())
    root = pilot.root * np.float32(INFLUENTIAL / mean if mean > 0.0 else 0.0)
    return again(points, replace(pilot, root=root))


def _fitted(found: Measured, seen: Moments, rows: int, config: ModelConfig) -> Curves:
    """Return the machine of some points."""
    some, scaling, svm = some_of(found.points, found.label, CURVE_POINTS), found.pilot.scaling, config.pilots
    Z = np.ascontiguousarray(scaled_rows(some, scaling)[:, :-1])
    factor = np.array(svm.class_weights(seen.class_weight))[(some.y > 0).astype(np.int64)]
    problem = Problem(
        Z=Z,
        y=some.y,
        upper=svm.penalty(seen.weight) * (seen.weight / some.weight.sum()) * some.weight * factor,
        kernel=LinearKernel(),
        tolerance=svm.tolerance,
        max_iterations=MOST_STEPS,
        loss=svm.margin_loss,
    )
    d = Z.shape[1]
    none = np.empty(0)
    gives_way = AdditiveMachine((none,) * d, (none,) * d, (), 0.0)
    machine = rough(problem, some.weight, PILOT_COLUMNS, PILOT_PAIRS) or gives_way
    coarse = [none] * d
    for one in machine.surfaces:
        coarse[one.first], coarse[one.second] = one.rows, one.columns
    return Curves(
        scaling,
        np.concatenate(machine.knots),
        np.concatenate(machine.values),
        np.cumsum([0, *map(len, machine.knots)]),
        np.array([(one.first, one.second) for one in machine.surfaces], np.int64).reshape(-1, 2),
        np.concatenate(coarse),
        np.cumsum([0, *map(len, coarse)]),
        np.concatenate([none, *(one.values.ravel() for one in machine.surfaces)]),
        machine.intercept,
        rows,
    )


@njit(cache=True, nogil=True)
def _decide(  # type: ignore[no-untyped-def]
    X: Features, scaling, knots, values, begin, pairs, coarse, borders, cells, intercept, decision
):
    """Fill the decision values, shape (1, n)."""
    n, d = X.shape
    at, share, paired = np.zeros(d, np.int64), np.zeros(d), np.zeros(d, np.bool_)
    for p in range(len(pairs)):
        paired[pairs[p, 0]] = paired[pairs[p, 1]] = True
    for i in range(n):
        total, start = intercept, 0
        for j in range(d):
            z = (np.float64(X[i, j]) - scaling[0, j]) * scaling[1, j]
            if begin[j + 1] > begin[j]:
                knot, part = hat_at(z, knots, begin[j], begin[j + 1])
                knot += begin[j]
                total += values[knot] * (1.0 - part) + values[knot + 1] * part
            if paired[j]:
                at[j], share[j] = hat_at(z, coarse, borders[j], borders[j + 1])
        for p in range(len(pairs)):
            a, b = pairs[p]
            width, t, s = borders[b + 1] - borders[b], share[a], share[b]
            cell = start + at[a] * width + at[b]
            low = cells[cell] * (1.0 - s) + cells[cell + 1] * s
            high = cells[cell + width] * (1.0 - s) + cells[cell + width + 1] * s
            total += low * (1.0 - t) + high * t
            start += (borders[a + 1] - borders[a]) * width
        decision[0, i] = total
