"""The map in front of an additive machine: hat functions of single features, and products of those of two.

A linear machine over these columns is an additive machine (`streamsvm.model.additive`). Knots are weighted quantiles of
the points, as many as these carry; a feature of few values has one at each. One column of each curve is left out, which
the intercept has, that of the knot nearest the mean: rows of rare features stay sparse. Where a plane loses less on
points that were left out, and ranks them no worse, curves have two knots each, and bend at the outer ones alone.

Pairs are chosen by how much a coarse surface explains of what the curves leave: the slopes of the loss at their
machine. As many enter as lessen the loss of points that were left out, and rank these no worse: surfaces may win on the
loss of a few points that they rank others wrongly for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.compiling import njit
from streamsvm.model.additive import AdditiveMachine, Surface
from streamsvm.model.kernels import Float
from streamsvm.svm import stda
from streamsvm.svm.newton import rough_machine
from streamsvm.svm.problem import Problem, Solution, losses
from streamsvm.svm.rows import Rows, rows_of

POINTS_A_KNOT: Final = 60
"""Points for each knot, one of two values counted once. Ten are a lottery (credit_default: a pilot's .774 fell to
.737)."""
FEWEST_KNOTS, MOST_KNOTS = 4, 24
POINTS_A_CELL: Final = 500
"""Points for each cell of a surface: eight by eight lose where 10,000 points are kept."""
FEWEST_SIDE, MOST_SIDE = 5, 8
"""Knots of a surface along each of its features."""
PAIRS_OF: Final = 60
"""Features of which each pair is a candidate; of more those whose curves add most."""
PAIRS: Final = (5, 10, 20, 40)
"""How many enter, tried in this order as long as the loss of left out points falls."""
SMALLER: Final = (0.1, 0.01)
"""Parts of C that are tried in this order as long as the loss of left out points falls, where C is free."""
WIDEST: Final = 1_500
"""Most columns where anything is judged: a step of Newton's method factorises a matrix of that order."""
MOST_OF_CURVES: Final = 1_000
"""Most knots, counted so; of more features each has two, between which it is linear."""
ERRORS: Final = 1.0
"""Standard errors of its mean by which the loss of left out points must fall."""
PATIENCE: Final = 1
"""Numbers of pairs that may fail before a larger one succeeds."""
ROUGH: Final = 1e-3
"""Relative duality gap of machines that only judge pairs."""
LEFT_OUT: Final = 4
"""One point in so many judges the number of pairs."""
JUDGES: Final = 20
"""Fewer say nothing."""
CELL: Final = 20.0
"""Points of mean weight that are added to each cell where pairs are ranked: one point explains nothing."""


@dataclass(frozen=True, slots=True)
class AdditiveMap:
    """From scaled features to columns.

    `knots` and `coarse` are those of curves and of surfaces, of each feature; empty where it does not vary.
    """

    knots: tuple[Float, ...]
    coarse: tuple[Float, ...]
    pairs: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, Z: Float, weight: Float) -> AdditiveMap:
        """Return the map without pairs of weighted points, shape (n, d)."""
        order = np.argsort(Z, axis=0, kind="stable")
        values, up_to = np.take_along_axis(Z, order, axis=0).T, np.cumsum(weight[order], axis=0).T
        own = [column[np.append(True, column[1:] != column[:-1])] for column in values]
        most = _most_knots(np.array([*map(len, own)]), len(Z))
        knots, coarse = (
            tuple(_quantiles(*column, size) for column in zip(values, own, up_to, strict=True))
            for size in (most, _most_side(len(Z)))
        )
        return cls(knots, coarse)

    @classmethod
    def like(cls, machine: AdditiveMachine) -> AdditiveMap:
        """Return the map that a machine was trained over."""
        coarse = [np.empty(0)] * len(machine.knots)
        for one in machine.surfaces:
            coarse[one.first], coarse[one.second] = one.rows, one.columns
        return cls(machine.knots, tuple(coarse), tuple((one.first, one.second) for one in machine.surfaces))

    @property
    def width(self) -> int:
        """Columns."""
        of_curves = sum(len(knots) - 1 for knots in self.knots if len(knots))
        return of_curves + sum(len(self.coarse[first]) * len(self.coarse[second]) for first, second in self.pairs)

    def columns(self, Z: Float) -> Any:
        """Return the columns of points, a CSR array."""
        from scipy.sparse import csr_array

        (n, d), coarse = Z.shape, _flat(self.coarse)
        place, value = (np.empty(n * 2 * (d + 2 * len(self.pairs)), kind) for kind in (np.int32, np.float64))
        start = np.zeros(n + 1, np.int64)
        pairs = np.array(self.pairs, np.int64).reshape(-1, 2)
        without = np.array([omitted(knots) for knots in self.knots], np.int64)
        width = _filled(np.ascontiguousarray(Z), *_flat(self.knots), without, *coarse, pairs, start, place, value)
        return csr_array((value[: start[-1]], place[: start[-1]], start), shape=(n, max(1, width)))

    def machine(self, coefficients: Float, intercept: float) -> AdditiveMachine:
        """Return the machine of coefficients over the columns."""
        values, surfaces, start = [], [], 0
        for knots in self.knots:
            own = coefficients[start : start + max(0, len(knots) - 1)]
            start += len(own)
            values.append(np.insert(own, omitted(knots), 0.0) if len(knots) else own)
        for first, second in self.pairs:
            rows, columns = self.coarse[first], self.coarse[second]
            end = start + len(rows) * len(columns)
            surfaces.append(Surface(first, second, rows, columns, coefficients[start:end].reshape(len(rows), -1)))
            start = end
        return AdditiveMachine(self.knots, tuple(values), tuple(surfaces), intercept)


def _quantiles(values: Float, own: Float, up_to: Float, most: int) -> Float:
    """Return at most so many of the values, ascending, at equal steps of weight; none where there is one value.

    `own` has each value once.
    """
    if len(own) > most:
        steps = (np.arange(1, most - 1) + 0.5) / most * up_to[-1]
        own = np.unique(np.concatenate([values[:1], values[np.searchsorted(up_to, steps)], values[-1:]]))
    return own if len(own) > 1 else own[:0]


def _most_knots(values: NDArray[np.int64], points: int) -> int:
    """Return the most knots of a curve where features have so many values, shape (d,): what few leave others have."""
    taken = [int((np.minimum(values, most) - (values <= 2)).sum()) for most in range(MOST_KNOTS + 1)]
    room = min(max(points // POINTS_A_KNOT, taken[FEWEST_KNOTS]), MOST_OF_CURVES)
    return max(most for most in range(2, MOST_KNOTS + 1) if most == 2 or taken[most] <= room)


def _most_side(points: int) -> int:
    return min(MOST_SIDE, max(FEWEST_SIDE, math.isqrt(points // POINTS_A_CELL)))


def largest_numbers(points: int, dimension: int) -> int:
    """Return how many numbers a machine of so many points and features is written in at most."""
    pairs, side = min(PAIRS[-1], dimension * (dimension - 1) // 2), _most_side(points)
    knots = max(points // POINTS_A_KNOT, FEWEST_KNOTS * dimension)
    knots = min(knots, MOST_KNOTS * dimension, max(MOST_OF_CURVES, 2 * dimension))
    return 2 * (knots + dimension) + pairs * (2 + 2 * side) + min(pairs * side * side, WIDEST)


def solved(
    problem: Problem, weight: Float, like: AdditiveMachine | None = None, *, is_free: bool = False
) -> tuple[AdditiveMachine, Solution, float]:
    """Return the machine of a problem, the solution behind it, over columns, and the part of C that it was found with.

    Parameters
    ----------
    problem : Problem
        Of scaled features, with the linear kernel.
    weight : ndarray of shape (n,)
        What each point stands for: quantiles are of that.
    like : AdditiveMachine, optional
        Whose knots and pairs it has; by default they are chosen.
    is_free : bool
        Whether a smaller C may be chosen, too.
    """
    if like:
        return *_solved(problem, AdditiveMap.like(like), None), 1.0
    shapes = AdditiveMap.of(problem.Z, weight)
    found = _chosen(problem, shapes, WIDEST, is_free=is_free)
    if not found:
        return *_solved(problem, shapes, None), 1.0
    shapes, near, _, part = found
    return *_solved(replace(problem, upper=part * problem.upper), shapes, near), part


def rough(problem: Problem, weight: Float, columns: int, pairs: int) -> AdditiveMachine | None:
    """Return a machine of three in four points; None where it is too wide, or a linear one loses no more on the others.

    Its curves have at most so many columns, and it at most so many pairs.
    """
    from scipy.sparse import csr_array

    found = _chosen(problem, AdditiveMap.of(problem.Z, weight), columns, is_free=True, most=pairs)
    if not found:
        return None
    (shapes, v, lost, _), left_out, Z = found, _lot(problem.Z), problem.Z
    _, of_plane, _ = _judged(problem, (rows_of(Z[~left_out]), csr_array(Z[left_out])), left_out, None)
    return shapes.machine(v[:-1], float(v[-1])) if _falls(of_plane, lost) else None


def _chosen(
    problem: Problem, shapes: AdditiveMap, widest: int, *, is_free: bool, most: int = PAIRS[-1]
) -> tuple[AdditiveMap, Float, Float, float] | None:
    """Return a map with pairs, its rough machine, what that loses on points that are left out, and the part of C.

    A plane, that is a curve of two knots for each feature, stays where it loses less and ranks no worse. (Its slopes
    cost more than a linear machine's, by the square of a feature's range.) None where points are too few to judge, or
    curves too many.
    """
    left_out = _lot(problem.Z)
    if len(np.unique(problem.y[~left_out])) < 2 or left_out.sum() < JUDGES or shapes.width > widest:
        return None
    plane = replace(shapes, knots=tuple(knots[[0, -1]] if len(knots) else knots for knots in shapes.knots))
    near, least, rank, part = _freely(problem, plane, left_out, is_free=is_free)
    if plane.width < shapes.width:
        now, lost, ranks, smaller = _freely(problem, shapes, left_out, is_free=is_free)
        if lost.mean() < least.mean() or ranks > rank:
            near, least, rank, part, plane = now, lost, ranks, smaller, shapes
    shapes, problem = plane, replace(problem, upper=part * problem.upper)
    ranked, failed = _ranked(shapes, near, problem, ~left_out), 0
    for count in (count for count in PAIRS if count <= most):
        more = replace(shapes, pairs=tuple(ranked[:count]))
        if more.pairs == shapes.pairs or failed > PATIENCE or more.width > WIDEST:
            break
        now, lost, ranks = _judged(problem, _parted(problem.Z, left_out, more), left_out, near)
        if _falls(least, lost) and ranks >= rank:
            shapes, near, least, rank, failed = more, now, lost, ranks, 0
        else:
            failed += 1
    return shapes, near, least, part


def _freely(
    problem: Problem, shapes: AdditiveMap, left_out: NDArray[np.bool_], *, is_free: bool
) -> tuple[Float, Float, float, float]:
    """Return what `_judged` does, with a smaller C as long as points that are left out lose less, and the part of C."""
    parts = _parted(problem.Z, left_out, shapes)
    found, part = _judged(problem, parts, left_out, None), 1.0
    for smaller in SMALLER if is_free else ():
        now = _judged(replace(problem, upper=smaller * problem.upper), parts, left_out, None)
        if not _falls(found[1], now[1]):
            break
        found, part = now, smaller
    return *found, part


def _lot(Z: Float) -> NDArray[np.bool_]:
    """Return which points judge: by lot, since a stream may come in turns, and equal points together."""
    place: dict[bytes, int] = {}
    own = np.array([place.setdefault(z.tobytes(), len(place)) for z in Z], np.int64)
    drawn: NDArray[np.bool_] = np.random.Generator(np.random.PCG64(len(place))).permutation(len(place)) % LEFT_OUT == 0
    return drawn[own]


def _falls(before: Float, now: Float) -> bool:
    """Return whether the loss of points falls by more than its error."""
    gain = before - now
    return bool(gain.mean() > ERRORS * gain.std() / np.sqrt(len(gain)))


def _solved(problem: Problem, shapes: AdditiveMap, near: Float | None) -> tuple[AdditiveMachine, Solution]:
    found = stda.solve(replace(problem, Z=shapes.columns(problem.Z)), near)
    assert found.coefficients is not None
    return shapes.machine(found.coefficients, found.intercept), found


def _parted(Z: Float, left_out: NDArray[np.bool_], shapes: AdditiveMap) -> tuple[Rows, Any]:
    """Return the columns of the points that are not left out, and of those that are."""
    return rows_of(shapes.columns(Z[~left_out])), shapes.columns(Z[left_out])


def _judged(
    problem: Problem, parts: tuple[Rows, Any], left_out: NDArray[np.bool_], near: Float | None
) -> tuple[Float, Float, float]:
    """Return a rough machine of the points that are not left out, and what it is worth for the others.

    That is the loss of each, relative to their mean penalty, and how often a positive one ranks above a negative one.
    It begins from one of some of the pairs.
    """
    (rows, own), y, upper, part = parts, problem.y, problem.upper, ~left_out
    if near is not None:
        near = np.concatenate([near[:-1], np.zeros(own.shape[1] + 1 - len(near)), near[-1:]])
    v, *_ = rough_machine(rows, y[part], upper[part], ROUGH, near, problem.loss)
    decision = own @ v[:-1] + v[-1]
    mass, y = upper[left_out] / upper[left_out].mean(), y[left_out]
    order = np.argsort(decision, kind="stable")
    below = np.cumsum(np.where(y > 0, 0.0, mass)[order])
    rank = float((np.where(y > 0, mass, 0.0)[order] * below).sum())
    return v, mass * losses(decision, y, problem.loss), rank


def _ranked(shapes: AdditiveMap, v: Float, problem: Problem, part: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return the pairs by how much a coarse surface explains of the slopes of the loss, the best first."""
    Z, y, upper = problem.Z[part], problem.y[part], problem.upper[part]
    machine = shapes.machine(v[:-1], v[-1])
    slack = np.maximum(0.0, 1.0 - y * machine.decide(Z))
    slope = y * upper * (np.sign(slack) if problem.loss == "hinge" else slack)
    spread = machine.terms(Z).std(axis=0)
    varying = [feature for feature in np.argsort(-spread, kind="stable").tolist() if len(shapes.coarse[feature])]
    pairs = list(combinations(sorted(varying[:PAIRS_OF]), 2))
    if not pairs:
        return []
    explained = _explained(Z, *_flat(shapes.coarse), np.array(pairs), slope, upper, CELL * float(upper.mean()))
    return [pairs[one] for one in np.argsort(-explained, kind="stable").tolist()]


def omitted(knots: Float) -> int:
    """Return the knot of a curve that has no column; scaled features have the mean 0."""
    return int(np.abs(knots).argmin()) if len(knots) else 0


def _flat(knots: tuple[Float, ...]) -> tuple[Float, NDArray[np.int64]]:
    """Return the knots of all features in a row, and where those of each begin, shape (d + 1,)."""
    return np.concatenate(knots), np.cumsum([0, *map(len, knots)])


@njit(cache=True, nogil=True)
def hat_at(x, knots, first, last):  # type: ignore[no-untyped-def]
    """Return `Hats` of a value among the knots from `first` to before `last`."""
    x, low = min(max(x, knots[first]), knots[last - 1]), first
    for knot in range(first + 1, last - 1):  # no jump: few knots are compared faster than found
        low += knots[knot] <= x
    return low - first, (x - knots[low]) / (knots[low + 1] - knots[low])


@njit(cache=True, nogil=True)
def _filled(Z, knots, first, omitted, coarse, begin, pairs, start, place, value):  # type: ignore[no-untyped-def]
    """Fill `start`, `place` and `value` with the columns of points, as of a CSR array; return how many columns."""
    (n, d), count, column = Z.shape, 0, 0
    at, share = np.zeros(d, np.int64), np.zeros(d)
    paired = np.zeros(d, np.bool_)
    for p in range(len(pairs)):
        paired[pairs[p, 0]] = paired[pairs[p, 1]] = True
    for i in range(n):
        column = 0
        for j in range(d):
            size = first[j + 1] - first[j]
            if size == 0:
                continue
            knot, part = hat_at(Z[i, j], knots, first[j], first[j + 1])
            for side in range(2):
                own = part if side else 1.0 - part
                if own != 0.0 and knot + side != omitted[j]:
                    place[count] = column + knot + side - (1 if knot + side > omitted[j] else 0)
                    value[count] = own
                    count += 1
            column += size - 1
        for j in range(d):
            if paired[j]:
                at[j], share[j] = hat_at(Z[i, j], coarse, begin[j], begin[j + 1])
        for p in range(len(pairs)):
            a, b = pairs[p]
            width = begin[b + 1] - begin[b]
            for cell in range(4):
                high, right = cell >> 1, cell & 1
                own = (share[a] if high else 1.0 - share[a]) * (share[b] if right else 1.0 - share[b])
                if own != 0.0:
                    place[count] = column + (at[a] + high) * width + at[b] + right
                    value[count] = own
                    count += 1
            column += (begin[a + 1] - begin[a]) * width
        start[i + 1] = count
    return column


@njit(cache=True, nogil=True)
def _explained(Z, coarse, begin, pairs, slope, upper, few):  # type: ignore[no-untyped-def]
    """Return for each pair what steps of Newton's method in the cells of its surface would take off the loss."""
    n, d = Z.shape
    at, share, found = np.zeros((d, n), np.int64), np.zeros((d, n)), np.zeros(len(pairs))
    for j in range(d):
        if begin[j + 1] > begin[j]:
            for i in range(n):
                at[j, i], share[j, i] = hat_at(Z[i, j], coarse, begin[j], begin[j + 1])
    for p in range(len(pairs)):
        a, b = pairs[p]
        width = begin[b + 1] - begin[b]
        pull, mass = np.zeros((2, (begin[a + 1] - begin[a]) * width))
        for i in range(n):
            cell, t, s = at[a, i] * width + at[b, i], share[a, i], share[b, i]
            for corner in range(4):
                own = (t if corner >> 1 else 1.0 - t) * (s if corner & 1 else 1.0 - s)
                pull[cell + (corner >> 1) * width + (corner & 1)] += own * slope[i]
                mass[cell + (corner >> 1) * width + (corner & 1)] += own * upper[i]
        for cell in range(len(pull)):
            found[p] += pull[cell] * pull[cell] / (mass[cell] + few)
    return found
