"""`streamsvm topics create`: what it makes is fit, and what it finds is judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumers.streams.topics import output_topics, unfit, unfit_input
from streamsvm.kafka import Cluster, TopicInfo, TopicSpec
from tests.brokers.fixtures import TestBroker
from tests.consumers.command import error_of, run
from tests.consumers.trainers import settings_for

MODELS, ALIASES, AUDIT, LETTERS = output_topics(settings_for("t", Path("unused")))


def test_topics_as_they_are_made_are_fit(real_broker: TestBroker, tmp_path: Path) -> None:
    """No fault is found in any of them, whatever the broker adds to their settings."""
    specs = output_topics(settings_for(real_broker.name("fit"), tmp_path))
    assert len(Cluster(real_broker.connection).create(specs)) == 4
    for spec in specs:
        assert unfit(spec, Cluster(real_broker.connection).describe(spec.name)) == []


@pytest.mark.parametrize(
    ("spec", "partitions", "config", "said"),
    [
        (MODELS, 3, {"cleanup.policy": "compact"}, "the topic has 3 partitions"),
        (MODELS, 1, {"cleanup.policy": "delete"}, "cleanup.policy is delete, not compact"),
        (AUDIT, 1, {"cleanup.policy": "delete", "retention.ms": "604800000"}, "retention.ms is 604800000, not -1"),
        (MODELS, 1, {"retention.bytes": "1000"}, "retention.bytes is 1000, not -1"),
        (ALIASES, 1, {"cleanup.policy": "delete"}, "cleanup.policy is delete, not compact"),
        (ALIASES, 1, {"cleanup.policy": "compact,delete"}, "cleanup.policy is compact,delete, not compact"),
    ],
)
def test_a_topic_that_would_lose_something_is_unfit(
    spec: TopicSpec, partitions: int, config: dict[str, str], said: str
) -> None:
    """One fault, which names the setting, what it is and what it must be."""
    (fault,) = unfit(spec, TopicInfo(spec.name, "id", tuple(range(partitions)), config))
    assert said in fault


@pytest.mark.parametrize("spec", [MODELS, ALIASES, AUDIT, LETTERS])
def test_what_the_broker_does_not_tell_is_not_judged(spec: TopicSpec) -> None:
    """The embedded broker tells nothing and gives every topic four partitions."""
    assert unfit(spec, TopicInfo(spec.name, None, (0, 1, 2, 3))) == []


def test_a_compacted_input_is_unfit() -> None:
    """In any combination: what compaction removes cannot be read again."""
    assert unfit_input(TopicInfo("in", "id", (0,), {"cleanup.policy": "compact,delete"}))
    assert unfit_input(TopicInfo("in", "id", (0,), {"cleanup.policy": "delete"})) == []


def test_the_command_creates_checks_and_says(real_broker: TestBroker) -> None:
    """Status 0 and a line a topic; then, with one that is unfit, status 78 and its fault."""
    connection, models, source = real_broker.connection, real_broker.name("models"), real_broker.name("in")
    command = ["topics", "create", "--output-models-topic", models, "--input-topic", source]
    servers = ["--bootstrap-servers", str(connection.options["bootstrap.servers"])]
    made = run(*command, *servers)
    assert made.returncode == 0, made.stderr
    assert f"created  {models}\n" in made.stdout
    assert f"missing  {source}" in made.stdout
    Cluster(connection).create([TopicSpec(source, 1, config={"cleanup.policy": "compact"})])
    again = run(*command, *servers)
    assert again.returncode == 78
    assert f"exists   {models}\n" in again.stdout
    assert f"{source}: cleanup.policy is compact: an input topic must keep every record" in error_of(again)
