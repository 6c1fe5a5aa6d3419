"""Accounts as totals (`streamsvm.branches.bounds.totals`), and the bounds that follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from streamsvm.branches.bounds import proving
from streamsvm.branches.bounds.certified import Certified
from streamsvm.branches.bounds.frames import Frame, metric_of
from streamsvm.branches.bounds.totals import (
    BESIDE,
    EXPECTED,
    Changed,
    ChangedRows,
    Condensed,
    Ledger,
    Totals,
)
from streamsvm.coreset.accounting import (
    Account,
    Accounting,
    AllRows,
    LeafAccount,
    LinearRule,
    MeasuredPoints,
    differing,
)
from streamsvm.coreset.band import border_within, distance
from streamsvm.model.fit import Audit, Fit
from streamsvm.model.machine import LinearMachine, Scaler
from streamsvm.points import Points


class TotalsAccounting(Accounting):
    """Keeps totals."""

    def of_rows(self, learned: Points, came: Points) -> Totals:
        """See `Accounting`."""
        return Totals.of_rows(learned, came)

    def of_left_out(self, drawn_in: Points, came: Points) -> Totals:
        """See `Accounting`."""
        return Totals(np.zeros(0), came, changed=Changed.none(came.dimension).add(drawn_in, came))

    def of_changed(self, known: LeafAccount | None, learned: Points, came: Points, kept: int) -> LeafAccount | None:
        """See `Accounting`."""
        at = np.flatnonzero(differing(learned, came))
        if not len(at):
            return known
        before = known if isinstance(known, ChangedRows) else ChangedRows.none(came.dimension)
        return before.add(learned.take(at), came.take(at), kept + at)

    def of_screen(
        self, screen: LinearRule, measured: MeasuredPoints, dtype: np.dtype[np.floating], capacity: int
    ) -> Condensed:
        """See `Accounting`; not of a screen of landmarks."""
        return condensing(screen, measured, dtype, capacity)

    def of_cut(self, held: Sequence[tuple[Points, Account]], training_set: Points) -> Ledger:
        """See `Accounting`."""
        return Ledger.of([(points, account) for points, account in held if isinstance(account, Totals)], training_set)

    def certified(
        self, rows: AllRows, scaler: Scaler, machine: LinearMachine, fit: Fit, count: int, audit: Audit | None
    ) -> Certified:
        """See `Accounting`."""
        assert isinstance(rows, Ledger)
        return proving.certified(rows, scaler, machine, fit, count, audit)


def condensing(screen: LinearRule, measured: MeasuredPoints, dtype: np.dtype[np.floating], capacity: int) -> Condensed:
    """Return the empty totals of a screened leaf, under the screen's machine.

    Parameters are those of `Accounting.of_screen`.
    """
    machine, width = np.concatenate([screen.coefficients, [screen.intercept]]), measured.rows.shape[1]
    factor, length = metric_of(measured.root[:width], measured.rows, measured.length, measured.weight)
    frame = Frame(scaling=screen.scaling, machine=machine, factor=factor)
    # As many rows as there is room for are set aside, the nearest of those that chance does not keep.
    most = int(BESIDE * capacity)
    away = distance(length, measured.margin)
    border, _ = border_within(away, measured.passed, EXPECTED * most)
    return Condensed.begin(frame, dtype, capacity, border if most else 0.0, most)


TOTALS: Final = TotalsAccounting()
