"""Under what rows are condensed: a machine, and a metric in which it is told how far from its kink a row is.

See `streamsvm.branches.bounds.totals` for what follows from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.branches.bounds.proving_kernels import dual_lengths, dual_lengths_of
from streamsvm.branches.bounds.totals_kernels import EPS, fill_metric
from streamsvm.coreset.band import distance
from streamsvm.coreset.reducers.base import Pilot
from streamsvm.coreset.reducers.calibrated import measured_under
from streamsvm.coreset.row_kernels import scale
from streamsvm.coreset.screen_making_kernels import fill_lengths
from streamsvm.linalg import Float, back_substituted
from streamsvm.points import Points

MOST_FEATURES: Final = 32
"""Features up to which lengths are in the metric of the objective's curvature; beyond, that takes too long."""
FUDGE: Final = 1.0 + 1e-9
"""Above the rounding of what is computed from a matrix of few rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """Under what rows are condensed.

    Attributes
    ----------
    scaling : ndarray of shape (2, d)
        Centre and inverse scale: z = (x - centre) * inverse scale.
    machine : ndarray of shape (d + 1,)
        Coefficients over z, then the intercept.
    factor : ndarray of shape (d + 1, d + 1), upper triangular, or (1, 1), float32
        P; of one number, that multiple of the unit matrix.
    """

    scaling: Float
    machine: Float
    factor: NDArray[np.float32]

    @property
    def size(self) -> tuple[float, float]:
        """|w| and |b|, not rounded down."""
        w = self.machine[:-1]
        return float(np.sqrt(np.einsum("j,j->", w, w))) * FUDGE, abs(float(self.machine[-1]))

    @property
    def spread(self) -> float:
        """Frobenius norm of the factor, not rounded down."""
        wide = self.factor.astype(np.float64)
        return float(np.sqrt(np.einsum("jc,jc->", wide, wide))) * FUDGE

    def dense(self) -> Float:
        """Return P as a matrix, shape (d + 1, d + 1)."""
        if self.factor.shape == (1, 1) and len(self.machine) > 1:
            return np.eye(len(self.machine)) * float(self.factor[0, 0])
        return self.factor.astype(np.float64)

    def dual_norm(self, change: Float, lost: Float) -> float:
        """Return an upper bound of |v|* for every v that differs from a change, shape (d + 1,), by no more than `lost`.

        Infinite where the factor has no inverse in float64.
        """
        return float(self.dual_norms(change[:, None], lost[:, None])[0][0])

    def dual_norms(self, changes: Float, lost: Float) -> tuple[Float, Float]:
        """Return the bounds of `dual_norm` for each column of shape (d + 1, k), and P^-1 of the columns, roughly."""
        beside = np.sqrt(np.square(lost).sum(axis=0)) * FUDGE
        if self.factor.shape == (1, 1) and len(self.machine) > 1:
            p = float(self.factor[0, 0])
            return (np.sqrt(np.square(changes).sum(axis=0)) * FUDGE + beside) * FUDGE / p, changes / p
        found, bound = np.empty(changes.shape), np.empty(changes.shape[1])
        dual_lengths(self.factor.astype(np.float64), np.ascontiguousarray(changes), lost, found, bound)
        return bound, found


def metric_of(root: Float, rows: Float, length: Float, weight: Float) -> tuple[NDArray[np.float32], Float]:
    """Return P: the inverse root of the objective's curvature, so that the mean length is 1; and lengths, roughly.

    Parameters
    ----------
    root : ndarray of shape (d + 1, d + 1), upper triangular
        Any other shape means that there is no root, or that it was not made because there are too many features.
    rows : ndarray of shape (n, d + 1)
        (z, 1).
    length : ndarray of shape (n,)
        |(z, 1) root|.
    weight : ndarray of shape (n,)
    """
    k = rows.shape[1]
    if root.shape == (k, k) and 1 < k <= MOST_FEATURES + 1:
        with np.errstate(all="ignore"):
            mean = float(np.einsum("i,i->", length, weight) / weight.sum())
        factor = np.empty((k, k), np.float32)
        if fill_metric(root, mean, factor):
            return factor, length / mean
    factor = np.full((1, 1), 1.0 / np.sqrt(k), np.float32)
    return factor, _lengths(rows, factor)


def frame_of(points: Points, pilot: Pilot | None) -> tuple[Frame, Float, Float]:
    """Return the frame of a reduction, and margins and distances of the points, as of `measured`.

    Of a reduction without a linear pilot it is that of the machine that decides 0.
    """
    d = points.dimension
    if pilot is None or pilot.decisions is not None:
        scaling = np.stack([np.zeros(d), np.ones(d)])
        frame = Frame(scaling=scaling, machine=np.zeros(d + 1), factor=np.ones((1, 1), np.float32))
        return frame, *measured(points, frame)
    weighed = points.class_weighted(pilot.class_weight)
    under = measured_under(weighed, pilot)
    root, length = np.zeros((d + 1, 0)), np.zeros(len(points))
    if len(under.length) and 0 < d <= MOST_FEATURES:
        with np.errstate(all="ignore"):
            root, length = back_substituted(under.factor, np.eye(d + 1)), under.length
    factor, length = metric_of(root, under.rows, length, weighed.weight)
    machine = np.concatenate([pilot.coefficients, [pilot.intercept]])
    frame = Frame(scaling=np.array([pilot.mean, 1.0 / pilot.scale]), machine=machine, factor=factor)
    return frame, under.margin, distance(length, under.margin)


def measured(points: Points, frame: Frame) -> tuple[Float, Float]:
    """Return margins, and distances from the kink in lengths, roughly."""
    rows, margin = np.empty((len(points), points.dimension + 1)), np.empty(len(points))
    centre, inverse = frame.scaling
    scale(points.X, points.y, centre, 1.0 / inverse, frame.machine[:-1], float(frame.machine[-1]), rows, margin)
    return margin, distance(_lengths(rows, frame.factor), margin)


def _lengths(rows: Float, factor: NDArray[np.float32]) -> Float:
    """Return the lengths of rows (z, 1), shape (n, d + 1), by a factor, roughly."""
    if factor.shape == (1, 1) and rows.shape[1] > 1:
        plain: Float = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        return plain * float(factor[0, 0])
    length = np.empty(len(rows))
    fill_lengths(rows, factor.astype(np.float64), length)
    return length


def dual_norms_of(frames: Sequence[Frame], changes: Float, lost: Float) -> Float:
    """Return `Frame.dual_norm` of each frame for a change of its own, shape (m,).

    Parameters
    ----------
    frames : sequence of Frame, m of them
    changes, lost : ndarray of shape (m, d + 1)
    """
    k = changes.shape[1]
    bound = np.empty(len(frames))
    whole = np.array([frame.factor.shape == (k, k) and k > 1 for frame in frames])
    for at in np.flatnonzero(~whole).tolist():
        bound[at] = frames[at].dual_norm(changes[at], lost[at])
    if whole.any():
        own = np.empty(int(whole.sum()))
        factors = np.stack([frame.factor for frame, one in zip(frames, whole, strict=True) if one])
        dual_lengths_of(factors.astype(np.float64), changes[whole], lost[whole], own)
        bound[whole] = own
    return bound


def seen_from(frames: Sequence[Frame], machine: Float, scaling: Float) -> tuple[Float, Float]:
    """Return how a machine over other features differs from each frame's, over the frame's, and what rounding may hide.

    Parameters
    ----------
    frames : sequence of Frame, m of them
    machine : ndarray of shape (d + 1,)
    scaling : ndarray of shape (2, d)
        Centre and inverse scale of the machine's features.

    Returns
    -------
    ndarray of shape (m, d + 1), twice
    """
    centre, inverse = np.stack([frame.scaling for frame in frames], axis=1)
    there, own = np.stack([frame.machine for frame in frames]), machine[:-1]
    w = own * (scaling[1] / inverse)
    steps = own * ((centre - scaling[0]) * scaling[1])
    b = machine[-1] + np.einsum("mj->m", steps)
    size = np.column_stack([np.abs(w), abs(machine[-1]) + np.einsum("mj->m", np.abs(steps))])
    return np.column_stack([w, b]) - there, (len(own) + 8.0) * EPS * (size + np.abs(there))


def stretch(old: Frame, new: Frame) -> float:
    """Return an upper bound of |v|* in the old frame for a change of |v|* = 1 in the new one."""
    ratio = new.scaling[1] / old.scaling[1]
    shift = (old.scaling[0] - new.scaling[0]) * new.scaling[1]
    d = len(ratio)
    if d > MOST_FEATURES:
        norm = max(1.0, float(np.abs(ratio).max(initial=0.0))) + float(np.sqrt(np.square(shift).sum()))
        return norm * FUDGE * float(new.factor[0, 0]) / float(old.factor[0, 0])
    M = np.diag(np.append(ratio, 1.0))
    M[d, :d] = shift
    there = np.einsum("jk,kc->jc", M, new.dense())
    # Column by column, with what rounding may hide in each.
    lost = (d + 4.0) * EPS * np.einsum("jk,kc->jc", np.abs(M), np.abs(new.dense()))
    bound, solved = old.dual_norms(there, lost)
    if not np.isfinite(bound).all():
        return float("inf")
    length = np.sqrt(np.square(solved).sum(axis=0))
    beside = float(np.sqrt(np.square(bound - length).sum()))
    # The greatest singular value is at most the sixteenth root of the Frobenius norm of the eighth power of K'K.
    size = float(length.max())
    power = np.einsum("jk,jc->kc", solved, solved) / size**2
    for _ in range(3):
        power = np.einsum("jk,kc->jc", power, power)
    norm = float(np.sqrt(np.square(power).sum()))
    return float(size * norm ** (1.0 / 16.0) + beside) * FUDGE
