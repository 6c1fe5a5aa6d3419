"""Accounts as totals (`streamsvm.branches.bounds.totals`), and the bounds that follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from streamsvm.branches.bounds import proving
from streamsvm.branches.bounds.certified import Certified
from streamsvm.branches.bounds.frames import Frame, distances, frame_of_rows
from streamsvm.branches.bounds.totals import (
    BESIDE,
    EXPECTED,
    ChangedRows,
    Condensed,
    Ledger,
    Totals,
)
from streamsvm.coreset.accounting import Account, Accounting, AllRows, LeafAccount, LinearRule, differing
from streamsvm.coreset.reducers.base import Pilot
from streamsvm.model.fit import Audit, Fit
from streamsvm.model.machine import LinearMachine, Scaler
from streamsvm.points import Points


class TotalsAccounting(Accounting):
    """Keeps totals."""

    def of_rows(self, learned: Points, came: Points) -> Totals:
        """See `Accounting`."""
        return Totals.of_rows(learned, came)

    def of_changed(self, known: LeafAccount | None, learned: Points, came: Points, kept: int) -> LeafAccount | None:
        """See `Accounting`."""
        at = np.flatnonzero(differing(learned, came))
        if not len(at):
            return known
        before = known if isinstance(known, ChangedRows) else ChangedRows.none(came.dimension)
        return before.add(learned.take(at), came.take(at), kept + at)

    def of_screen(self, screen: LinearRule, points: Points, pilot: Pilot, accepted: float, capacity: int) -> Condensed:
        """See `Accounting`; not of a screen of landmarks."""
        return condensing(screen, points, pilot, accepted, capacity)

    def of_cut(self, held: Sequence[tuple[Points, Account]], training_set: Points) -> Ledger:
        """See `Accounting`."""
        return Ledger.of([(points, account) for points, account in held if isinstance(account, Totals)], training_set)

    def certified(
        self, rows: AllRows, scaler: Scaler, machine: LinearMachine, fit: Fit, count: int, audit: Audit | None
    ) -> Certified:
        """See `Accounting`."""
        assert isinstance(rows, Ledger)
        return proving.certified(rows, scaler, machine, fit, count, audit)


def condensing(screen: LinearRule, points: Points, pilot: Pilot, accepted: float, capacity: int) -> Condensed:
    """Return the empty totals of a screened leaf, under the screen's machine.

    Parameters are those of `streamsvm.coreset.screening.make_screen`, which made the screen, of no landmarks.
    """
    rows, margin, share = screen.evaluated(points)
    weight = points.class_weighted(pilot.class_weight).weight
    frame = Frame(
        scaling=screen.scaling,
        machine=np.append(screen.coefficients, screen.intercept),
        factor=frame_of_rows(rows, weight, margin, pilot.penalty),
    )
    # As many rows as there is room for are set aside, the nearest of those that chance does not keep.
    most = int(BESIDE * capacity)
    away = distances(rows, margin, frame)
    order = np.argsort(away, kind="stable")
    passed = points.weight * (accepted / points.weight.sum()) * np.maximum(0.0, 1.0 - screen.rate * share)
    within = np.cumsum(passed[order]) <= EXPECTED * most
    border = float(away[order][within][-1]) if within.any() and most else 0.0
    return Condensed.begin(frame, points.X.dtype, capacity, border if np.isfinite(border) else 0.0, most)


TOTALS: Final = TotalsAccounting()
