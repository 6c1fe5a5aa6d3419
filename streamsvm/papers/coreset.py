r"""Alg. 1 and Alg. 2 of Tukan, Baykal, Feldman and Rus, *On Coresets for Support Vector Machines* (2020).

Alg. 1 bounds each point's sensitivity, the largest share that it has of F at any (w, b), and draws in proportion:

    F(w, b) = 1/2 |w|^2 + lambda sum_p u(p) max(0, 1 - y (<w, z> + b))
    s(p) / u(p) <= 1 / U_i + lambda sup g,    g(w, b) = ([<w, p_delta>]_+ - alpha |w|^2) / F(w, b)

U_i is the weight of the cluster of p, p_delta = c - y z, alpha = (U - U_i) / (2 lambda U U_i). Comments of the code
give the printed line numbers. Where we differ, and why:

*Line 2.* xi is the gap between the primal and the dual objective, so that F - xi is the dual objective: a certified
lower bound of the optimum over w *and* b. If only one label is present the optimum is 0, and no bound but 1 holds:
`sensitivities` refuses.

*Bias.* The paper's points are y (z, 1). Within a cluster, all of one label, the last entry of p_delta is 0. So the bias
takes part neither in |p_delta| nor in the clustering, and |w| is the norm of the features' coefficients alone.

*Line 5.* A centre is the weighted mean of exactly the points assigned to it. The proof of Lemma 5.3 needs this in its
use of Jensen's inequality; with a raw k-means++ seed as the centre the bound does not hold. The same numbers of the
generator give the same clusters on the same build and number of threads.

*Line 10.* Write beta = |p_delta| / sqrt(opt). The line prints
max{2 alpha, 9/2 (sqrt(4 alpha^2 + 2 beta^2 / 9) - 2 alpha)}. Its proof splits at g <= 3 alpha, and the bound of that
case is 3 alpha, not 2 alpha: `lemma_bound` has 3 alpha. The other case has a slip too: |w|^2 <= 2 F gives
1 / (3 |w|) >= 1 / (3 sqrt(2 F)), hence x~ >= 1 / (18 F), where eq. 19 has 2 / (9 F). So 9/2 (...) is not proven;
18 (sqrt(4 alpha^2 + beta^2 / 18) - 2 alpha) would be. For data that can be separated, with p_delta parallel to w*, g
exceeds even `lemma_bound`, by up to 10 % (beta about 3.74 alpha). `direct_bound`, the default, is attained in that
case, and is never above the lemma's with the proof's constants repaired. Summed up,
t <= 2 k + sum 2 lambda Var / sqrt(2 opt), against the 4 k + sum 3 lambda Var / sqrt(2 opt) of Lemma 5.4. We cap gamma
at 1, which no sensitivity exceeds.

*Alg. 2, line 16.* B_h holds the whole stream only if the number of leaves is a power of two. We return the union of all
buckets.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from streamsvm.model.kernels import Float, LinearKernel
from streamsvm.points import Points, Signs
from streamsvm.svm.problem import Problem
from streamsvm.svm.stda import solve

Bound = Callable[[float, Float, float], Float]
"""(alpha, |p_delta| of shape (n,), lower bound of the optimum) -> an upper bound of sup g, shape (n,)."""


def direct_bound(alpha: float, distance: Float, optimum: float) -> Float:
    """Bound g by F >= max(opt, |w|^2 / 2): the greatest of (a r - alpha r^2) / max(opt, r^2 / 2) over r."""
    beta = distance / math.sqrt(optimum)
    radius = np.full_like(beta, math.sqrt(2.0))
    if alpha > 0:
        radius = np.minimum(radius, beta / (2.0 * alpha))
    return np.asarray(beta * radius - alpha * radius**2, dtype=np.float64)


def lemma_bound(alpha: float, distance: Float, optimum: float) -> Float:
    """Bound g as Lemma 5.3 does, with the 3 alpha of its proof; see the module for what is not proven."""
    beta = distance / math.sqrt(optimum)
    return np.maximum(3.0 * alpha, 4.5 * (np.sqrt(4.0 * alpha**2 + 2.0 / 9.0 * beta**2) - 2.0 * alpha))


def cluster(Z: Float, weight: Float, k: int, random: np.random.Generator) -> NDArray[np.intp]:
    """Return the cluster of each point, 0, 1, ...: at most k clusters, none of them empty."""
    means = KMeans(min(k, len(Z)), n_init=1, random_state=int(random.integers(2**31)))
    with warnings.catch_warnings():  # fewer distinct points than clusters
        warnings.simplefilter("ignore", ConvergenceWarning)
        means.fit(Z, sample_weight=weight)
    return np.unique(means.labels_, return_inverse=True)[1]


def sensitivities(
    Z: Float,
    y: Signs,
    weight: Float,
    penalty: float,
    optimum: float,
    random: np.random.Generator,
    k: int | None = None,
    *,
    bound: Bound = direct_bound,
    capped: bool = True,
) -> Float:
    """Bound every point's sensitivity: Alg. 1, lines 3 to 10.

    Parameters
    ----------
    Z : ndarray of shape (n, d), float64
        Scaled features, n >= 1.
    y : ndarray of shape (n,), -1 or +1
    weight : ndarray of shape (n,), positive
    penalty : float
        The lambda of this set's problem.
    optimum : float
        A positive lower bound of the optimum over w and b.
    random : numpy Generator
        Seeds the clusters of each label, -1 first.
    k : int, optional
        Clusters a label. Default: the paper's log n, ceil(ln n) of the points of both labels.
    bound : Bound
    capped : bool
        Whether gamma is capped at 1.

    Returns
    -------
    ndarray of shape (n,), float64
        gamma(p) >= s(p), positive. The sum is the total sensitivity t.
    """
    if not optimum > 0:
        raise ValueError(f"optimum is {optimum}; it must be positive, and both labels must be present")
    gamma = np.empty(len(y))
    total = weight.sum()
    if k is None:
        k = max(1, math.ceil(math.log(len(y))))
    for sign in (-1, 1):  # line 3
        own = np.flatnonzero(y == sign)  # line 4
        if not len(own):
            continue
        of = cluster(Z[own], weight[own], k, random)  # line 5
        for i in range(of.max() + 1):  # line 6
            part = own[of == i]
            u = weight[part]
            alpha = max(total - u.sum(), 0.0) / (2.0 * penalty * total * u.sum())  # line 7
            distance = np.linalg.norm(np.average(Z[part], axis=0, weights=u) - Z[part], axis=1)  # lines 8 and 9
            gamma[part] = u / u.sum() + penalty * u * bound(alpha, distance, optimum)  # line 10
    return np.minimum(gamma, 1.0) if capped else gamma


def importance_sample(points: Points, gamma: Float, m: int, random: np.random.Generator) -> Points:
    """Draw m times with q = gamma / t, weight u / (m q) a draw: Alg. 1, lines 11 to 13; points stay in their order."""
    q = gamma / gamma.sum()
    times = random.multinomial(m, q)
    chosen = np.flatnonzero(times)
    return points.take(chosen).reweighted((times * points.weight / (m * q))[chosen])


def coreset(points: Points, penalty: float, m: int, random: np.random.Generator, k: int | None = None) -> Points:
    """Reduce points with scaled features, both labels among them, to at most m: Alg. 1.

    Parameters
    ----------
    points : Points
    penalty : float
        lambda.
    m : int
        Number of draws, at least 1.
    random : numpy Generator
    k : int, optional
        Clusters a label; see `sensitivities`.
    """
    Z, y, upper = points.X.astype(np.float64), points.y, penalty * points.weight
    problem = Problem(Z=Z, y=y, upper=upper, kernel=LinearKernel(), tolerance=1e-3, max_iterations=1_000_000)
    optimum = solve(problem).dual  # lines 1 and 2
    return importance_sample(points, sensitivities(Z, y, points.weight, penalty, optimum, random, k), m, random)


def streaming_coreset(
    stream: Iterable[Points], penalty: float, leaf: int, random: np.random.Generator, k: int | None = None
) -> Points:
    """Reduce a stream by a merge-and-reduce tree: Alg. 2.

    Parameters
    ----------
    stream : iterable of Points
        Sets of 2 `leaf` consecutive points, at least one set.
    penalty, random, k
        As of `coreset`.
    leaf : int
        Number of draws of a coreset, the paper's l.
    """
    buckets: list[list[Points]] = [[]]  # lines 1 and 2: h is their number
    for points in stream:  # line 3
        buckets[0].append(coreset(points, penalty, leaf, random, k))  # lines 4 and 5
        for j, bucket in enumerate(buckets):  # line 6; the list grows inside
            while len(bucket) >= 2:  # line 7
                both = Points.union([bucket.pop(0), bucket.pop(0)])  # lines 8 and 9
                if j + 1 == len(buckets):
                    buckets.append([])  # line 12
                buckets[j + 1].append(coreset(both, penalty, leaf, random, k))  # lines 10 and 11
    return Points.union([kept for bucket in reversed(buckets) for kept in bucket])  # lines 16 and 17
