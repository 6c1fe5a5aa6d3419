"""Which record is version N: what the hash chain says, whatever strangers put into the models topic."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from consumers.models import Records, RollBack, holds_newest, perform, pin, read_catalogue, retire, set_alias
from consumers.settings import OutputConfig, Settings
from streamsvm.errors import ConfigurationError
from streamsvm.kafka import Cluster, Connection, Message, Publisher, Record, TopicSpec
from streamsvm.model import (
    Alias,
    Ancestor,
    Head,
    LinearMachine,
    Model,
    Retired,
    Version,
    encode_alias,
    encode_head,
    encode_retired,
    head_key,
    links_after,
    message as model_codec,
    pin_key,
    retired_key,
    trail,
)
from streamsvm.registry import backwards
from streamsvm.registry.aliases import aliases_in
from streamsvm.registry.anchoring import NotAnchored, reference
from streamsvm.registry.loading import load_record, load_version
from streamsvm.registry.signing import Signer
from streamsvm.registry.subscriber import ModelSubscriber
from tests.brokers.fixtures import TestBroker
from tests.consumers.command import error_of, run
from tests.kafka.foreign import delete_records
from tests.registry.test_subscriber import (
    DEADLINE_S,
    NAME,
    Trainer,
    connection as connection,
    models as models,
    version_of,
)

pytestmark = pytest.mark.enough("embedded")

NOW = datetime(2026, 1, 1, tzinfo=UTC)
STABLE = Alias(3, "ab" * 32, 7)


def forged(version: Version) -> Version:
    """Return a version that answers the other way round, with probes and hashes that fit."""
    machine = version.model.machine
    assert isinstance(machine, LinearMachine)
    turned = LinearMachine(-machine.coefficients, -machine.intercept)
    return replace(version, model=Model(version.model.scaler, turned, version.model.probability))


class Topic(Trainer):
    """A models topic whose head and links are as in production; and what strangers add to it."""

    def __init__(self, connection: Connection, models: str, signer: Signer | None = None) -> None:
        super().__init__(connection, models)
        self.head: Head | None = None
        self.hashes: list[str] = [""]
        self.offsets: list[int] = [-1]
        self.signer = signer
        self.links = True
        self._records_a_write = 1 if connection.embedded else 2

    def grow(self, count: int) -> None:
        """Publish so many more versions in one transaction of versions, and the last head and `current` in another."""
        messages: list[Message] = []
        begin = self.write(None, b"nothing") + self._records_a_write
        for _ in range(count):
            version, offset = self._next(), begin + len(messages)
            messages.append(self._message(version))
            sha256 = model_codec.sha256(messages[-1].value or b"")
            links = links_after(self.head, version.number) if self.links else ()
            self.head = Head(
                number=version.number,
                incarnation=1,
                cut=(),
                sha256=sha256,
                offset=offset,
                training_set_sha256="",
                build={},
                links=links,
            )
            self.hashes.append(sha256)
            self.offsets.append(offset)
        placed = self._publisher.publish(messages)
        assert placed == self.offsets[-count:], "another offset than was foretold"
        assert self.head is not None
        self.say(head_key(NAME), encode_head(self.head))
        self.name("current", self.head.number)

    def _next(self) -> Version:
        number = self.head.number + 1 if self.head else 1
        lineage = version_of(1).lineage
        if self.head is not None:
            links = tuple(Ancestor(link.number, link.sha256) for link in self.head.links if self.links)
            lineage = msgspec.structs.replace(lineage, parent=self.head.sha256, links=links)
        return replace(version_of(1, weight=float(number)), number=number, lineage=lineage)

    def _message(self, version: Version) -> Message:
        value = model_codec.encode(version)
        digest, extra = model_codec.sha256(value), {}
        if self.signer is not None:
            extra[model_codec.SIGNATURE_HEADER] = self.signer.sign(version.key, digest)
        headers = model_codec.headers(digest, NOW, extra)
        return Message(self.models, value, version.key.encode(), headers, partition=0)

    def name(self, alias: str, number: int) -> None:
        self.point(f"{NAME}@{alias}", Alias(number, self.hashes[number], self.offsets[number]))

    def forge(self, number: int, like: Version) -> tuple[str, int]:
        """Put a forgery under a number; return its SHA-256 and its offset."""
        evil = replace(forged(like), number=number)
        value = model_codec.encode(evil)
        sha256 = model_codec.sha256(value)
        return sha256, self.write(value, evil.key.encode(), model_codec.headers(sha256, NOW, {}))


@pytest.fixture
def topic(connection: Connection, models: str) -> Iterator[Topic]:
    with closing(Topic(connection, models)) as made:
        yield made


@pytest.fixture
def settings(models: str) -> Settings:
    return Settings(name=NAME, kafka={"bootstrap.servers": "unused:1"}, output=OutputConfig(models_topic=models))


@pytest.fixture
def records(connection: Connection, settings: Settings) -> Records:
    return Records(Cluster(connection), settings, "ann@desk", "because", NOW)


def load(connection: Connection, topic: Topic, which: int | str, **more: Any) -> Any:
    return load_version(connection, NAME, models_topic=topic.models, number=which, **more)


def held(connection: Connection, topic: Topic, which: int | str, **more: Any) -> Any:
    with ModelSubscriber(connection, NAME, models_topic=topic.models, version=which, **more) as subscriber:
        return subscriber.wait_ready(DEADLINE_S)


def performed(records: Records, decide: Callable[[], Any]) -> str:
    return perform(records.cluster, records.settings, decide)


# ------------------------------------------------------------------ wherever it stands


def test_a_number_among_hundreds_is_anchored_and_moved_to(
    connection: Connection, topic: Topic, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By reading back from the end, in one span or in several, past a forgery of a number below.

    A forgery under its own number is named.
    """
    topic.grow(300)
    topic.forge(1, version_of(1))
    for span in (512, 4):
        monkeypatch.setattr(backwards, "FIRST_SPAN", span)
        for number in (1, 2, 3, 127, 128, 129, 299, 300):
            found = load(connection, topic, number)
            assert (found.version.number, found.sha256) == (number, topic.hashes[number])
            assert found.offset == topic.offsets[number]
    monkeypatch.setattr(backwards, "FIRST_SPAN", 16)
    for number in (3, 128, 200):
        assert f"pinned to {NAME}@{number}" in performed(records, pin(records, number))
        assert f"pinned to {NAME}@{number - 1}" in performed(records, RollBack(records))
        assert f"now names {NAME}@{number}" in performed(records, set_alias(records, "stable", number))
    sha256, offset = topic.forge(150, version_of(150))
    with pytest.raises(ConfigurationError, match=f"{sha256} at offset {offset}"):
        performed(records, pin(records, 150))
    assert f"retired {NAME}@50, {NAME}@51" in performed(records, retire(records, [50, 51]))


@pytest.mark.real_broker
def test_an_old_version_in_a_topic_whose_beginning_is_gone_is_found(
    connection: Connection, topic: Topic, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With versions of a second model between, and with nothing but these at the end."""
    monkeypatch.setattr(backwards, "FIRST_SPAN", 4)
    for _ in range(30):
        topic.grow(2)
        topic.write(b"{}", b"other@1")
    for _ in range(6):
        topic.write(b"{}", b"other@2")
    delete_records(connection, topic.models, 0, topic.offsets[21])
    assert f"pinned to {NAME}@22" in performed(records, pin(records, 22))
    assert f"pinned to {NAME}@21" in performed(records, RollBack(records))
    with pytest.raises(ConfigurationError, match="no earlier good version is left"):
        performed(records, RollBack(records))
    with pytest.raises(ConfigurationError, match=f"{NAME}@20 is not in {topic.models}.*21-60"):
        performed(records, pin(records, 20))


def test_in_a_copy_of_the_topic_a_number_is_found(connection: Connection, topic: Topic, broker: TestBroker) -> None:
    """Where versions stand at other offsets, beside what others wrote."""
    topic.grow(100)
    copy = broker.name("copy")
    Cluster(broker.connection).create([TopicSpec(copy), TopicSpec(f"{copy}.aliases")])
    with closing(Publisher(connection, f"test/{copy}")) as publisher:
        publisher.start()
        for source, suffix in ((topic.models, ""), (f"{topic.models}.aliases", ".aliases")):
            copied = [
                Message(f"{copy}{suffix}", record.value, record.key, record.headers, partition=0)
                for record in Cluster(connection).read_to_end(source, 0, timeout_s=DEADLINE_S)
            ]
            others = [Message(copy, b"{}", b"other@1", partition=0)] * (0 if suffix else 300)
            publisher.publish([*others, *copied[:35], *others[:200], *copied[35:]])
    for number in (1, 2, 33, 65, 100):
        found = load_version(connection, NAME, models_topic=copy, number=number)
        assert (found.version.number, found.sha256) == (number, topic.hashes[number])
        assert found.offset != topic.offsets[number]


def test_a_topic_without_links_is_followed_by_parents(connection: Connection, topic: Topic) -> None:
    """Without links; and through the place where links begin."""
    topic.links = False
    topic.grow(20)
    assert load(connection, topic, 3).sha256 == topic.hashes[3]
    topic.links = True
    topic.grow(30)
    sha256, _ = topic.forge(3, version_of(3))
    for number in (1, 3, 20, 21, 22, 50):
        assert load(connection, topic, number).sha256 == topic.hashes[number] != sha256


# ------------------------------------------------------------------ forgeries


@pytest.mark.enough("embedded", "real")
def test_a_forged_record_is_loaded_by_no_number(connection: Connection, topic: Topic) -> None:
    """Neither once nor to be held: the one that the chain names is found, before and after it.

    Of a record that stands twice the first is taken, whatever the headers of the other are.
    """
    topic.grow(12)
    sha256, _ = topic.forge(11, version_of(11))
    genuine, value = load_record(connection, NAME, models_topic=topic.models, number=10)
    topic.write(value, f"{NAME}@10".encode(), ((model_codec.SHA256_HEADER, genuine.sha256.encode()),))
    for find in (load, held):
        assert find(connection, topic, 11).sha256 == topic.hashes[11] != sha256
        assert find(connection, topic, 12).sha256 == topic.hashes[12]
        assert find(connection, topic, 10).offset == topic.offsets[10]
    topic.grow(5)
    assert load(connection, topic, 11).sha256 == topic.hashes[11]


def test_a_move_to_a_number_of_two_values_is_refused_and_by_hash_done(
    connection: Connection, topic: Topic, records: Records
) -> None:
    """The error names both with their offsets, and which one later versions name."""
    topic.grow(12)
    sha256, offset = topic.forge(11, version_of(11))
    right, at = topic.hashes[11], topic.offsets[11]
    for alias in ("current", "stable"):

        def move(which: int | str, alias: str = alias) -> str:
            decide = pin(records, which) if alias == "current" else set_alias(records, alias, which)
            return performed(records, decide)

        with pytest.raises(ConfigurationError) as refused:
            move(11)
        for said in (f"{right} at offset {at}", f"{sha256} at offset {offset}", f"versions name the SHA-256 {right}"):
            assert said in str(refused.value)
        move(right[:12])
        assert load_version(connection, NAME, models_topic=topic.models, alias=alias).sha256 == right


def test_a_rollback_never_goes_to_a_forgery(connection: Connection, topic: Topic, records: Records) -> None:
    """It refuses, naming both values, and what to pin; readers have what they had."""
    topic.grow(12)
    sha256, offset = topic.forge(11, version_of(11))
    with pytest.raises(ConfigurationError, match=f"{sha256} at offset {offset}.*{topic.hashes[11]}"):
        performed(records, RollBack(records))
    assert load_version(connection, NAME, models_topic=topic.models).sha256 == topic.hashes[12]
    topic.forge(20, version_of(20))
    performed(records, pin(records, topic.hashes[10]))
    assert f"pinned to {NAME}@9" in performed(records, RollBack(records))


def test_a_forged_tombstone_hides_nothing(connection: Connection, topic: Topic, records: Records) -> None:
    """Not from a number, nor from a rollback."""
    topic.grow(12)
    for number in (10, 11, 12):
        topic.retire(f"{NAME}@{number}")
    for find in (load, held):
        assert find(connection, topic, 11).sha256 == topic.hashes[11]
    assert f"pinned to {NAME}@11" in performed(records, RollBack(records))
    catalogue = read_catalogue(Cluster(connection), records.settings, records.names(), holds_newest(100))
    assert catalogue.standing == list(range(1, 13))


def test_what_was_retired_is_said_by_the_aliases_topic(connection: Connection, topic: Topic, records: Records) -> None:
    """By people and by the trainer; versions before it are reached over it, a hash finds it while it is there."""
    topic.grow(12)
    performed(records, retire(records, [7]))
    with pytest.raises(ConfigurationError, match=f"version 7 of {NAME} was retired; the newest is 12"):
        load(connection, topic, 7)
    with pytest.raises(ConfigurationError, match=f"{NAME}@7 was retired"):
        performed(records, pin(records, 7))
    assert load(connection, topic, 5).sha256 == topic.hashes[5]
    assert load(connection, topic, topic.hashes[7]).version.number == 7
    assert records.names().retired == Retired(1, (), (7,))
    topic.say(retired_key(NAME), encode_retired(Retired(4, (2,), (7,))))
    assert load(connection, topic, 2).sha256 == topic.hashes[2]
    with pytest.raises(ConfigurationError, match=f"version 3 of {NAME} was retired"):
        load(connection, topic, 3)


def test_a_version_that_people_retired_before_is_known_by_the_audit_trail(
    connection: Connection, topic: Topic, records: Records
) -> None:
    """As it was written by builds whose retirements the aliases topic did not tell."""
    topic.grow(5)
    topic.retire(f"{NAME}@4")
    said = trail.VersionsRetired(name=NAME, versions=[4], by="ann@host", reason="", time="2026-01-01T00:00:00+00:00")
    entry = records.audit(f"{NAME}@4", said)
    with closing(Publisher(connection, "test/audit")) as publisher:
        publisher.start()
        publisher.publish([entry])
    assert f"pinned to {NAME}@3" in performed(records, RollBack(records))


def test_a_number_that_nothing_leads_to_is_refused_and_its_hash_is_not(
    connection: Connection, topic: Topic, records: Records
) -> None:
    """Its successors are gone and it stands alone: a forgery would look the same."""
    topic.links = False
    topic.grow(3)
    lost = topic.head
    assert lost is not None
    topic.head = msgspec.structs.replace(lost, sha256="e" * 64)
    topic.grow(2)
    said = rf"{NAME}@2 may be a forgery.*{topic.hashes[2]} at offset {topic.offsets[2]}"
    for find in (load, held):
        with pytest.raises(NotAnchored, match=said):
            find(connection, topic, 2)
        assert find(connection, topic, topic.hashes[2][:20]).sha256 == topic.hashes[2]
    with pytest.raises(ConfigurationError, match=said):
        performed(records, pin(records, 2))
    topic.name("stable", 2)
    assert load(connection, topic, 2).sha256 == topic.hashes[2], "an alias names it"
    assert load(connection, topic, 1).sha256 == topic.hashes[1], "and it names this one"


def test_what_names_no_version_is_refused(connection: Connection, topic: Topic) -> None:
    """Neither a number nor enough of a hash; a hash that is not there; two that begin alike."""
    for wrong in ("0", "-1", "x", "abc", "f" * 11, "f" * 65, 0):
        with pytest.raises(ConfigurationError, match="is not a version"):
            reference(wrong)
    assert [reference(which) for which in (7, "7", "F" * 12, "1" * 12)] == [7, 7, "f" * 12, "1" * 12]
    topic.grow(2)
    with pytest.raises(ConfigurationError, match="with a SHA-256 that begins with ffffffffffff"):
        load(connection, topic, "f" * 12)


def record_of(key: str, value: bytes) -> Record:
    return Record("models.aliases", 0, 0, key.encode(), value, (), 0, None)


@pytest.mark.parametrize("key", ["m@later#what no reader knows", "m@owner"])
def test_a_record_beside_an_alias_is_no_alias(key: str) -> None:
    """Whatever it holds: a reader without the branch that writes it neither shows it nor finds fault with it."""
    for value in (encode_alias(STABLE), b"{}", b"\xff"):
        found = aliases_in([record_of("m@current", encode_alias(STABLE)), record_of(key, value)], "m")
        assert dict(found.named) == {"m@current": STABLE}
        assert found.faults == ()


def test_the_pin_is_named() -> None:
    """It stands beside an alias, and names a version; of a model with such a mark in its name, too."""
    for name in ("m", "a#b"):
        found = aliases_in([record_of(pin_key(name), encode_alias(STABLE)), record_of(f"{name}@other", b"?")], name)
        assert dict(found.named) == {pin_key(name): STABLE}
        assert len(found.faults) == 1


# ------------------------------------------------------------------ the commands


@pytest.mark.long
@pytest.mark.real_broker
def test_every_command_withstands_the_forgery(
    connection: Connection, topic: Topic, settings: Settings, tmp_path: Any
) -> None:
    """show, export and diff give the version that was published; pin, alias and rollback move to no other."""
    topic.grow(12)
    _, genuine = load_record(connection, NAME, models_topic=topic.models, number=11)
    sha256, _ = topic.forge(11, version_of(11))
    common = ["--bootstrap-servers", str(connection.options["bootstrap.servers"]), "--name", NAME]
    common += ["--output-models-topic", settings.output.models_topic]

    def model(*words: str) -> Any:
        return run("model", *words, *common)

    out = tmp_path / "model.json"
    assert model("export", "--version", "11", "--out", str(out)).returncode == 0
    assert out.read_bytes() == genuine
    assert json.loads(model("show", "--version", "11", "--json").stdout) == json.loads(genuine)
    assert json.loads(model("diff", "11", "12", "--json").stdout)["lineage"]["follows directly"] is True
    for words in (("pin", "11"), ("pin", "11", "--alias", "stable"), ("rollback",)):
        refused = model(*words)
        assert refused.returncode == 78
        assert sha256 in error_of(refused)
        assert topic.hashes[11] in error_of(refused)
    assert sha256 in model("list").stderr
    assert model("pin", topic.hashes[11][:12]).returncode == 0
    assert load_version(connection, NAME, models_topic=topic.models).sha256 == topic.hashes[11]
