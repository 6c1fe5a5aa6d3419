"""k-means++ clusters of one label's weighted points, for the sensitivities of `streamsvm.papers.clustered`.

Invariant: a cluster's centre is the weighted mean of exactly the points that are assigned to it. The proof of Lemma 5.3
(Tukan et al. 2020) needs this in its use of Jensen's inequality; with a raw k-means++ seed as the centre the bound does
not hold.

Sources: Alg. 1, line 5, of Tukan et al. 2020; Arthur and Vassilvitskii 2007 (seeding by D^2); Hruschka, Campello and
de Castro 2006 (the simplified silhouette, by centres instead of all pairs); Thorndike 1953 (the elbow, here the point
of the curve furthest below its chord). Sums run in numpy's own loops, never in BLAS, so that their bits do not depend
on the number of threads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from streamsvm.papers.sampling import Float, draws

ClusterRule = Literal["log", "elbow", "silhouette"]
"""How k is chosen: ceil(ln n), or by one of Appendix C's two heuristics among 1 to 2 ceil(ln n)."""

LLOYD_STEPS = 3
"""Steps of Lloyd's algorithm after seeding; each lowers the distances, and with them the sensitivities."""
BLOCK_ROWS = 4096
"""Number of rows whose differences to a centre are in memory at once."""


@dataclass(frozen=True, slots=True)
class Clusters:
    """Disjoint clusters of weighted points.

    Attributes
    ----------
    of : ndarray of shape (n,), intp
        The cluster of each point.
    weight : ndarray of shape (k,), float64
        Total weight of each cluster, positive: no cluster is empty.
    centre : ndarray of shape (k, d), float64
        Weighted mean of each cluster.
    distance : ndarray of shape (n,), float64
        Euclidean distance of each point to its cluster's centre.
    """

    of: NDArray[np.intp]
    weight: Float
    centre: Float
    distance: Float


def cluster(
    Z: Float,
    weight: Float,
    rule: ClusterRule | int,
    of_points: int,
    random: np.random.Generator,
    lloyd_steps: int = LLOYD_STEPS,
) -> Clusters:
    """Cluster the points of one label.

    Parameters
    ----------
    Z : ndarray of shape (n, d), float64
        Scaled features, n >= 1.
    weight : ndarray of shape (n,), positive
    rule : "log", "elbow", "silhouette" or a number k >= 1
    of_points : int
        Number of points of both labels together, the n of the paper's k = log n.
    random : numpy Generator
        Only `random()` is called, once per seed.
    lloyd_steps : int
        Steps of Lloyd's algorithm after seeding; 0: none.

    Returns
    -------
    Clusters
        At most k clusters, and at most as many as there are distinct points.
    """
    most = clusters_at_most(rule, of_points)
    seeding = _Seeding(Z, weight, random)
    while len(seeding.seeds) < most and seeding.add():
        pass
    of = _nearest(Z, Z[seeding.seeds[: _chosen(rule, seeding)]])[0]
    for _ in range(lloyd_steps):
        of = _nearest(Z, _means(Z, weight, of)[1])[0]
    return _finish(Z, weight, of)


def clusters_at_most(rule: ClusterRule | int, of_points: int) -> int:
    """Return k for `log` or a number; for a heuristic, the largest k that it considers."""
    if isinstance(rule, int):
        return rule
    log = max(1, math.ceil(math.log(of_points)))
    return log if rule == "log" else 2 * log


class _Seeding:
    """Draws k-means++ seeds one after another; the first k of them are a seeding for k clusters.

    Attributes
    ----------
    seeds : list of int
        Indices of the seeds.
    cost : list of float
        Weighted sum of squared distances to the nearest seed, after each seed.
    silhouette : list of float
        Weighted mean of the simplified silhouette, after each seed; 0 for one seed.
    """

    def __init__(self, Z: Float, weight: Float, random: np.random.Generator) -> None:
        self._Z, self._weight, self._random = Z, weight, random
        self._first = self._second = np.full(len(Z), np.inf)
        self.seeds: list[int] = []
        self.cost: list[float] = []
        self.silhouette: list[float] = []
        self._draw(weight)

    def add(self) -> bool:
        """Draw a seed with probability in proportion to u D^2; False if every point coincides with a seed."""
        share = self._weight * self._first
        if not share.any():
            return False
        self._draw(share)
        return True

    def _draw(self, share: Float) -> None:
        self._take(int(draws(share, np.array([self._random.random()]))[0]))

    def _take(self, seed: int) -> None:
        squared = squared_distances(self._Z, self._Z[seed])
        self._second = np.minimum(self._second, np.maximum(self._first, squared))
        self._first = np.minimum(self._first, squared)
        self.seeds.append(seed)
        self.cost.append(float((self._weight * self._first).sum()))
        self.silhouette.append(self._mean_silhouette())

    def _mean_silhouette(self) -> float:
        if len(self.seeds) == 1:
            return 0.0
        own, other = np.sqrt(self._first), np.sqrt(self._second)
        width = np.divide(other - own, other, out=np.zeros_like(own), where=other > 0)
        return float((self._weight * width).sum() / self._weight.sum())


def _chosen(rule: ClusterRule | int, seeding: _Seeding) -> int:
    """Return k, at most the number of seeds; ties go to the smaller k."""
    if rule == "elbow":
        return elbow(np.array(seeding.cost))
    if rule == "silhouette":
        return int(np.argmax(seeding.silhouette)) + 1
    return len(seeding.seeds)


def elbow(cost: Float) -> int:
    """Return the k whose cost lies furthest below the chord of the curve; `cost[0]` is the cost for k = 1."""
    if len(cost) == 1 or cost[0] <= cost[-1]:
        return 1
    along = np.linspace(0.0, 1.0, len(cost))
    return int(np.argmax(1.0 - along - (cost - cost[-1]) / (cost[0] - cost[-1]))) + 1


def squared_distances(Z: Float, centre: Float) -> Float:
    """Return |z_i - centre|^2 computed from differences, so that equal points have distance exactly 0."""
    squared = np.empty(len(Z))
    for start in range(0, len(Z), BLOCK_ROWS):
        difference = Z[start : start + BLOCK_ROWS] - centre
        squared[start : start + BLOCK_ROWS] = np.einsum("ij,ij->i", difference, difference)
    return squared


def _nearest(Z: Float, centres: Float) -> tuple[NDArray[np.intp], Float]:
    """Return the nearest centre of each point (the first, if several are), and the squared distance to it."""
    of = np.zeros(len(Z), np.intp)
    least = squared_distances(Z, centres[0])
    for index in range(1, len(centres)):
        squared = squared_distances(Z, centres[index])
        closer = squared < least
        of[closer] = index
        least[closer] = squared[closer]
    return of, least


def _means(Z: Float, weight: Float, of: NDArray[np.intp]) -> tuple[Float, Float]:
    """Return the weight, shape (k,), and the weighted mean, shape (k, d), of each cluster that is not empty."""
    order = np.argsort(of, kind="stable")
    first = np.flatnonzero(np.diff(of[order], prepend=-1))
    total = np.add.reduceat(weight[order], first)
    share = weight[order] / np.repeat(total, np.diff(first, append=len(of)))
    return total, np.add.reduceat(share[:, None] * Z[order], first, axis=0)


def _finish(Z: Float, weight: Float, of: NDArray[np.intp]) -> Clusters:
    """Drop empty clusters, number the others, and measure the distances to their means."""
    of = np.unique(of, return_inverse=True)[1]
    total, centre = _means(Z, weight, of)
    distance = np.empty(len(Z))
    for index in range(len(total)):
        own = of == index
        distance[own] = np.sqrt(squared_distances(Z[own], centre[index]))
    return Clusters(of, total, centre, distance)
