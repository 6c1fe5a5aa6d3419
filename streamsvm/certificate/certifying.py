"""The certificate of a linear model: what one look at all of its stream's rows proves of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from streamsvm.certificate.bounds import Bounds, Objective, bounds_of
from streamsvm.certificate.survey import LEAST_KEPT, Survey, joined
from streamsvm.errors import ConfigurationError
from streamsvm.model.fit import Fit
from streamsvm.model.machine import LinearMachine, Model
from streamsvm.points import Points

KEEP: Final = 10_000
"""Rows that are kept by default, in all partitions together at the end; while rows are read, twice as many in each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """How far a model can be from the best one, proven.

    Attributes
    ----------
    objective : float
        The model's objective over all rows is at most this: 1/2 |w|^2 + C sum u k(y) max(0, 1 - y f(x)).
    bound : float
        That of no model is below this, with the same scaler, C and class weights.
    gap : float or None
        (objective - bound) / bound; None where the bound is 0 and says nothing.
    rows : int
        Accepted rows, all of them looked at.
    kept : int
        Rows that were kept whole; all others are in sums.
    """

    objective: float
    bound: float
    gap: float | None
    rows: int
    kept: int

    def __str__(self) -> str:
        rows = "the one row" if self.rows == 1 else f"all {self.rows:,} rows"
        if self.gap is None:
            return f"nothing is proven: over {rows} the objective is at most {self.objective:.6g}, and the bound is 0"
        return (
            f"proven within {percent(self.gap)} of the best possible model over {rows}: its objective is at most "
            f"{self.objective:.9g}, and that of no model is below {self.bound:.9g}"
        )


def percent(gap: float) -> str:
    """Return a gap for people: two digits, never rounded down."""
    shown = f"{100.0 * gap:.1e}" if gap < 1e-5 else f"{100.0 * gap:.2g}"
    if float(shown) < 100.0 * gap:
        shown = f"{105.0 * gap:.1e}" if gap < 1e-5 else f"{105.0 * gap:.2g}"
    return f"{shown} %"


class Certifier:
    """Looks at the rows of a model's stream, partition by partition, and says what they prove.

    Parameters
    ----------
    model : Model
    fit : Fit
        C and class weights are looked at.
    partitions : iterable of int
    dtype : numpy dtype
        Of the rows' features.
    keep : int
        Rows that are kept at the end.

    Raises
    ------
    ConfigurationError
        If the model is not linear, or `keep` is too small.
    """

    def __init__(
        self, model: Model, fit: Fit, partitions: Iterable[int], dtype: np.dtype[np.floating], keep: int = KEEP
    ) -> None:
        if not isinstance(model.machine, LinearMachine):
            raise ConfigurationError(
                "only a linear model has a certificate: in a kernel's space the rows' sums cannot be held",
                "An audit of the objective, an estimate, is in every version.",
            )
        if keep < LEAST_KEPT:
            raise ConfigurationError(f"a certificate keeps at least {LEAST_KEPT} rows, not {keep}")
        self._machine, self._keep = model.machine, keep
        self._objective = Objective(model.scaler, fit.C, fit.class_weight)
        self._surveys = {
            partition: Survey(model.scaler, model.machine, dtype, keep) for partition in sorted(partitions)
        }

    def look(self, partition: int, points: Points) -> None:
        """Look at valid points of a partition, in the order of its log."""
        self._surveys[partition].add(points)

    def bounds(self) -> Bounds:
        """Return the bounds that all rows so far prove; no more are to be looked at."""
        parts = [survey.surveyed() for survey in self._surveys.values()]
        return bounds_of(joined(parts, self._objective.scaler, self._keep), self._objective, self._machine)

    def certificate(self) -> Certificate:
        """Return the same in the words of a report."""
        found = self.bounds()
        return Certificate(objective=found.upper, bound=found.lower, gap=found.gap, rows=found.rows, kept=found.kept)
