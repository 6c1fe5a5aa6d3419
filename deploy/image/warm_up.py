"""Compiles, while the image is built, the kernels of every kind of model, so that no container compiles them."""

from __future__ import annotations

from itertools import product
from typing import Final, Literal

from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig, SvmConfig
from streamsvm.ingest import json_scan
from streamsvm.learning.learner import warm_up
from streamsvm.quality import prequential

DTYPES: Final[tuple[Literal["float32", "float64"], ...]] = ("float32", "float64")
KERNELS: Final[tuple[Literal["linear", "rbf"], ...]] = ("linear", "rbf")
STRUCTURES: Final[tuple[Literal["tree", "chain"], ...]] = ("tree", "chain")


def main() -> None:
    """Warm up for each combination of options that chooses other kernels."""
    for dtype, kernel, structure in product(DTYPES, KERNELS, STRUCTURES):
        points, coreset = PointsConfig(dimension=1, dtype=dtype), CoresetConfig(structure=structure)
        warm_up(ModelConfig(points=points, coreset=coreset, svm=SvmConfig(kernel=kernel)))
    for dtype in DTYPES:
        numpy_dtype = PointsConfig(dimension=1, dtype=dtype).numpy_dtype
        prequential.warm_up(numpy_dtype)
        json_scan.warm_up(numpy_dtype)


if __name__ == "__main__":
    main()
