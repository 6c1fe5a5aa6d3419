r"""How far scores have moved from those of a sample: the population stability index, and what of it is chance.

The reference sample is cut at its deciles into B bins, at most ten (equal scores fall into one bin). With p the share
of the reference in each bin and q that of the newest scores,

    PSI = sum over bins of (p - q) ln(p / q).

So that an empty bin does not make it infinite, half an observation is added to each bin of both samples.

Of n reference scores and m new ones, independent and of one distribution, PSI / (1/n + 1/m) is nearly a chi-square of
B - 1 degrees of freedom; `chance` is its quantile that one window in a thousand passes. Its customary limits, 0.1 for
some change and 0.25 for much, are of samples so large that chance is far below.

Scores are kept as numbers of bins: a bin is a tenth of the reference, whichever version that is of, so a window may
hold scores of several versions.

Sources: Siddiqi 2006, Credit Risk Scorecards (the index and its limits); Yurdakul 2018, Statistical properties of
population stability index (dissertation, Western Michigan University), theorem on its asymptotic distribution.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri

from streamsvm.model.deciles import Deciles

Float = NDArray[np.float64]

CHANCE: Final = 0.001
"""How often the chance level is passed where nothing changed."""
LEAST_SCORES: Final = 200
"""With fewer scores in the window there is no index: about twenty in each bin."""


@dataclass(frozen=True, slots=True)
class Drift:
    """A population stability index over `scores` scores; `chance` is what one in a thousand passes by chance."""

    index: float
    chance: float
    scores: int


class ScoreWindow:
    """The newest scores, each as the bin of its own version's reference.

    Parameters
    ----------
    capacity : int
        Scores held, each a byte.
    """

    def __init__(self, capacity: int) -> None:
        self._bins = np.zeros(capacity, np.uint8)
        self._capacity = capacity
        self._filled = 0
        self._next = 0

    def __len__(self) -> int:
        return self._filled

    def add(self, scores: Float, reference: Deciles) -> None:
        """Add scores, shape (n,), the oldest first."""
        bins = np.searchsorted(np.array(reference.cuts), scores[-self._capacity :], side="left").astype(np.uint8)
        at = (self._next + np.arange(len(bins))) % self._capacity
        self._bins[at] = bins
        self._next = (self._next + len(bins)) % self._capacity
        self._filled = min(self._capacity, self._filled + len(bins))

    def forget(self) -> None:
        """Begin anew: bins of another number are not of the same tenths."""
        self._filled = self._next = 0

    def drift(self, reference: Deciles) -> Drift | None:
        """Compare with a reference of as many bins; None with too few scores."""
        if self._filled < LEAST_SCORES:
            return None
        counts = np.bincount(self._bins[: self._filled], minlength=len(reference.shares))
        return drift_of(counts.astype(np.float64), reference)


def drift_of(counts: Float, reference: Deciles) -> Drift:
    """Return the index of counted scores, shape (B,), and its chance level.

    Parameters
    ----------
    counts : ndarray of shape (B,)
        New scores in each bin of the reference.
    reference : Deciles
    """
    bins, m, n = len(counts), float(counts.sum()), reference.n
    p = (np.array(reference.shares) * n + 0.5) / (n + 0.5 * bins)
    q = (counts + 0.5) / (m + 0.5 * bins)
    index = float(((p - q) * np.log(p / q)).sum())
    return Drift(index, chance_level(bins, n, m), int(m))


def chance_level(bins: int, n: float, m: float) -> float:
    """Return the index that `CHANCE` of windows pass where n and m scores are of one distribution."""
    return float(chdtri(bins - 1, CHANCE)) * (1.0 / n + 1.0 / m)
