"""Raw events through the daemons: learned, verified, scored, and what is said when they are not what was declared."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from consumers.models import describe
from consumers.settings import ScoringConfig, Settings
from consumers.trainer import startup
from consumers.verify.verify import verify
from streamsvm.branches.events.features.columns import columns_of
from streamsvm.branches.events.options import recipe_from
from streamsvm.checkpoint import CheckpointDirectory, FileSystem
from streamsvm.config import CoresetConfig, SvmConfig
from streamsvm.delivery import with_recipe
from streamsvm.errors import ConfigurationError, StateError
from streamsvm.ingest import BatchScorer
from streamsvm.kafka import Cluster, Connection, Record, TopicSpec
from streamsvm.registry import Loaded, ModelSubscriber
from tests.branches.events import golden
from tests.branches.events.recipes import EVENTS, PAYMENTS, payment, payments
from tests.branches.workers.group_workers import WorkerRunning
from tests.brokers.fixtures import TestBroker
from tests.consumers.scorer.running import Running as RunningScorer, scores, stored
from tests.consumers.trainers import START_S, Running, produce, run_until, settings_for, versions
from tests.golden.model import parts_of, path_of
from tests.kafka.foreign import delete_records
from tests.registry.test_subscriber import eventually


def with_features(settings: Settings, features: dict[str, Any] = PAYMENTS, **events: Any) -> Settings:
    """Return a trainer's settings with features declared, and nothing else said of its points."""
    given = {name: getattr(settings, name) for name in settings.model_fields_set - {"points", "features", "events"}}
    return Settings(**given, features=features, events={**EVENTS, **events})


def encoded(events: Sequence[dict[str, Any]]) -> list[bytes]:
    return [json.dumps(event).encode() for event in events]


def scoring(connection: Connection, settings: Settings, partitions: int = 4, **options: Any) -> Settings:
    """Return the settings of a scorer of the trainer's versions, with its topic made."""
    topic = f"{settings.input.topic}-unlabeled"
    Cluster(connection).create([TopicSpec(topic, partitions)])
    own = ScoringConfig(topic=topic, output_topic=f"{topic}-scores", group=topic, **options)
    return Settings(name=settings.name, kafka=settings.kafka, output=settings.output, scoring=own)


@pytest.fixture
def settings(broker: TestBroker, tmp_path: Path) -> Settings:
    made = settings_for(broker.name("e"), tmp_path / "checkpoint")
    Cluster(broker.connection).create([TopicSpec(made.input.topic, 4)])
    return with_features(made)


def test_raw_events_are_learned_verified_and_scored(settings: Settings, connection: Connection) -> None:
    """By trainer, verifier, scorer and subscriber, all by the recipe that the version carries."""
    events = [payment(index) for index in range(200)]
    bad = [{**events[0], "amount": "12"}, {**events[0], "is_fraud": "yes"}]
    produce(connection, settings.input.topic, encoded([*events[:150], *bad, *events[150:]]))
    run_until(settings, connection, 202)
    found = versions(connection, settings)
    newest = found[-1]
    assert newest.recipe == payments()
    assert newest.feature_names == columns_of(payments()).names
    assert newest.labels == (False, True)
    assert newest.stream.points == newest.stream.rows - 2
    assert verify(Cluster(connection), settings).clean

    unlabeled = [{name: value for name, value in event.items() if name != "is_fraud"} for event in events]
    reading = scoring(connection, settings, pass_fields=("card.country",))
    produce(connection, reading.scoring.topic, encoded([*unlabeled, {"id": "lost"}]))
    with RunningScorer(reading, connection) as running:
        eventually(lambda: running.value("streamsvm_scored_points_total") == 200, "200 events are scored")
        eventually(lambda: len(stored(connection, reading.scoring.dead_letters)) == 1, "the other is a dead letter")
    by_id = {score["id"]: score for score in scores(connection, reading)}
    with ModelSubscriber(connection, settings.name, models_topic=settings.output.models_topic) as subscriber:
        loaded = subscriber.wait_ready(60.0)
        for event in unlabeled:
            score = by_id[event["id"]]
            answer = loaded.score(event)
            assert score["score"] == pytest.approx(answer.score, rel=1e-12, abs=1e-12)
            assert score["label"] is answer.label
            assert score["passed"] == {"card.country": event["card"]["country"]}


def test_events_of_three_labels_are_learned_verified_and_scored(settings: Settings, connection: Connection) -> None:
    """In the order of the option; any other value of the field is a dead letter that names them."""
    labels = ("ok", "review", "fraud")
    of_three = with_features(settings, label={"field": "outcome", "labels": list(labels)})
    events = [payment(index) for index in range(300)]
    for event in events:
        event["outcome"] = labels[event.pop("is_fraud") + (event["amount"] > 100)]
    produce(connection, settings.input.topic, encoded([*events, {**events[0], "outcome": "unknown"}]))
    run_until(of_three, connection, 301)
    newest = versions(connection, of_three)[-1]
    assert newest.labels == labels
    assert newest.stream.rows - newest.stream.points <= 1
    assert verify(Cluster(connection), of_three).clean
    (letter,) = stored(connection, settings.input.dead_letters)
    told = b" ".join(value or b"" for _, value in letter.headers).decode()
    assert "outcome is 'unknown'; events.label has the labels 'ok', 'review', 'fraud'" in told

    reading = scoring(connection, of_three)
    produce(connection, reading.scoring.topic, encoded(events))
    with RunningScorer(reading, connection) as running:
        eventually(lambda: running.value("streamsvm_scored_points_total") == 300, "300 events are scored")
    answers = {score["id"]: score for score in scores(connection, reading)}
    assert {len(answer["score"]) for answer in answers.values()} == {3}
    right = np.mean([answers[event["id"]]["label"] == event["outcome"] for event in events])
    assert right > 1.2 * max(np.mean([event["outcome"] == label for event in events]) for label in labels)


def test_another_recipe_can_learn_beside_the_old_one_or_in_its_place(
    settings: Settings, connection: Connection
) -> None:
    """The refusal names the option with both values and both commands; readers of the old one keep theirs."""
    produce(connection, settings.input.topic, encoded([payment(index) for index in range(100)]))
    run_until(settings, connection, 100)
    before = versions(connection, settings)
    changed = {**PAYMENTS, "channel": {"as": "category", "values": ["web"]}}
    other = with_features(settings, changed)
    with pytest.raises(StateError, match=r"features\.channel has no value 'app' any more") as refused:
        run_until(other, connection, 0)
    assert "--reset m/1" in str(refused.value)
    said = re.search(r"--name (\S+) --checkpoint-directory (\S+) --input-start (\S+)", str(refused.value))
    assert said is not None
    name, directory, start = said.groups()
    assert (name, start) == ("m-next", "earliest")
    beside = other.model_copy(
        update={"name": name, "checkpoint": settings.checkpoint.model_copy(update={"directory": Path(directory)})}
    )
    run_until(beside, connection, 100)
    following = {"models_topic": settings.output.models_topic}
    with (
        ModelSubscriber(connection, settings.name, **following) as old,
        ModelSubscriber(connection, name, **following) as new,
    ):
        assert old.wait_ready(60.0).version.key == before[-1].key
        assert new.wait_ready(60.0).version.recipe == recipe_from(changed, EVENTS)
    assert verify(Cluster(connection), settings).clean
    assert verify(Cluster(connection), beside).clean
    run_until(other, connection, 100, reset="m/1")
    found = [version for version in versions(connection, settings) if version.key.startswith("m@")]
    assert [version.number for version in found] == list(range(1, len(found) + 1))
    assert (found[0].recipe, found[-1].recipe) == (payments(), recipe_from(changed, EVENTS))


@pytest.mark.parametrize("memory", ["all", "window", "adaptive"])
def test_fields_come_and_go_without_forgetting(settings: Settings, connection: Connection, memory: str) -> None:
    """Numbers have no gap, no row is read again, `verify` makes all again, and a certificate is of all rows, as held.

    One field comes, one goes, a category gets a value; then all in another order, and a cross with a new one.
    """
    if memory != "all":
        coreset = CoresetConfig(points=400, memory=memory, **({"window": 300} if memory == "window" else {}))
        settings = settings.model_copy(update={"coreset": coreset, "svm": SvmConfig(alpha=1e-3)})
        settings = with_features(settings)
    second = {**PAYMENTS, "channel": {"as": "category", "values": ["till", "web", "app"]}}
    second["tip"] = {"as": "number", "field": "tip", "missing": "indicator"}
    del second["vip"]
    third = {**dict(reversed([one for one in second.items() if one[0] != "where"])), "where": second["where"]}
    third["tipped"] = {"as": "flag", "missing": {"constant": False}}
    made, expected = 0, []
    for recipe, more in ((PAYMENTS, {}), (second, {"tip": 2.5}), (third, {"tip": 1.5, "tipped": True})):
        own = with_features(settings, recipe)
        events = [{**payment(made + at), **more} for at in range(130)]
        produce(connection, settings.input.topic, encoded(events))
        running = run_until(own, connection, 130)
        made += 130
        expected.append(recipe_from(recipe, EVENTS))
        assert running.value("streamsvm_input_rows_total", outcome="accepted") <= 130
    found = versions(connection, settings)
    assert [version.number for version in found] == list(range(1, len(found) + 1))
    assert {version.recipe.sha256(): 0 for version in found}.keys() == {one.sha256(): 0 for one in expected}.keys()
    assert 360 <= found[-1].stream.rows <= 390
    report = verify(Cluster(connection), settings)
    assert report.clean, list(report.lines())


def test_two_changes_without_a_version_between_them_go_on_from_an_older_checkpoint(
    settings: Settings, connection: Connection
) -> None:
    """No version is of fewer rows than one before it; a checkpoint of before what was published since is refused."""
    directory = settings.checkpoint.directory
    older, recipe = directory.with_name("older"), dict(PAYMENTS)
    for at in range(0, 140, 70):
        produce(connection, settings.input.topic, encoded([payment(at + index) for index in range(70)]))
        run_until(settings, connection, 70)
        if not older.exists():
            copytree(directory, older)
    before = len(versions(connection, settings))
    rmtree(directory)
    copytree(older, directory)
    recipe["tip"] = {"as": "number", "field": "tip", "missing": "indicator"}
    with CheckpointDirectory(FileSystem(directory), 2) as checkpoints:  # as if it was killed before it read a row
        newest = next(one.snapshot for one in checkpoints.generations())
        assert newest is not None
        made, _ = with_recipe(newest, with_features(settings, recipe).models(), newest.head)
        checkpoints.save(replace(made, sequence=newest.sequence + 1))
    recipe["tax"] = {"as": "number", "field": "tax", "missing": "indicator"}
    own = with_features(settings, recipe)
    produce(connection, settings.input.topic, encoded([payment(140 + index) for index in range(70)]))
    run_until(own, connection, 140)
    found = versions(connection, settings)
    assert len(found) > before
    cuts = [version.lineage.cut[0].offset for version in found]
    assert cuts == sorted(set(cuts))
    assert verify(Cluster(connection), settings).clean
    rmtree(directory)
    copytree(older, directory)
    with pytest.raises(StateError, match="the models topic is at incarnation 3, but the checkpoint is at 1"):
        run_until(own, connection, 0)


def test_a_change_is_verified_where_retention_took_more_than_what_came_before_it(
    real_broker: TestBroker, tmp_path: Path
) -> None:
    """Of one partition; of another the window reaches back to rows of before the change."""
    connection, own = real_broker.connection, settings_for(real_broker.name("e"), tmp_path / "checkpoint")
    Cluster(connection).create([TopicSpec(own.input.topic, 2)])
    coreset = CoresetConfig(points=400, memory="window", window=200)
    own = own.model_copy(update={"coreset": coreset, "svm": SvmConfig(alpha=1e-3)})
    tipped, made = {"as": "flag", "missing": {"constant": False}}, 0
    for recipe, many, few in ((PAYMENTS, 400, 300), ({**PAYMENTS, "tipped": tipped}, 800, 20)):
        own = with_features(own, recipe)
        for partition, rows in enumerate((many, few)):
            produce(connection, own.input.topic, encoded([payment(made + at) for at in range(rows)]), partition)
            made += rows
        run_until(own, connection, many + few)
    newest = versions(connection, own)[-1]
    delete_records(connection, own.input.topic, 0, 600)
    report = verify(Cluster(connection), own, number=newest.number)
    assert report.clean, list(report.lines())


def test_a_reset_counts_and_columns_are_counted_where_a_recipe_changes(
    settings: Settings, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who wants to begin anew names the incarnation that ends, and nothing is carried over; it counts once."""
    produce(connection, settings.input.topic, encoded([payment(index) for index in range(100)]))
    run_until(settings, connection, 100)
    other = with_features(settings, {**PAYMENTS, "tip": {"as": "number", "missing": "indicator"}})
    with monkeypatch.context() as patched:
        patched.setattr(startup, "MOST_FEATURES", settings.models().points.dimension)
        with pytest.raises(ConfigurationError, match="above 55 dense features"):
            run_until(other, connection, 0)
    run_until(other, connection, 100, reset="m/1")
    run_until(other, connection, 0, reset="m/1")
    newest = versions(connection, settings)[-1]
    assert newest.model.dimension == 57
    assert "earlier" not in newest.lineage.configuration


def test_what_workers_learned_goes_on_under_another_recipe(settings: Settings, connection: Connection) -> None:
    """From an older checkpoint, too: they read no row again; one with the options of before is refused."""
    training = settings.training.model_copy(update={"policy": "latest", "from_coresets": True})
    before = with_features(settings.model_copy(update={"name": settings.input.topic, "training": training}))
    own = with_features(before, {**PAYMENTS, "tip": {"as": "number", "missing": "indicator"}})
    directory = settings.checkpoint.directory
    older = directory.with_name("older")
    for at, now in ((0, before), (130, own)):
        produce(connection, settings.input.topic, encoded([payment(at + index) for index in range(130)]))
        with Running(now, connection) as trainer:
            trainer.wait_until_started()
            if now is before:
                copytree(directory, older)
            with WorkerRunning(now, connection, ordinal=0, of=1) as worker:
                trainer.wait_until(partial(_has_learned, trainer, at + 100))
                worker.wait_for_rows(130)
            assert worker.value("streamsvm_input_rows_total", outcome="accepted") == 130
            if now is own:
                stale = WorkerRunning(before, connection, ordinal=0, of=1).__enter__()
                with pytest.raises(StateError, match=r"differs from its trainer's: features\.tip"):
                    stale.wait_until(lambda: False, START_S)
        if now is before:
            rmtree(directory)
            copytree(older, directory)
    report = verify(Cluster(connection), own)
    assert report.clean, list(report.lines())


def _has_learned(trainer: Running, rows: int) -> bool:
    return trainer.value("streamsvm_model_points_covered") >= rows


def test_events_that_drift_from_the_trainers_are_told_of_at_the_scorer(
    settings: Settings, connection: Connection
) -> None:
    """A renamed field by metric and dead letters, a changed type by dead letters; each names the field."""
    produce(connection, settings.input.topic, encoded([payment(index) for index in range(100)]))
    run_until(settings, connection, 100)
    reading = scoring(connection, settings, 1)
    topic = reading.scoring.topic
    renamed = [{("sum" if key == "amount" else key): one for key, one in payment(at).items()} for at in range(120)]
    retyped = [{**payment(at), "amount": str(payment(at)["amount"]), "vip": "no"} for at in range(5)]
    with RunningScorer(reading, connection) as running:
        produce(connection, topic, encoded(renamed))
        eventually(lambda: running.value("streamsvm_absent_fields") == 1, "amount is told to be absent")
        produce(connection, topic, encoded([*retyped, *(payment(at) for at in range(10))]))
        eventually(lambda: running.value("streamsvm_scored_points_total") == 10, "the right ones are scored")
        eventually(lambda: running.value("streamsvm_absent_fields") == 0, "amount is back")
    letters = stored(connection, reading.scoring.dead_letters)
    told = [b" ".join(value or b"" for _, value in letter.headers).decode() for letter in letters]
    assert sum("missing_field amount is missing" in one for one in told) == 120
    assert sum(bool(re.match(r"wrong_type amount is '[0-9.]+', not a number", one)) for one in told) == 5
    assert len(told) == 125


def test_a_change_log_is_learned_and_scored_and_its_deletions_are_passed_over(
    settings: Settings, connection: Connection
) -> None:
    """Counted by reason, no dead letters and no scores; a verifier reads alike, and times are the events' own."""
    settings = with_features(settings, envelope="debezium", time={"field": "ts"})
    events = [payment(index) for index in range(100)]
    changes: list[dict[str, Any]] = [
        {"before": None, "after": event, "op": "crcu"[at % 4]} for at, event in enumerate(events)
    ]
    gone = [{"before": event, "after": None, "op": "d"} for event in events[:30]]
    values: list[bytes | None] = [*encoded([*changes[:40], *gone]), *[None] * 30, *encoded(changes[40:])]
    produce(connection, settings.input.topic, values)
    run_until(settings, connection, 100)
    newest = versions(connection, settings)[-1]
    assert newest.recipe is not None
    assert newest.recipe.envelope == "debezium"
    assert newest.stream.points < newest.stream.rows
    assert 1_767_225_600_000 <= newest.stream.first_time_ms <= newest.stream.last_time_ms < 1_798_761_600_000
    assert not stored(connection, settings.input.dead_letters)
    assert verify(Cluster(connection), settings).clean

    reading = scoring(connection, settings)
    produce(connection, reading.scoring.topic, values)
    with RunningScorer(reading, connection) as running:
        eventually(lambda: running.value("streamsvm_scored_points_total") == 100, "100 events are scored")
        passed = "streamsvm_passed_over_rows_total"
        eventually(lambda: running.value(passed, reason="tombstone") == 30, "tombstones are passed over")
        assert running.value(passed, reason="delete") == 30
        assert running.value("streamsvm_input_rows_total", outcome="rejected") == 0
    assert not stored(connection, reading.scoring.dead_letters)
    assert len(scores(connection, reading)) == 100


def record(value: bytes, offset: int = 0) -> Record:
    return Record("events", 0, offset, None, value, (), None, None)


def example_event() -> dict[str, Any]:
    """Return an event that the golden recipe accepts."""
    value = json.loads(path_of("linear-events").read_bytes())
    event: dict[str, Any] = parts_of(value)["recipe"]["examples"][0]["event"]
    return event


def test_passed_fields_are_those_of_the_scores_own_event() -> None:
    """In an array with a bad row between them, and null where an event has none."""
    recipe = golden.RECIPE
    example = example_event()
    rows = [{**example, "a": {"b": 1}}, {"a": {"b": 2}}, {**example, "a": 3}, {**example, "a": {"b": [None, "x"]}}]
    version = golden.handmade_of_events("linear")
    scorer = BatchScorer(version, "", max_record_bytes=10_000, max_message_bytes=10_000, passed=("a.b",))
    scored = scorer.score([record(json.dumps(rows).encode())])
    found = [(score["row"], score["passed"]["a.b"]) for score in json.loads(scored.records[0].value)]
    assert found == [(0, 1), (2, None), (3, [None, "x"])]
    assert [one.what for one in scored.rejected[0].rejections] == ["signal.mean is missing"]
    assert scored.absences.events == 4
    assert scored.absences.by_field["signal.mean"] == 1
    assert recipe == version.recipe


def test_a_loaded_version_may_be_asked_by_several_threads() -> None:
    """What it remembers of hashes is shared, and changes no answer."""
    version = golden.handmade_of_events("linear")
    event = example_event()
    loaded = Loaded(version=version, sha256="", offset=0, loaded_at=0.0)
    events = [{**event, "beams": [f"b{index}"]} for index in range(500)]
    expected = loaded.features(events)

    def answers(_: int) -> list[Any]:
        fresh = Loaded(version=version, sha256="", offset=0, loaded_at=0.0)
        return [fresh.features(events), loaded.features(events)]

    with ThreadPoolExecutor(4) as pool:
        for answer in [one for both in pool.map(answers, range(4)) for one in both]:
            np.testing.assert_array_equal(answer, expected)


def test_the_fields_that_a_version_evaluates_are_shown() -> None:
    """With the hash of the recipe."""
    version = golden.handmade_of_events("linear")
    written = io.StringIO()
    Console(width=300, file=written).print(describe(Loaded(version=version, sha256="ab", offset=3, loaded_at=0.0)))
    assert f"signal.mean, mode, beams.0, seen, known, dm; recipe {golden.RECIPE.sha256()}" in written.getvalue()
