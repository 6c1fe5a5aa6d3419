"""The importance of points, compiled: what `streamsvm.coreset.reducers.calibrated` samples by, in three passes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamsvm.compiling import njit
from streamsvm.coreset.calibration import move_weights
from streamsvm.coreset.row_kernels import DELTA, distances, label_means
from streamsvm.linalg import Float
from streamsvm.points import Signs


@njit(cache=True, nogil=True)
def mix(
    rows: Float,
    y: Signs,
    weight: Float,
    margin: Float,
    penalty: float,
    optimum: float,
    length: Float,
    shares: Float,
    mixed: Float,
) -> None:
    """Fill the importance of each point, shape (n,), positive, with sum 1.

    Parameters
    ----------
    rows : ndarray of shape (n, d + 1)
        Scaled features, then 1.
    y : ndarray of shape (n,), int8
        -1 or +1, both present.
    weight, margin : ndarray of shape (n,)
    penalty : float
    optimum : float
        A positive lower bound of the optimum.
    length : ndarray of shape (n,), or (0,)
        Of each row in the norm of the smoothed Hessian's inverse; without, no point has influence.
    shares : ndarray of shape (3,)
        Of sensitivity, weight and influence. A part that is 0 everywhere, as influence without a point near a margin,
        gives its share to the others.
    """
    sensitive, influential = np.empty(len(y)), np.zeros(len(y))
    fill_sensitivity(rows, y, weight, penalty, optimum, sensitive)
    if len(length):
        fill_influence(weight, margin, length, influential)
    of_sensitive, of_weight, of_influence = sensitive.sum(), weight.sum(), influential.sum()
    total = shares[1] + shares[0] * (of_sensitive > 0.0) + shares[2] * (of_influence > 0.0)
    a = shares[0] / (of_sensitive * total) if of_sensitive > 0.0 else 0.0
    b = shares[1] / (of_weight * total)
    c = shares[2] / (of_influence * total) if of_influence > 0.0 else 0.0
    for i in range(len(y)):
        mixed[i] = a * sensitive[i] + b * weight[i] + c * influential[i]


@njit(cache=True, nogil=True, error_model="numpy")
def fill_sensitivity(rows: Float, y: Signs, weight: Float, penalty: float, optimum: float, found: Float) -> None:
    """Fill Alg. 1's bound with one cluster per label, shape (n,); `streamsvm.coreset.sensitivity.direct_bound`."""
    own, mean = np.empty(2), np.empty((2, rows.shape[1] - 1))
    label_means(rows, y, weight, own, mean)
    distances(rows, y, mean, found)
    total, root = own[0] + own[1], np.sqrt(optimum)
    negative = own[1] / (2.0 * penalty * total * own[0])
    positive = own[0] / (2.0 * penalty * total * own[1])
    for i in range(len(y)):
        alpha, of_label = (positive, own[1]) if y[i] > 0 else (negative, own[0])
        beta = found[i] / root
        near = beta * beta / (4.0 * alpha) if alpha > 0.0 else 0.0
        bound = near if beta <= 2.0 * np.sqrt(2.0) * alpha else np.sqrt(2.0) * beta - 2.0 * alpha
        found[i] = min(weight[i] / of_label + penalty * weight[i] * bound, 1.0)


@njit(cache=True, nogil=True)
def fill_influence(weight: Float, margin: Float, length: Float, found: Float) -> None:
    """Fill the influence of the points that have a gradient of the smoothed hinge; the others keep what they have."""
    for i in range(len(margin)):
        influence = weight[i] * length[i] * np.sqrt(min(1.0, (1.0 + DELTA - margin[i]) / (2.0 * DELTA)))
        found[i] = influence if margin[i] < 1.0 + DELTA else found[i]


@njit(cache=True, nogil=True, error_model="numpy")
def least_part(share: Float, y: Signs) -> float:
    """Return the lesser part that a label, -1 or +1, has of all shares, shape (n,)."""
    own = np.zeros(2)
    for i in range(len(y)):
        own[1 if y[i] > 0 else 0] += share[i]
    return float(min(own[0], own[1]) / (own[0] + own[1]))


@njit(cache=True, nogil=True)
def meet_totals(  # type: ignore[no-untyped-def]
    weight, rows, y, active, chosen, totals, gradient, moved
):
    """Fill calibrated weights, and return `eta` and `unmet` of `streamsvm.coreset.calibration`.

    Parameters
    ----------
    weight, rows, y, active, chosen, totals, gradient
        As of `streamsvm.coreset.reducers.calibrated.meet`.
    moved : ndarray of shape (m,)
    """
    m, d = len(chosen), len(gradient)
    count, alive = np.zeros(2, np.int64), np.zeros(2, np.int64)
    for at in chosen:
        label = 1 if y[at] > 0 else 0
        count[label] += 1
        alive[label] += active[at]
    # A column a total: of each label, of its active points, of each feature's pull.
    wanted, place, k = np.empty(4 + d), np.empty(2, np.int64), 2
    for label in range(2):
        wanted[label], place[label] = totals[label, 0] + totals[label, 1], -1
        # A cell of all or none of the label's points would repeat, or contradict, the label's own total.
        if 0 < alive[label] < count[label]:
            wanted[k], place[label] = totals[label, 1], k
            k += 1
    for j in range(d):
        wanted[k + j] = gradient[j]
    # The active points stand first: the others have a part in the totals of the labels only.
    constraints, order, wide = np.zeros((m, k + d)), np.empty(m, np.int64), alive[0] + alive[1]
    ends = np.array([wide, 0])
    for i in range(m):
        own = 1 if active[chosen[i]] else 0
        order[ends[own]] = i
        ends[own] += 1
    for i in range(m):
        line, at = constraints[i], chosen[order[i]]
        label = 1 if y[at] > 0 else 0
        line[label] = 1.0
        if i < wide:
            if place[label] >= 0:
                line[place[label]] = 1.0
            sign = 1.0 if label else -1.0
            for j in range(d):
                line[k + j] = sign * rows[at, j]
    found = np.empty(m)
    eta, unmet = move_weights(weight[order], constraints, wide, 2, wanted[: k + d], found)
    for i in range(m):
        moved[order[i]] = found[i]
    return eta, unmet


@njit(cache=True, nogil=True)
def keep_label_weights(weight: Float, y: Signs, chosen: NDArray[np.intp], totals: Float) -> None:
    """Scale the weights of each label's chosen points, shape (m,), to its total, where it has points.

    Parameters
    ----------
    y : ndarray of shape (n,)
    chosen : ndarray of shape (m,)
    totals : ndarray of shape (2, 2)
        Of each label, in two parts.
    """
    found = np.zeros(2)
    for i in range(len(chosen)):
        found[1 if y[chosen[i]] > 0 else 0] += weight[i]
    for i in range(len(chosen)):
        label = 1 if y[chosen[i]] > 0 else 0
        weight[i] *= (totals[label, 0] + totals[label, 1]) / found[label]
