r"""Upper bounds of sensitivities by clusters: Alg. 1, lines 2-10, and Lemma 5.3 of Tukan et al. 2020.

Problem, sensitivity s, p_delta, alpha and g are those of `streamsvm.coreset.pilot`, but P_i is the cluster of p
instead of all points of its label. The lemma, up to where we follow it:

    s(p) / u(p) <= 1 / U_i + lambda sup g,    g(w, b) = ([<w, p_delta>]_+ - alpha |w|^2) / F(w, b)

The bias. The paper's points are y (z, 1). Within a cluster, all of one label, the last entry of y (z, 1) is y, and so
is that of the mean: the last entry of p_delta is 0. The bias therefore takes part neither in |p_delta| nor in the
clustering, and |w| is that of the features alone; it does take part in F, so the optimum below is that over w *and* b.

Bounding g. Write a = |p_delta| and beta = a / sqrt(opt).

- Alg. 1 (line 10) prints max{2 alpha, 9/2 (sqrt(4 alpha^2 + 2 beta^2 / 9) - 2 alpha)}, as 4/9 alpha inside the bracket.
  Its proof splits at g <= 3 alpha, and says of that case that the bound is trivial: it is, with 3 alpha. The 2 alpha
  belongs to g at w*, which is not the case at hand. `lemma_bound` has 3 alpha.
- The other case has a slip too: |w|^2 <= 2 F gives 1 / (3 |w|) >= 1 / (3 sqrt(2 F)), hence x~ >= 1 / (18 F), where
  eq. 19 has 2 / (9 F), four times as much. So 9/2 (...) is not proven; 18 (sqrt(4 alpha^2 + beta^2 / 18) - 2 alpha)
  would be. For data that can be separated, with p_delta parallel to w*, g exceeds even max{3 alpha, 9/2 (...)}, by up
  to 10 % (beta about 3.74 alpha).
- `direct_bound`, the default here, is attained in that case, and is never above the
  lemma's with the proof's constants repaired. Summed up, t <= 2 k + sum 2 lambda Var / sqrt(2 opt), against the
  4 k + sum 3 lambda Var / sqrt(2 opt) of Lemma 5.4.

The optimum must be a positive lower bound. With opt = 0, that is where one label only is present, no bound but 1 holds:
`sensitivities` refuses.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from streamsvm.papers.clustering import LLOYD_STEPS, Clusters, cluster
from streamsvm.papers.sampling import Float
from streamsvm.points import Signs

Bound = Callable[[Float, Float, float], Float]
"""(alpha, |p_delta|, lower bound of the optimum) -> an upper bound of sup g; the first two of shape (n,)."""


@dataclass(frozen=True, slots=True)
class Sensitivities:
    """Upper bounds of sensitivities, and what they were made from.

    Attributes
    ----------
    gamma : ndarray of shape (n,), float64
        gamma(p) >= s(p), positive.
    clusters : tuple of Clusters
        Of the labels that are present, -1 first; their rows are the points of that label in order.
    """

    gamma: Float
    clusters: tuple[Clusters, ...]

    @property
    def total(self) -> float:
        """The total sensitivity t."""
        return float(self.gamma.sum())


def direct_bound(alpha: Float, distance: Float, optimum: float) -> Float:
    """Bound g by F >= max(opt, |w|^2 / 2): the greatest of (a r - alpha r^2) / max(opt, r^2 / 2) over r."""
    beta = distance / np.sqrt(optimum)
    near = beta <= 2.0 * np.sqrt(2.0) * alpha
    curved = np.divide(beta * beta, 4.0 * alpha, out=np.zeros_like(beta), where=near & (alpha > 0))
    return np.asarray(np.where(near, curved, np.sqrt(2.0) * beta - 2.0 * alpha), dtype=np.float64)


def lemma_bound(alpha: Float, distance: Float, optimum: float) -> Float:
    """Bound g as Lemma 5.3 does, with the 3 alpha of its proof; see the module for what is not proven."""
    beta = distance / np.sqrt(optimum)
    involved = 4.5 * (np.sqrt(4.0 * alpha**2 + 2.0 / 9.0 * beta**2) - 2.0 * alpha)
    return np.asarray(np.maximum(3.0 * alpha, involved), dtype=np.float64)


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
    lloyd_steps: int = LLOYD_STEPS,
) -> Sensitivities:
    """Bound every point's sensitivity.

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
        For the seeds of the clusters; only `random()` is called.
    k : int, optional
        Clusters a label. Default: the paper's log n, ceil(ln n) of the points of both labels.
    bound : Bound
    capped : bool
        Whether gamma is capped at 1, which no sensitivity exceeds; the paper does not.
    lloyd_steps : int
    """
    assert optimum > 0
    gamma = np.empty(len(y))
    clusters = []
    total = float(weight.sum())
    most = max(1, math.ceil(math.log(len(y)))) if k is None else k
    for sign in (-1, 1):
        own = np.flatnonzero(y == sign)
        if not len(own):
            continue
        found = cluster(Z[own], weight[own], most, random, lloyd_steps)
        alpha = alphas(found, total, penalty)[found.of]
        influence = bound(alpha, found.distance, optimum)
        gamma[own] = weight[own] / found.weight[found.of] + penalty * weight[own] * influence
        clusters.append(found)
    return Sensitivities(np.minimum(gamma, 1.0) if capped else gamma, tuple(clusters))


def alphas(clusters: Clusters, total: float, penalty: float) -> Float:
    """Return alpha of each cluster (eq. 13), shape (k,); `total` is the weight U of both labels."""
    outside = np.maximum(total - clusters.weight, 0.0)
    return np.asarray(outside / (2.0 * penalty * total * clusters.weight), dtype=np.float64)
