"""How much each feature decides in a linear model: coefficients over standardised features are comparable.

A feature's share is its coefficient's size divided by the sum of all sizes. If two features carry the same information,
each gets a part of what one alone would get.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamsvm.model.classes import AnyModel, LinearMachines
from streamsvm.model.machine import LinearMachine

Float = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Importance:
    """How much each feature decides.

    Attributes
    ----------
    value : ndarray of shape (d,), float64
        Coefficient over standardised features, positive where a greater value speaks for the second label; of more
        than two labels, the mean size of the coefficients of the machines.
    share : ndarray of shape (d,), float64
        Of the sizes of all, from 0 to 1, summing to 1, or all 0.
    """

    value: Float
    share: Float


def importance(model: AnyModel) -> Importance | None:
    """Return the importance of each feature of a linear model; None for kernel machines."""
    if isinstance(model.machine, LinearMachine):
        value = model.machine.coefficients
    elif isinstance(model.machine, LinearMachines):
        value = np.abs(model.machine.coefficients).mean(axis=0)
    else:
        return None
    size = np.abs(value)
    total = float(size.sum())
    return Importance(value, size / total if total > 0.0 else np.zeros_like(size))
