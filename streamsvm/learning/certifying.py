"""Who reads all rows of a model again to prove how near it is to the best one: a branch, at the socket ``certifying``.

Without such a branch no model can be certified, and a command that needs a certificate is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from streamsvm.errors import ConfigurationError
from streamsvm.model.fit import Fit
from streamsvm.model.machine import LinearMachine, Model
from streamsvm.points import Points
from streamsvm.sockets import plugged

SOCKET: Final = "certifying"
KEEP: Final = 10_000
"""Rows that are kept by default, in all partitions together at the end; while rows are read, up to twice as many in
each, and from the second read on three times that."""


class Certificate(Protocol):
    """How far a model can be from the best one, proven; ``str`` of it is a sentence."""

    @property
    def objective(self) -> float:
        """The model's objective over all rows is at most this: 1/2 |w|^2 + C sum u k(y) max(0, 1 - y f(x))."""

    @property
    def bound(self) -> float:
        """That of no model is below this, with the same scaler, C and class weights."""

    @property
    def gap(self) -> float | None:
        """(objective - bound) / bound, not rounded down; None where that says nothing."""

    @property
    def reached(self) -> float:
        """The least objective that was met: less than `objective` where a better machine was found on the way."""

    @property
    def rows(self) -> int:
        """Accepted rows, all of them looked at."""

    @property
    def kept(self) -> int:
        """Rows that were kept whole; all others are in sums."""

    @property
    def reads(self) -> int:
        """How often the rows were gone through."""

    @property
    def bounded(self) -> int:
        """Rows that were learned with other values than they came with."""


class Certifier(Protocol):
    """Looks at the rows of a model's stream, partition by partition, and says what they prove."""

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

    def certificate(self) -> Certificate:
        """Return what all looks so far prove; the next one may begin."""
        ...

    @property
    def best(self) -> LinearMachine:
        """The machine whose objective is `Certificate.reached`."""
        ...

    @property
    def done(self) -> bool:
        """Whether another look could not prove much more."""
        ...


class Begin(Protocol):
    """Makes what looks; parameters and errors are those of `certifier`."""

    def __call__(
        self,
        model: Model,
        fit: Fit,
        partitions: Iterable[int],
        dtype: np.dtype[np.floating],
        keep: int,
        *,
        as_learned: bool,
    ) -> Certifier:
        """Make it."""
        ...


@dataclass(frozen=True, slots=True)
class Certifying:
    """What stands at the socket."""

    begin: Begin


def certifier(
    model: Model,
    fit: Fit,
    partitions: Iterable[int],
    dtype: np.dtype[np.floating],
    keep: int = KEEP,
    *,
    as_learned: bool = False,
) -> Certifier:
    """Return what looks at a model's rows.

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
    as_learned : bool
        Look at rows with the values that they were learned with, outliers within their bounds: for a machine that is
        trained, and no proof of the rows that came where `Certificate.bounded` is not 0. Else: as they came.

    Raises
    ------
    ConfigurationError
        If the model is not linear, `keep` is too small, or no branch of this installation certifies.
    """
    for one in plugged(SOCKET, Certifying):
        return one.begin(model, fit, partitions, dtype, keep, as_learned=as_learned)
    raise ConfigurationError(
        "this installation cannot make certificates", "Install the folder of the branch that does."
    )
