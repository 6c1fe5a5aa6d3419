"""Options of forgetting: what goes together, what is refused and why."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig, SvmConfig
from tests.sizes import sized

POINTS = PointsConfig(dimension=8)


def model(svm: SvmConfig | None = None, **coreset: Any) -> ModelConfig:
    return ModelConfig(points=POINTS, coreset=CoresetConfig(**coreset), svm=svm or SvmConfig())


@pytest.mark.parametrize(
    "options",
    [
        {"memory": "adaptive"},
        {"memory": "window", "window_points": 100_000},
        {"memory": "decay", "half_life_s": 3_600.0, "memory_points": 10_000, "max_partitions": 1},
    ],
)
def test_the_canonical_form_is_complete(options: dict[str, Any]) -> None:
    """Who reads it has the same sizes, and the same hash; the memory is within its budget."""
    config = model(**options)
    again = ModelConfig.of_canonical(config.canonical())
    assert again.sha256() == config.sha256() != model().sha256()
    assert again.coreset.span_rows == config.coreset.span_rows
    if "memory_points" in options:
        assert config.coreset.partition_points <= 10_000


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"memory": "window"}, "neither coreset.window_points nor coreset.window_s is given"),
        (
            {"memory": "decay", "half_life_points": 9_999, "half_life_s": 1.0},
            "points = 9999, and coreset.half_life_s = 1.0",
        ),
        ({"memory": "adaptive", "window_points": 16_000}, "window_points = 16000, but coreset.memory = adaptive"),
        ({"span_rows": 2_000}, "span_rows = 2000, but coreset.memory = all: "),
        ({"memory": "window", "window_points": 1_000}, "give 16000 or more, or lower coreset.leaf_rows"),
        ({"memory": "adaptive", "span_rows": 3_000}, "not a multiple of coreset.leaf_rows = 2000: give 4000"),
        ({"memory": "adaptive", "clip_sd": 4.0}, "depends on its own rows alone"),
        ({"memory": "adaptive", "structure": "chain"}, "Remove coreset.structure"),
        ({"memory": "adaptive", "fan_in": 3}, "Remove coreset.fan_in"),
        (
            {"memory": "window", "window_points": 100_000, "memory_points": 60, "max_partitions": 1},
            r"takes \d+ a partition",
        ),
    ],
)
def test_what_has_no_meaning_is_refused(options: dict[str, Any], said: str) -> None:
    """With the reason and what to do."""
    with pytest.raises(ValidationError, match=said):
        model(**options)


def test_the_least_memory_that_is_named_is_enough() -> None:
    """A configuration with it is accepted, and holds no more."""
    with pytest.raises(ValidationError) as refused:
        model(memory="window", window_points=100_000, memory_points=20, max_partitions=1, audit_points=0)
    least = int(str(refused.value).split("which takes ")[1].split()[0])
    options: dict[str, Any] = {"memory": "window", "window_points": 100_000, "max_partitions": 1, "audit_points": 0}
    assert model(memory_points=least, **options).coreset.partition_points <= least


@pytest.mark.parametrize(
    ("leaf", "dimension", "leaves"), [(2_000, 8, 8), (2_000, 20, 8), (2_000, 40, 4), (200, 8, 2), (200, 50, 1)]
)
def test_leaves_of_few_points_a_feature_screen_fewer_rows(leaf: int, dimension: int, leaves: int) -> None:
    """Eight leaves a span from 100 points a feature on; below in proportion."""
    coreset = sized(memory="adaptive", leaf_rows=leaf)
    assert ModelConfig(points=PointsConfig(dimension=dimension), coreset=coreset).coreset.span_rows == leaves * leaf


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("dimension", [2, 40, 300])
@pytest.mark.parametrize(
    "memory",
    [
        {"memory": "window", "window_points": 60_000},
        {"memory": "decay", "half_life_points": 9_000},
        {"memory": "adaptive"},
    ],
)
def test_a_budget_is_kept_whatever_is_screened(memory: dict[str, Any], dimension: int, kernel: str) -> None:
    """Spans that are shorter, for want of points a feature or of a linear kernel, make more buckets: smaller ones."""
    points, svm = PointsConfig(dimension=dimension), SvmConfig(kernel=kernel)
    budget = 30_000_000 + 400_000 * dimension
    few = ModelConfig(points=points, svm=svm, coreset=CoresetConfig(points=20_000, **memory))
    assert few.coreset.partition_points <= 20_000
    bytes_ = ModelConfig(points=points, svm=svm, coreset=CoresetConfig(memory_bytes=budget, **memory))
    assert bytes_.coreset.largest_bytes(points) <= budget


def test_a_fixed_penalty_is_refused() -> None:
    """C is of all rows together; alpha is not."""
    with pytest.raises(ValidationError, match=r"svm.C = 1.0, but coreset.memory = adaptive.*Give svm.alpha"):
        model(SvmConfig(C=1.0), memory="adaptive")
