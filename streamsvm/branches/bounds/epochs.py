"""Rows that were condensed at one time, and two such epochs made one.

See `streamsvm.branches.bounds.totals` for what follows from them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamsvm.branches.bounds.frames import FUDGE, Frame, seen_from, stretch
from streamsvm.branches.bounds.totals_kernels import EPS, HALF_OCTAVES, bins_of
from streamsvm.linalg import Float

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """Rows that were condensed under one frame, by stratum; only strata with rows.

    Attributes
    ----------
    frame : Frame
    rows : int
    stratum : ndarray of shape (g,), int64
        (2 * (label is +1) + (slack > 0)) * HALF_OCTAVES + bin, ascending.
    weight, length, nearest : ndarray of shape (g,)
    sums : ndarray of shape (g, d)
    error : ndarray of shape (d,)
        At most this, in each feature, is the sum over the strata of how wrong `sums` are.
    """

    frame: Frame
    rows: int
    stratum: NDArray[np.int64]
    weight: Float
    length: Float
    nearest: Float
    sums: Float
    error: Float

    @property
    def label(self) -> NDArray[np.int8]:
        """Label of each stratum, -1 or +1."""
        return labels_of(self.stratum)

    @property
    def active(self) -> Mask:
        """Whether the slacks of a stratum's rows were positive."""
        return active_of(self.stratum)


def labels_of(stratum: NDArray[np.int64]) -> NDArray[np.int8]:
    """Return the label of each stratum, -1 or +1."""
    return np.where(stratum >= 2 * HALF_OCTAVES, 1, -1).astype(np.int8)


def active_of(stratum: NDArray[np.int64]) -> Mask:
    """Return whether the slacks of each stratum's rows were positive."""
    return np.asarray((stratum // HALF_OCTAVES) % 2 == 1)


def merged(older: Epoch, newer: Epoch) -> Epoch:
    """Return one epoch of the rows of two, in the frame of the newer one."""
    with np.errstate(all="ignore"):
        return _merged(older, newer)


def _merged(older: Epoch, newer: Epoch) -> Epoch:
    old, new = older.frame, newer.frame
    (centre, inverse), (to_centre, to_inverse) = old.scaling, new.scaling
    ratio, shift = to_inverse / inverse, (centre - to_centre) * to_inverse
    sums = older.sums * ratio + older.weight[:, None] * shift
    moved = np.abs(older.sums).sum(axis=0) * ratio + float(older.weight.sum()) * np.abs(shift)
    error = (
        older.error * ratio + 8.0 * EPS * moved + (older.rows + 8.0) * EPS * float(older.weight.sum()) * np.abs(shift)
    )
    change, lost = seen_from([old], new.machine, new.scaling)
    step, longer = old.dual_norm(change[0], lost[0]), stretch(old, new)
    nearest = (older.nearest - step) / longer
    nearest -= 1e-9 * np.abs(nearest)
    length = older.length * longer * FUDGE
    square, place = np.empty(len(nearest)), np.empty(len(nearest), np.int64)
    bins_of(nearest, square, square.view(np.int64), place)
    stratum = (older.stratum // HALF_OCTAVES) * HALF_OCTAVES + place
    joined, place = np.unique(np.concatenate([stratum, newer.stratum]), return_inverse=True)
    place = place.reshape(-1)
    weight, long, near = np.zeros(len(joined)), np.zeros(len(joined)), np.full(len(joined), np.inf)
    whole = np.zeros((len(joined), len(to_centre)))
    np.add.at(weight, place, np.concatenate([older.weight, newer.weight]))
    np.add.at(long, place, np.concatenate([length, newer.length]))
    np.minimum.at(near, place, np.nan_to_num(np.concatenate([nearest, newer.nearest]), nan=-np.inf, posinf=np.inf))
    np.add.at(whole, place, np.concatenate([sums, newer.sums]))
    # A stratum may take in some strata of the older epoch: as many more roundings of what is there.
    size = np.abs(sums).sum(axis=0) + np.abs(newer.sums).sum(axis=0)
    return Epoch(
        frame=new,
        rows=older.rows + newer.rows,
        stratum=joined,
        weight=weight,
        length=long,
        nearest=near,
        sums=whole,
        error=(error + newer.error + (len(older.stratum) + 1.0) * EPS * size) * FUDGE,
    )
