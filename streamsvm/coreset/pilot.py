r"""Pilots: rough machines of everything that is kept, and what a row is worth under them.

Labels are told apart by problems: two labels by one, K labels by K, each label (+1) against the rest (-1). A problem is

    min |w|^2 / 2 + C sum v loss(m),   m = y (<w, z> + b),   z = (x - mean) / scale,   v = u * its label's class weight

over the kept points; C is the penalty that a training of everything seen would use, so that the gradient at the optimum
is that of the whole. The worth of a row under one problem is a mixture, whose parts have mean 1 over the points:

    worth = class weight * (.25 s / mean(s) + .15 + .6 a / mean(a))

s bounds the sensitivity of the row (of a hinge by Lemma 5.3 of Tukan et al. 2020 with one cluster a side and
F >= max(opt, |w|^2/2); of a squared hinge since its slack is at most h + |w| r, h being the slack of the mean, and
F >= C V_side h^2 + |w|^2 / 2, by Cauchy and Schwarz):

    hinge:          s = 1 / V_side + C min(r^2 / (4 alpha opt), r sqrt(2 / opt)),   alpha = V_other / (2 C V V_side)
    squared hinge:  s = 1 / V_side + 2 C r^2

r being the distance to the mean of its side, opt a certified lower bound of the optimum. A sensitivity v s is at most 1
by definition, and that of a point of the pilot is held to it (of a row under a pilot of others it is not): without,
over 24 seeds, machines of w8a with 2,000 points had an objective over all rows of .0403 and not .0371. And a is its
influence on the optimum,

    a = |(z, 1)|_{H^-1} pull(m)^(1/2),   H = diag(1, ..., 1, 0) + C sum v curvature(m) (z, 1)(z, 1)'

with the curvature of the loss, and pull the square of its slope; of a hinge, smoothed over 2 delta, how likely its
slope is 1. The worth of a row is the greatest of its problems': no
problem has less of what matters to it than in a sample of its own. Above `EXACT` features the norm is estimated by
random projections (Johnson and Lindenstrauss 1984): this decides how well points are chosen, never an expectation.

Where a pilot screened the newest points, Newton's method begins at its machines: one or two steps are left.

No library's linear algebra is used: its bits depend on the processor, and states must not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.choices import Loss
from streamsvm.compiling import njit
from streamsvm.config import SvmConfig
from streamsvm.coreset.buckets import Float, Labels, Moments, label_index
from streamsvm.linalg import add_gram, along, back_substituted, factorise, product
from streamsvm.model.kernels import LinearKernel
from streamsvm.points import Points
from streamsvm.svm.interior_point import MOST_FEATURES, follow_path
from streamsvm.svm.newton import rough_machine
from streamsvm.svm.problem import Problem
from streamsvm.svm.rows import Rows, dense_rows, gram_as_came, sparse_rows
from streamsvm.svm.stda import solve

if TYPE_CHECKING:
    from streamsvm.coreset.curves import Curves
    from streamsvm.coreset.landmarks import Landmarks

SENSITIVE: Final = 0.25
EVEN: Final = 0.15
INFLUENTIAL: Final = 0.6
"""Shares of sensitivity, weight and influence in the worth. With a share of 0.1 for sensitivity outliers were lost."""
DELTA: Final = 0.3
"""Half the width over which the kink of the hinge is smoothed."""
HINGE, SQUARED = 0, 1
"""Losses, as compiled code has them."""
EXACT: Final = 32
"""Most features for which the norm in the influence is exact."""
SKETCH: Final = 24
"""Random projections above that: the estimate has a relative standard deviation of 1 / sqrt(2 SKETCH)."""
UNBOUNDED: Final = 1e150
"""A factor of a distance that is never the lesser."""
LARGEST_WORTH: Final = 1e12
"""What overflows is worth no more, so that thinning comes to an end."""
GAP: Final = 1e-3
"""Relative duality gap of a pilot: at 0.02 activities are blurred by the smoothing."""
INTERIOR_GAP: Final = 0.02
"""The same where an interior-point method solves it, which blurs nothing."""
FEW_FEATURES: Final = 64
POINTS_A_FEATURE: Final = 16
"""Newton's method is tried first up to so many features, or with so many points a feature that are dense: rare columns
take it many steps."""
TOLERANCE: Final = 0.1
MOST_ITERATIONS: Final = 20_000
LANES: Final = 64
"""Points whose influence is computed together."""


@njit(cache=True, nogil=True)
def slope(loss: int, margin: float) -> float:
    """Return how steeply the loss falls at a margin, 0 or more."""
    if margin >= 1.0:
        return 0.0
    return 1.0 if loss == HINGE else 2.0 * (1.0 - margin)


@njit(cache=True, nogil=True)
def pull(loss: int, margin: float) -> float:
    """Return the square of the slope; of a hinge, smoothed, from 0 to 1."""
    if loss == HINGE:
        return min(1.0, max(0.0, (1.0 + DELTA - margin) / (2.0 * DELTA)))
    return float(slope(loss, margin) ** 2)


def curvature(loss: int, margin: Float) -> Float:
    """Return the second derivative of the loss at margins; of a hinge smoothed."""
    if loss == HINGE:
        return (np.abs(1.0 - margin) < DELTA) / (2.0 * DELTA)
    return np.where(margin < 1.0, 2.0, 0.0)


def slopes(loss: int, margin: Float) -> Float:
    """Return `slope` of each margin."""
    return np.where(margin < 1.0, 1.0 if loss == HINGE else 2.0 * (1.0 - margin), 0.0)


def loss_of(svm: SvmConfig) -> int:
    """Return the configured loss as compiled code has it."""
    return HINGE if svm.margin_loss == "hinge" else SQUARED


@dataclass(frozen=True, slots=True, kw_only=True)
class Pilot:
    """Rough machines, one a problem that has a bound, and what decides the worth of a row.

    Attributes
    ----------
    loss : int
    scaling : ndarray of shape (2, d), float64
        Mean and inverse scale.
    class_weight : ndarray of shape (n_labels,)
        By what the problems multiply each label's weights.
    side : ndarray of shape (p, n_labels), int64
        1 where a label is the +1 of a problem.
    w : ndarray of shape (p, d + 1)
        Coefficients over z, then the intercept.
    centre : ndarray of shape (p, 2, d)
        Mean of z of either side.
    terms : ndarray of shape (p, 2, 3)
        Of the sensitivity: base + min(curved r^2, slope r), with mean `SENSITIVE`.
    root : ndarray of shape (p, d + 1, k), float32
        |(z, 1) root| is the norm in the influence, with mean `INFLUENTIAL`; upper triangular if k = d + 1.
    landmarks : Landmarks or None
        What decides instead of `w`, for machines with an RBF kernel.
    curves : Curves or None
        The same for additive machines, unless they gave way to `w`.
    """

    loss: int
    scaling: Float
    class_weight: Float
    side: Labels
    w: Float
    centre: Float
    terms: Float
    root: NDArray[np.float32]
    landmarks: Landmarks | None = None
    curves: Curves | None = None

    @property
    def rough(self) -> Landmarks | Curves | None:
        """What decides instead of `w`."""
        return self.curves if self.curves is not None and len(self.curves.knots) else self.landmarks

    def own_margin(self, margin: Float, label: Labels) -> Float:
        """Return each point's margin in the problem of its own label, of margins of shape (p, n); 0 without one."""
        if self.side.shape[1] == 2 and len(margin):
            return np.asarray(margin[0], np.float64)
        own = np.zeros(len(label))
        for problem, side in enumerate(self.side):
            mine = side[label] == 1
            own[mine] = margin[problem][mine]
        return own

    def machine(self, side: Labels, scaling: Float) -> Float | None:
        """Return coefficients and intercept of a problem under another scaling, shape (d + 1,); None without one."""
        for own, w in zip(self.side, self.w, strict=True):
            if (own == side).all():
                raw = w[:-1] * self.scaling[1]
                return np.append(raw / scaling[1], w[-1] + (raw * (scaling[0] - self.scaling[0])).sum())
        return None


@dataclass(frozen=True, slots=True)
class Measured:
    """Points under a pilot: (z, 1) of shape (n, d + 1), margins of shape (p, n), worth of shape (n,)."""

    points: Points
    label: Labels
    pilot: Pilot
    rows: Float
    margin: Float
    worth: Float

    def part(self, which: slice) -> Measured:
        """Return some of the points."""
        points, label = self.points.take(which), self.label[which]
        return Measured(points, label, self.pilot, self.rows[which], self.margin[:, which], self.worth[which])


def scaled_rows(points: Points, scaling: Float) -> Float:
    """Return (z, 1), shape (n, d + 1)."""
    rows = np.empty((len(points), len(scaling[0]) + 1))
    _scale(points.X, scaling, rows)
    return rows


@njit(cache=True, nogil=True)
def _scale(X, scaling, rows):  # type: ignore[no-untyped-def]
    n, d = X.shape
    for i in range(n):
        for j in range(d):
            rows[i, j] = (np.float64(X[i, j]) - scaling[0, j]) * scaling[1, j]
        rows[i, d] = 1.0


def scaling_of(seen: Moments, svm: SvmConfig) -> Float:
    """Return mean and inverse scale, shape (2, d): features that are not standardised lose their mean all the same."""
    return np.stack([seen.mean, 1.0 / seen.scale if svm.standardize else np.ones(len(seen.mean))])


def measured(
    points: Points,
    weight: float,
    seen: Moments,
    svm: SvmConfig,
    random: np.random.Generator,
    before: Pilot | None = None,
) -> Measured | None:
    """Solve the problems of points roughly, and measure the points; return None where no problem has a bound.

    `weight` is what the points stand for, `seen` is of all that the problem's penalty and scaler are of; `random` is
    drawn from above `EXACT` features only. Newton's method begins at the machines of the pilot `before`.
    """
    labels = len(seen.class_weight)
    label, factor = label_index(points.y, labels), np.array(svm.class_weights(seen.class_weight))
    own = np.bincount(label, minlength=labels)
    scaling = scaling_of(seen, svm)
    penalty = svm.penalty(seen.weight) * seen.weight / weight
    problems = [1] if labels == 2 else range(labels)
    sides = [(np.arange(labels) == one).astype(np.int64) for one in problems if 0 < own[one] < len(label)]
    rows, v = scaled_rows(points, scaling), points.weight * factor[label]
    d = rows.shape[1] - 1
    mixture = np.eye(d + 1)
    if d > EXACT:
        mixture = np.where(random.random((d + 1, SKETCH)) < 0.5, -1.0, 1.0) / np.sqrt(SKETCH)
    found = []
    for side in sides:
        near = None if before is None else before.machine(side, scaling)
        one = _problem(rows, side[label], v, penalty, mixture, near, svm)
        if one is not None:
            found.append((side, *one))
    if not found:
        return None
    side, w, centre, terms, root, margin, parts = (np.array(each) for each in zip(*found, strict=True))
    worth = factor[label] * (EVEN + parts).max(axis=0)
    worth = np.where(worth < LARGEST_WORTH, worth, LARGEST_WORTH)
    pilot = Pilot(
        loss=loss_of(svm), scaling=scaling, class_weight=factor, side=side, w=w, centre=centre, terms=terms,
        root=root.astype(np.float32),
    )  # fmt: skip
    return Measured(points, label, pilot, rows, margin, worth)


def placed(points: Points, pilot: Pilot) -> tuple[Labels, Float, Float]:
    """Return labels, (z, 1) and margins of points under a pilot of others."""
    label, rows = label_index(points.y, len(pilot.class_weight)), scaled_rows(points, pilot.scaling)
    sign = 2.0 * pilot.side.take(label, axis=1) - 1.0
    if pilot.rough is None:
        return label, rows, sign * np.array([along(rows, w) for w in pilot.w]).reshape(sign.shape)
    return label, rows, sign * pilot.rough.decide(points)


def again(points: Points, pilot: Pilot) -> Measured:
    """Measure points under a pilot of others."""
    label, rows, margin = placed(points, pilot)
    worth = np.full(len(label), EVEN if len(margin) else 1.0)
    for problem, own in enumerate(pilot.side):
        part = _sensitivity(rows, own[label], pilot.centre[problem], pilot.terms[problem])
        part += influence(rows, margin[problem], pilot.root[problem], pilot.loss)
        worth = np.maximum(worth, EVEN + part)
    worth *= pilot.class_weight[label]
    return Measured(points, label, pilot, rows, margin, np.where(worth < LARGEST_WORTH, worth, LARGEST_WORTH))


def _problem(
    rows: Float, side: Labels, v: Float, penalty: float, mixture: Float, near: Float | None, svm: SvmConfig
) -> tuple[Float, ...] | None:
    """Return w, centres, terms and root of one problem, and its margins and parts of worth at the points."""
    sign, upper = (2 * side - 1).astype(np.int8), penalty * v
    sparse = sparse_of(rows)
    loss = loss_of(svm)
    w, bound = solved(rows, sign, upper, sparse, near, svm.margin_loss)
    if not (bound > 0.0 and np.isfinite(w).all()):
        return None
    own, centre = _centres(rows, side, v)
    alpha = own[::-1] / (2.0 * penalty * own.sum() * own)
    terms = np.stack([1.0 / own, penalty / (4.0 * alpha * bound), np.full(2, penalty * np.sqrt(2.0 / bound))], axis=1)
    if loss == SQUARED:
        terms = np.stack([1.0 / own, np.full(2, 2.0 * penalty), np.full(2, UNBOUNDED)], axis=1)
    margin = sign * along(rows, w)
    share = v * _sensitivity(rows, side, centre, terms)
    terms *= SENSITIVE * own.sum() / share.sum()
    share = np.minimum(share, 1.0)
    bend = curvature(loss, margin) * upper
    H = np.diag(np.append(np.ones(len(w) - 1), 1e-9 * upper.sum()))
    if sparse is not None:
        H += gram_as_came(sparse, bend)
    else:
        bent = np.flatnonzero(bend)
        add_gram(rows, bent, bend[bent], H)
    if not factorise(H):
        return None
    # Of H = L L', the columns of L'^-1 give the norm: as many as there are features, or random mixtures of them.
    root = back_substituted(H, mixture)
    influential = influence(rows, margin, root.astype(np.float32), loss)
    mean = (v * influential).sum() / own.sum()
    scale = INFLUENTIAL / mean if mean > 0.0 else 0.0
    sensitive = share * (SENSITIVE * own.sum() / share.sum()) / v
    return w, centre, terms, root * scale, margin, sensitive + influential * scale


@njit(cache=True, nogil=True)
def _centres(rows, side, v):  # type: ignore[no-untyped-def]
    """Return the weight of either side, shape (2,), and its mean of z."""
    own, centre = np.zeros(2), np.zeros((2, rows.shape[1] - 1))
    for i in range(len(side)):
        own[side[i]] += v[i]
        for j in range(centre.shape[1]):
            centre[side[i], j] += v[i] * rows[i, j]
    return own, centre / own.reshape(2, 1)


@njit(cache=True, nogil=True)
def _sensitivity(rows, side, centre, terms):  # type: ignore[no-untyped-def]
    """Return s of each point, shape (n,)."""
    found = np.empty(len(side))
    for i in range(len(side)):
        own, square = side[i], 0.0
        for j in range(rows.shape[1] - 1):
            apart = rows[i, j] - centre[own, j]
            square += apart * apart
        found[i] = terms[own, 0] + min(terms[own, 1] * square, terms[own, 2] * np.sqrt(square))
    return found


@njit(cache=True, nogil=True, inline="always")
def square_lengths(root, packed, count, along, length):  # type: ignore[no-untyped-def]
    """Fill `length` with |row root|^2 of so many rows: the columns of `packed`, shape (d + 1, lanes)."""
    order, k = root.shape
    for i in range(count):
        length[i] = 0.0
    for c in range(k):
        # A root of as many columns as rows is triangular. Four features a pass: the sum is that of single passes.
        end = c + 1 if k == order else order
        for i in range(count):
            along[i] = 0.0
        for j in range(0, end - end % 4, 4):
            f0, f1, f2, f3 = root[j, c], root[j + 1, c], root[j + 2, c], root[j + 3, c]
            for i in range(count):
                along[i] = (((along[i] + f0 * packed[j, i]) + f1 * packed[j + 1, i]) + f2 * packed[j + 2, i]) + (
                    f3 * packed[j + 3, i]
                )
        for j in range(end - end % 4, end):
            f0 = root[j, c]
            for i in range(count):
                along[i] += f0 * packed[j, i]
        for i in range(count):
            length[i] += along[i] * along[i]


@njit(cache=True, nogil=True)
def influence(rows, margin, root, loss):  # type: ignore[no-untyped-def]
    """Return a of each point, shape (n,); of `LANES` points at a time, and of those that have a slope only."""
    order = len(root)
    found, near, count = np.zeros(len(margin)), np.empty(LANES, np.int64), 0
    packed = np.zeros((order, LANES), np.float32)
    along, length = np.empty(LANES, np.float32), np.empty(LANES, np.float32)
    for i in range(len(margin)):
        near[count] = i
        count += margin[i] < 1.0 + DELTA
        if count < LANES and i + 1 < len(margin):
            continue
        for lane in range(count):
            for j in range(order):
                packed[j, lane] = rows[near[lane], j]
        square_lengths(root, packed, count, along, length)
        for lane in range(count):
            found[near[lane]] = np.sqrt(length[lane] * pull(loss, margin[near[lane]]))
        count = 0
    return found


def sparse_of(rows: Float) -> Rows | None:
    """Return z of many features, of rows (z, 1), as sparse rows; None if they are few, or dense."""
    d = rows.shape[1] - 1
    return sparse_rows(rows, d) if d > FEW_FEATURES else None


def solved(
    rows: Float, y: NDArray[np.int8], upper: Float, sparse: Rows | None, near: Float | None = None, loss: Loss = "hinge"
) -> tuple[Float, float]:
    """Solve a linear problem of rows (z, 1) roughly; `sparse` is `sparse_of(rows)`, `near` a machine like its own.

    Returns coefficients and intercept, and a certified lower bound of the optimum.
    """
    n, d = len(rows), rows.shape[1] - 1
    own = dense_rows(rows) if sparse is None else sparse
    is_squared = loss == "squared_hinge"
    is_for_newton = d <= FEW_FEATURES or (n >= POINTS_A_FEATURE * d and sparse is None)
    if is_for_newton or (is_squared and d < MOST_FEATURES):
        v, bound, _, met = rough_machine(own, y, upper, GAP, near, loss)
        if met:
            return v, bound * (1.0 - 1e-9)
    if not is_squared and min(n, d) < MOST_FEATURES:
        v, alpha, _, _ = follow_path(own, y, upper, gap=INTERIOR_GAP)
    else:
        posed = Problem(
            Z=np.ascontiguousarray(rows[:, :-1]), y=y, upper=upper, kernel=LinearKernel(), tolerance=TOLERANCE,
            max_iterations=MOST_ITERATIONS, loss=loss,
        )  # fmt: skip
        found = solve(posed)
        assert found.coefficients is not None
        v, alpha = np.append(found.coefficients, found.intercept), found.alpha
    # Balanced duals have no part along the column of ones.
    return v, dual_bound(rows, y, upper, alpha, loss)


def dual_bound(Z: Float, y: NDArray[np.int8], upper: Float, alpha: Float, loss: Loss = "hinge") -> float:
    """Return the dual objective of alpha made feasible, a certified lower bound of the optimum.

    Clipped to the box, the heavier label scaled down to the lighter, and all by the factor of the greatest dual.
    """
    is_squared = loss == "squared_hinge"
    alpha = np.maximum(alpha, 0.0) if is_squared else np.clip(alpha, 0.0, upper)
    own = [alpha[y < 0].sum(), alpha[y > 0].sum()]
    if not all(own):
        alpha = upper.copy()
        own = [alpha[y < 0].sum(), alpha[y > 0].sum()]
    least = min(own)
    alpha = alpha * (least / np.where(y > 0, own[1], own[0]))
    w = product((alpha * y)[None], Z)
    norm = float(np.square(w).sum())
    if is_squared:
        return float(2.0 * least * least / (norm + (alpha * alpha / (2.0 * upper)).sum()) * (1.0 - 1e-9))
    s = 1.0 if norm <= 2.0 * least else 2.0 * least / norm
    return float(max(0.0, (2.0 * s * least - 0.5 * s * s * norm) * (1.0 - 1e-9)))
