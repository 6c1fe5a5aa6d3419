"""Problems for solvers: small, deterministic, from the two-Gaussian stream and the bundled HTRU2."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streamsvm.datasets import load_htru2
from streamsvm.model import Float, Kernel, LinearKernel, RbfKernel
from streamsvm.points import Signs
from streamsvm.svm.problem import Problem
from tests.streams import gaussian

TEST_POINTS = 2_000


def problem_of(
    Z: Float,
    y: Signs,
    upper: Float | float = 1.0,
    kernel: Kernel | None = None,
    tolerance: float = 1e-3,
    max_iterations: int = 10**6,
) -> Problem:
    """Return the problem of some rows; linear unless a kernel is given, one bound for all of them or one each."""
    return Problem(
        Z=Z.astype(np.float64),
        y=y,
        upper=np.broadcast_to(upper, len(y)).astype(np.float64),
        kernel=kernel or LinearKernel(),
        tolerance=tolerance,
        max_iterations=max_iterations,
    )


@dataclass(frozen=True)
class Case:
    """One problem and fresh points of the same kind.

    `source` is `htru2`, `gaussian`, or `many features`: more than a small matrix product may have. `decades` is the
    range of the weights in powers of ten; 0: all equal. `box` is the mean upper bound.
    """

    source: str
    n: int
    kernel: str
    box: float
    decades: float

    def __str__(self) -> str:
        return f"{self.source}-{self.n}-{self.kernel}-box{self.box:g}-decades{self.decades:g}"

    def make(self, tolerance: float = 1e-4, max_iterations: int = 10_000_000) -> tuple[Problem, Float]:
        """Return the problem, and features to test on."""
        Z, y = _points(self.source, self.n + TEST_POINTS)
        kernel: Kernel = LinearKernel() if self.kernel == "linear" else RbfKernel(1.0 / Z.shape[1])
        upper = weights(self.n, self.decades, self.box)
        return problem_of(Z[: self.n], y[: self.n], upper, kernel, tolerance, max_iterations), Z[self.n :]


def weights(n: int, decades: float, mean: float) -> Float:
    """Return log-uniform weights over so many decades, of a given mean."""
    drawn = 10.0 ** np.random.default_rng(5).uniform(0.0, decades, n)
    return np.asarray(drawn * (mean / drawn.mean()), dtype=np.float64)


def _points(source: str, n: int) -> tuple[Float, Signs]:
    if source != "htru2":
        points = gaussian(n, seed=3, dimension=5 if source == "gaussian" else 130)
        return points.X.astype(np.float64), points.y
    X, y, _ = load_htru2()
    chosen = np.random.default_rng(0).permutation(len(y))[:n]
    Z = X[chosen].astype(np.float64)
    return (Z - Z.mean(axis=0)) / Z.std(axis=0), y[chosen]


def copies(Z: Float) -> list[Float]:
    """Return the same numbers at other places in memory: shifted by one number, and in the other order."""
    room = np.empty(Z.size + 1)
    shifted = room[1:].reshape(Z.shape)
    shifted[:] = Z
    return [Z.copy(), shifted, np.asfortranarray(Z)]
