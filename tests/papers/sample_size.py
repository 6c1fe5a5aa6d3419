"""How many draws the theory asks for, from a measured total sensitivity.

Sources: Theorem 5.3 and Appendix B of Tukan, Baykal, Feldman and Rus 2020. Where we differ:

- Appendix B gives every node of a tree epsilon / (2 log n), log n being the tree's height. We take the height itself:
  (1 + epsilon / (2 h))^h <= exp(epsilon / 2) <= 1 + epsilon for epsilon <= 1. Without a tree (h = 1) epsilon stays.
- It gives delta / (2 log n) to every node, which pays for the nodes of one path only. The union is sound if *every*
  node is: h levels of a fan-in f have fewer than f^h / (f - 1) of them, so each gets delta over that. Only a logarithm
  of it enters.
- It writes d for the dimension of the range space; with the bias that is d + 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

CONSTANT = 1.0
"""The theorem's c, "sufficiently large" in the paper and determined by nobody. 1 makes sizes comparable and is a
convention, not a proof: a proven constant is larger, so a size that fails at c = 1 fails for certain."""


@dataclass(frozen=True, slots=True)
class CoresetSize:
    """An answer of the theory.

    Attributes
    ----------
    draws : int
        Independent draws that Theorem 5.3 asks for.
    points : int
        Points there are.
    """

    draws: int
    points: int

    @property
    def guaranteed(self) -> bool:
        """Whether a sample smaller than the set is enough; if not, only the whole set is."""
        return self.draws < self.points

    def holds_at(self, m: int) -> bool:
        """Tell whether m draws, or m points where there are no more, come with the guarantee."""
        return m >= min(self.draws, self.points)

    def __str__(self) -> str:
        if self.guaranteed:
            return f"m = {self.draws:,} of {self.points:,} points"
        return f"no guarantee at any m below n: the bound asks for {self.draws:,} draws from {self.points:,} points"


def coreset_size(
    t: float,
    epsilon: float,
    delta: float,
    dimension: int,
    n: int,
    levels: int = 1,
    *,
    fan_in: int = 2,
    constant: float = CONSTANT,
) -> CoresetSize:
    """Return m = c t / epsilon'^2 ((d + 1) ln t + ln(1 / delta')), Theorem 5.3 at every node of a tree.

    Parameters
    ----------
    t : float
        Total sensitivity, measured (`Sensitivities.total`); at least 1, as every sum of sensitivities is. Of a tree,
        the largest among its nodes.
    epsilon : float in (0, 1/2)
        Relative error of F allowed, for every w at once; a model trained on the coreset is then within 4 epsilon of the
        optimum (Corollary 1).
    delta : float in (0, 1)
        Probability of failure allowed.
    dimension : int
        Features d.
    n : int
        Points of the set.
    levels : int
        Reductions that a point passes at most: 1 offline, the height of a tree in a stream.
    fan_in : int
        Of the tree.
    constant : float
        The theorem's c; see `CONSTANT`.

    Raises
    ------
    ValueError
        If an argument is out of its range.
    """
    if not (t >= 1 and 0 < epsilon < 0.5 and 0 < delta < 1 and dimension >= 1 and n >= 1 and levels >= 1):
        raise ValueError(f"out of range: {t=}, {epsilon=}, {delta=}, {dimension=}, {n=}, {levels=}")
    own_epsilon = epsilon if levels == 1 else epsilon / (2 * levels)
    log_nodes = 0.0 if levels == 1 else levels * math.log(fan_in) - math.log(fan_in - 1)
    complexity = (dimension + 1) * math.log(t) + math.log(1 / delta) + log_nodes
    return CoresetSize(math.ceil(constant * t / own_epsilon**2 * complexity), n)
