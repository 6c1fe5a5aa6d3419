"""Compiles, while the image is built, the kernels of every kind of model, so that no container compiles them."""

from __future__ import annotations

from itertools import product
from typing import Final, Literal

from consumers.trainer import kernels
from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig, SvmConfig

DTYPES: Final[tuple[Literal["float32", "float64"], ...]] = ("float32", "float64")
KERNELS: Final[tuple[Literal["linear", "rbf"], ...]] = ("linear", "rbf")
STRUCTURES: Final[tuple[Literal["tree", "chain"], ...]] = ("tree", "chain")


def main() -> None:
    """Warm up for each combination of options that chooses other kernels."""
    for dtype, kernel, structure in product(DTYPES, KERNELS, STRUCTURES):
        points, coreset = PointsConfig(dimension=1, dtype=dtype), CoresetConfig(structure=structure)
        kernels.prepare(ModelConfig(points=points, coreset=coreset, svm=SvmConfig(kernel=kernel)), registry=True)


if __name__ == "__main__":
    main()
