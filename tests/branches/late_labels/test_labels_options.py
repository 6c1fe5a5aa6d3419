"""Options of late labels: what is refused by name, and what stays as it was."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from consumers.settings import Settings
from streamsvm.branches.late_labels.options import JoinConfig
from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig


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


def test_without_a_topic_there_is_no_rule_of_joining() -> None:
    """The canonical value says so."""
    plain = ModelConfig(points=PointsConfig(dimension=2))
    assert plain.canonical()["labels"] is None
    assert Settings(points=PointsConfig(dimension=2)).models().sha256() == plain.sha256()


def test_options_at_their_defaults_are_accepted_without_a_topic() -> None:
    """Whoever is handed all options of another process, as a worker is, gets that one's settings."""
    plain = Settings(points=PointsConfig(dimension=2))
    again = Settings(points=PointsConfig(dimension=2), labels=plain.labels.model_dump())
    assert again.labels == plain.labels


@pytest.mark.parametrize(
    ("sections", "told"),
    [
        ({"labels": {"horizon": "soon"}}, "'soon' is not a duration"),
        ({"labels": {"horizon": 0}}, r"labels\.horizon is not given"),
        ({"labels": {"topic": ""}}, r"labels\.horizon is given, but labels\.topic is not given"),
        ({"coreset": CoresetConfig(memory="adaptive")}, r"coreset\.memory = adaptive: .* not supported yet"),
        ({"points": {"format": "avro"}}, r"points\.format = avro: .* not supported yet"),
        ({"registry": {"url": "http://registry"}}, r"labels\.topic = labels, and registry\.url = http://registry: "),
        ({"labels": {"absent": "guess"}}, "negative"),
        ({"labels": {"key": "row"}}, "'id' or 'record'"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(sections: dict[str, Any], told: str) -> None:
    """Each refusal names the option."""
    with pytest.raises(ValidationError, match=told):
        settings(**sections)


def test_a_label_within_an_event_and_a_topic_of_labels_are_refused() -> None:
    """A declared label of an event is not passed over silently."""
    with pytest.raises(ValidationError, match=r"labels\.topic = labels, and events\.label is given"):
        Settings(
            features={"amount": {"as": "number"}},
            events={"label": {"field": "fraud", "negative": [False], "positive": [True]}},
            labels={"topic": "labels", "horizon": "1h"},
        )


def test_a_rule_in_a_lineage_is_checked_as_an_option_is() -> None:
    """`verify` gives a configuration of a foreign lineage to the same checks."""
    with pytest.raises(ValidationError, match="not given"):
        ModelConfig(points=PointsConfig(dimension=2), labels=JoinConfig())
