"""Accounts of all rows that a set of points stands for, as buckets and leaves carry them along.

The trunk knows when rows come, are reduced, screened or joined, and passes that on; what an account says of them is the
business of who plugs it in (`Accounting`). Without one there are no accounts, and nothing else changes: no point, no
weight and no version depends on them.

Invariant: every row is counted exactly once; a pure function of the rows' order, never of how they were cut into
batches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from streamsvm.coreset.reducers.base import Pilot
from streamsvm.linalg import Float
from streamsvm.model.fit import Audit, Fit
from streamsvm.model.machine import LinearMachine, Scaler
from streamsvm.model.version_bounds import VersionBounds
from streamsvm.points import Points, Weights


class LinearRule(Protocol):
    """The rule by which a leaf is screened by the margin of a linear machine (`screening.Screen`)."""

    @property
    def scaling(self) -> Float:
        """Centre and inverse scale, shape (2, d)."""
        ...

    @property
    def coefficients(self) -> Float:
        """Of the machine, over scaled features, shape (d,)."""
        ...

    @property
    def intercept(self) -> float:
        """Of the machine."""
        ...


class MeasuredPoints(Protocol):
    """The points of sealed buckets under that machine (`screening.Measured`, which says what these are)."""

    @property
    def weight(self) -> Weights:
        """With class weights, shape (n,)."""
        ...

    @property
    def margin(self) -> Float:
        """Of shape (n,)."""
        ...

    @property
    def root(self) -> Float:
        """The inverse root of the objective's curvature, upper triangular; or sketches of it; or no columns."""
        ...

    @property
    def length(self) -> Float:
        """|(z, 1) root|, shape (n,)."""
        ...

    @property
    def rows(self) -> Float:
        """(z, 1), shape (n, d + 1)."""
        ...

    @property
    def passed(self) -> Float:
        """How many rows of the leaf each point stands for that are expected not to be kept, shape (n,)."""
        ...


class Account(Protocol):
    """Of the rows of a bucket, or of an open leaf; never changed in place."""

    def bounded(self, points: int) -> Account:
        """Return the same, no larger than a bucket of so many points may have."""
        ...

    def after(self, points: Points, kept: Points, pilot: Pilot | None) -> Account:
        """Return the account of what a reduction kept.

        Parameters
        ----------
        points : Points
            What this account is of.
        kept : Points
            Some of them, in their order, under any weights.
        pilot : Pilot or None
        """
        ...

    def followed_by(self, later: Sequence[Account]) -> Account:
        """Return one account of this and of others after it."""
        ...

    def reopened(self) -> LeafAccount:
        """Return this as that of an open leaf that goes on."""
        ...


class LeafAccount(Protocol):
    """Of an open leaf without a screen, some of whose rows did not come as they are; never changed in place."""

    def account(self, points: Points) -> Account:
        """Return the account of the leaf, which holds these points."""
        ...


class ScreenAccount(Protocol):
    """Of the rows of a screened leaf, most of which it does not hold; changed in place.

    Attributes
    ----------
    own : ndarray of shape (m,)
        The weights that the held points came with; more than are in use.
    """

    own: Weights

    def note_changed(self, points: Points, came: Points, accepted: NDArray[np.bool_]) -> NDArray[np.bool_] | None:
        """Take in which accepted rows did not come as they are learned, shape (n,); None if all did."""
        ...

    def add(self, points: Points, weight: Float, margin: Float, which: NDArray[np.bool_]) -> None:
        """Take in some of the points, in their order, which the leaf does not hold, or no longer."""
        ...

    def copy(self, held: int | None = None) -> ScreenAccount:
        """Return a copy with its own arrays, with the weights of so many points."""
        ...

    def account(self, points: Points) -> Account:
        """Return the account of the leaf, which holds these points."""
        ...


class AllRows(Protocol):
    """Of all rows up to a cut, and the points that it refers to."""

    @property
    def points(self) -> Points:
        """The points."""
        ...

    def shares(self, points: Points) -> bool:
        """Return whether its points are these."""
        ...


class Accounting(ABC):
    """What makes accounts, and says what follows from them."""

    @abstractmethod
    def of_rows(self, learned: Points, came: Points) -> Account:
        """Return the account of rows that were all kept, each learned as it came or with other values."""

    @abstractmethod
    def of_left_out(self, drawn_in: Points, came: Points) -> Account:
        """Return the account, of no points, of rows that wait: as they came, and drawn in."""

    @abstractmethod
    def of_changed(self, known: LeafAccount | None, learned: Points, came: Points, kept: int) -> LeafAccount | None:
        """Return the account of an open leaf after more rows; None as long as all of its rows came as they are.

        Parameters
        ----------
        known : LeafAccount or None
            That of the rows before.
        learned, came : Points
            The rows.
        kept : int
            Points that the leaf holds of the rows before.
        """

    @abstractmethod
    def of_screen(
        self, screen: LinearRule, measured: MeasuredPoints, dtype: np.dtype[np.floating], capacity: int
    ) -> ScreenAccount:
        """Return the empty account of a screened leaf, of features of this type, that holds so many points."""

    @abstractmethod
    def of_cut(self, held: Sequence[tuple[Points, Account]], training_set: Points) -> AllRows:
        """Return the account of all parts of a cut, the oldest first."""

    @abstractmethod
    def certified(
        self, rows: AllRows, scaler: Scaler, machine: LinearMachine, fit: Fit, count: int, audit: Audit | None
    ) -> VersionBounds:
        """Return bounds of the optimum, and of a machine's objective, over all rows.

        Parameters
        ----------
        rows : AllRows
        scaler : Scaler
        machine : LinearMachine
        fit : Fit
        count : int
            Valid rows.
        audit : Audit or None
            What is estimated of the objective.
        """


def differing(learned: Points, came: Points) -> NDArray[np.bool_]:
    """Return which rows have another feature or weight than they came with, shape (n,)."""
    if learned is came:
        return np.zeros(len(came), np.bool_)
    return np.asarray((learned.X != came.X).any(axis=1) | (learned.weight != came.weight))
