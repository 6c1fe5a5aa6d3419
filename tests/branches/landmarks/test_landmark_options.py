"""Options of RBF machines with landmarks: what follows from them."""

from __future__ import annotations

from typing import Any

import pytest

from consumers.trainer import check_dimension
from streamsvm.branches.landmarks.landmark_pilots import seals_a_pilot
from streamsvm.config import ModelConfig, PointsConfig, SvmConfig
from streamsvm.errors import ConfigurationError
from streamsvm.learning import naming
from tests.config.sizes import sized


def config_of(**sections: Any) -> ModelConfig:
    return ModelConfig.model_validate({"points": {"dimension": 22}, "svm": {"kernel": "rbf"}, **sections})


@pytest.mark.parametrize("dimension", [1, 8, 22, 54, 500])
def test_the_default_fits_into_a_message(dimension: int) -> None:
    """A model that a broker takes without an option of its own."""
    config = config_of(points={"dimension": dimension})
    assert naming.largest_bytes(config, 64) <= 1_000_000
    assert (config.coreset.points, config.coreset.train_points) == (20_000, 100_000)


def test_a_pilot_serves_until_the_stream_has_grown_by_a_half() -> None:
    """However small its leaves are."""
    small, large = (
        config_of(coreset=sized(landmarks=8, bucket_points=3_100, leaf_rows=rows)).coreset for rows in (100, 800)
    )
    assert (seals_a_pilot(small), seals_a_pilot(large)) == (15, 2)


def test_a_start_with_too_many_features_is_refused() -> None:
    """With the reason, and what to do instead."""
    check_dimension(ModelConfig(points=PointsConfig(dimension=2_000)))
    with pytest.raises(ConfigurationError, match=r"points\.dimension is 2001, but above 2000") as refused:
        check_dimension(ModelConfig(points=PointsConfig(dimension=2_001), svm=SvmConfig(kernel="rbf")))
    assert "SGDClassifier" in str(refused.value)
