"""One look at every row: totals under one machine, the rows nearest its margin, and sums of all others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.certificate.kernels import STRATA, add_pairs, look, put_away
from streamsvm.model.machine import LinearMachine, Scaler
from streamsvm.model.version import LEAST_KEPT
from streamsvm.points import Points

Float = NDArray[np.float64]
Strata = NDArray[np.int64]

MOST_OTHERS: Final = 5
"""Each doubles the strata."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surveyed:
    """What a survey came to.

    Attributes
    ----------
    rows : int
    total, hinge : ndarray of shape (2, 2)
        Of the labels -1 and +1 the weight, and the sum of weighted hinge losses, each a compensated pair.
    reach : ndarray of shape (2, d)
        Of each label the sum of u |z_j|.
    near : Points
        The rows nearest the margin.
    nearness : ndarray of shape (len(near),)
        How near: |1 - y f(x)| over the length of (z, 1).
    stratum : ndarray of shape (len(near),), int64
        Of each the stratum that it would be in.
    mass : ndarray of shape (strata, 2)
        Weights of all other rows, by stratum, compensated.
    sums : ndarray of shape (strata, d, 2)
        Their sums of u z, compensated.
    """

    rows: int
    total: Float
    hinge: Float
    reach: Float
    near: Points
    nearness: Float
    stratum: Strata
    mass: Float
    sums: Float


class Survey:
    """Looks at rows of one partition, in their order.

    Parameters
    ----------
    scaler : Scaler
    machine : LinearMachine
        Under which rows are looked at.
    dtype : numpy dtype
        Of the rows' features.
    keep : int
        How many rows are kept, at least `LEAST_KEPT`.
    others : sequence of LinearMachine
        Machines that tell strata apart, too, at most `MOST_OTHERS`: strata hold rows of one side of each, so that the
        lower bound knows the loss of each exactly.
    """

    def __init__(
        self,
        scaler: Scaler,
        machine: LinearMachine,
        dtype: np.dtype[np.floating],
        keep: int,
        others: Sequence[LinearMachine] = (),
    ) -> None:
        assert keep >= LEAST_KEPT
        assert len(others) <= MOST_OTHERS
        d = len(machine.coefficients)
        self._scaler, self._machine, self._keep = scaler, machine, keep
        self._rows = 0
        self._total, self._hinge, self._reach = np.zeros((2, 2)), np.zeros((2, 2)), np.zeros((2, d))
        strata = STRATA << len(others)
        self._others = np.array([[*other.coefficients, other.intercept] for other in others]).reshape(-1, d + 1)
        self._mass, self._sums = np.zeros((strata, 2)), np.zeros((strata, d, 2))
        self._farthest = np.inf
        self._held = [Points.empty(d, dtype)]
        self._stratum, self._nearness = [np.empty(0, np.int64)], [np.empty(0)]
        self._waiting = 0

    def add(self, points: Points) -> None:
        """Look at more rows."""
        done = 0
        while done < len(points):  # the buffer is sorted whenever it is full: after the same rows whatever the batches
            some = points.take(slice(done, done + self._keep))
            done += self._look(some)
        self._rows += len(points)

    def _look(self, points: Points) -> int:
        """Look at rows until the buffer is full; return how many were taken."""
        n = len(points)
        slack, nearness, stratum = np.empty(n), np.empty(n), np.empty(n, np.int64)
        scaler, machine = self._scaler, self._machine
        total, hinge, reach = self._total.copy(), self._hinge.copy(), self._reach.copy()
        look(
            points.X,
            points.y,
            points.weight,
            scaler.mean,
            scaler.scale,
            machine.coefficients,
            machine.intercept,
            self._others,
            total,
            hinge,
            reach,
            slack,
            nearness,
            stratum,
        )
        near = np.flatnonzero(nearness < self._farthest)
        free = 2 * self._keep - self._waiting
        if len(near) > free:  # only up to the row that fills the buffer: the next ones are judged by a nearer border
            return self._look(points.take(slice(0, int(near[free - 1]) + 1)))
        self._total, self._hinge, self._reach = total, hinge, reach
        self._put_away(points, stratum, np.flatnonzero(nearness >= self._farthest))
        self._held.append(points.take(near))
        self._stratum.append(stratum[near])
        self._nearness.append(nearness[near])
        self._waiting += len(near)
        if self._waiting == 2 * self._keep:
            self._sort_out()
        return len(points)

    def _sort_out(self) -> None:
        held, stratum, nearness = self._joined()
        order = np.argsort(nearness, kind="stable")
        kept, gone = np.sort(order[: self._keep]), np.sort(order[self._keep :])
        self._put_away(held, stratum, gone)
        self._held, self._stratum, self._nearness = [held.take(kept)], [stratum[kept]], [nearness[kept]]
        self._waiting = len(kept)
        if len(gone):
            self._farthest = float(nearness[order[self._keep - 1]])

    def _joined(self) -> tuple[Points, Strata, Float]:
        return Points.union(self._held), np.concatenate(self._stratum), np.concatenate(self._nearness)

    def _put_away(self, points: Points, stratum: Strata, rows: NDArray[np.intp]) -> None:
        scaler = self._scaler
        put_away(points.X, points.weight, stratum, rows, scaler.mean, scaler.scale, self._mass, self._sums)

    def surveyed(self) -> Surveyed:
        """Return what the rows so far came to; no more are to be added."""
        if self._waiting > self._keep:
            self._sort_out()
        near, stratum, nearness = self._joined()
        return Surveyed(
            rows=self._rows,
            total=self._total,
            hinge=self._hinge,
            reach=self._reach,
            near=near,
            nearness=nearness,
            stratum=stratum,
            mass=self._mass,
            sums=self._sums,
        )


def joined(parts: Sequence[Surveyed], scaler: Scaler, keep: int) -> Surveyed:
    """Return what the surveys of several partitions, under one machine, come to together; at least one, in their order.

    Of all kept rows, the nearest `keep` stay.
    """
    near = Points.union([part.near for part in parts])
    nearness = np.concatenate([part.nearness for part in parts])
    stratum = np.concatenate([part.stratum for part in parts])
    total, hinge, mass, sums = (_added([getattr(part, name) for part in parts]) for name in _PAIRS)
    reach = parts[0].reach.copy()
    for part in parts[1:]:
        reach += part.reach
    order = np.argsort(nearness, kind="stable")
    kept, gone = np.sort(order[:keep]), np.sort(order[keep:])
    put_away(near.X, near.weight, stratum, gone, scaler.mean, scaler.scale, mass, sums)
    return Surveyed(
        rows=sum(part.rows for part in parts),
        total=total,
        hinge=hinge,
        reach=reach,
        near=near.take(kept),
        nearness=nearness[kept],
        stratum=stratum[kept],
        mass=mass,
        sums=sums,
    )


_PAIRS: Final = ("total", "hinge", "mass", "sums")


def _added(parts: Sequence[Float]) -> Float:
    """Add compensated sums, the last axis of each being a pair."""
    whole = parts[0].copy()
    for part in parts[1:]:
        add_pairs(whole.reshape(-1, 2), part.reshape(-1, 2))
    return whole
