"""Options of RBF machines with landmarks: what follows from them."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from consumers.trainer.startup import check_dimension
from streamsvm.branches.landmarks.landmark_pilots import seals_a_pilot
from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig, SvmConfig
from streamsvm.errors import ConfigurationError
from streamsvm.learning import naming


def config_of(**sections: Any) -> ModelConfig:
    return ModelConfig.model_validate({"points": {"dimension": 22}, "svm": {"kernel": "rbf"}, **sections})


@pytest.mark.parametrize("dimension", [1, 8, 22, 54, 500])
def test_the_default_fits_into_memory_and_a_message(dimension: int) -> None:
    """64 MB in all, and a model that a broker takes without an option of its own."""
    config = config_of(points={"dimension": dimension})
    assert config.coreset.largest_bytes(config.points) <= 64_000_000
    assert naming.largest_bytes(config) <= 1_000_000
    assert (config.coreset.max_partitions, config.coreset.train_points) == (8, 100_000)


@pytest.mark.parametrize(("memory", "leaf"), [(400, 32), (1_400, 41), (16_000, 475), (100_000, 6_187)])
def test_a_leaf_is_a_small_part_of_the_memory(memory: int, leaf: int) -> None:
    """An open leaf is empty by half on average: those points are missing where every point counts the same."""
    coreset = config_of(coreset={"memory_points": memory, "max_partitions": 1}).coreset
    assert (coreset.leaf_rows, coreset.partition_points) == (leaf, memory)


def test_a_pilot_serves_until_the_stream_has_grown_by_a_half() -> None:
    """However small its leaves are."""
    small, large = (
        CoresetConfig.model_validate({"landmarks": 8, "bucket_points": 3_100, **more})
        for more in ({"leaf_rows": 100}, {"leaf_rows": 800})
    )
    assert (seals_a_pilot(small), seals_a_pilot(large)) == (15, 2)


def test_what_is_given_stays() -> None:
    """Defaults of landmarks are for what nobody gave."""
    config = config_of(
        coreset={"max_partitions": 2, "leaf_rows": 300, "bucket_points": 700}, svm={"kernel": "rbf", "tune_points": 99}
    )
    coreset = config.coreset
    assert (coreset.max_partitions, coreset.leaf_rows, coreset.bucket_points) == (2, 300, 700)
    assert config.svm.tune_points == 99
    assert config_of(coreset={"memory_points": 8_000, "max_partitions": 1}).coreset.partition_points == 8_000


@pytest.mark.parametrize(
    ("sections", "told"),
    [
        ({"svm": {}, "coreset": {"landmarks": 64}}, "coreset.landmarks = 64, but svm.kernel = linear: "),
        ({"coreset": {"landmarks": 64, "structure": "tree"}}, "coreset.landmarks = 64, but coreset.structure = tree: "),
        ({"svm": {"landmarks": 64}}, "svm.landmarks = 64, but svm.kernel = linear: "),
        ({"svm": {"kernel": "rbf", "tune_scoring": "cost"}}, "svm.tune_scoring = cost, but svm.cost is not given"),
        ({"coreset": {"memory_bytes": 1_000}}, "coreset.memory_bytes = 1000 is too little"),
    ],
)
def test_what_has_no_meaning_is_refused(sections: dict[str, Any], told: str) -> None:
    """In a line that names the option."""
    with pytest.raises(ValidationError, match=told):
        config_of(**sections)


def test_a_start_with_too_many_features_is_refused() -> None:
    """With the reason, and what to do instead."""
    check_dimension(ModelConfig(points=PointsConfig(dimension=2_000)))
    with pytest.raises(ConfigurationError, match=r"points\.dimension is 2001, but above 2000") as refused:
        check_dimension(ModelConfig(points=PointsConfig(dimension=2_001), svm=SvmConfig(kernel="rbf")))
    assert "SGDClassifier" in str(refused.value)
