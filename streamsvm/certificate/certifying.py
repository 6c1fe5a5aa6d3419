"""The certificate of a linear model: what one look at all of its stream's rows proves of it, or several.

The first look is under the model itself. If its lower bound is far below, because too many rows lie between the model
and the best one, another look helps: under machines on the way to the one that the bound was solved for, and with
strata that hold rows of one side of each of the latest such machines. The bound is then exact at all of them, as in a
bundle method (Lemarechal, Nemirovskii and Nesterov 1995), and at rows' resolution near the machine looked under.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR
from fractions import Fraction
from typing import Final

import numpy as np

from streamsvm.certificate.bounds import Bounds, Objective, bounds_of
from streamsvm.certificate.gap import gap_of, percent, rounded, rows_text
from streamsvm.certificate.kernels import STRATA
from streamsvm.certificate.survey import MOST_OTHERS, Survey, joined
from streamsvm.errors import ConfigurationError
from streamsvm.model.fit import Fit
from streamsvm.model.machine import LinearMachine, Model
from streamsvm.model.version import LEAST_KEPT
from streamsvm.points import Points
from streamsvm.supports import CERTIFICATE, require

KEEP: Final = 10_000
"""Rows that are kept by default, in all partitions together at the end; while rows are read, up to twice as many in
each, and from the second read on three times that."""
STEPS: Final = (1.0, 0.25, 0.0625)
"""How far from the best machine so far towards the newest bound's the machines of a later look stand; one survey for
each."""
SUMS_BYTES: Final = 256 << 20
"""Bound on the memory of strata, unless those of the least number need more."""
ENOUGH: Final = 1e-9
"""A gap that no further look is worth."""


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
        (objective - bound) / bound, not rounded down; None where the bound is 0 or the objective infinite: that says
        nothing.
    reached : float
        The least objective that was met: at most `objective`, and less where a better machine was found on the way.
    rows : int
        Accepted rows, all of them looked at.
    kept : int
        Rows that were kept whole; all others are in sums.
    reads : int
        How often the rows were gone through.
    bounded : int
        Rows that were learned with other values than they came with; see `Certifier`.
    """

    objective: float
    bound: float
    gap: float | None
    reached: float
    rows: int
    kept: int
    reads: int
    bounded: int = 0

    def __str__(self) -> str:
        rows = rows_text(self.rows, self.bounded)
        if not math.isfinite(self.objective):
            return f"nothing is proven: over {rows} the objective is beyond what float64 holds"
        objective = f"its objective is at most {rounded(Fraction(self.objective), 9, ROUND_CEILING):.9g}"
        if self.gap is None:
            return f"nothing is proven over {rows}: {objective}, and the bound is 0"
        gap, bound = self.gap, rounded(Fraction(self.bound), 9, ROUND_FLOOR)
        return (
            f"proven within {percent(gap)} of the best possible model over {rows}: {objective}, and that of no model "
            f"is below {bound:.9g}"
        )


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
        self,
        model: Model,
        fit: Fit,
        partitions: Iterable[int],
        dtype: np.dtype[np.floating],
        keep: int = KEEP,
    ) -> None:
        kernel = "linear" if isinstance(model.machine, LinearMachine) else "rbf"
        require({CERTIFICATE: True, "svm.kernel": kernel})
        assert isinstance(model.machine, LinearMachine)
        if keep < LEAST_KEPT:
            raise ConfigurationError(f"a certificate keeps at least {LEAST_KEPT} rows, not {keep}")
        self._keep, self._dtype, self._partitions = keep, dtype, sorted(partitions)
        self._bounded = 0
        negative, positive = fit.class_weight
        self._objective = Objective(model.scaler, fit.C, (negative, positive))
        self._best, self._others = model.machine, list[LinearMachine]()
        self._found: Certificate | None = None
        self._looks: list[tuple[LinearMachine, dict[int, Survey]]] = []
        self._begin([model.machine])

    def _begin(self, machines: Iterable[LinearMachine]) -> None:
        self._bounded = 0
        scaler, others = self._objective.scaler, self._others[len(self._others) - self._others_that_fit :]
        self._looks = [
            (machine, {at: Survey(scaler, machine, self._dtype, self._keep, others) for at in self._partitions})
            for machine in machines
        ]

    @property
    def _others_that_fit(self) -> int:
        """How many machines separate strata: each doubles the sums of every partition."""
        floats = 2 * STRATA * self._objective.scaler.mean.size * len(self._partitions) * len(STEPS)
        most = max(1, SUMS_BYTES // (8 * floats)).bit_length() - 1
        return min(len(self._others), MOST_OTHERS, most)

    def look(self, partition: int, came: Points, learned: Points | None = None) -> None:
        """Look at valid points of a partition, in the order of its log: each of them once before `certificate`.

        Parameters
        ----------
        partition : int
        came : Points
            As they came.
        learned : Points, optional
            As they were learned, where that may differ.
        """
        if learned is not None:
            differs = (learned.X != came.X).any(axis=1) | (learned.weight != came.weight)
            self._bounded += int(np.count_nonzero(differs))
        for _, surveys in self._looks:
            surveys[partition].add(came)

    def certificate(self) -> Certificate:
        """Return what all looks so far prove; the next one may begin."""
        found = {at: self._bounds(*look) for at, look in enumerate(self._looks)}
        nearest = min(found, key=lambda at: found[at].upper)
        told = max(found.values(), key=lambda bounds: bounds.lower)
        before, one = self._found, found[nearest]
        if before is None or one.upper < before.reached:
            self._best = self._looks[nearest][0]
        objective = one.upper if before is None else before.objective
        bound = told.lower if before is None else max(before.bound, told.lower)
        self._found = Certificate(
            objective=objective,
            bound=bound,
            gap=gap_of(objective, bound),
            reached=one.upper if before is None else min(before.reached, one.upper),
            rows=one.rows,
            kept=one.kept,
            reads=1 if before is None else before.reads + 1,
            bounded=self._bounded,
        )
        self._others.append(told.best)
        self._begin(_between(self._best, told.best, step) for step in STEPS)
        return self._found

    @property
    def done(self) -> bool:
        """Whether another look could not prove much more: the bound has met the best machine that was found."""
        found = self._found
        return found is not None and found.reached - found.bound <= ENOUGH * found.bound

    def _bounds(self, machine: LinearMachine, surveys: dict[int, Survey]) -> Bounds:
        scaler = self._objective.scaler
        whole = joined([survey.surveyed() for survey in surveys.values()], scaler, self._keep)
        return bounds_of(whole, self._objective, machine)


def _between(one: LinearMachine, other: LinearMachine, step: float) -> LinearMachine:
    return LinearMachine(
        one.coefficients + step * (other.coefficients - one.coefficients),
        one.intercept + step * (other.intercept - one.intercept),
    )
