"""k-means++ clusters of one label's weighted points, for the sensitivities of `streamsvm.papers.clustered`.

Invariant: a cluster's centre is the weighted mean of exactly the points that are assigned to it. The proof of Lemma 5.3
(Tukan et al. 2020) needs this in its use of Jensen's inequality; with a raw k-means++ seed as the centre the bound does
not hold.

Sources: Alg. 1, line 5, of Tukan et al. 2020; Arthur and Vassilvitskii 2007 (seeding by D^2). Sums run in numpy's own
loops, never in BLAS, so that their bits do not depend on the number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamsvm.papers.sampling import Float, draws

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


def cluster(Z: Float, weight: Float, k: int, random: np.random.Generator, lloyd_steps: int = LLOYD_STEPS) -> Clusters:
    """Cluster the points of one label.

    Parameters
    ----------
    Z : ndarray of shape (n, d), float64
        Scaled features, n >= 1.
    weight : ndarray of shape (n,), positive
    k : int
        At least 1.
    random : numpy Generator
        Only `random()` is called, once per seed.
    lloyd_steps : int
        Steps of Lloyd's algorithm after seeding; 0: none.

    Returns
    -------
    Clusters
        At most k clusters, and at most as many as there are distinct points.
    """
    seeds = [int(draws(weight, np.array([random.random()]))[0])]
    nearest = squared_distances(Z, Z[seeds[0]])
    while len(seeds) < k and (share := weight * nearest).any():
        # With probability in proportion to u D^2; no share is left once every point coincides with a seed.
        seeds.append(int(draws(share, np.array([random.random()]))[0]))
        nearest = np.minimum(nearest, squared_distances(Z, Z[seeds[-1]]))
    of = _nearest(Z, Z[seeds])
    for _ in range(lloyd_steps):
        of = _nearest(Z, _means(Z, weight, of)[1])
    return _finish(Z, weight, of)


def squared_distances(Z: Float, centre: Float) -> Float:
    """Return |z_i - centre|^2 computed from differences, so that equal points have distance exactly 0."""
    squared = np.empty(len(Z))
    for start in range(0, len(Z), BLOCK_ROWS):
        difference = Z[start : start + BLOCK_ROWS] - centre
        squared[start : start + BLOCK_ROWS] = np.einsum("ij,ij->i", difference, difference)
    return squared


def _nearest(Z: Float, centres: Float) -> NDArray[np.intp]:
    """Return the nearest centre of each point; the first, if several are."""
    of = np.zeros(len(Z), np.intp)
    least = squared_distances(Z, centres[0])
    for index in range(1, len(centres)):
        squared = squared_distances(Z, centres[index])
        closer = squared < least
        of[closer] = index
        least[closer] = squared[closer]
    return of


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
