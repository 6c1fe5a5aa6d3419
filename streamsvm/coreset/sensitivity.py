r"""Upper bounds of sensitivities: how much one point can matter to the objective, whatever the model.

The problem of a weighted set P, U = sum of u, lambda the penalty (LIBSVM's C), the bias b not regularised:

    f(p, w, b) = |w|^2 / (2 U) + lambda max(0, 1 - y (<w, z> + b)),      F = sum over P of u f
    s(p) = sup over (w, b) of u(p) f(p, w, b) / F(w, b)                            (Definition 3)

Source: Alg. 1, lines 2-10, and Lemma 5.3 of Tukan, Baykal, Feldman and Rus 2020.

The lemma, up to where we follow it. Let P_i be the cluster of p, c its weighted mean, U_i its weight, and
p_delta = c - y z. As the hinge loss h is convex and grows by at most <p_delta, w>,

    f(p) <= f(c) + lambda [<w, p_delta>]_+ <= (F(P) - F(P \ P_i)) / U_i + lambda [<w, p_delta>]_+,
    s(p) / u(p) <= 1 / U_i + lambda sup g,    g(w, b) = ([<w, p_delta>]_+ - alpha |w|^2) / F(w, b),
    alpha = U(P \ P_i) / (2 lambda U U_i)                                          (eq. 13)

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
- `direct_bound`, ours, needs no case and no gradient. F(w, b) >= max(opt, |w|^2 / 2). With r = |w|,

      g <= (a r - alpha r^2) / max(opt, r^2 / 2),

  where the right side rises up to r = min(a / (2 alpha), sqrt(2 opt)) and falls from there, so

      g <= beta^2 / (4 alpha)               if beta <= 2 sqrt(2) alpha,
      g <= sqrt(2) beta - 2 alpha           otherwise.

  It is attained in the case just named, it is never above the lemma's with the proof's constants repaired, and it has
  no floor: a point at its centre has g = 0. Summed up, t <= 2 k + sum 2 lambda Var / sqrt(2 opt), against the
  4 k + sum 3 lambda Var / sqrt(2 opt) of Lemma 5.4.

Every bound falls as opt grows, so opt must be a *lower* bound of the optimum: an F(w~) in its place, without the xi
taken off, under-states sensitivities. A dual objective certifies one. As s(p) <= 1 by definition, so is its bound.

With opt = 0, that is where one label only is present, no bound but 1 holds: `sensitivities` refuses, the reducer
samples in proportion to weight instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from streamsvm.coreset.clustering import LLOYD_STEPS, ClusterRule, Clusters, cluster
from streamsvm.coreset.sampling import Float
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
    """Bound g by F >= max(opt, |w|^2 / 2); see the module."""
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
    rule: ClusterRule | int = "log",
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
    rule : "log", "elbow", "silhouette" or a number
        Clusters a label.
    bound : Bound
    capped : bool
        Whether gamma is capped at 1, which no sensitivity exceeds; the paper does not.
    lloyd_steps : int
    """
    assert optimum > 0
    gamma = np.empty(len(y))
    clusters = []
    total = float(weight.sum())
    for sign in (-1, 1):
        own = np.flatnonzero(y == sign)
        if not len(own):
            continue
        found = cluster(Z[own], weight[own], rule, len(y), random, lloyd_steps)
        alpha = alphas(found, total, penalty)[found.of]
        influence = bound(alpha, found.distance, optimum)
        gamma[own] = weight[own] / found.weight[found.of] + penalty * weight[own] * influence
        clusters.append(found)
    return Sensitivities(np.minimum(gamma, 1.0) if capped else gamma, tuple(clusters))


def alphas(clusters: Clusters, total: float, penalty: float) -> Float:
    """Return alpha of each cluster (eq. 13), shape (k,); `total` is the weight U of both labels."""
    outside = np.maximum(total - clusters.weight, 0.0)
    return np.asarray(outside / (2.0 * penalty * total * clusters.weight), dtype=np.float64)


def mean_bound(Z: Float, y: Signs, weight: Float, penalty: float) -> float:
    r"""Return a lower bound of the optimum in closed form, positive if and only if both labels are present.

    The dual point a_i = theta u_i / U_y keeps sum a y = 0 and gives D = 2 theta - theta^2 |mu_+ - mu_-|^2 / 2, mu the
    weighted means of the labels; 0 <= theta <= lambda min(U_+, U_-) keeps it feasible. The best such theta is taken.
    Weak where labels overlap much, but it never fails: a solver that stopped early is held to it.
    """
    means, totals = [], []
    for sign in (-1, 1):
        own = y == sign
        if not own.any():
            return 0.0
        totals.append(float(weight[own].sum()))
        means.append(np.einsum("i,ij->j", weight[own] / totals[-1], Z[own]))
    apart = means[1] - means[0]
    squared = float(np.einsum("i,i->", apart, apart))
    most = penalty * min(totals)
    theta = most if most * squared <= 2.0 else 2.0 / squared
    return 2.0 * theta - 0.5 * theta * theta * squared


def dual_bound(Z: Float, y: Signs, upper: Float, alpha: Float) -> float:
    r"""Return the dual objective of a solver's answer made exactly feasible: a certified lower bound of the optimum.

    Parameters
    ----------
    Z : ndarray of shape (n, d), float64
    y : ndarray of shape (n,), -1 or +1, both present
    upper : ndarray of shape (n,), lambda u
    alpha : ndarray of shape (n,)
        Any numbers; how good they are decides how good the bound is.

    Notes
    -----
    Clipped to the box; the label with the greater sum is scaled down to the other's, so that sum a y = 0 up to
    rounding; then all are scaled by the s in [0, 1] that makes D(s a) = s sum a - s^2 |w|^2 / 2 greatest. A relative
    margin of 1e-9 is taken off for rounding. No BLAS: see `streamsvm.coreset.clustering`.
    """
    feasible = np.clip(alpha, 0.0, upper)
    sums = np.array([feasible[y == sign].sum() for sign in (-1, 1)])
    if not sums.all():
        return 0.0
    feasible *= np.where(y > 0, sums.min() / sums[1], sums.min() / sums[0])
    w = np.einsum("i,ij->j", y * feasible, Z)
    total, norm = float(feasible.sum()), float(np.einsum("i,i->", w, w))
    s = 1.0 if norm <= total else total / norm
    return max(0.0, (s * total - 0.5 * s * s * norm) * (1.0 - 1e-9))
