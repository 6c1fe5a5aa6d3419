"""Services in Python, Node.js and Java: what may come before what, what may go away, and what may be wrong.

Each variation runs a program of each language beside the others, all of one pair of topics on a real broker.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from streamsvm.kafka import Cluster, Connection, TopicSpec
from streamsvm.model import Alias, encode_head, head_key, message as model_codec
from tests.brokers.fixtures import TestBroker
from tests.consumers.scorer.running import held_back
from tests.interop.programs import Program, command
from tests.kafka import foreign
from tests.registry.test_subscriber import BAD, CURRENT, NAME, Trainer, eventually, restartable_broker, version_of

LANGUAGES: Final = ("Python", "Node.js", "Java")
DEADLINE_S: Final = 60.0
SOON_S: Final = 15.0
"""Within which a version that comes after an outage is served; 5 on a machine that does nothing else."""
QUIET_S: Final = 5
"""After which a reader says that no broker answers."""
REFUSAL: Final = re.compile("refused|alias|no record")


class Day:
    """Programs that follow one model.

    Parameters
    ----------
    connection : Connection
    models : str
        Topic of versions.
    programs : mapping of language to Program
    """

    def __init__(self, connection: Connection, models: str, programs: Mapping[str, Program]) -> None:
        self.connection, self.models = connection, models
        self.aliases = f"{models}.aliases"
        self.cluster = Cluster(connection)
        self.failures: dict[str, str] = {}
        self._programs = programs

    def each(self, holds: Callable[[Program], bool], what: str, timeout_s: float = DEADLINE_S) -> None:
        """Wait until something holds of each language that has not failed before; note those of which it does not."""
        for language, program in self._programs.items():
            if language not in self.failures:
                try:
                    eventually(lambda program=program: holds(program), what, timeout_s)
                except AssertionError:
                    self.failures[language] = (
                        f"not so: {what}. It served {program.versions} and said: {program.complaints}"
                    )

    def says(self, what: str) -> None:
        """Wait until each says something of what is missing or wrong."""
        self.each(lambda program: what in program.complaints, f"it says {what!r}")

    def serves_at_last(self, number: int) -> None:
        """Wait until each serves a version, whatever it has served before."""
        self.each(lambda program: program.seen[-1:] == [number], f"it serves {number}")

    def serves(self, *numbers: int, within_s: float = DEADLINE_S) -> None:
        """Wait until each has served just these versions, in this order."""
        self.each(lambda program: program.seen == list(numbers), f"it serves {numbers}", within_s)

    def create(self, *topics: str) -> None:
        """Create topics."""
        self.cluster.create([TopicSpec(topic) for topic in topics or (self.models, self.aliases)])

    def make_anew(self, *topics: str) -> None:
        """Delete topics, and make them again."""
        for topic in topics:
            foreign.delete_topic(self.connection, topic)
            deadline = time.monotonic() + DEADLINE_S
            while topic not in self.cluster.create([TopicSpec(topic)]) and time.monotonic() < deadline:
                time.sleep(0.2)

    @contextmanager
    def trainer(self) -> Iterator[Trainer]:
        """Publish versions."""
        with closing(Trainer(self.connection, self.models)) as trainer:
            yield trainer


@contextmanager
def following(directory: Path, connection: Connection, models: str, **options: Any) -> Iterator[Day]:
    """Run a program of each language that can be run here."""
    points, given = directory / "points.json", directory / "options.json"
    points.write_text("[[1.0, 2.0]]")
    given.write_text(json.dumps(options))
    words = [connection.servers, models, NAME, str(points), str(given)]
    commands = {language: command(language, directory, "", "subscriber.mjs", *words) for language in LANGUAGES}
    with ExitStack() as stack:
        programs = {
            language: stack.enter_context(Program(language, one, directory)) for language, one in commands.items()
        }
        yield Day(connection, models, programs)


# ------------------------------------------------------------------------------------------------------ on one broker


def versions_come_last(day: Day) -> None:
    day.create(day.aliases)
    _topics_come_later(day, day.models)


def aliases_come_last(day: Day) -> None:
    day.create(day.models)
    _topics_come_later(day, day.aliases)


def _topics_come_later(day: Day, topic: str) -> None:
    day.says(f"topic {topic} does not exist at {day.connection.servers}")
    day.create(topic)
    day.says(f"no alias {CURRENT}")
    with day.trainer() as trainer:
        trainer.publish(version_of(1))
    day.serves(1)


def the_first_version_is_held_back(day: Day) -> None:
    day.create()
    with day.trainer() as trainer:
        trainer.say(head_key(NAME), encode_head(held_back("it knows nothing")))
        day.says("version 1, the newest, was held back, because it knows nothing")
        trainer.publish(version_of(2))
    day.serves(2)


def an_alias_comes_before_its_record(day: Day) -> None:
    day.create()
    with day.trainer() as trainer:
        first, ahead = trainer.publish(version_of(1)), version_of(2)
        day.serves(1)
        digest = model_codec.sha256(model_codec.encode(ahead))
        trainer.point(CURRENT, Alias(2, digest, first.offset + 2))  # behind the end of the first one's transaction
        day.says("there is no record at")
        trainer.publish(ahead, named=False)
    day.serves(1, 2)


def many_versions_come_at_once(day: Day) -> None:
    day.create()
    with day.trainer() as trainer:
        for number in range(1, 41):
            trainer.publish(version_of(number))
    day.serves_at_last(40)
    day.each(lambda program: program.seen == sorted(set(program.seen)), "it never goes back")


def a_pin_comes_and_goes(day: Day) -> None:
    day.create()
    with day.trainer() as trainer:
        first, _ = (trainer.publish(version_of(number)) for number in (1, 2))
        day.serves_at_last(2)
        trainer.pin(first)
        day.serves_at_last(1)
        trainer.pin(None)
        day.serves_at_last(2)


def an_open_transaction_is_not_seen(day: Day) -> None:
    day.create()
    with day.trainer() as trainer:
        trainer.publish(version_of(1))
        day.serves(1)
        with foreign.open_transaction(day.connection, day.aliases, [b"open"]):
            trainer.publish(version_of(2))
            time.sleep(2.0)
            day.serves(1)
        day.serves(1, 2)


def both_topics_are_made_anew(day: Day) -> None:
    day.create()
    with day.trainer() as trainer:
        for number in (1, 2):
            trainer.publish(version_of(number))
    day.serves_at_last(2)
    day.make_anew(day.models, day.aliases)
    with day.trainer() as trainer:
        trainer.publish(version_of(1, weight=0.5))
    day.serves_at_last(1)


def the_aliases_are_made_anew(day: Day) -> None:
    _one_topic_is_made_anew(day, day.aliases)


def the_versions_are_made_anew(day: Day) -> None:
    _one_topic_is_made_anew(day, day.models)


def _one_topic_is_made_anew(day: Day, topic: str) -> None:
    day.create()
    with day.trainer() as trainer:
        trainer.publish(version_of(1))
    day.serves(1)
    day.make_anew(topic)
    with day.trainer() as trainer:
        trainer.publish(version_of(2))
    day.serves(1, 2)


def old_records_are_gone(day: Day) -> None:
    """Of both topics nothing is left before the newest version and its alias."""
    day.create()
    with day.trainer() as trainer:
        trainer.publish(version_of(1))
        day.serves(1)
        newest = trainer.publish(version_of(2))
        foreign.delete_records(day.connection, day.models, 0, newest.offset)
        foreign.delete_records(day.connection, day.aliases, 0, 1)
        trainer.publish(version_of(3))
    day.serves_at_last(3)


def a_log_ends_in_removed_records(day: Day) -> None:
    """A reader that waits for the offset before the end waits for ever."""
    day.create(day.models)
    settings = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.001"}
    day.cluster.create([TopicSpec(day.aliases, config={**settings, "delete.retention.ms": "0"})])
    with day.trainer() as trainer:
        trainer.publish(version_of(1))
        for round_ in range(20):
            trainer.say(f"{NAME}@other", b"%d" % round_ if round_ < 19 else None)
            time.sleep(0.15)
        day.serves(1)
        trainer.publish(version_of(2))
    day.serves(1, 2)


def other_models_are_passed_over(day: Day) -> None:
    day.create()
    with day.trainer() as trainer:
        for number in (1, 2, 3):
            trainer.publish(version_of(number, name="quasar"))
        day.says(f"no alias {CURRENT}")
        trainer.publish(version_of(1))
        trainer.publish(version_of(4, name="quasar"))
        trainer.publish(version_of(2))
    day.serves_at_last(2)


def an_alias_of_ones_own(day: Day) -> None:
    day.create()
    with day.trainer() as trainer:
        first, _ = (trainer.publish(version_of(number)) for number in (1, 2))
        day.says(f"no alias {NAME}@stable")
        trainer.point(f"{NAME}@stable", first)
        day.serves(1)
        trainer.point(f"{NAME}@stable", trainer.publish(version_of(3)))
        trainer.publish(version_of(4))
    day.serves(1, 3)


def a_version_that_is_not_wanted(day: Day) -> None:
    day.create()
    with day.trainer() as trainer:
        trainer.publish(version_of(1))
        day.serves(1)
        trainer.publish(version_of(2))
        day.says(f"refused {NAME}@2: not wanted here")
        trainer.publish(version_of(3))
    day.serves(1, 3)


Scene = Callable[[Day], None]
SCENES: Final[Mapping[str, tuple[Scene, dict[str, Any]]]] = {
    "the topic of versions comes last": (versions_come_last, {}),
    "the topic of aliases comes last": (aliases_come_last, {}),
    "the first version is held back": (the_first_version_is_held_back, {}),
    "an alias comes before its record": (an_alias_comes_before_its_record, {}),
    "many versions come at once": (many_versions_come_at_once, {}),
    "a pin comes and goes": (a_pin_comes_and_goes, {}),
    "an open transaction is not seen": (an_open_transaction_is_not_seen, {}),
    "both topics are made anew": (both_topics_are_made_anew, {}),
    "the aliases are made anew": (the_aliases_are_made_anew, {}),
    "the versions are made anew": (the_versions_are_made_anew, {}),
    "old records are gone": (old_records_are_gone, {}),
    "a log ends in removed records": (a_log_ends_in_removed_records, {}),
    "other models are passed over": (other_models_are_passed_over, {}),
    "an alias of one's own": (an_alias_of_ones_own, {"alias": "stable"}),
    "a version that is not wanted": (a_version_that_is_not_wanted, {"refused": 2}),
}
"""Each with the options of the programs."""


@pytest.mark.long(keep=("the topic of aliases comes last", "a version that is not wanted"))
@pytest.mark.parametrize("scene", SCENES)
def test_a_scene(real_broker: TestBroker, tmp_path: Path, scene: str) -> None:
    play, options = SCENES[scene]
    with following(tmp_path, real_broker.connection, real_broker.name("models"), **options) as day:
        play(day)
        assert day.failures == {}


@pytest.mark.long
@pytest.mark.parametrize("number", [1, 2, 7])
def test_a_version_by_its_number(real_broker: TestBroker, tmp_path: Path, number: int) -> None:
    """Whatever aliases name; where there is none the reader ends and says so."""
    connection, models = real_broker.connection, real_broker.name("models")
    Cluster(connection).create([TopicSpec(models), TopicSpec(f"{models}.aliases")])
    with closing(Trainer(connection, models)) as trainer:
        for each in (1, 2, 3):
            trainer.publish(version_of(each))
    with following(tmp_path, connection, models, version=number) as day:
        if number > 3:
            day.says(f"{NAME} has no version {number}")
        else:
            day.serves(number)
        assert day.failures == {}


@pytest.mark.long
@pytest.mark.parametrize("what", sorted(BAD.keys() - {"another dimension"}))
def test_what_is_bad_is_refused_in_every_language(real_broker: TestBroker, tmp_path: Path, what: str) -> None:
    """The version in use stays, and the next good one replaces it."""
    with following(tmp_path, real_broker.connection, real_broker.name("models")) as day:
        day.create()
        with day.trainer() as trainer:
            trainer.publish(version_of(1))
            day.serves(1)
            BAD[what][1](trainer)
            day.each(lambda program: bool(REFUSAL.search(program.complaints)), "it says why")
            trainer.publish(version_of(3))
        day.serves(1, 3)
        assert day.failures == {}


# ------------------------------------------------------------------------------------------------- a broker that goes


@pytest.mark.long
@pytest.mark.parametrize("outage_s", [0, 10, 60, 300])
def test_a_broker_that_is_away_is_told_and_followed_on(tmp_path: Path, outage_s: int) -> None:
    """Before the first version (0), or between two; what comes after it is served soon."""
    quiet = f"no broker answered at {{}} for {QUIET_S} s; {NAME}@1 serves on"
    with restartable_broker() as broker:
        connection = Connection(options={"bootstrap.servers": broker.bootstrap_servers})
        if not outage_s:
            broker.kill()
        with following(tmp_path, connection, "models", quiet_s=QUIET_S) as day:
            if not outage_s:
                day.says(f"no broker answered at {connection.servers}")
                broker.start()
                day.says("does not exist")
            day.create()
            with day.trainer() as trainer:
                trainer.publish(version_of(1))
            day.serves(1)
            if outage_s:
                broker.kill()
                gone = time.monotonic()
                day.says(quiet.format(connection.servers))
                time.sleep(max(0.0, outage_s - (time.monotonic() - gone)))
                broker.start()
                with day.trainer() as trainer:
                    trainer.publish(version_of(2))
                day.serves(1, 2, within_s=SOON_S)
            assert day.failures == {}
