"""Options of RBF machines with landmarks: what follows from them, and that older incarnations keep their bytes."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from pydantic import ValidationError

from consumers.settings import Settings
from consumers.trainer.startup import check_dimension
from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig, SvmConfig
from streamsvm.errors import ConfigurationError
from streamsvm.learning import naming
from streamsvm.learning.partition import seals_a_pilot

OLD_RBF = "25611b484b0c3389d424a6fc6fd5016d566919bb00cfbcf0739f6844119573e2"
OLD_LINEAR = "6caf98b0f2564d8a025124e822d0b8347aecd03832925205144824eb15c307c0"
"""Hashes of the defaults for 22 features before there were landmarks."""
OLD_LANDMARKS = "6f2eb52212a3bfdbe61929f172e42ecbbb69b2426f8638c32b997c707d65128d"
"""Of an RBF machine with landmarks before points were rounded first."""


def config_of(**sections: Any) -> ModelConfig:
    return ModelConfig.model_validate({"points": {"dimension": 22}, "svm": {"kernel": "rbf"}, **sections})


def test_older_configurations_keep_their_hashes() -> None:
    """A linear one as it is, an RBF one where `none` is given or where it continues."""
    assert (
        ModelConfig(points=PointsConfig(dimension=22), coreset=CoresetConfig(band=0.0, totals=False)).sha256()
        == OLD_LINEAR
    )
    before = config_of(coreset={"landmarks": "none", "band": 0.0, "totals": False})
    assert before.sha256() == OLD_RBF
    assert config_of().sha256() != OLD_RBF
    assert config_of().continuing(before.canonical()).sha256() == OLD_RBF
    settings = Settings.model_validate({"name": "a", "points": {"dimension": 22}, "svm": {"kernel": "rbf"}})
    assert settings.continuing(before.canonical()).models().sha256() == OLD_RBF
    assert settings.continuing(config_of().canonical()).models().sha256() == config_of().sha256()


def test_an_incarnation_of_landmarks_that_began_in_double_goes_on_in_it() -> None:
    """In the options that a daemon goes on with, too, and again after that."""
    begun = config_of(svm={"kernel": "rbf", "precision": "double"}).canonical()
    assert "precision" not in begun["svm"]
    settings = Settings.model_validate({"name": "a", "points": {"dimension": 22}, "svm": {"kernel": "rbf"}})
    whole = settings.models().continuing(begun)
    assert (whole.svm.precision, whole.canonical()) == ("double", begun)
    continued = settings.continuing(begun)
    assert continued.models().canonical() == begun
    assert continued.continuing(begun).models().canonical() == begun


def test_an_incarnation_of_the_first_landmarks_goes_on_as_it_began() -> None:
    """Rounded after training, in large leaves: its hash is what it was, and the new rules can be given."""
    begun = config_of(svm={"kernel": "rbf", "round_first": False}, coreset={"leaf_parts": "none"})
    assert begun.sha256() == OLD_LANDMARKS
    new = config_of()
    assert new.svm.round_first
    assert (new.coreset.leaf_parts, begun.coreset.leaf_parts) == (32, None)
    assert new.coreset.leaf_rows < begun.coreset.leaf_rows
    assert new.continuing(begun.canonical()).sha256() == OLD_LANDMARKS
    settings = Settings.model_validate({"name": "a", "points": {"dimension": 22}, "svm": {"kernel": "rbf"}})
    continued = settings.continuing(begun.canonical())
    assert continued.models().canonical() == begun.canonical()
    assert continued.continuing(begun.canonical()).models().canonical() == begun.canonical()
    assert settings.continuing(new.canonical()).models().canonical() == new.canonical()
    given = config_of(svm={"kernel": "rbf", "round_first": True})
    assert given.continuing(begun.canonical()).svm.round_first


def test_a_configuration_is_made_again_from_its_canonical_value_and_its_file() -> None:
    """With landmarks, without them, and with all support vectors published."""
    for made in (
        config_of(),
        config_of(coreset={"landmarks": None}),
        config_of(coreset={"leaf_parts": None}),
        config_of(svm={"kernel": "rbf", "landmarks": None}),
    ):
        assert ModelConfig.of_canonical(made.canonical()).sha256() == made.sha256()
        assert ModelConfig.model_validate(tomllib.loads(made.toml())).sha256() == made.sha256()


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
    """However small its leaves are; with the first landmarks, for four leaves."""
    small, large = (CoresetConfig(leaf_parts=32, landmarks=8, leaf_rows=n, bucket_points=3_100) for n in (100, 800))
    assert (seals_a_pilot(small), seals_a_pilot(large)) == (15, 2)
    assert seals_a_pilot(CoresetConfig(landmarks=8, leaf_rows=100, bucket_points=3_100)) == 4


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
        ({"coreset": {"leaf_parts": 8, "landmarks": "none"}}, "leaf_parts = 8, but coreset.landmarks is not given: "),
        ({"svm": {"round_first": True}}, "svm.round_first is given, but svm.kernel = linear: "),
        ({"svm": {"kernel": "rbf", "precision": "double", "round_first": True}}, "svm.precision = double: "),
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
