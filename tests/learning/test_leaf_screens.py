"""Which screens the leaves of a configuration have."""

from __future__ import annotations

from typing import Any

import pytest
from streamsvm.learning.leaf_screens import LinearScreens, screens_of

from streamsvm.config import ModelConfig, PointsConfig, SvmConfig
from streamsvm.learning import leaf_screens
from streamsvm.learning.tasks import task_of
from tests.config.sizes import sized


def config_of(labels: tuple[int, ...] = (-1, 1), kernel: Any = "linear", **coreset: Any) -> ModelConfig:
    return ModelConfig(
        points=PointsConfig(dimension=2, labels=labels),
        coreset=sized(**{"leaf_rows": 64, "bucket_points": 48, **coreset}),
        svm=SvmConfig(kernel=kernel),
    )


def kind_of(config: ModelConfig) -> type | None:
    found = screens_of(config, task_of(config))
    return None if found is None else type(found)


def test_two_labels_are_screened_by_the_trunk() -> None:
    """By a linear machine; nothing screens where no pilot can, or the leaf has room for too few."""
    assert kind_of(config_of()) is LinearScreens
    assert kind_of(config_of(kernel="rbf", structure="tree")) is None
    assert kind_of(config_of(reducer="uniform")) is None
    assert kind_of(config_of(leaf_rows=4, bucket_points=4)) is None


def test_without_the_branch_several_labels_have_no_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their leaves are short then; what is plugged in must be a kind of screens."""
    config = config_of(labels=(0, 1, 2))
    monkeypatch.setattr(leaf_screens, "plugged", lambda socket, kind: ())
    assert kind_of(config) is None
    monkeypatch.setattr(leaf_screens, "plugged", lambda socket, kind: (int,))
    with pytest.raises(TypeError, match="builtins:int is not a kind of screens"):
        kind_of(config)
