"""The canonical configuration: complete, strict, and the same again after it was read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import ValidationError

from consumers.loader import load
from streamsvm.config import ModelConfig
from tests.conformance.configurations import TABLE
from tests.conformance.runs import settings_of

DIMENSION: Final = 22


def of_points(**sections: Any) -> ModelConfig:
    """Return the configuration of a trainer that learns points."""
    return ModelConfig.model_validate({**sections, "points": {"dimension": DIMENSION, **sections.get("points", {})}})


RBF: Final = {"kernel": "rbf"}
OTHER: Final = {"linear": "rbf", "additive": "rbf", "rbf": "linear", "hinge": "squared_hinge", "squared_hinge": "hinge"}
KINDS: Final = {
    "plain": of_points(),
    "few points": of_points(coreset={"points": 2_000}),
    "counter": of_points(coreset={"structure": "counter"}),
    "rbf, all support vectors": of_points(svm={**RBF, "landmarks": "none"}),
    "rbf, a tree of few points": of_points(svm=RBF, coreset={"structure": "tree", "points": 8_000}),
    "three labels, balanced": of_points(points={"labels": [1, 2, 3]}, svm={**RBF, "class_weight": [1, 2, 3]}),
    "uniform, arrow, float64": of_points(
        points={"dtype": "float64", "format": "arrow"}, coreset={"reducer": "uniform", "points": 500}
    ),
    "adaptive, landmarks": of_points(svm={**RBF, "landmarks": 64}, coreset={"memory": "adaptive", "points": 30_000}),
    "decay, tuned, text": of_points(
        points={"labels": ["a", "b", "c"]}, svm={"tune": "auto"}, coreset={"memory": "decay", "half_life": 90_000}
    ),
    "costs": of_points(svm={"cost": [50, 1], "tune": "auto", "tune_scoring": "cost", "probability": "sigmoid"}),
    **{name: settings_of(name, Path()).models() for name in TABLE},
}


def read_back(config: ModelConfig) -> ModelConfig:
    """Return what a checkpoint or lineage says of a configuration."""
    return ModelConfig.of_canonical(json.loads(json.dumps(config.canonical())))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_read_back_is_the_same(kind: str) -> None:
    """In value, in hash, in every option, and in the sizes that follow."""
    config = KINDS[kind]
    again = read_back(config)
    assert again.canonical() == config.canonical()
    assert again.sha256() == config.sha256()
    assert again == config
    assert again.coreset.sizes == config.coreset.sizes


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_makes_the_same_models(kind: str, tmp_path: Path) -> None:
    """The one that a version's configuration is printed as; only the topic of labels is added to it."""
    config = KINDS[kind]
    file = tmp_path / "config.toml"
    file.write_text(config.toml())
    assert (
        load({"labels": {"topic": "labels"}} if config.label_rule else {}, file=file).models().canonical()
        == config.canonical()
    )


def test_every_option_is_in_it() -> None:
    """Whatever its value; but for what differs only after a change."""
    plain = of_points().canonical()
    for section in ("points", "coreset", "svm"):
        options = type(getattr(of_points(), section)).model_fields.keys()
        assert plain[section].keys() == options
    every = ModelConfig.model_fields.keys() - {"pilots", "earlier"}
    assert plain.keys() == every
    absent = {name for name in every if ModelConfig.model_fields[name].default is None}
    assert {name for name, value in plain.items() if value is None} == absent


@pytest.mark.parametrize("option", ["kernel", "loss"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_began_with_other_options_of_training_is_read_again(kind: str, option: str) -> None:
    """Also what follows from them, and is not in it; what is learned goes on, and set back, it is as it was."""
    config = KINDS[kind]
    given = {name: value for name, value in config.svm.model_dump(exclude_unset=True).items() if name != "landmarks"}
    given[option] = OTHER[getattr(config.svm, option)]
    own = {name: getattr(config, name) for name in config.model_fields_set - {"pilots"}}
    coreset = {name: getattr(config.coreset, name) for name in config.coreset.model_fields_set}
    made = type(config)(**own | {"svm": given, "coreset": coreset}).begun_with(config.canonical())
    read = ModelConfig.of_canonical(json.loads(json.dumps(made.canonical())))
    for same in (made, read):
        assert same.learned_sha256() == config.learned_sha256()
        assert (same.coreset.sizes, same.coreset.landmarks) == (config.coreset.sizes, config.coreset.landmarks)
        assert same.begun_with(made.canonical()).canonical() == made.canonical()
    assert (read.sha256(), read.svm.packed) == (made.sha256(), made.svm.packed)
    assert made.trained_sha256() != config.trained_sha256()
    assert config.begun_with(made.canonical()).canonical() == config.canonical()


def test_sizes_that_do_not_suit_what_learning_began_with_are_another_configuration() -> None:
    """They are compared, so that a trainer says which option differs; nothing is raised."""
    labels = {"labels": list(range(40))}
    config = of_points(points=labels, svm=RBF, coreset={"reducer": "uniform", "points": 1_000})
    begun = of_points(points=labels).canonical()
    assert config.begun_with(begun).learned_sha256() != of_points(points=labels).learned_sha256()


@pytest.mark.parametrize("kind", ["plain", "rbf", "pairs of labels", "adaptive", "events", "late labels"])
def test_a_value_that_is_not_complete_is_refused(kind: str) -> None:
    """Nothing takes the place of an option that is missing, also if it is the default, and nothing is added."""
    plain = KINDS[kind].canonical()
    with pytest.raises(ValidationError, match=r"points\.format = protobuf, but \[features\] is not given"):
        of_points(points={"format": "protobuf"})
    for section in ("points", "coreset", "svm"):
        for option in plain[section]:
            rest = {name: value for name, value in plain[section].items() if name != option}
            with pytest.raises(ValueError):
                ModelConfig.of_canonical({**plain, section: rest})
        with pytest.raises(ValidationError, match="new_option"):
            ModelConfig.of_canonical({**plain, section: {**plain[section], "new_option": 1}})
    for part in plain:
        with pytest.raises(ValueError, match=part):
            ModelConfig.of_canonical({name: value for name, value in plain.items() if name != part})
