"""The map in front of an additive machine: hat functions of single features, and products of those of two.

A linear machine over these columns is an additive machine (`streamsvm.model.additive`). Knots are weighted quantiles of
the points, as many as these carry; a feature of few values has one at each. One column of each curve is left out, which
the intercept has, that of its middle knot.

Pairs are chosen by how much a coarse surface explains of what the curves leave: the slopes of the loss at their
machine. As many enter as lessen the loss of points that were left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.model.additive import AdditiveMachine, Hats, Surface
from streamsvm.model.kernels import Float
from streamsvm.svm import stda
from streamsvm.svm.problem import Problem, Solution, losses

POINTS_A_KNOT: Final = 60
"""Points for each knot of each feature. Ten are a lottery (a pilot of credit_default fell from .774 to .737)."""
FEWEST_KNOTS, MOST_KNOTS = 4, 24
SIDE: Final = 5
"""Knots of a surface along each of its features."""
PAIRS_OF: Final = 60
"""Features of which each pair is a candidate; of more those whose curves add most."""
PAIRS: Final = (5, 10, 20, 40)
"""How many enter, tried in this order as long as the loss of left out points falls."""
ERRORS: Final = 2.0
"""Standard errors of the mean by which more pairs must lessen the loss of left out points."""
ROUGH: Final = 1e-2
"""KKT gap of machines that only judge pairs."""
LEFT_OUT: Final = 4
"""One point in so many judges the number of pairs."""
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
        n, d = Z.shape
        most = min(MOST_KNOTS, max(FEWEST_KNOTS, n // (POINTS_A_KNOT * d)))
        knots, coarse = [], []
        for column in Z.T:
            order = np.argsort(column, kind="stable")
            values, up_to = column[order], np.cumsum(weight[order])
            knots.append(_quantiles(values, up_to, most))
            coarse.append(_quantiles(values, up_to, SIDE))
        return cls(tuple(knots), tuple(coarse))

    @classmethod
    def like(cls, machine: AdditiveMachine) -> AdditiveMap:
        """Return the map that a machine was trained over."""
        coarse = [np.empty(0)] * len(machine.knots)
        for one in machine.surfaces:
            coarse[one.first], coarse[one.second] = one.rows, one.columns
        return cls(machine.knots, tuple(coarse), tuple((one.first, one.second) for one in machine.surfaces))

    def columns(self, Z: Float) -> Any:
        """Return the columns of points, a CSR array."""
        from scipy.sparse import csr_array

        places, values, start = [], [], 0
        for feature, knots in enumerate(self.knots):
            if not len(knots):
                continue
            at, share = Hats.of(Z[:, feature], knots)
            middle = len(knots) // 2
            for knot, part in ((at, 1.0 - share), (at + 1, share)):
                places.append(np.where(knot == middle, -1, start + knot - (knot > middle)))
                values.append(part)
            start += len(knots) - 1
        for first, second in self.pairs:
            own, size = _cells(self, Z, first, second)
            for cell, part in own:
                places.append(start + cell)
                values.append(part)
            start += size
        where = np.array(places, np.int64).reshape(-1, len(Z)).T
        what = np.array(values).reshape(-1, len(Z)).T
        kept = (where >= 0) & (what != 0.0)
        indptr = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
        return csr_array((what[kept], where[kept], indptr), shape=(len(Z), max(1, start)))

    def machine(self, coefficients: Float, intercept: float) -> AdditiveMachine:
        """Return the machine of coefficients over the columns."""
        values, surfaces, start = [], [], 0
        for knots in self.knots:
            own = coefficients[start : start + max(0, len(knots) - 1)]
            start += len(own)
            values.append(np.insert(own, len(knots) // 2, 0.0) if len(knots) else own)
        for first, second in self.pairs:
            rows, columns = self.coarse[first], self.coarse[second]
            end = start + len(rows) * len(columns)
            surfaces.append(Surface(first, second, rows, columns, coefficients[start:end].reshape(len(rows), -1)))
            start = end
        return AdditiveMachine(self.knots, tuple(values), tuple(surfaces), intercept)


def _quantiles(values: Float, up_to: Float, most: int) -> Float:
    """Return at most so many of the values, ascending, at equal steps of weight; none where there is one value."""
    own = np.unique(values)
    if len(own) > most:
        steps = (np.arange(1, most - 1) + 0.5) / most * up_to[-1]
        own = np.unique(np.concatenate([values[:1], values[np.searchsorted(up_to, steps)], values[-1:]]))
    return own if len(own) > 1 else own[:0]


def _cells(shapes: AdditiveMap, Z: Float, first: int, second: int) -> tuple[list[tuple[NDArray[np.int64], Float]], int]:
    """Return the four cells of a surface that each point lies in, ascending, with their parts; and how many it has."""
    rows, columns = shapes.coarse[first], shapes.coarse[second]
    (i, t), (j, s), width = Hats.of(Z[:, first], rows), Hats.of(Z[:, second], columns), len(columns)
    return [
        (i * width + j, (1.0 - t) * (1.0 - s)),
        (i * width + j + 1, (1.0 - t) * s),
        ((i + 1) * width + j, t * (1.0 - s)),
        ((i + 1) * width + j + 1, t * s),
    ], len(rows) * width


def largest_numbers(dimension: int) -> int:
    """Return how many numbers a machine of so many features is written in at most."""
    return 2 * dimension * MOST_KNOTS + PAIRS[-1] * (2 + 2 * SIDE + SIDE * SIDE)


def solved(problem: Problem, weight: Float, like: AdditiveMachine | None = None) -> tuple[AdditiveMachine, Solution]:
    """Return the machine of a problem, and the solution behind it, over columns.

    Parameters
    ----------
    problem : Problem
        Of scaled features, with the linear kernel.
    weight : ndarray of shape (n,)
        What each point stands for: quantiles are of that.
    like : AdditiveMachine, optional
        Whose knots and pairs it has; by default they are chosen.
    """
    if like is not None:
        return _solved(problem, AdditiveMap.like(like))
    Z, y, upper, loss = problem.Z, problem.y, problem.upper, problem.loss
    shapes = AdditiveMap.of(Z, weight)
    left_out = np.arange(len(Z)) % LEFT_OUT == 0
    part = np.flatnonzero(~left_out)
    if len(np.unique(y[part])) == 2 and left_out.any():
        rough = max(ROUGH, problem.tolerance)
        own = replace(problem, Z=Z[part], y=y[part], upper=upper[part], tolerance=rough)

        def lost(machine: AdditiveMachine) -> Float:
            own_loss: Float = upper[left_out] * losses(machine.decide(Z[left_out]), y[left_out], loss)
            return own_loss

        machine, _ = _solved(own, shapes)
        ranked, least = _ranked(shapes, machine, own), lost(machine)
        for count in PAIRS:
            more = replace(shapes, pairs=tuple(sorted(ranked[:count])))
            if more.pairs == shapes.pairs:
                break
            now = lost(_solved(own, more)[0])
            gain = least - now
            if gain.mean() <= ERRORS * gain.std() / np.sqrt(len(gain)):
                break
            shapes, least = more, now
    return _solved(problem, shapes)


def _solved(problem: Problem, shapes: AdditiveMap) -> tuple[AdditiveMachine, Solution]:
    found = stda.solve(replace(problem, Z=shapes.columns(problem.Z)))
    assert found.coefficients is not None
    return shapes.machine(found.coefficients, found.intercept), found


def _ranked(shapes: AdditiveMap, machine: AdditiveMachine, problem: Problem) -> list[tuple[int, int]]:
    """Return the pairs by how much a coarse surface explains of the slopes of the loss, the best first."""
    Z, y, upper = problem.Z, problem.y, problem.upper
    slack = np.maximum(0.0, 1.0 - y * machine.decide(Z))
    slope = y * upper * (np.sign(slack) if problem.loss == "hinge" else slack)
    spread = machine.terms(Z).std(axis=0)[: Z.shape[1]]
    varying = [feature for feature in np.argsort(-spread, kind="stable").tolist() if len(shapes.coarse[feature])]
    few, found = CELL * float(upper.mean()), list[tuple[float, int, int]]()
    for first, second in combinations(sorted(varying[:PAIRS_OF]), 2):
        own, size = _cells(shapes, Z, first, second)
        pull, mass = np.zeros(size), np.full(size, few)
        for cell, part in own:
            pull += np.bincount(cell, part * slope, size)
            mass += np.bincount(cell, part * upper, size)
        found.append((-float((pull * pull / mass).sum()), first, second))
    return [(first, second) for _, first, second in sorted(found)]
