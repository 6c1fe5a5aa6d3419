r"""A kernel machine approximated by terms over few points, its *landmarks*: by ridge regression on its decision values.

Where more than `MOST_FITTED` landmarks, and most of the support vectors, are to stay, the machine is projected: those
are left out whose terms the `NEAR` nearest others express best, and what a left out term is in the span of its nearest
landmarks is added to theirs. Otherwise, and where more than a few answers would change, the machine is of `MOST_FITTED`
landmarks at most:

    min sum_i v_i (sum_k c_k k(l_k, z_i) + b - clip(f_i, -REACH, REACH))^2 + RIDGE sum_i v_i (|c|^2 + b^2),

f the decision values of the whole machine at some points. Where a point's margin is from -0.5 to 1.5 its v is the
weight that it is given, less with the distance from there: what matters is on which side of 0 and of the margin a point
lies. Fitted to labels over the same landmarks (Chapelle 2007, a smooth hinge, Newton's method) a machine was no better
and took seven times as long.

Source of the idea: Burges 1996 (reduced sets). Where we differ: the points of the reduced machine are some of its
support vectors, so only the coefficients are fitted, which is a linear problem.

*Scoring.* What reads models has numpy and no compiler (`streamsvm.model`). A daemon, which has one, sums by the tiles
of the solver: a block of rows stays in a fast cache between the product, the power and the sum. That takes a third of
the time, and its results are within the tolerance of `streamsvm.model.probes` of the terms that `KernelMachine` sums.

Invariant: a pure function of its arguments.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from streamsvm.linalg import Index
from streamsvm.model.classes import AnyModel
from streamsvm.model.kernels import Float, RbfKernel
from streamsvm.model.machine import BLOCK_ROWS, KernelMachine, Model
from streamsvm.points import Signs
from streamsvm.svm.rbf import Layout, TileRows, add_kernel_rows, layout_of, tile_rows

AT_ONCE: Final = 1_024
"""Rows whose kernel values with the landmarks are in memory at once."""
RIDGE: Final = 1e-9
"""For each unit of weight. At 1e-6 two thousand landmarks of ijcnn1 lose a quarter of a point."""
REACH: Final = 3.0
"""Decision values beyond this are as good as at it."""
MOST_FITTED: Final = 4_096
"""Landmarks beyond which fitting, whose time grows with their square, would take minutes."""
FEWEST_LEFT: Final = 0.6
"""Share of the support vectors from which on a projection is better than a fit: of 14,414 of a rough table of one-hot
columns, 10,000 projected ones lost 0.4 points, 7,000 lost 1.6; 4,095 and 2,048 fitted ones 0.3 and 0.8."""
MOST_DIFFER: Final = 0.01
"""Share of the points that a projection may answer otherwise; beyond it the machine is fitted. The nearest terms of
dense features express little: of 14,955 over 54 features, 11,365 projected ones answered no better than a coin, and
4,095 fitted ones lost 0.6 points."""
NEAR: Final = 8
SPAN_RIDGE: Final = 1e-6
"""Of a unit of the kernel's diagonal: lest two equal neighbours have no solution."""
FARTHEST: Final = 1e100
"""Scaled features beyond this count as this: their squares are finite, and a kernel value there is 0 either way."""
OTHERS: Final = 2
"""Points besides the support vectors, for each landmark, at which a smaller machine must agree with the whole one."""


def fitted_over(
    Z: Float, y: Signs, decision: Float, weight: Float, landmarks: Float, kernel: RbfKernel
) -> tuple[Float, float]:
    """Return coefficients, shape (k,), and intercept of the machine over landmarks that fits decision values best.

    Parameters
    ----------
    Z : ndarray of shape (n, d)
        Scaled features.
    y : ndarray of shape (n,), -1 or +1
    decision : ndarray of shape (n,)
        Decision values of the whole machine at Z.
    weight : ndarray of shape (n,)
        Weights of the points; the v_i of the module follow from them.
    landmarks : ndarray of shape (k, d)
    kernel : RbfKernel
    """
    near = weight / (0.3 + np.maximum(0.0, np.abs(y * decision - 0.5) - 1.0))
    k = len(landmarks) + 1
    matrix, right = np.zeros((k, k)), np.zeros(k)
    for start in range(0, len(Z), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        rows = np.append(kernel.gram(Z[part], landmarks), np.ones((len(Z[part]), 1)), axis=1)
        # Of an array with itself BLAS computes half, which is symmetric.
        rows *= (root := np.sqrt(near[part]))[:, None]
        matrix += rows.T @ rows
        right += rows.T @ (root * np.clip(decision[part], -REACH, REACH))
    matrix[np.diag_indices(k)] += RIDGE * float(near.sum())
    found: Float = np.asarray(np.linalg.solve(matrix, right), dtype=np.float64)
    return found[:-1], float(found[-1])


def fewer_terms(machine: KernelMachine, Z: Float, y: Signs, weight: Float, most: int) -> KernelMachine:
    """Return a machine of at most `most` terms that decides nearly as one of more terms does.

    Parameters
    ----------
    machine : KernelMachine
        Of more than `most` support vectors.
    Z : ndarray of shape (n, d), C-contiguous
        Scaled points that it was trained on.
    y : ndarray of shape (n,), -1 or +1
    weight : ndarray of shape (n,)
    most : int
    """
    if most > max(MOST_FITTED, FEWEST_LEFT * len(machine.dual)):
        projected = _projected(machine, most)
        if np.mean((decisions(projected, Z) > 0.0) != (decisions(machine, Z) > 0.0)) < MOST_DIFFER:
            return projected
    most = min(most, MOST_FITTED)
    side = np.where(machine.dual > 0.0, 1, -1).astype(np.int8)
    share = most / len(side)
    places = [
        spread_over(np.flatnonzero(side == sign), int(share * np.count_nonzero(side == sign))) for sign in (-1, 1)
    ]
    landmarks = np.ascontiguousarray(machine.support[np.sort(np.concatenate(places))])
    others = spread_over(np.arange(len(y)), OTHERS * most)
    rows = np.concatenate([machine.support, Z[others]])
    counts = np.append(np.full(len(side), float(weight.mean())), weight[others] * (len(y) / len(others)))
    decision = decisions(machine, rows)
    found = fitted_over(rows, np.append(side, y[others]), decision, counts, landmarks, machine.kernel)
    return KernelMachine(machine.kernel, landmarks, *found)


def _projected(machine: KernelMachine, most: int) -> KernelMachine:
    """Return a machine of `most` terms, each left out term expressed by its nearest landmarks."""
    support, kernel = machine.support, machine.kernel
    every = np.arange(len(support))
    lost = machine.dual**2 * _span_of_nearest(support, every, every, kernel)[2]
    order = np.argsort(lost, kind="stable")
    gone, kept = np.sort(order[: len(order) - most]), np.sort(order[len(order) - most :])
    nearest, coefficients, _ = _span_of_nearest(support, gone, kept, kernel)
    dual = machine.dual.copy()
    np.add.at(dual, nearest, machine.dual[gone, None] * coefficients)
    return KernelMachine(kernel, support[kept], dual[kept], machine.intercept)


def _span_of_nearest(Z: Float, some: Index, others: Index, kernel: RbfKernel) -> tuple[Index, Float, Float]:
    """Project each of some points, in the kernel's space, onto the span of its nearest others; itself does not count.

    Returns the places of these `NEAR` others in Z and their coefficients, shape (len(some), NEAR), and the squared
    distance from the span, shape (len(some),).
    """
    around, count = kernel.around(Z[others]), min(NEAR, len(others) - 1)
    nearest, coefficients = np.empty((len(some), count), np.intp), np.empty((len(some), count))
    distance, ridge = np.empty(len(some)), SPAN_RIDGE * np.eye(count)
    for start in range(0, len(some), AT_ONCE // 4):
        part = some[start : start + AT_ONCE // 4]
        values = around.gram(Z[part])
        values[part[:, None] == others[None, :]] = -1.0  # not itself
        found = np.argpartition(-values, count - 1, axis=1)[:, :count]
        right = np.take_along_axis(values, found, axis=1)
        places = Z[others[found]]
        apart = np.square(places[:, :, None] - places[:, None, :]).sum(axis=3)
        own = np.linalg.solve(np.exp(-kernel.gamma * apart) + ridge, right[:, :, None])[:, :, 0]
        rows = slice(start, start + len(part))
        nearest[rows], coefficients[rows] = others[found], own
        distance[rows] = np.maximum(0.0, 1.0 - np.einsum("ij,ij->i", right, own))
    return nearest, coefficients, distance


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledMachine(KernelMachine):
    """A kernel machine with its support vectors in the layout of the compiled loops."""

    layout: Layout
    rows: TileRows

    @classmethod
    def of(cls, machine: KernelMachine) -> CompiledMachine:
        """Return a kernel machine of at least one term in this layout."""
        support = np.ascontiguousarray(machine.support)
        layout = layout_of(support, machine.kernel.gamma)
        own = machine.kernel, support, machine.dual, machine.intercept
        return cls(*own, layout=layout, rows=tile_rows(support, layout))

    def decide(self, Z: Float) -> Float:
        """Return the decision values of scaled features, shape (n,)."""
        values = np.full(len(Z), float(self.intercept))
        for start in range(0, len(Z), BLOCK_ROWS):
            block = slice(start, start + BLOCK_ROWS)
            near = np.ascontiguousarray(np.clip(Z[block], -FARTHEST, FARTHEST))
            add_kernel_rows(near, self.rows, self.layout, self.dual, values[block])
        return values


def compiled(model: AnyModel) -> AnyModel:
    """Return a model whose kernel machine decides by compiled code, which is loaded here; other models as they are."""
    if not isinstance(model, Model) or not isinstance(model.machine, KernelMachine) or not len(model.machine.dual):
        return model
    made = CompiledMachine.of(model.machine)
    made.decide(made.support[:1])
    return replace(model, machine=made)


def decisions(machine: KernelMachine, Z: Float) -> Float:
    """Return the decision values of scaled points, as `KernelMachine.decide` does, by compiled code."""
    return CompiledMachine.of(machine).decide(Z)


def spread_over(order: Index, count: int) -> Index:
    """Return `count` of some places at even distances, at least one, or all if there are no more; ascending."""
    if len(order) <= count:
        return np.sort(order)
    count = max(1, count)
    return np.sort(order[(np.arange(count) * len(order)) // count])
