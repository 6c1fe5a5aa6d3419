"""Streams of labeled points for the tests of the coreset, and partitions that learn them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamsvm.config import ModelConfig, PointsConfig, SvmConfig
from streamsvm.coreset.buckets import Moments
from streamsvm.coreset.partition import Partition, PartitionState
from streamsvm.coreset.pilot import Measured, measured
from streamsvm.points import LookedUp, Points, Position, Rows
from tests.config.sizes import sized

Float = NDArray[np.float64]


def mixture(
    n: int, d: int = 3, labels: int = 2, seed: int = 0, *, dtype: str = "float32", decades: float = 0.0
) -> Points:
    """Return noisy labels of a linear rule, which is the same for each seed; weights span so many decades."""
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, d)) * np.linspace(1.0, 20.0, d) + 5.0
    rule = np.random.default_rng(d).standard_normal((d, labels)) / np.linspace(1.0, 20.0, d)[:, None]
    scores = (X - 5.0) @ rule / np.sqrt(d)
    best = (scores + random.gumbel(size=(n, labels))).argmax(axis=1)
    y = 2 * best - 1 if labels == 2 else best
    weight = 10.0 ** random.uniform(-decades / 2, decades / 2, n) if decades else np.ones(n)
    return Points(X.astype(dtype), y.astype(np.int8), weight)


def rows_of(points: Points, accepted: NDArray[np.bool_] | None = None) -> Rows:
    """Lay points out as rows, three a record, with times that jump back and that every fifth record lacks."""
    n = len(points)
    offset = np.arange(n) // 3
    times = np.where(offset % 5 == 0, -1, 1_000 + (offset * 7_919) % 1_009)
    return Rows(
        partition=0,
        offset=offset,
        row=np.arange(n) % 3,
        last=np.arange(n) % 3 == 2,
        times=LookedUp.of(times),
        accepted=np.ones(n, np.bool_) if accepted is None else accepted,
        points=points,
        leader_epoch=offset // 50,
    )


def config_of(d: int, labels: int = 2, leaf: int = 120, bucket: int = 120, **options: Any) -> ModelConfig:
    """Return a configuration with a leaf and up to four buckets of so many points."""
    names = (-1, 1) if labels == 2 else tuple(range(labels))
    svm = SvmConfig(**{key: options.pop(key) for key in ("class_weight", "C") if key in options})
    return ModelConfig(
        points=PointsConfig(dimension=d, labels=names, dtype=options.pop("dtype", "float32")),
        coreset=sized(
            leaf_rows=leaf,
            bucket_points=bucket,
            train_points=64,
            **{key: options.pop(key) for key in ("structure", "reducer") if key in options},
        ),
        svm=svm,
        seed=options.pop("seed", 11),
    )


def batches(rows: Rows, partition: Partition, size: int, start: int = 0) -> Iterator[Rows]:
    """Yield rows from `start` on, so many at a time, or fewer where the open leaf is full before."""
    while start < len(rows):
        stop = min(start - start % size + size, len(rows), start + partition.missing)
        yield rows.slice(start, stop)
        start = stop


def learned(rows: Rows, config: ModelConfig, size: int = 1_000, number: int = 0) -> Partition:
    """Return a partition that has learned rows in batches of a size."""
    partition = Partition(number, Position(0), config)
    for batch in batches(rows, partition, size):
        partition.add(batch)
    return partition


def flat(state: PartitionState) -> dict[str, bytes | int | tuple[int, ...]]:
    """Return every value of a state under its path, arrays as their bytes."""
    found: dict[str, Any] = {}

    def walk(path: str, value: Any) -> None:
        if isinstance(value, np.ndarray):
            found[path] = value.dtype.str, value.shape, np.ascontiguousarray(value).tobytes()
        elif hasattr(value, "__dataclass_fields__"):
            for name in value.__dataclass_fields__:
                walk(f"{path}.{name}", getattr(value, name))
        elif isinstance(value, tuple) and any(not isinstance(each, int) for each in value):
            for at, each in enumerate(value):
                walk(f"{path}.{at}", each)
        else:
            found[path] = value

    walk("state", state)
    return found


def measure(points: Points, labels: int = 2, seed: int = 3, **svm: object) -> Measured:
    """Return points under the pilot of themselves."""
    seen = Moments.zero(points.dimension, labels).add(points)
    random = np.random.default_rng(seed)
    found = measured(points, seen.weight, seen, SvmConfig.model_validate(svm), random)
    assert found is not None
    return found
