"""Following a model: order, pins, refusals, whole swaps, restarts."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from typing import Any

import msgspec
import numpy as np
import pytest

from streamsvm.build import build
from streamsvm.config import Label
from streamsvm.errors import ConfigurationError, FatalError, TransientError
from streamsvm.kafka import Cluster, Connection, Message, Publisher, Record, Tail, TopicSpec
from streamsvm.model import (
    Alias,
    Ancestor,
    LinearMachine,
    Model,
    Retired,
    Scaler,
    StreamSummary,
    Version,
    encode_alias,
    encode_retired,
    linked,
    message as model_codec,
    pin_key,
    retired_key,
)
from streamsvm.registry.anchoring import NotAnchored
from streamsvm.registry.loading import REASONS, Loaded, NoModel, RefusedMessage, load_version
from streamsvm.registry.subscriber import ModelSubscriber
from tests import deadline
from tests.brokers.choice import FORCE
from tests.brokers.fixtures import TestBroker
from tests.brokers.jvm import CannotRun, JvmBroker
from tests.golden.model import handmade

pytestmark = pytest.mark.enough("real")

DEADLINE_S = 60.0
NAME = "pulsar"
CURRENT = f"{NAME}@current"
CHAINED = 64
"""Versions of greater numbers name no others: each would have to be encoded for the next."""


def version_of(
    number: int, *, name: str = NAME, dimension: int = 2, labels: tuple[Label, Label] = (-1, 1), weight: float = 0.0
) -> Version:
    """Return a linear version whose coefficients and intercept all equal its number, or `weight` if given.

    Those of few arguments name the hashes of those before them, as published versions do.
    """
    value = weight or float(number)
    model = Model(Scaler.identity(dimension), LinearMachine(np.full(dimension, value), value))
    golden, plain = handmade("linear"), name == NAME and number <= CHAINED
    fit = replace(golden.fit, objective=1.5, dual_objective=1.4)
    stream = StreamSummary(
        rows=100 * number,
        points=90 * number,
        weight=90.0 * number,
        class_weight=(45.0, 45.0),
        first_time_ms=0,
        last_time_ms=1,
    )
    lineage = msgspec.structs.replace(
        golden.lineage,
        parent=hash_of(number - 1) if plain and number > 1 else None,
        topic="labeled",
        cut=(),
        base=(),
        configuration={},
        build=build(),
        links=tuple(Ancestor(one, hash_of(one)) for one in linked(number)) if plain else (),
    )
    more = {"feature_names": (), "fit": fit, "stream": stream, "lineage": lineage, "audit": None}
    return replace(golden, name=name, number=number, model=model, labels=labels, **more)


@cache
def hash_of(number: int) -> str:
    """Return the SHA-256 of a version of no other arguments."""
    return model_codec.sha256(model_codec.encode(version_of(number)))


@pytest.mark.parametrize("labels", [(-1, 1), ("noise", "pulsar"), (False, True), (0, "yes")])
def test_a_loaded_version_answers_in_the_users_labels(labels: tuple[Label, Label]) -> None:
    """As they stand in the records, type included; what cannot be scored is refused."""
    loaded = Loaded(version=version_of(3, labels=labels), sha256="ab", offset=0, loaded_at=0.0)
    told = loaded.predict([[1.0, 1.0], [-5.0, 1.0], [1.0, -2.0]]).tolist()
    assert told == [labels[1], labels[0], labels[0]]
    assert [type(label) for label in told] == [type(labels[1]), type(labels[0]), type(labels[0])]
    assert loaded.predict([]).tolist() == []
    assert loaded.decision_function(np.zeros((2, 2))).tolist() == [3.0, 3.0]
    with pytest.raises(ValueError, match="2 features expected, 1 given"):
        loaded.predict([[1.0]])
    with pytest.raises(ConfigurationError, match="no probabilities"):
        loaded.predict_proba([[1.0, 2.0]])


def test_options_alone_stand_for_a_connection_and_without_a_broker_a_reader_says_so() -> None:
    """Wherever a reader wants a connection; what is neither is told what is wanted."""
    nobody = {"bootstrap.servers": "127.0.0.1:1"}
    with ModelSubscriber(nobody, NAME, quiet_s=1.0) as waiting:
        assert waiting.loaded is None
        eventually(lambda: waiting.missing == "no broker answered at 127.0.0.1:1 for 1 s", "it has waited for long")
        assert waiting.last_heard is None
        with pytest.raises(NoModel, match=r"no broker answered at 127\.0\.0\.1:1"):
            waiting.wait_ready(0.05)
    with pytest.raises(
        ConfigurationError, match=r"connection is of type str.*Pass a Connection, or librdkafka options"
    ):
        ModelSubscriber("localhost:1", NAME)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"bootstrap\.servers is not given"):
        load_version({}, NAME)


class Trainer:
    """Publishes versions and moves aliases as the real one does, and damages them where a test says so."""

    def __init__(self, connection: Connection, topic: str) -> None:
        self._publisher = Publisher(connection, f"test/{topic}")
        self._publisher.start()
        self.models = topic

    def close(self) -> None:
        self._publisher.close()

    def publish(
        self,
        version: Version,
        *,
        key: str = "",
        value: bytes | None = None,
        header: str = "",
        named: bool = True,
        extra: Mapping[str, str] | None = None,
    ) -> Alias:
        """Publish a version and move `current` to it; what is given replaces the right key, value or header."""
        right = model_codec.encode(version)
        digest = model_codec.sha256(right)
        headers = model_codec.headers(header or digest, datetime(2026, 1, 1, tzinfo=UTC), extra or {})
        stored = right if value is None else value
        message = Message(self.models, stored, (key or version.key).encode(), headers, partition=0)

        def pointers(offsets: Sequence[int]) -> list[Message]:
            alias = Alias(version.number, digest, offsets[0])
            return [self._alias(f"{version.name}@current", encode_alias(alias))] if named else []

        return Alias(version.number, digest, self._publisher.publish([message], pointers)[0])

    def publish_hashed(self, value: bytes, number: int, *, key: str = "") -> Alias:
        """Publish arbitrary bytes as a version, with every hash right."""
        digest = model_codec.sha256(value)
        headers = ((model_codec.SHA256_HEADER, digest.encode()),)
        alias = Alias(number, digest, self.write(value, (key or f"{NAME}@{number}").encode(), headers))
        self.point(CURRENT, alias)
        return alias

    def retire(self, key: str) -> int:
        """Write a tombstone to the models topic, as strangers can, and return its offset."""
        return self.write(None, key.encode())

    def point(self, key: str, alias: Alias | bytes | None) -> None:
        """Write an alias record; None is a tombstone."""
        value = encode_alias(alias) if isinstance(alias, Alias) else alias
        self.say(key, value)

    def say(self, key: str, value: bytes | None) -> None:
        """Write any record of the aliases topic."""
        self._publisher.publish([self._alias(key, value)])

    def write(self, value: bytes | None, key: bytes, headers: Sequence[tuple[str, bytes]] = ()) -> int:
        """Write what anyone may who may write to the models topic, and return its offset."""
        return self._publisher.publish([Message(self.models, value, key, tuple(headers), partition=0)])[0]

    def pin(self, alias: Alias | None) -> None:
        self.point(pin_key(NAME), alias)

    def _alias(self, key: str, value: bytes | None) -> Message:
        return Message(f"{self.models}.aliases", value, key.encode(), partition=0)


def eventually(holds: Callable[[], bool], what: str, timeout_s: float = DEADLINE_S) -> None:
    """Wait until something holds, or fail."""
    deadline.eventually(holds, what, timeout_s)


def number_of(subscriber: ModelSubscriber) -> int:
    loaded = subscriber.loaded
    return loaded.version.number if loaded else 0


@pytest.fixture
def connection(broker: TestBroker) -> Connection:
    """A connection whose reads answer soon: the embedded broker keeps an idle fetch for its whole wait."""
    return broker.connect(fetch_wait_max_ms=10)


@pytest.fixture
def models(broker: TestBroker) -> str:
    """A models topic with its aliases and its audit trail, all empty."""
    name = broker.name("models")
    compacted = {"cleanup.policy": "compact"}
    Cluster(broker.connection).create(
        [TopicSpec(name), TopicSpec(f"{name}.aliases", config=compacted), TopicSpec(f"{name}.audit")]
    )
    return name


@pytest.fixture
def trainer(connection: Connection, models: str) -> Iterator[Trainer]:
    with closing(Trainer(connection, models)) as made:
        yield made


@pytest.fixture
def subscriber(connection: Connection, models: str) -> Iterator[ModelSubscriber]:
    with ModelSubscriber(connection, NAME, models_topic=models, dimension=2, patience_s=0.0) as started:
        yield started


# ---------------------------------------------------------------- following


def test_versions_are_followed_in_order(trainer: Trainer, subscriber: ModelSubscriber) -> None:
    """Each version that is published is served, newest last, with the coordinates of its own record."""
    for number in range(1, 6):
        alias = trainer.publish(version_of(number))
        loaded = subscriber.wait_for(number, DEADLINE_S)
        assert (loaded.version.number, loaded.sha256, loaded.offset) == (number, alias.sha256, alias.offset)
        np.testing.assert_array_equal(subscriber.model.decision_function(np.ones((1, 2))), [3.0 * number])
    assert subscriber.missing == ""
    assert subscriber.refused == 0


def test_updates_begin_with_what_serves_and_end_when_nothing_comes(
    trainer: Trainer, subscriber: ModelSubscriber
) -> None:
    """The iterator yields the serving version, then each newer one, and ends after its timeout, or with a close."""
    trainer.publish(version_of(1))
    subscriber.wait_ready(DEADLINE_S)
    updates = subscriber.updates(DEADLINE_S)
    assert next(updates).version.number == 1
    trainer.publish(version_of(2))
    assert next(updates).version.number == 2
    assert [loaded.version.number for loaded in subscriber.updates(0.05)] == [2]
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(list, subscriber.updates())
        subscriber.close()
        assert [loaded.version.number for loaded in waiting.result(DEADLINE_S)] in ([], [2])
    assert number_of(subscriber) == 2, "the loaded version stays"


def test_the_alias_that_is_followed_is_one_of_many_records(
    connection: Connection, models: str, trainer: Trainer, subscriber: ModelSubscriber
) -> None:
    """Heads, owners and other models change nothing; an alias set by people is followed, whatever `current` is."""
    first = trainer.publish(version_of(1))
    trainer.publish(version_of(9, name="quasar"))
    trainer.point(f"{NAME}@head", b"{}")
    trainer.point("", b"no key at all")
    trainer.publish(version_of(2))
    assert subscriber.wait_for(2, DEADLINE_S).version.key == f"{NAME}@2"
    assert subscriber.refused == 0
    trainer.point(f"{NAME}@stable", first)
    with ModelSubscriber(connection, NAME, models_topic=models, alias="stable") as following:
        assert following.wait_ready(DEADLINE_S).version.number == 1
    for alias in ("head", "owner", "current#pin", "", "7"):
        with pytest.raises(ConfigurationError, match="is not a valid alias"):
            ModelSubscriber(connection, NAME, models_topic=models, alias=alias)


# ---------------------------------------------------------------- pins


def test_a_pin_wins_and_unpinning_returns_to_current(trainer: Trainer, subscriber: ModelSubscriber) -> None:
    """While there is a pin it serves, whatever is published; its tombstone gives `current` back.

    A pin on what serves, and its removal, leave the very same object in place.
    """
    first = trainer.publish(version_of(1))
    second = trainer.publish(version_of(2))
    loaded = subscriber.wait_for(2, DEADLINE_S)
    trainer.pin(second)
    trainer.pin(None)
    trainer.point(CURRENT, b"unreadable, so that we know how far it has read")
    eventually(lambda: subscriber.refused == 1, "all was read")
    assert subscriber.loaded is loaded
    trainer.pin(first)
    eventually(lambda: number_of(subscriber) == 1, "the pin serves")
    trainer.publish(version_of(3))
    other = trainer.publish(version_of(4))
    trainer.pin(other)
    eventually(lambda: number_of(subscriber) == 4, "the pin moved, over version 3")
    trainer.publish(version_of(5))
    trainer.pin(None)
    eventually(lambda: number_of(subscriber) == 5, "unpinned")


def test_a_pin_is_obeyed_from_the_start(connection: Connection, models: str, trainer: Trainer) -> None:
    """A subscriber that starts reads to the end: it serves what is pinned, or the newest, and nothing before it."""
    first = trainer.publish(version_of(1))
    trainer.pin(first)
    for number in range(2, 31):
        trainer.publish(version_of(number))
    seen: list[int] = []
    with ModelSubscriber(
        connection, NAME, models_topic=models, callback=lambda loaded: seen.append(loaded.version.number)
    ) as pinned:
        assert pinned.wait_ready(DEADLINE_S).version.number == 1
        trainer.pin(None)
        assert pinned.wait_for(30, DEADLINE_S).version.number == 30
        eventually(lambda: len(seen) == 2, "both callbacks")
    assert seen == [1, 30]
    with ModelSubscriber(connection, NAME, models_topic=models) as unpinned:
        assert unpinned.wait_ready(DEADLINE_S).version.number == 30


# ---------------------------------------------------------------- refusals


def bytes_of(number: int = 2, old: bytes = b"", new: bytes = b"", **changes: Any) -> bytes:
    """Return a version's bytes, of which the first of some are others."""
    value = model_codec.encode(version_of(number, **changes))
    assert old in value
    return value.replace(old, new, 1)


def damaged() -> bytes:
    return bytes_of(2, b"2.0", b"3.0")


def point_nowhere(trainer: Trainer) -> None:
    trainer.point(CURRENT, Alias(2, "0" * 64, 1_000))


WRONG = "f" * 64
BAD: dict[str, tuple[str, Callable[[Trainer], object]]] = {
    "the value is damaged": ("hash_mismatch", lambda t: t.publish(version_of(2), value=damaged())),
    "value and header": (
        "hash_mismatch",
        lambda t: t.publish(version_of(2), value=damaged(), header=model_codec.sha256(damaged())),
    ),
    "the header is another's": ("hash_mismatch", lambda t: t.publish(version_of(2), header=WRONG)),
    "the alias has another hash": (
        "hash_mismatch",
        lambda t: t.point(CURRENT, Alias(2, WRONG, t.publish(version_of(2), named=False).offset)),
    ),
    "another name": ("foreign", lambda t: t.publish_hashed(bytes_of(name="quasar"), 2)),
    "another number": ("foreign", lambda t: t.publish_hashed(bytes_of(7), 2)),
    "another key": ("foreign", lambda t: t.publish_hashed(bytes_of(), 2, key="quasar@2")),
    "no key": ("foreign", lambda t: t.publish_hashed(bytes_of(), 2, key=" ")),
    "another record": ("foreign", lambda t: t.point(CURRENT, replace_number(t.publish(version_of(2), named=False), 1))),
    "cut off": ("undecodable", lambda t: t.publish_hashed(bytes_of()[:-40], 2)),
    "too deep": ("undecodable", lambda t: t.publish_hashed(b"[" * 5_000, 2)),
    "a label twice": ("undecodable", lambda t: t.publish(version_of(2, labels=(1, 1)))),
    "another dimension": ("wrong_dimension", lambda t: t.publish(version_of(2, dimension=5))),
    "no record": ("record_missing", point_nowhere),
    "a tombstone": ("record_missing", lambda t: t.point(CURRENT, Alias(1, "0" * 64, t.retire(f"{NAME}@1")))),
    "no alias": ("alias_unreadable", lambda t: t.point(CURRENT, b'{"number": 2}')),
    "a negative offset": ("alias_unreadable", lambda t: t.pin(Alias(2, "0" * 64, -1))),
}


def replace_number(alias: Alias, number: int) -> Alias:
    return Alias(number, alias.sha256, alias.offset)


@pytest.mark.embedded_broker
@pytest.mark.parametrize("what", BAD)
def test_a_bad_message_never_replaces_a_good_model(
    trainer: Trainer,
    subscriber: ModelSubscriber,
    caplog: pytest.LogCaptureFixture,
    what: str,
) -> None:
    """What is damaged, foreign or unfit is counted and said once; the old version serves until the next good one."""
    reason, spoil = BAD[what]
    trainer.publish(version_of(1))
    serving = subscriber.wait_ready(DEADLINE_S)
    with caplog.at_level(logging.WARNING, "streamsvm.registry.subscriber"):
        spoil(trainer)
        eventually(lambda: subscriber.refusals == {reason: 1}, f"refused as {reason}")
        assert subscriber.loaded is serving
        trainer.publish(version_of(3))
        assert subscriber.wait_for(3, DEADLINE_S).version.number == 3
    assert subscriber.refused == 1
    said = [record.getMessage() for record in caplog.records if "refused the message at models" in record.getMessage()]
    assert len(said) == 1
    assert f"{NAME}@1 stays in use" in said[0]
    assert reason in REASONS


def test_what_comes_late_is_waited_for(broker: TestBroker, trainer: Trainer, subscriber: ModelSubscriber) -> None:
    """Before anything is published it says what is missing; an alias may be visible before its record is."""
    eventually(lambda: "has no alias pulsar@current" in subscriber.missing, "it says what is missing")
    eventually(lambda: subscriber.connected, "it is connected")
    ahead = version_of(2)
    first = trainer.publish(version_of(1))
    subscriber.wait_ready(DEADLINE_S)
    offset = first.offset + (1 if broker.kind == "embedded" else 2)  # a commit takes an offset too
    trainer.point(CURRENT, Alias(2, model_codec.sha256(model_codec.encode(ahead)), offset))
    eventually(lambda: "there is no record at" in subscriber.missing, "it is missed")
    trainer.publish(ahead, named=False)
    assert subscriber.wait_for(2, DEADLINE_S).offset == offset


def test_with_nothing_good_there_is_no_model(connection: Connection, models: str, trainer: Trainer) -> None:
    """A subscriber whose only version is bad says why it has none, instead of serving it."""
    trainer.publish_hashed(bytes_of()[:-40], 2)
    with ModelSubscriber(connection, NAME, models_topic=models) as waiting:
        eventually(lambda: waiting.refused == 1, "refused")
        with pytest.raises(NoModel, match=r"was loaded within 0.05 s: .* is not a streamsvm.model message"):
            waiting.wait_ready(0.05)
        with pytest.raises(NoModel, match="no version of pulsar is loaded yet"):
            _ = waiting.model
        assert waiting.loaded is None
        assert waiting.age_s is None


# ---------------------------------------------------------------- concurrency


def test_concurrent_scoring_sees_only_whole_versions(trainer: Trainer, subscriber: ModelSubscriber) -> None:
    """Four threads that score during many swaps only ever see a version's own coefficients, intercept and hash."""
    versions = 25
    trainer.publish(version_of(1))
    subscriber.wait_ready(DEADLINE_S)
    hashes = {number: model_codec.sha256(model_codec.encode(version_of(number))) for number in range(1, versions + 1)}
    stop = threading.Event()
    faults: list[str] = []
    seen: list[set[int]] = []

    def score() -> None:
        x, numbers, newest = np.ones((3, 2)), set(), 0
        while not stop.is_set():
            loaded = subscriber.loaded
            assert loaded is not None
            number = loaded.version.number
            scores = loaded.version.model.decision_function(x)
            if set(scores) != {3.0 * number} or loaded.sha256 != hashes[number] or number < newest:
                faults.append(f"{number} after {newest}: {scores} {loaded.sha256}")
            newest = number
            numbers.add(number)
        seen.append(numbers)

    threads = [threading.Thread(target=score) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(2, versions + 1):
        trainer.publish(version_of(number))
        subscriber.wait_for(number, DEADLINE_S)
    stop.set()
    for thread in threads:
        thread.join()
    assert faults == []
    assert len(set().union(*seen)) > versions // 2, "the threads saw many swaps"


def test_a_callback_that_raises_is_logged_and_changes_nothing(
    connection: Connection, models: str, trainer: Trainer, caplog: pytest.LogCaptureFixture
) -> None:
    """An error in the callback never ends the following; the age of what serves is measured on the given clock."""

    def fail(loaded: Loaded) -> None:
        raise RuntimeError(f"cannot bear {loaded.version.key}")

    now = [1_000.0]
    trainer.publish(version_of(1))
    with ModelSubscriber(connection, NAME, models_topic=models, callback=fail, clock=lambda: now[0]) as following:
        assert following.wait_ready(DEADLINE_S).loaded_at == 1_000.0
        now[0] = 1_007.5
        assert following.age_s == 7.5
        trainer.publish(version_of(2))
        assert following.wait_for(2, DEADLINE_S).version.number == 2
    assert "a callback of the subscriber of pulsar failed" in caplog.text
    assert "cannot bear pulsar@1" in caplog.text


# ---------------------------------------------------------------- trouble


def test_following_goes_on_after_an_interruption(
    connection: Connection, models: str, trainer: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What may pass is retried: the aliases are read again, what serves is kept, and newer versions are found."""
    trainer.publish(version_of(1))
    poll, breaks = Tail.poll, [True, True]

    def interrupted_twice(tail: Tail, *given: Any) -> list[Record]:
        if breaks:
            breaks.pop()
            raise TransientError("the broker went away")
        return poll(tail, *given)

    monkeypatch.setattr(Tail, "poll", interrupted_twice)
    with ModelSubscriber(connection, NAME, models_topic=models) as following:
        loaded = following.wait_ready(DEADLINE_S)
        eventually(lambda: not breaks and following.connected, "it follows again")
        eventually(lambda: following.missing == "", "it has what is wanted")
        assert following.loaded is loaded, "the same version was not loaded again"
        trainer.publish(version_of(2))
        assert following.wait_for(2, DEADLINE_S).version.number == 2


def test_a_fatal_error_is_raised_from_every_accessor(
    connection: Connection, models: str, trainer: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What no retry mends is kept, and told to whoever asks."""
    trainer.publish(version_of(1))

    def broken(*_: Any) -> list[Record]:
        raise FatalError("the client cannot go on")

    monkeypatch.setattr(Tail, "poll", broken)
    with ModelSubscriber(connection, NAME, models_topic=models) as ended:
        asks: list[Callable[[], object]] = [
            lambda: ended.wait_for(99, DEADLINE_S),
            lambda: ended.wait_ready(DEADLINE_S),
            lambda: ended.loaded,
            lambda: ended.model,
            lambda: next(ended.updates(DEADLINE_S)),
        ]
        for ask in asks:
            with pytest.raises(FatalError, match="the client cannot go on"):
                ask()
        assert not ended.connected


@contextmanager
def restartable_broker() -> Iterator[JvmBroker]:
    """Run a broker of one's own that can be killed and started again on the same data."""
    if os.environ.get(FORCE) == "none":
        pytest.skip(f"no real broker wanted: {FORCE}=none")
    try:
        broker = JvmBroker()
        broker.start()
    except CannotRun as error:
        pytest.skip(str(error))
    try:
        yield broker
    finally:
        broker.stop()


@pytest.mark.long
def test_a_broker_that_restarts_is_followed_on() -> None:
    """While the broker is away the model serves and `connected` is false; afterwards newer versions are loaded."""
    with restartable_broker() as broker:
        connection = Connection(options={"bootstrap.servers": broker.bootstrap_servers}, request_timeout_s=5.0)
        Cluster(connection).create([TopicSpec("models"), TopicSpec("models.aliases")])
        with closing(Trainer(connection, "models")) as before:
            before.publish(version_of(1))
        quiet, said = f"no broker answered at {connection.servers} for 2 s; {NAME}@1 serves on", list[str]()
        with ModelSubscriber(connection, NAME, quiet_s=2.0, on_waiting=said.append) as following:
            following.wait_ready(DEADLINE_S)
            eventually(lambda: following.connected, "it is connected")
            broker.kill()
            eventually(lambda: not following.connected, "it notices")
            eventually(lambda: following.missing == quiet, "it says so after a while")
            assert number_of(following) == 1
            broker.start()
            eventually(lambda: following.connected, "it is connected again")
            eventually(lambda: following.missing == "", "it says so")
            assert said[-2:] == [quiet, ""]
            with closing(Trainer(connection, "models")) as after:
                after.publish(version_of(2))
            assert following.wait_for(2, DEADLINE_S).version.number == 2
            assert following.refused == 0


@pytest.mark.real_broker
def test_a_reader_may_come_before_all_that_it_reads(broker: TestBroker) -> None:
    """It names what is missing, each once, and serves when all is there."""
    models, said = broker.name("models"), list[str]()
    cluster = Cluster(broker.connection)
    with ModelSubscriber(broker.connection, NAME, models_topic=models, on_waiting=said.append) as subscriber:
        for topic in (models, f"{models}.aliases"):
            missing = f"topic {topic} does not exist at {broker.connection.servers}"
            eventually(lambda missing=missing: subscriber.missing.startswith(missing), missing)
            cluster.create([TopicSpec(topic)])
        eventually(lambda: "has no alias pulsar@current" in subscriber.missing, "the first version is missing")
        with closing(Trainer(broker.connection, models)) as trainer:
            trainer.publish(version_of(1))
        assert subscriber.wait_ready(DEADLINE_S).version.number == 1
        assert subscriber.last_heard is not None
        eventually(lambda: said[-1:] == [""], "nothing is missing")
    assert len(said) == len(set(said)) == 4, said


def test_what_an_applications_check_refuses_is_not_served(
    connection: Connection, models: str, trainer: Trainer
) -> None:
    """The version before it serves on; a version that passes replaces it."""

    def check(loaded: Loaded) -> None:
        if loaded.version.number == 2:
            raise ValueError("the field channel is not sent yet")

    trainer.publish(version_of(1))
    with ModelSubscriber(connection, NAME, models_topic=models, check=check) as subscriber:
        subscriber.wait_ready(DEADLINE_S)
        trainer.publish(version_of(2))
        eventually(lambda: subscriber.refusals == {"not_wanted": 1}, "refused")
        assert subscriber.missing == f"refused {NAME}@2: the field channel is not sent yet"
        assert number_of(subscriber) == 1
        trainer.publish(version_of(3))
        assert subscriber.wait_for(3, DEADLINE_S).version.number == 3
        assert subscriber.missing == ""


# ---------------------------------------------------------------- one version


def test_one_version_can_be_loaded_by_alias_or_number(connection: Connection, models: str, trainer: Trainer) -> None:
    """Without a number the pin comes first, then `current`; a number, or a hash, is looked up in the models topic."""
    aliases = [trainer.publish(version_of(number)) for number in (1, 2, 3)]
    assert load_version(connection, NAME, models_topic=models).version.number == 3
    trainer.pin(aliases[0])
    assert load_version(connection, NAME, models_topic=models).version.number == 1
    second = load_version(connection, NAME, models_topic=models, number=2)
    assert (second.version.number, second.sha256, second.offset) == (2, aliases[1].sha256, aliases[1].offset)
    assert load_version(connection, NAME, models_topic=models, number=second.sha256[:12]).version.number == 2


def test_a_version_that_is_not_there_is_named_with_the_newest(
    connection: Connection, models: str, trainer: Trainer
) -> None:
    """The error says what was asked for and what there is."""
    with pytest.raises(ConfigurationError, match=f"{models}.aliases has no alias pulsar@current"):
        load_version(connection, NAME, models_topic=models)
    with pytest.raises(
        ConfigurationError, match=f"pulsar has no version 7; {models}.aliases names no version of pulsar"
    ):
        load_version(connection, NAME, models_topic=models, number=7)
    trainer.publish(version_of(20, name="quasar"))
    for number in range(1, 6):
        trainer.publish(version_of(number))
    with pytest.raises(ConfigurationError, match="pulsar has no version 7; the newest is 5"):
        load_version(connection, NAME, models_topic=models, number=7)
    trainer.retire(f"{NAME}@3")
    assert load_version(connection, NAME, models_topic=models, number=3).version.number == 3, "anyone can write that"
    trainer.say(retired_key(NAME), encode_retired(Retired(1, (), (3,))))
    with pytest.raises(ConfigurationError, match="version 3 of pulsar was retired; the newest is 5"):
        load_version(connection, NAME, models_topic=models, number=3)


def test_a_damaged_version_is_not_shown(connection: Connection, models: str, trainer: Trainer) -> None:
    """Loading one version checks it as following does."""
    trainer.publish(version_of(2), value=damaged())
    with pytest.raises(RefusedMessage, match="its header says"):
        load_version(connection, NAME, models_topic=models)
    with pytest.raises(NotAnchored, match="no longer holds that record, only other values under its number"):
        load_version(connection, NAME, models_topic=models, number=2)
    point_nowhere(trainer)
    with pytest.raises(RefusedMessage, match=r"there is no record at .*\[0\]@1000, where pulsar@2 should be"):
        load_version(connection, NAME, models_topic=models)
