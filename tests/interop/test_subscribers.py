"""Subscribers in Python, Node.js and Java follow a live trainer, and get the same decision values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from consumers.models import Records, perform, pin, unpin
from consumers.settings import Settings
from consumers.streams import output_topics
from streamsvm.config import PointsConfig, SvmConfig
from streamsvm.datasets import load_htru2
from streamsvm.ingest import encode
from streamsvm.kafka import Cluster, Connection, TopicSpec
from streamsvm.model import Float, encode_head, head_key
from streamsvm.registry import Loaded, ModelSubscriber, Signer, TrustedKeys
from tests.branches.events.recipes import PAYMENTS, payment
from tests.branches.events.test_daemons import with_features
from tests.brokers.fixtures import TestBroker
from tests.config.sizes import sized
from tests.consumers.scorer.running import held_back
from tests.consumers.trainers import Running, produce, run_until, settings_for, versions
from tests.interop.programs import Program, command
from tests.registry.test_anchoring import Topic
from tests.registry.test_signing import new_key
from tests.registry.test_subscriber import NAME, eventually, number_of

DEADLINE_S = 120.0
AGREEMENT = 1e-9
ROWS = 6_000
LEAF_ROWS = 1_000
SEVEN = ("a", "b", "c", "d", "e", "f", "g")
SCORED_ROWS = 200
"""Rows of HTRU2 that every subscriber scores by every version, from the end of the set: none of them was learned."""


def settings_of(broker: TestBroker, directory: Path, kernel: str, *, several: bool = False) -> Settings:
    """Return a trainer's settings that give a version each thousand rows."""
    settings = settings_for(broker.name("interop"), directory, every_leaves=1)
    coreset = sized(leaf_rows=LEAF_ROWS, bucket_points=LEAF_ROWS, train_points=1_000)
    return settings.model_copy(
        update={
            "points": PointsConfig(dimension=8, labels=SEVEN if several else (-1, 1)),
            "coreset": coreset,
            "svm": SvmConfig(kernel=kernel, C=1.0, probability="sigmoid"),
        }
    )


def signed(settings: Settings, directory: Path) -> Settings:
    """Return settings of a trainer that signs, and of readers that trust its key and an older one."""
    private, public = new_key(directory)
    _, older = new_key(directory, "older")
    trusted = directory / "trusted.pem"
    trusted.write_text(older + public)
    keys = {"signing_key_file": private, "trusted_keys_file": trusted}
    return settings.model_copy(update={"output": settings.output.model_copy(update=keys)})


def commands(directory: Path, *given: str) -> dict[str, list[str]]:
    """Return how each language's subscriber is run, or skip with the reason why it cannot be."""
    return {language: command(language, directory, "", "subscriber.mjs", *given) for language in ("Node.js", "Java")}


def scene(broker: TestBroker, directory: Path) -> tuple[str, list[str]]:
    """Make the topics of models and of their aliases; return the first, and what each subscriber of it is given."""
    models, points = broker.name("models"), directory / "points.json"
    Cluster(broker.connection).create([TopicSpec(name) for name in (models, f"{models}.aliases")])
    points.write_text("[[1.0, 2.0]]")
    return models, [broker.connection.servers, models, NAME, str(points)]


def says(program: Program, what: str) -> bool:
    """Tell whether a program complained of something."""
    return what in program.complaints


def difference(found: list[float] | list[list[float]], expected: Float) -> float:
    """Return the largest difference of decision values, relative where they are beyond 1."""
    return float(np.max(np.abs(np.asarray(found) - expected) / np.maximum(1.0, np.abs(expected))))


def labels_of(settings: Settings, X: Float, y: Sequence[int]) -> Sequence[int | str]:
    """Return HTRU2's own labels, or of seven: in which seventh of the rows the first feature is."""
    if settings.points.classes == 2:
        return [int(label) for label in y]
    borders = np.quantile(X[:, 0], np.arange(1, 7) / 7)
    return [SEVEN[at] for at in np.searchsorted(borders, X[:, 0])]


def follow(
    settings: Settings, connection: Connection, points: Float, tmp_path: Path
) -> tuple[dict[int, Loaded], list[Program]]:
    """Let all subscribers follow a trainer of HTRU2; return the versions Python's saw, and the other programs."""
    X, own, _ = load_htru2()
    y = labels_of(settings, X, own)
    file = tmp_path / "points.json"
    file.write_text(json.dumps(points.tolist()))
    models, seen = settings.output.models_topic, {}
    given = [connection.servers, models, settings.name, str(file)]
    if (keys := settings.output.trusted_keys_file) is not None:
        given.append(str(keys))
    programs = commands(tmp_path, *given)
    Cluster(connection).create([TopicSpec(settings.input.topic), *output_topics(settings)])

    def note(loaded: Loaded) -> None:
        seen[loaded.version.number] = loaded

    with ExitStack() as stack:
        trainer = stack.enter_context(Running(settings, connection))
        others = [stack.enter_context(Program(name, words, tmp_path)) for name, words in programs.items()]
        trusted = TrustedKeys.of(keys)
        here = stack.enter_context(
            ModelSubscriber(connection, settings.name, models_topic=models, callback=note, trusted=trusted)
        )
        for version, start in enumerate(range(0, ROWS, LEAF_ROWS), 1):
            rows = slice(start, start + LEAF_ROWS)
            values = [encode(x, label) for x, label in zip(X[rows], y[rows], strict=True)]
            produce(connection, settings.input.topic, values)
            trainer.wait_for_rows(start + LEAF_ROWS)
            here.wait_for(version, DEADLINE_S)
            for other in others:
                other.wait_for(version, DEADLINE_S)
    return seen, others


@pytest.mark.long(keep=("linear",))
@pytest.mark.parametrize("machine", ["linear", "rbf", "linear of seven labels", "rbf of seven labels"])
def test_every_language_follows_and_agrees(real_broker: TestBroker, tmp_path: Path, machine: str) -> None:
    """Every subscriber serves every version of a live run, and scores as Python does."""
    kernel, several = machine.split()[0], machine.endswith("labels")
    settings = settings_of(real_broker, tmp_path / "checkpoint", kernel, several=several)
    if kernel == "linear" and not several:
        settings = signed(settings, tmp_path)
    points = load_htru2()[0][-SCORED_ROWS:].astype(np.float64)
    seen, others = follow(settings, real_broker.connection, points, tmp_path)
    assert sorted(seen) == list(range(1, ROWS // LEAF_ROWS + 1))
    for other in others:
        assert other.versions == sorted(seen), other.complaints
        for line in other.lines:
            loaded = seen[line["version"]]
            assert line["sha256"] == loaded.sha256
            assert difference(line["decision"], loaded.version.model.decision_function(points)) <= AGREEMENT


def test_every_language_follows_across_recipes(real_broker: TestBroker, tmp_path: Path) -> None:
    """Each version scores events by its own recipe: the newest, the one before the change that a pin names, and back.

    One field comes, one goes, and a category gets a value.
    """
    connection, settings = real_broker.connection, settings_for(real_broker.name("interop"), tmp_path / "checkpoint")
    channel = {"as": "category", "values": ["till", "web", "app"]}
    second = {**PAYMENTS, "channel": channel, "tip": {"as": "number", "missing": "indicator"}}
    del second["vip"]
    Cluster(connection).create([TopicSpec(settings.input.topic), *output_topics(settings)])
    events = [{**payment(index), "tip": index % 7} for index in range(100)]
    file = tmp_path / "points.json"
    file.write_text(json.dumps(events))
    models = settings.output.models_topic
    moves = Records(Cluster(connection), settings, "ann@here", "because", datetime(2026, 1, 1, tzinfo=UTC))
    with ExitStack() as stack:
        here = stack.enter_context(ModelSubscriber(connection, settings.name, models_topic=models))
        programs = [
            stack.enter_context(Program(language, words, tmp_path))
            for language, words in commands(tmp_path, connection.servers, models, settings.name, str(file)).items()
        ]

        def all_serve(number: int) -> int:
            """Wait until each serves this version and scores alike; return how many columns it has."""
            eventually(lambda: number_of(here) == number, f"version {number} is served", DEADLINE_S)
            loaded = here.wait_ready(DEADLINE_S)
            for program in programs:
                while not program.lines or program.lines[-1]["version"] != number:
                    program.next(DEADLINE_S, f"version {number}")
                line = program.lines[-1]
                assert line["sha256"] == loaded.sha256
                assert difference(line["decision"], loaded.decision_function(events)) <= AGREEMENT
            return len(loaded.version.feature_names)

        newest, columns = [], []
        for recipe in (PAYMENTS, second):
            produce(connection, settings.input.topic, [json.dumps(event).encode() for event in events])
            run_until(with_features(settings, recipe), connection, len(events))
            newest.append(versions(connection, settings)[-1].number)
            columns.append(all_serve(newest[-1]))
        assert columns[0] != columns[1]
        perform(moves.cluster, settings, pin(moves, newest[0]))
        assert all_serve(newest[0]) == columns[0]
        perform(moves.cluster, settings, unpin(moves))
        assert all_serve(newest[1]) == columns[1]


def test_every_language_says_why_it_waits(real_broker: TestBroker, tmp_path: Path) -> None:
    """A version that would be the first current one and is held back: the reason stands in the head record."""
    connection, (models, given) = real_broker.connection, scene(real_broker, tmp_path)
    with ExitStack() as stack:
        topic = stack.enter_context(closing(Topic(connection, models)))
        topic.say(head_key(NAME), encode_head(held_back("it knows nothing")))
        here = stack.enter_context(ModelSubscriber(connection, NAME, models_topic=models))
        said = "was held back, because it knows nothing"
        for name, words in commands(tmp_path, *given).items():
            program = stack.enter_context(Program(name, words, tmp_path))
            eventually(partial(says, program, said), said, DEADLINE_S)
        assert "version 1, the newest, was held back, because it knows nothing" in here.missing


@pytest.mark.long
def test_every_language_refuses_what_no_trusted_key_signed(real_broker: TestBroker, tmp_path: Path) -> None:
    """An unsigned version, and one that a stranger signed; the signed one after them is served."""
    connection, (models, given) = real_broker.connection, scene(real_broker, tmp_path)
    (own, public), (stranger, _) = new_key(tmp_path), new_key(tmp_path, "stranger")
    trusted = tmp_path / "trusted.pem"
    trusted.write_text(public)
    with ExitStack() as stack:
        topic = stack.enter_context(closing(Topic(connection, models)))
        programs = [
            stack.enter_context(Program(name, words, tmp_path))
            for name, words in commands(tmp_path, *given, str(trusted)).items()
        ]
        for number, key in enumerate((None, stranger, own), 1):
            topic.signer = Signer.of(key)
            topic.grow(1)
            for program in programs:
                if key is not own:
                    said = f"refused {NAME}@{number}: it is signed by none of the trusted keys"
                    eventually(lambda said=said, program=program: said in program.complaints, said, DEADLINE_S)
                else:
                    program.wait_for(number, DEADLINE_S)
                    assert program.versions == [number]
