"""Alg. 1 of Tukan et al. 2020 as a reducer: `coreset.reducer = sensitivity`, for two labels and for several."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from streamsvm.config import CoresetConfig
from streamsvm.coreset.reduce import Observed
from streamsvm.coreset.reducers.base import Pilot, UniformReducer
from streamsvm.coreset.reducers.multiclass import SharedPilot
from streamsvm.coreset.sensitivity import direct_bound
from streamsvm.papers.clustered import Bound, sensitivities
from streamsvm.papers.sampling import occurrences
from streamsvm.points import Points


class SensitivityReducer:
    """Independent draws in proportion to sensitivity: Alg. 1 of Tukan et al. 2020, lines 3 to 13.

    m draws with q = gamma / t, each of weight u / (m q); draws of one point are merged by adding their weights, so that
    at most m points come back, often fewer. Any weighted sum is estimated without bias; the total weight is right in
    expectation, not exactly. The pilot brings line 1 and 2: the scaled penalty and the lower bound of the optimum.

    Where we differ: features are scaled as the trainer scales them, the points stay raw; gamma is the bound that
    `streamsvm.papers.clustered` derives, capped at 1; and where the optimum is 0, or known to be no more than 0 (one
    label only), sensitivities have no bound, and points are sampled in proportion to weight by `UniformReducer`.

    Parameters
    ----------
    bound : Bound
        `lemma_bound` for the paper's own line 10.
    """

    needs_pilot: ClassVar[bool] = True
    observes: ClassVar[bool] = False

    def __init__(self, bound: Bound = direct_bound) -> None:
        self.observed = Observed()
        self._bound = bound

    def reduce(self, points: Points, m: int, random: np.random.Generator, pilot: Pilot | None) -> Points:
        """Return at most `m` points; see the class."""
        if len(points) <= m:
            return points
        assert pilot is not None
        # With an optimum of 0 any point may matter without bound, and sensitivities say nothing.
        if pilot.lower_bound <= 0.0:
            return UniformReducer().reduce(points, m, random, None)
        Z = pilot.transform(points.X)
        gamma = sensitivities(
            Z, points.y, points.weight, pilot.penalty, pilot.lower_bound, random, bound=self._bound
        ).gamma
        return importance_sample(points, gamma, m, random)


class SharedSensitivityReducer:
    """Independent draws in proportion to the greatest of each point's K sensitivities: all K bounds hold at once."""

    needs_pilot: ClassVar[bool] = True
    observes: ClassVar[bool] = False

    def __init__(self) -> None:
        self.observed = Observed()

    def reduce(self, points: Points, m: int, random: np.random.Generator, pilot: SharedPilot | None) -> Points:
        """Return at most `m` points; see the class."""
        if len(points) <= m:
            return points
        assert pilot is not None
        if not pilot.bounded:
            return UniformReducer().reduce(points, m, random, None)
        gamma = np.zeros(len(points))
        for label, own in pilot.bounded.items():
            signs = points.against_the_rest(label).y
            Z, weight = own.transform(points.X), points.weight
            found = sensitivities(Z, signs, weight, own.penalty, own.lower_bound, random)
            np.maximum(gamma, found.gamma, out=gamma)
        return importance_sample(points, gamma, m, random)


def importance_sample(points: Points, gamma: NDArray[np.float64], m: int, random: np.random.Generator) -> Points:
    """Draw m times independently with q = gamma / t; weight u / (m q) a draw (Alg. 1, line 12).

    Parameters
    ----------
    points : Points
        n points.
    gamma : ndarray of shape (n,), positive
    m : int
        m >= 1.
    random : numpy Generator
        Only `random()` is called.
    """
    times = occurrences(gamma, m, random)
    # Ascending, so that points stay in the order of the log.
    chosen = np.flatnonzero(times)
    drawn = times[chosen] * points.weight[chosen] * (gamma.sum() / (m * gamma[chosen]))
    return points.take(chosen).reweighted(drawn)


def sensitivity_reducer(_: CoresetConfig) -> SensitivityReducer:
    """Return the reducer of a configuration, for two labels."""
    return SensitivityReducer()


def shared_sensitivity_reducer(_: CoresetConfig) -> SharedSensitivityReducer:
    """Return the reducer of a configuration, for several labels that share a structure."""
    return SharedSensitivityReducer()
