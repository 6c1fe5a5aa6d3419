r"""Pilots of RBF machines that can be asked about every row: solved on some points, written down over few landmarks.

1. Each problem is solved roughly with the kernel that is trained, on at most `PILOT_POINTS` points, taken at even
   distances from each label; the weights of the labels are kept.
2. A problem of which more than `CROWDED` of the weight is active has no part: with label noise nearly every point is as
   good as any other, and a sample by margins is worse than a plain one. Where all are, points are sampled by weight.
3. The machines are written down over the same places, some of their support vectors:

       f_p(z) = sum_k c_pk 2^(<s, l_k> - |s|^2 / 2 - |l_k|^2 / 2) + b_p,    s = (x - centre) * inverse

   where `inverse` holds the features' scale and sqrt(2 gamma log2 e): the powers are exp(-gamma |z - l|^2).

All norms are 1 in the feature space, so that the worth of a row is its activity, three parts in four, and its weight.
A machine serves until the stream has grown by half. On rows of ijcnn1 and cod_rna that it had not seen, margins over
256 landmarks correlate with those of the whole machine at 0.98.

Invariant: the value of a row depends on that row alone, not on those beside it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.compiling import njit
from streamsvm.config import ModelConfig
from streamsvm.config.sizes import LANDMARKS, PILOT_POINTS, PILOT_ROWS_AT_ONCE
from streamsvm.coreset.buckets import Float, Labels, Moments, label_index
from streamsvm.coreset.pilot import (
    EVEN,
    HINGE,
    MOST_ITERATIONS,
    TOLERANCE,
    Measured,
    Pilot,
    again,
    loss_of,
    scaling_of,
    slopes,
)
from streamsvm.linalg import add_gram, factorise, product, substitute
from streamsvm.model.kernels import RbfKernel
from streamsvm.points import Features, Points
from streamsvm.svm.landmarks import REACH, RIDGE, spread_over
from streamsvm.svm.stda import Descent
from streamsvm.vector_math import fused, least, power_of_two, widest_vectors

CROWDED: Final = 1.0 / 3.0
GROWTH: Final = 1.5
ACTIVE: Final = 0.75
"""Share of activity in the worth; the rest is weight."""
BLOCK: Final = 128
FARTHEST: Final = np.float32(1e15)
"""Scaled features beyond this are brought back to it: their squares stay finite, and a kernel value there is 0."""


@dataclass(frozen=True, slots=True)
class Landmarks:
    """Rough RBF machines over the same places.

    Attributes
    ----------
    scaling : ndarray of shape (2, d), float64
        Centre and inverse.
    places : ndarray of shape (d, k), float32
    coefficients : ndarray of shape (p, k), float64
    intercepts : ndarray of shape (p,), float64
    rows : int
        Rows of the stream when they were fitted.
    """

    scaling: Float
    places: NDArray[np.float32]
    coefficients: Float
    intercepts: Float
    rows: int

    def decide(self, points: Points) -> Float:
        """Return the decision value of each problem's machine at points, shape (p, n)."""
        decision = np.empty((len(self.intercepts), len(points)))
        _decide(points.X, self.scaling, self.places, self.coefficients, self.intercepts, decision)
        return decision


def measured_by_landmarks(
    points: Points, seen: Moments, rows: int, config: ModelConfig, before: Pilot | None
) -> Measured | None:
    """Measure points under landmarks: those of the pilot `before` where the stream has not grown much since.

    Returns None where one label only is there. `seen` is of the `rows` that the points stand for.
    """
    labels, svm = len(seen.class_weight), config.pilots
    label, factor = label_index(points.y, labels), np.array(svm.class_weights(seen.class_weight))
    own = np.bincount(label, minlength=labels)
    if np.count_nonzero(own) < 2:
        return None
    if before is not None and before.landmarks is not None and rows < GROWTH * before.landmarks.rows:
        side, landmarks = before.side, before.landmarks
    else:
        problems = [1] if labels == 2 else range(labels)
        sides = [(np.arange(labels) == one).astype(np.int64) for one in problems if 0 < own[one] < len(label)]
        side, landmarks = _fitted(points, label, np.array(sides), factor, seen, rows, config)
    p, d = len(side), points.dimension
    root = np.zeros((p, d + 1, 1), np.float32)
    root[:, d] = 1.0
    terms = np.zeros((p, 2, 3))
    pilot = Pilot(
        loss=loss_of(svm), scaling=scaling_of(seen, svm), class_weight=factor, side=side, w=np.zeros((p, d + 1)),
        centre=np.zeros((p, 2, d)), terms=terms, root=root, landmarks=landmarks,
    )  # fmt: skip
    found = again(points, replace(pilot, class_weight=np.ones(labels)))
    v = points.weight * factor[label]
    for problem, margin in enumerate(found.margin):
        activity = np.sqrt(np.clip((1.3 - margin) / 0.6, 0.0, 1.0))
        if pilot.loss != HINGE:
            activity = slopes(pilot.loss, margin)
        mean = float((v * activity).sum() / v.sum())
        root[problem, d] = ACTIVE / mean if mean > 0.0 else 0.0
        terms[problem, :, 0] = 1.0 - ACTIVE - EVEN
    return again(points, pilot)


def _fitted(
    points: Points, label: Labels, sides: Labels, factor: Float, seen: Moments, rows: int, config: ModelConfig
) -> tuple[Labels, Landmarks]:
    """Return those of some problems that are not crowded, shape (p, n_labels), and their machines.

    `sides` is `Pilot.side` of all problems; `seen` is of the `rows` that the points stand for.
    """
    some = some_of(points, label, PILOT_POINTS)
    svm, most = config.pilots, config.coreset.landmarks or LANDMARKS
    mean, inverse = scaling_of(seen, svm)
    Z = np.ascontiguousarray((some.X - mean) * inverse)
    some_label = label_index(some.y, len(factor))
    gamma = svm.gamma
    if not isinstance(gamma, float):
        variance = float((seen.square / seen.weight * np.square(inverse)).mean()) if gamma == "scale" else 1.0
        gamma = 1.0 / (points.dimension * (variance or 1.0))
    kernel, solved = RbfKernel(gamma), []
    upper = svm.penalty(seen.weight) * (seen.weight / some.weight.sum()) * some.weight * factor[some_label]
    for side in sides:
        y = np.where(side[some_label] == 1, 1, -1).astype(np.int8)
        run = Descent(Z, y, upper, kernel, TOLERANCE, loss=svm.margin_loss)
        run.advance(MOST_ITERATIONS)
        decision = run.F - run.soft * run.b + y + run.centred_intercept
        if float(upper[y * decision < 1.0].sum()) <= CROWDED * float(upper.sum()):
            solved.append((side, y, decision, np.flatnonzero(run.b)))
    # Landmarks are as many support vectors of each side of each problem.
    share = max(1, most // (2 * max(1, len(solved))))
    chosen = [spread_over(support[y[support] == sign], share) for _, y, _, support in solved for sign in (-1, 1)]
    landmarks = np.unique(np.concatenate([np.empty(0, np.int64), *chosen]))
    stretch = np.sqrt(2.0 * gamma * np.log2(np.e))
    scaling = np.stack([mean, stretch * inverse])
    places = np.ascontiguousarray((Z[landmarks] * stretch).T.astype(np.float32))
    machines = [_fit(some.X, scaling, places, y, decision) for _, y, decision, _ in solved]
    w = np.array(machines).reshape(len(solved), len(landmarks) + 1)
    side = np.array([side for side, *_ in solved], np.int64).reshape(-1, len(factor))
    return side, Landmarks(scaling, places, np.ascontiguousarray(w[:, :-1]), w[:, -1].copy(), rows)


def _fit(X: Features, scaling: Float, places: NDArray[np.float32], y: NDArray[np.int8], decision: Float) -> Float:
    """Return coefficients and intercept of a machine over places like that of the decision values.

    As `streamsvm.svm.landmarks` does it, but with the same bits on every processor.
    """
    near, k = 1.0 / (0.3 + np.maximum(0.0, np.abs(y * decision - 0.5) - 1.0)), places.shape[1] + 1
    matrix, right, found = np.eye(k) * (RIDGE * float(near.sum())), np.zeros(k), np.zeros(k)
    for start in range(0, len(X), PILOT_ROWS_AT_ONCE):
        part = slice(start, start + PILOT_ROWS_AT_ONCE)
        values = np.ones((len(near[part]), k))
        _evaluate(X[part], scaling, places, values)
        add_gram(values, np.arange(len(values)), near[part], matrix)
        right += product((near[part] * np.clip(decision[part], -REACH, REACH))[None], values)[0]
    if factorise(matrix):
        substitute(matrix, right, found)
    return found


def some_of(points: Points, label: Labels, most: int) -> Points:
    """Return at most about so many of some points; the weights of each label add up to those of all."""
    if len(points) <= most:
        return points
    chosen, weights = [], []
    for one in np.unique(label):
        own = np.flatnonzero(label == one)
        few = spread_over(own, max(most // 8, round(most * len(own) / len(points))))
        chosen.append(few)
        weights.append(points.weight[few] * (points.weight[own].sum() / points.weight[few].sum()))
    order = np.argsort(np.concatenate(chosen), kind="stable")
    return points.take(np.concatenate(chosen)[order]).reweighted(np.concatenate(weights)[order])


@njit(cache=True, nogil=True)
def _evaluate(X, scaling, places, values):  # type: ignore[no-untyped-def]
    """Fill the kernel value of each row with each place, as `_decide` has it."""
    (n, d), k, zero = X.shape, places.shape[1], np.float32(0.0)
    row = np.empty(d, np.float32)
    for i in range(n):
        half = zero
        for j in range(d):
            row[j] = min(FARTHEST, max(-FARTHEST, np.float32((np.float64(X[i, j]) - scaling[0, j]) * scaling[1, j])))
            half = fused(np.float32(0.5) * row[j], row[j], half)
        for at in range(k):
            own, line = zero, zero
            for j in range(d):
                own += places[j, at] * places[j, at]
                line = fused(places[j, at], row[j], line)
            values[i, at] = power_of_two(least(line - (half + own * np.float32(0.5)), zero))


@njit(cache=True, nogil=True)
def _decide(X, scaling, places, coefficients, intercepts, decision):  # type: ignore[no-untyped-def]
    """Fill the decision values, shape (p, n): each row in its own lane of a block, no sum reordered."""
    widest_vectors()
    (n, d), k = X.shape, places.shape[1]
    S, half, line = np.zeros((d, BLOCK), np.float32), np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32)
    zero = np.float32(0.0)
    for start in range(0, n, BLOCK):
        m = min(BLOCK, n - start)
        half[:] = zero
        for j in range(d):
            c, s, row = scaling[0, j], scaling[1, j], S[j]
            for i in range(m):
                row[i] = min(FARTHEST, max(-FARTHEST, np.float32((np.float64(X[start + i, j]) - c) * s)))
            for i in range(BLOCK):
                half[i] = fused(np.float32(0.5) * row[i], row[i], half[i])
        for p in range(len(intercepts)):
            for i in range(m):
                decision[p, start + i] = intercepts[p]
        for at in range(k):
            own = zero
            line[:] = zero
            for j in range(d):
                place, row = places[j, at], S[j]
                own += place * place
                for i in range(BLOCK):
                    line[i] = fused(place, row[i], line[i])
            own *= np.float32(0.5)
            for i in range(BLOCK):
                line[i] = power_of_two(least(line[i] - (half[i] + own), zero))
            for p in range(len(intercepts)):
                c = coefficients[p, at]
                for i in range(m):
                    decision[p, start + i] += c * np.float64(line[i])
