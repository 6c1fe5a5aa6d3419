"""What follows from the points of a partition: sizes, structure, and bytes."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from pydantic import ValidationError

from streamsvm.checkpoint import encode
from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig, SvmConfig
from streamsvm.config.sizes import doubling_buckets, windowed_buckets
from streamsvm.learning import Learner
from streamsvm.points import Position
from tests.streams import gaussian, rows_of, snapshot_of


def model(dimension: int = 8, kernel: str = "linear", labels: int = 2, **coreset: Any) -> ModelConfig:
    points = PointsConfig(dimension=dimension, labels=(-1, 1) if labels == 2 else tuple(range(labels)))
    return ModelConfig(points=points, coreset=CoresetConfig(**coreset), svm=SvmConfig(kernel=kernel))


KEPT = [("tree", {}), ("chain", {}), ("chain", {"kernel": "rbf"}), ("counter", {})]


@pytest.mark.parametrize(("structure", "more"), KEPT)
@pytest.mark.parametrize("points", [66, 500, 1_000, 11_000, 66_000, 1_000_000])
def test_a_partition_keeps_its_points_and_no_more(structure: str, more: dict[str, Any], points: int) -> None:
    """Leaf, buckets and audit sample together; little is unused but for what a share leaves over."""
    sizes = model(structure=structure, points=points, **more).coreset.sizes
    held = sizes.leaf + sizes.buckets * sizes.bucket + sizes.audit
    assert held <= points
    assert held > points - 2 * (sizes.buckets + 2)
    assert sizes.audit == min(1_000, points // 11)


MEMORIES: list[dict[str, Any]] = [
    {"memory": "window", "window": 60_000},
    {"memory": "window", "window": "14d"},
    {"memory": "decay", "half_life": 9_000},
    {"memory": "decay", "half_life": "36h"},
    {"memory": "adaptive"},
]


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("dimension", [2, 40, 300])
@pytest.mark.parametrize("points", [1_000, 11_000, 48_000, 400_000])
@pytest.mark.parametrize("memory", MEMORIES)
def test_spans_keep_the_points_too(memory: dict[str, Any], points: int, dimension: int, kernel: str) -> None:
    """Spans that are shorter, for want of points a feature or of a linear kernel, make more buckets: smaller ones."""
    config = model(dimension, kernel, points=points, **memory)
    sizes = config.coreset.sizes
    held = sizes.leaf + max(sizes.leaf, sizes.bucket) + sizes.buckets * sizes.bucket
    assert held + (sizes.buckets + 1) * sizes.bucket_audit <= points
    assert sizes.span % sizes.leaf == 0
    length = config.coreset.length_rows
    assert length is None or 8 * sizes.span <= length


def test_too_few_points_for_the_buckets_are_refused_with_what_is_enough() -> None:
    """A bucket has a point at least."""
    with pytest.raises(ValidationError, match=r"coreset.points = 20 is too little for the \d+ buckets of") as refused:
        model(memory="window", window=100_000, points=20)
    enough = int(str(refused.value).split("give ")[1].split()[0])
    assert model(memory="window", window=100_000, points=enough).coreset.bucket_points >= 1


DEFAULTS = [
    ({}, "tree", 11_000),
    ({"kernel": "rbf"}, "chain", 20_000),
    ({"kernel": "rbf", "labels": 3}, "chain", 5_500),
    ({"labels": 3}, "tree", 11_000),
    ({"reducer": "uniform"}, "counter", 66_000),
    ({"memory": "adaptive"}, None, 48_000),
    ({"points": 699}, "chain", 699),
    ({"points": 700}, "tree", 700),
    ({"points": 300, "structure": "tree"}, "tree", 300),
]


@pytest.mark.parametrize(("options", "structure", "points"), DEFAULTS)
def test_kernel_and_memory_decide_what_is_not_given(options: dict[str, Any], structure: str, points: int) -> None:
    """And it is as if it had been said: the same hash."""
    config = model(**options)
    assert (config.coreset.structure, config.coreset.points) == (structure, points)
    said = {"points": points} if structure is None else {"points": points, "structure": structure}
    assert model(**{**options, **said}).sha256() == config.sha256()
    assert ModelConfig.of_canonical(config.canonical()).coreset.sizes == config.coreset.sizes
    if not options:
        assert config.coreset.sizes[:4] == (2_000, 2_000, 4, 1_000), "leaf, bucket, buckets, audit sample"


@pytest.mark.parametrize(
    ("points", "dimension", "labels", "leaves"),
    [(120_000, 20, 2, 8), (120_000, 23, 2, 6), (120_000, 20, 3, 2), (6_000, 8, 2, 2), (12_000, 50, 2, 1)],
)
def test_leaves_of_few_points_a_feature_screen_fewer_rows(
    points: int, dimension: int, labels: int, leaves: int
) -> None:
    """Eight leaves a span from 100 points a feature, and label of several, on; below in proportion."""
    sizes = model(dimension, labels=labels, memory="adaptive", points=points).coreset.sizes
    assert sizes.span == leaves * sizes.leaf


@pytest.mark.parametrize(
    ("written", "meant"),
    [(100_000, 100_000), ("100000", 100_000), ("36h", "36h"), ("1.5d", "36h"), ("336h", "14d"), ("0.25s", "0.25s")],
)
def test_a_length_is_a_number_of_rows_or_a_time(written: object, meant: object) -> None:
    """The same length has the same hash, however it is written; a file gives it back."""
    config = model(memory="window", window=written)
    assert config.coreset.window == meant
    assert ModelConfig.of_canonical(config.canonical()) == config


@pytest.mark.parametrize("structure", ["tree", "chain"])
@pytest.mark.parametrize(
    ("dimension", "partitions", "points"), [(2, 1, 60_000), (8, 4, 12_000), (60, 2, 8_000), (150, 1, 8_000)]
)
def test_bytes_are_a_bound_and_not_a_wild_one(structure: str, dimension: int, partitions: int, points: int) -> None:
    """The most that learning and a cut allocate is no more, less what a short stream leaves unused.

    A chain is full at once, so it uses a fair part of it.
    """
    config = model(dimension, structure=structure, points=points, train_points=points // 2)
    coreset = config.coreset
    bound = coreset.largest_bytes(config.points, partitions)
    rows = 4 * coreset.leaf_rows + coreset.leaf_rows // 2
    streams = [rows_of(gaussian(rows, part, dimension), part) for part in range(partitions)]
    compiled = Learner(config, {0: Position(0)}, 1 << 40)
    compiled.learn(streams[0])
    compiled.cut()
    tracemalloc.start()
    try:
        learner = Learner(config, dict.fromkeys(range(partitions), Position(0)), 1 << 40)
        for stream in streams:
            learner.learn(stream)
        learner.cut()
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert model(2, labels=3, points=8_000).coreset.largest_bytes(model(2, labels=3).points, 1) == 4_383_203
    unused = (partitions * coreset.kept_points - learner.points_held) * config.points.point_bytes
    assert most <= bound - unused
    assert structure == "tree" or most >= 0.4 * bound


@pytest.mark.parametrize("partitions", [1, 16])
@pytest.mark.parametrize("dimension", [8, 73])
def test_a_checkpoint_takes_what_is_said_and_not_much_less(dimension: int, partitions: int) -> None:
    """The largest one: all that partitions hold, and all that they held at a cut, of which nothing is left."""
    config = model(dimension)
    coreset = config.coreset
    learner = Learner(config, dict.fromkeys(range(partitions), Position(0)), 1 << 40)
    rows, held = 10 * coreset.leaf_rows - 3, []
    for first in (0, rows):
        for part in range(partitions):
            learner.learn(rows_of(gaussian(rows, part + first, dimension), part, first_offset=first))
        held.append(learner.state())
    bound = coreset.checkpoint_bytes(config.points, partitions)
    assert 0.75 * bound < len(encode(snapshot_of(held[1], pending=held[0]))) < bound


@pytest.mark.parametrize("window", [8, 100, 99_999])
def test_a_window_has_no_more_buckets_than_is_said(window: int) -> None:
    """Two a level, and those of its longest level."""
    assert windowed_buckets(window, max(1, window // 8)) <= 12
    assert windowed_buckets(window, 1) >= windowed_buckets(window, 2)
    assert doubling_buckets(window, 1) >= doubling_buckets(window, 2)
