"""How far a model scored its input stands beside the scores: what its group says is a hint, whoever says it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from consumers import constants
from consumers.settings import Settings
from streamsvm.errors import ConfigurationError
from streamsvm.kafka import Cluster, Connection, TopicSpec
from tests.consumers.scorer.running import Running as Scoring, points, scores, settings_for
from tests.consumers.trainers import changed, produce
from tests.kafka import foreign
from tests.registry.test_subscriber import NAME, Trainer, eventually, version_of

pytestmark = pytest.mark.real_broker


@pytest.fixture
def scored(connection: Connection) -> Settings:
    """Settings of a scorer that has scored ten points, and has stopped."""
    settings = settings_for(connection, partitions=1)
    publish(connection, settings)
    produce(connection, settings.scoring.topic, points(range(10)))
    score(connection, settings, 10)
    return settings


@pytest.fixture
def said() -> Iterator[list[Any]]:
    with capture_logs() as logs:
        yield logs


def publish(connection: Connection, settings: Settings) -> None:
    with closing(Trainer(connection, settings.output.models_topic)) as trainer:
        trainer.publish(version_of(1))


def score(connection: Connection, settings: Settings, count: int, reset: str = "") -> None:
    """Let a scorer score so many points, and no more, and stop."""
    with Scoring(settings, connection, reset_scores=reset) as running:
        eventually(lambda: running.value("streamsvm_scored_points_total") >= count, f"{count} are scored")
        eventually(lambda: running.value("streamsvm_input_lag_records", partition="0") == 0, "nothing waits")
        assert running.value("streamsvm_scored_points_total") == count


def ids_of(connection: Connection, settings: Settings) -> list[int]:
    return sorted(one["id"] for one in scores(connection, settings))


def events(said: list[Any]) -> set[str]:
    return {one["event"] for one in said}


def left(connection: Connection, settings: Settings) -> str:
    """Wait until the group has no member; return its name."""
    group = settings.scoring.group
    eventually(lambda: foreign.members(connection, group) == 0, "the group is empty")
    return group


def delete_group(connection: Connection, settings: Settings) -> None:
    foreign.delete_group(connection, left(connection, settings))


def set_back(connection: Connection, settings: Settings) -> None:
    foreign.commit(connection, left(connection, settings), settings.scoring.topic, 0, 3, "")


def set_ahead(connection: Connection, settings: Settings) -> None:
    foreign.commit(connection, left(connection, settings), settings.scoring.topic, 0, 15, "")


@pytest.mark.parametrize("happens", [delete_group, set_back, set_ahead])
def test_what_happens_to_the_group_changes_no_score(
    happens: Any, connection: Connection, scored: Settings, said: list[Any]
) -> None:
    """Deleted, as when it expires, or moved by a person, who is told."""
    produce(connection, scored.scoring.topic, points(range(10, 20)))
    happens(connection, scored)
    score(connection, scored, 10)
    assert ids_of(connection, scored) == list(range(20))
    assert ("position_ignored" in events(said)) == (happens is not delete_group)


def test_another_name_of_the_group_changes_no_score(connection: Connection, scored: Settings) -> None:
    """The record is the model's, whatever its group is called."""
    produce(connection, scored.scoring.topic, points(range(10, 20)))
    score(connection, changed(scored, "scoring", group=f"{scored.scoring.group}-renamed"), 10)
    assert ids_of(connection, scored) == list(range(20))


def test_a_group_that_two_models_share_serves_each(connection: Connection, scored: Settings, said: list[Any]) -> None:
    """One after the other: each has a score of each point, in its own topic of scores."""
    other = changed(scored, "scoring", output_topic=f"{scored.scoring.output_topic}-b")
    other = other.model_copy(update={"name": "other"})
    with closing(Trainer(connection, other.output.models_topic)) as trainer:
        trainer.publish(version_of(1, name="other"))
    score(connection, other, 10)
    assert "position_of_another_model" in events(said)
    produce(connection, scored.scoring.topic, points(range(10, 20)))
    score(connection, scored, 10)
    score(connection, other, 10)
    assert ids_of(connection, scored) == ids_of(connection, other) == list(range(20))


def test_a_group_serves_one_model_at_a_time(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two at once would each score a part; the later one waits for who may have gone, and then ends."""
    monkeypatch.setattr("streamsvm.kafka.group_slots.OTHERS_LEFT_AFTER_S", 1.0)
    settings = settings_for(connection, partitions=1)
    publish(connection, settings)
    of_a, of_b = (replace(connection, client_id=f"streamsvm-{name}-scorer") for name in "ab")
    with Scoring(settings, of_a) as running:
        running.wait_until(lambda: foreign.members(connection, settings.scoring.group) == 1)
        other = Scoring(settings, of_b).__enter__()
        eventually(other.ended, "the later one ends")
        failure, other.failure = other.failure, None
    assert isinstance(failure, ConfigurationError)
    assert "has members of another model: streamsvm-a-scorer-" in str(failure)


def test_scores_begin_anew_on_purpose_once(connection: Connection, scored: Settings) -> None:
    """From the first record; the same option at a later start does nothing; the next one begins where a tool says."""
    score(connection, scored, 10, reset=f"{NAME}/1")
    assert ids_of(connection, scored) == sorted([*range(10), *range(10)])
    produce(connection, scored.scoring.topic, points(range(10, 20)))
    score(connection, scored, 10, reset=f"{NAME}/1")
    set_ahead(connection, scored)
    score(connection, scored, 5, reset=f"{NAME}/2")
    assert ids_of(connection, scored) == sorted([*range(10), *range(20), *range(15, 20)])


def test_a_group_is_believed_where_the_progress_was_deleted(connection: Connection, scored: Settings) -> None:
    """The topic is empty, and the group names this model."""
    foreign.delete_topic(connection, scored.scoring.progress)
    produce(connection, scored.scoring.topic, points(range(10, 20)))
    score(connection, scored, 10)
    assert ids_of(connection, scored) == list(range(20))


def test_a_topic_that_forgets_progress_is_refused(connection: Connection) -> None:
    """By its policy, before anything is scored."""
    settings = settings_for(connection, partitions=1)
    Cluster(connection).create([TopicSpec(settings.scoring.progress, 1, config={"cleanup.policy": "delete"})])
    with pytest.raises(ConfigurationError, match=r"cleanup\.policy is delete, not compact"):
        Scoring(settings, connection).__enter__().wait_until(lambda: False, 20.0)


def test_what_becomes_of_the_topics_that_its_promises_rest_on_is_told(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In both probes, while the scorer works on; a warning goes when its reason does."""
    monkeypatch.setattr(constants, "WATCH_INTERVAL_S", 0.1)
    settings = settings_for(connection, partitions=1)
    aliases, progress = settings.output.aliases_topic, settings.scoring.progress
    for topic in (settings.output.models_topic, aliases):
        foreign.set_option(connection, topic, "cleanup.policy", "compact")
    publish(connection, settings)
    with Scoring(settings, connection) as running:

        def tells(topic: str, what: str) -> None:
            def told() -> bool:
                probes = (running.health.healthy()[1], running.health.ready()[1])
                warnings = [probe.get("warnings", {}) for probe in probes]
                return all({*one} == {f"topic {topic}"} and what in one[f"topic {topic}"] for one in warnings)

            eventually(told, what)

        eventually(lambda: running.health.ready()[0], "it is ready")
        assert "warnings" not in running.health.ready()[1]
        foreign.set_option(connection, progress, "cleanup.policy", "delete")
        tells(progress, "cleanup.policy is delete, not compact")
        tells(progress, "It breaks a promise: each row is scored once")
        foreign.set_option(connection, progress, "cleanup.policy", "compact")
        eventually(lambda: "warnings" not in running.health.ready()[1], "the warning goes")
        foreign.set_option(connection, aliases, "cleanup.policy", "delete")
        tells(aliases, "a pin holds")
        foreign.set_option(connection, aliases, "cleanup.policy", "compact")
        eventually(lambda: "warnings" not in running.health.ready()[1], "the warning goes")
        foreign.delete_topic(connection, progress)
        Cluster(connection).create([TopicSpec(progress, config={"cleanup.policy": "compact"})])
        tells(progress, "made again: of all that was written it holds what came since")
        produce(connection, settings.scoring.topic, points(range(3)))
        eventually(lambda: running.value("streamsvm_scored_points_total") == 3, "it scores on")
