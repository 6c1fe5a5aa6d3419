r"""A test of "not better" that may be read after every label, and that keeps its error over a whole life.

**The test.** Let d_1, d_2, ... be differences in [-1, 1], above 0 where the challenger did better. For each bet b of
`BETS` the wealth is W_b = prod_t (1 + b d_t), and the evidence is the mean of the wealths,

    E = 1/K sum_b W_b.

If the conditional means mu_t = E[d_t | past] are such that their average up to now is at most 0, E is at most the value
of a martingale that starts at 1: W_b / prod_t (1 + b mu_t) is one, and prod_t (1 + b mu_t) <= exp(b sum_t mu_t) <= 1.
So by Ville's inequality the chance that E ever reaches 1 / alpha while the challenger is on average not better is at
most alpha, whatever the distribution within the range, however rare and large a difference, and however often one
looks. Nothing is estimated; a standard error, which has not seen the rare difference yet, does not occur.

**Bets do not change in time.** Fixed bets are predictable, need no variance, and give three things that bets which
adapt (aGRAPA, online Newton steps) do not: the bound is about the average up to now, not about each moment; E does not
depend on the order of the differences, so it does not matter which partition was read first; and the same wealths give
an interval (`interval`). The price of the mixture is log(K) = 2.1 where log(1/alpha) is 5.6 and more.

Sources: Waudby-Smith and Ramdas 2024, Estimating means of bounded random variables by betting; Choe and Ramdas 2021,
Comparing sequential forecasters (averages of conditional means); Ville 1939.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numba import njit
from numpy.typing import NDArray

Float = NDArray[np.float64]

ERROR: Final = 0.01
"""Chance that any challenge of a trainer's name ever promotes a challenger that is not better."""
BETS: Final[Float] = 2.0 ** -np.arange(8.0)
"""1 is best where the challenger never does worse, 1/128 where the mean is 1/128 of the variance. With a bet between
two of these the evidence would grow by at most a ninth faster. A bet above 1 could lose more than all."""
BLOCK: Final = 8
"""Least rows of a block of `block_differences`. With 4 or 16 an AUC of 0.8725 instead of 0.85 needs a third more labels
at 50 % positives: the differences of small blocks vary more, and of large ones there are few, each of which is one
bet."""


def log_wealths(differences: Float) -> Float:
    """Return the logarithm of each bet's wealth, shape (len(BETS),): the same bits in whatever order the terms come.

    Parameters
    ----------
    differences : ndarray of shape (t,), float64
        In [-1, 1].
    """
    logs = np.zeros(len(BETS))
    add_differences(np.sort(differences), BETS, logs)
    return logs


def log_evidence(logs: Float) -> float:
    """Return log(E) of the bets' log wealths."""
    most = float(logs.max())
    return most + math.log(float(np.exp(logs - most).sum()) / len(logs))


def interval(better: Float, worse: Float, n: int, alpha: float) -> tuple[float, float]:
    """Return an interval that holds the average of the conditional means at all times at once, but with chance 2 alpha.

    From W_b <= M_b exp(b sum_t mu_t), with M_b the martingale of the module's text: each end fails with chance alpha.

    Parameters
    ----------
    better, worse : ndarray of shape (len(BETS),)
        Log wealths of the differences, and of their negatives.
    n : int
        Differences, at least 1.
    alpha : float
    """
    share = math.log(alpha / len(BETS))
    low, high = (float(((logs + share) / (BETS * n)).max()) for logs in (better, worse))
    return max(low, -1.0), min(-high, 1.0)


@njit(cache=True, nogil=True)
def add_differences(differences, bets, logs):  # type: ignore[no-untyped-def] # pragma: no cover - compiled
    """Add log(1 + b d) to the log wealth of each bet b, for each difference d."""
    for d in differences:
        if d != 0.0:
            for k in range(len(bets)):
                wealth = 1.0 + bets[k] * d
                logs[k] += math.log1p(bets[k] * d) if wealth > 0.0 else -math.inf


@njit(cache=True, nogil=True)
def block_differences(partition, positive, old, new, least, found):  # type: ignore[no-untyped-def] # pragma: no cover - compiled
    """Write by how much `new` orders the pairs of each block better than `old`; return how many blocks there are.

    A block ends as soon as it has `least` rows of one partition, and both labels. Its difference is the mean over its
    pairs of a positive and a negative row, in [-1, 1]; a tie counts one half. Where blocks end depends on labels alone,
    so the mean of a block's difference is that of the AUCs.

    Parameters
    ----------
    partition : ndarray of shape (n,)
        Rows of one partition stand together, in the order in which they count.
    positive : ndarray of shape (n,), bool
    old, new : ndarray of shape (n,), float64
        Scores.
    least : int
    found : ndarray of shape (n,), float64
        Overwritten.
    """
    count, begin, positives = 0, 0, 0
    for i in range(len(positive)):
        if i > begin and partition[i] != partition[i - 1]:
            begin, positives = i, 0
        positives += positive[i]
        rows = i + 1 - begin
        if rows < least or positives in (0, rows):
            continue
        halves = 0
        for p in range(begin, i + 1):
            if positive[p]:
                for q in range(begin, i + 1):
                    if not positive[q]:
                        halves += (new[p] > new[q]) - (new[p] < new[q]) - (old[p] > old[q]) + (old[p] < old[q])
        found[count] = halves / (2.0 * positives * (rows - positives))
        count, begin, positives = count + 1, i + 1, 0
    return count
