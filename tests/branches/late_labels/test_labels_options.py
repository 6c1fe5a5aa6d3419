"""Options of late labels: what is refused by name, and what stays as it was."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from consumers.settings import Settings
from streamsvm.branches.late_labels.options import JoinConfig
from streamsvm.config import ModelConfig, PointsConfig


def settings(**sections: Any) -> Settings:
    labels = {"topic": "labels", "horizon": "36h", **sections.pop("labels", {})}
    return Settings(points=PointsConfig(dimension=2, **sections.pop("points", {})), labels=labels, **sections)


def test_a_horizon_is_given_in_words_or_seconds() -> None:
    """36h, 1.5m and plain seconds are durations; the rule's part is hashed, the topic is not."""
    assert settings().labels.horizon == 36 * 3_600.0
    assert settings(labels={"horizon": "1.5m"}).labels.horizon == 90.0
    assert settings(labels={"horizon": 20}).labels.horizon == 20.0
    made = settings().models()
    assert made.canonical()["labels"] == {"key": "id", "horizon": 129_600.0, "absent": "negative"}
    assert ModelConfig.of_canonical(made.canonical()) == made


def test_options_at_their_defaults_are_accepted_without_a_topic() -> None:
    """Whoever is handed all options of another process, as a worker is, gets that one's settings."""
    plain = Settings(points=PointsConfig(dimension=2))
    again = Settings(points=PointsConfig(dimension=2), labels=plain.labels.model_dump())
    assert again.labels == plain.labels


def test_a_rule_in_a_lineage_is_checked_as_an_option_is() -> None:
    """`verify` gives a configuration of a foreign lineage to the same checks."""
    with pytest.raises(ValidationError, match="not given"):
        ModelConfig(points=PointsConfig(dimension=2), labels=JoinConfig())
