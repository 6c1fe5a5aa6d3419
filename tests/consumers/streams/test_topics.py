"""`streamsvm topics create`: what it makes is fit, and what it finds is judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumers.host import Health
from consumers.streams.topics import OutputWatch, check_output, output_topics, unfit, unfit_input, watched_outputs
from streamsvm.errors import ConfigurationError, TransientError
from streamsvm.kafka import Cluster, TopicInfo, TopicSpec
from tests.brokers.fixtures import TestBroker
from tests.consumers.command import error_of, run
from tests.consumers.recreated import recreate
from tests.consumers.trainers import settings_for
from tests.deadline import eventually
from tests.kafka import foreign

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
        (AUDIT, 1, {"retention.bytes": "1000"}, "retention.bytes is 1000, not -1"),
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
def test_what_the_broker_does_not_tell_or_heed_is_not_judged(spec: TopicSpec) -> None:
    """The embedded broker tells nothing, and gives four partitions; a default for age is none to compaction."""
    assert unfit(spec, TopicInfo(spec.name, None, (0, 1, 2, 3))) == []
    aged = TopicInfo(spec.name, "id", (0,), {"cleanup.policy": "compact", "retention.ms": "1000"})
    assert unfit(spec, aged) == [] or spec in (AUDIT, LETTERS)


@pytest.mark.parametrize(
    ("lost", "promise"), [(MODELS, "every version"), (ALIASES, "a pin holds"), (AUDIT, "which data made which model")]
)
def test_a_start_refuses_a_topic_that_would_break_a_promise(lost: TopicSpec, promise: str) -> None:
    """It names the setting and the promise."""
    settings = settings_for("t", Path("unused"))
    described = {one.name: TopicInfo(one.name, "id", (0,), one.config) for one in (MODELS, ALIASES, AUDIT, LETTERS)}
    assert check_output(settings, described) == []
    config = {"cleanup.policy": "compact,delete" if lost != AUDIT else "delete", "retention.ms": "45000"}
    described[lost.name] = TopicInfo(lost.name, "id", (0,), config)
    with pytest.raises(ConfigurationError, match=f"{lost.name} is unfit: .*{promise}"):
        check_output(settings, described)


def test_what_becomes_of_outputs_is_told_while_the_daemon_works(real_broker: TestBroker, tmp_path: Path) -> None:
    """Settings that change, and topics that are made again; the warning goes when its reason does."""
    cluster, settings = Cluster(real_broker.connection), settings_for(real_broker.name("watched"), tmp_path)
    cluster.create(output_topics(settings))
    health = Health(stuck_after_s=60.0)
    watched = watched_outputs(settings)
    watch, late = (OutputWatch(settings, cluster, each, watched) for each in (health, Health(stuck_after_s=60.0)))
    (models, _), (aliases, _) = watched[:2]

    def warnings() -> dict[str, str]:
        watch.look()
        found: dict[str, str] = health.healthy()[1].get("warnings", {})
        return found

    assert warnings() == {}
    foreign.set_option(real_broker.connection, aliases.name, "cleanup.policy", "compact,delete")
    eventually(lambda: "a pin holds" in warnings().get(f"topic {aliases.name}", ""), "a warning", 20.0)
    foreign.set_option(real_broker.connection, aliases.name, "cleanup.policy", "compact")
    eventually(lambda: warnings() == {}, "no warning", 20.0)
    recreate(real_broker.connection, models.name)
    eventually(lambda: "made again" in warnings().get(f"topic {models.name}", ""), "a warning", 20.0)
    late.look()
    with pytest.raises(TransientError, match="made again"):  # before its first look
        late.refuse_made_again(models.name)
    # As a broker with auto.create.topics.enable makes it for a client that asks.
    assert "cleanup.policy is delete, not compact" in health.ready()[1]["waiting_for"][f"topic {models.name}"]
    foreign.set_option(real_broker.connection, models.name, "cleanup.policy", "compact")
    eventually(
        lambda: bool(warnings()) and not health.ready()[1]["waiting_for"].get(f"topic {models.name}"), "fit", 20.0
    )


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


def test_a_scorers_topics_are_created_where_scoring_is_configured(real_broker: TestBroker) -> None:
    """By the environment as by a file: scores and progress as many partitions as the points have, and dead letters."""
    connection, name = real_broker.connection, real_broker.name
    points, scores, labels, source, model = map(name, ("points", "scores", "labels", "in", "m"))
    command = ["topics", "create", "--output-models-topic", name("models"), "--input-topic", source]
    command += ["--name", model, "--bootstrap-servers", str(connection.options["bootstrap.servers"])]
    scoring = {"STREAMSVM_SCORING__TOPIC": points, "STREAMSVM_SCORING__OUTPUT_TOPIC": scores}
    alone = run(*command, "--labels-topic", labels, "--labels-horizon", "60")
    assert alone.returncode == 0, alone.stderr
    assert f"created  {labels}.dlq\n" in alone.stdout
    assert f"missing  {labels}: the producers of the labels must create it" in alone.stdout
    assert scores not in alone.stdout
    command += ["--training-from-coresets", "true"]
    early = run(*command, **scoring)
    assert early.returncode == 0, early.stderr
    assert f"missing  {points}: the producers of the points must create it; then run this again" in early.stdout
    cluster = Cluster(connection)
    cluster.create([TopicSpec(points, 3), TopicSpec(source, 2)])
    made = run(*command, **scoring)
    assert made.returncode == 0, made.stderr
    expected = {scores: 3, f"{scores}.progress": 3, f"{points}.dlq": 1, f"{model}.coresets": 2}
    for topic, partitions in expected.items():
        assert f"created  {topic}\n" in made.stdout, made.stdout
        assert len(cluster.describe(topic).partitions) == partitions
    assert "exists " in run(*command, **scoring).stdout
