"""A release beside the next one: trainers, scorers and workers of both, in each order, and the way back.

The next one is `tests.upgrade.later`: it adds a part that builds before it may pass over, or one that they must not.
Readers in Java and Node.js meet the same parts in `tests/interop/test_contract.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from streamsvm import __version__
from streamsvm.errors import UnknownFormat
from streamsvm.kafka import Cluster, TopicSpec
from streamsvm.model import message
from streamsvm.model.version import Version
from tests.brokers.fixtures import TestBroker
from tests.consumers.trainers import produce, records, settings_for, topic, versions
from tests.live.adopting import command as worker_command
from tests.live.process import Daemon, arguments
from tests.live.stage import Stage
from tests.registry.test_subscriber import eventually
from tests.upgrade.later import NAMES, VERSION

OLD: Final = ""
KINDS: Final = tuple(NAMES)
ROWS: Final = 80
"""Of each life of a trainer: four leaves, and so two versions."""
EACH: Final[dict[str, Any]] = {"output_gate_margin": "none"}
"""Every version becomes current."""
DEADLINE_S: Final = 120.0
REFUSED: Final = 78


@pytest.fixture
def stage(real_broker: TestBroker, tmp_path: Path) -> Iterator[Stage]:
    """A trainer of a topic of its own; no process outlives the test."""
    made = Stage(real_broker.connection, settings_for(real_broker.name("upgrade"), tmp_path / "own"), EACH)
    made.create()
    yield made
    made.clear()


def start(stage: Stage, build: str, line: Sequence[str]) -> Daemon:
    """Start a command of this build, or of a later one."""
    daemon = Daemon([build, *line], module="tests.upgrade.later") if build else Daemon([*line])
    stage.started.append(daemon)
    return daemon


def trainer(stage: Stage, build: str, **options: Any) -> Daemon:
    """Start a trainer."""
    return start(stage, build, arguments(stage.settings, stage.connection, **{**stage.options, **options}))


def life(stage: Stage, build: str, number: int, again: int = 0, **options: Any) -> None:
    """Feed what two versions are of, and run a trainer until the second of them is there, after some made again."""
    stage.feed(records(ROWS, seed=number))
    daemon = trainer(stage, build, **options)
    assert daemon.reaches_version(number + again), daemon.said
    assert daemon.stop() == 0, daemon.said


def published(stage: Stage) -> list[tuple[int, str]]:
    """Return the number of each version, and which release wrote it, in the order of the topic."""
    values = [json.loads(record.value or b"") for record in topic(stage.connection, stage.settings.output.models_topic)]
    return [(value["version"], value["lineage"]["build"]["streamsvm"]) for value in values]


def without_gap(stage: Stage, *builds: str) -> None:
    """Check that versions are numbered without a gap, and that these builds wrote two each."""
    wrote = [VERSION if build else __version__ for build in builds for _ in "12"]
    assert published(stage) == [*enumerate(wrote, 1)]


def content(version: Version) -> str:
    """Return the hash of what rows, configuration and cut decide of a version; not of which erased rows it knows."""
    lineage = msgspec.structs.replace(version.lineage, facts=())
    return message.content_sha256(replace(version, lineage=lineage, passed_over=()))


def refused(stage: Stage, **options: Any) -> str:
    """Run a trainer of this build that refuses to start; return what it says."""
    daemon = trainer(stage, OLD, **options)
    assert daemon.wait() == REFUSED, daemon.said
    return daemon.said


def move_away(stage: Stage) -> None:
    """Take the checkpoints out of their directory."""
    for path in stage.settings.checkpoint.directory.glob("*.ssvm"):
        path.unlink()


# ---------------------------------------------------------------- trainers


def test_a_trainer_goes_on_from_the_next_release_and_back(stage: Stage, tmp_path: Path) -> None:
    """What may be passed over changes nothing: the versions are those of a trainer that was never upgraded."""
    for build, number in ((OLD, 2), ("optional", 4), (OLD, 6)):
        life(stage, build, number)
    without_gap(stage, OLD, "optional", OLD)
    found = versions(stage.connection, stage.settings)
    assert [version.passed_over for version in found] == [(), (), *[("info_later",)] * 2, (), ()]
    never = stage.elsewhere(tmp_path / "never")
    never.run_through(6)
    assert [*map(content, found)] == [*map(content, versions(never.connection, never.settings))]


@pytest.mark.long
def test_a_trainer_refuses_what_it_would_get_wrong_and_names_the_release(stage: Stage) -> None:
    """Its own checkpoints are gone by then; the later release goes on, and so does this one that begins anew."""
    life(stage, OLD, 2)
    life(stage, "required", 4)
    told = refused(stage)
    assert "the part 'later'" in told
    assert f"Use streamsvm {VERSION}, which wrote it, or a newer one" in told
    life(stage, "required", 6)
    without_gap(stage, OLD, "required", "required")
    with pytest.raises(UnknownFormat, match=f"the part 'later'.* Upgrade the reader to streamsvm {VERSION}"):
        versions(stage.connection, stage.settings)
    move_away(stage)
    assert "--reset m/1" in refused(stage)
    life(stage, OLD, 8, reset="m/1")
    numbers = [number for number, _ in published(stage)]
    assert numbers == [*range(1, len(numbers) + 1)]
    assert published(stage)[-1][1] == __version__


# ---------------------------------------------------------------- scorers


class Asked:
    """Points of a scorer's own, and what it answers."""

    def __init__(self, stage: Stage) -> None:
        self._stage, self._prefix, self._sent = stage, stage.settings.input.topic, 0
        names = (self._name("points"), self._name("points.dlq"), self._name("scores"))
        Cluster(stage.connection).create([TopicSpec(name) for name in names])

    def _name(self, what: str) -> str:
        return f"{self._prefix}-{what}"

    def scorer(self, build: str) -> Daemon:
        """Start a scorer."""
        options = {
            "name": self._stage.settings.name,
            "bootstrap-servers": self._stage.connection.servers,
            "output-models-topic": self._stage.settings.output.models_topic,
            "scoring-topic": self._name("points"),
            "scoring-output-topic": self._name("scores"),
            "scoring-group": self._prefix,
            "http-port": 0,
        }
        return start(
            self._stage, build, ["score", *(part for name, own in options.items() for part in (f"--{name}", str(own)))]
        )

    def answered_by(self) -> int:
        """Ask for one more score; return the number of the version that gave it."""
        produce(self._stage.connection, self._name("points"), [b'{"x": [1.0, 2.0, 3.0]}'])
        self._sent += 1
        eventually(lambda: len(self._scores()) == self._sent, "the point is scored", DEADLINE_S)
        return int(json.loads(self._scores()[-1].value or b"")["version"])

    def _scores(self) -> list[Any]:
        return topic(self._stage.connection, self._name("scores"))

    def eventually_by(self, number: int) -> None:
        """Ask until a version gives the score."""
        eventually(lambda: self.answered_by() == number, f"version {number} scores", DEADLINE_S)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_scorers_of_both_releases_beside_trainers_of_both(stage: Stage, kind: str) -> None:
    """This one's goes on, or keeps what it has and says why; the next one's reads both; no point is scored twice."""
    life(stage, OLD, 2)
    asked = Asked(stage)
    old = asked.scorer(OLD)
    asked.eventually_by(2)
    life(stage, kind, 4)
    if kind == "optional":
        asked.eventually_by(4)
    else:
        eventually(lambda: told_by(old, "'later'"), "it says what it refused", DEADLINE_S)
        assert f"Upgrade the reader to streamsvm {VERSION}" in old.said
        assert asked.answered_by() == 2
    assert old.stop() == 0, old.said
    later = asked.scorer(kind)
    asked.eventually_by(4)
    if kind == "optional":
        life(stage, OLD, 6)
        asked.eventually_by(6)
    assert later.stop() == 0, later.said


def told_by(daemon: Daemon, words: str) -> bool:
    """Return whether a process has said something by now."""
    daemon.catch_up()
    return words in daemon.said


# ---------------------------------------------------------------- workers


@pytest.fixture
def with_workers(stage: Stage) -> Stage:
    """A trainer that reads what workers of their own learned."""
    training = stage.settings.training.model_copy(update={"policy": "latest"})
    own = {"name": stage.settings.input.topic, "training": training}
    options = {"training_from_coresets": "true", **EACH}
    return replace(stage, settings=stage.settings.model_copy(update=own), options=options)


def worker(stage: Stage, build: str) -> Daemon:
    """Start the only worker of its group."""
    daemon = start(stage, build, worker_command(stage.settings, stage.connection, stage.options))
    daemon.wait_for("worker_started")
    return daemon


def covers(daemon: Daemon, rows: int) -> Callable[[], bool]:
    """Return what tells whether a trainer has published a version of all rows but an open leaf's."""

    def told() -> bool:
        daemon.catch_up()
        assert daemon.ended() is None, daemon.said
        return any(one["points"] >= rows - 20 for one in daemon.events("model_published"))

    return told


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_workers_of_both_releases_hand_over_to_trainers_of_both(with_workers: Stage, kind: str) -> None:
    """The next one's trainer takes what this one's worker learned; the other way round what may be passed over."""
    stage = with_workers
    stage.feed(records(ROWS))
    own, adopts = trainer(stage, kind), worker(stage, OLD)
    eventually(covers(own, ROWS), "the later trainer covers the rows", DEADLINE_S)
    assert [own.stop(), adopts.stop()] == [0, 0]
    if kind == "required":  # the later trainer's own checkpoint is refused, as of a trainer without workers
        move_away(stage)
    reset = {"reset": f"{stage.settings.name}/1"} if kind == "required" else {}
    back, later = trainer(stage, OLD, **reset), worker(stage, kind)
    stage.feed(records(ROWS, seed=1))
    if kind == "required":
        needs = "has the part 'later', which this build does not know. Use the build that wrote it, or a newer one"
        eventually(lambda: told_by(back, needs), "the manifest is passed over", DEADLINE_S)
        assert later.stop() == 0
        later = worker(stage, OLD)
    eventually(covers(back, 2 * ROWS), "this trainer covers the rows", DEADLINE_S)
    assert [back.stop(), later.stop()] == [0, 0]


# ---------------------------------------------------------------- erased rows


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("by", ["before", "after"])
def test_erased_rows_stay_erased_both_ways(
    stage: Stage, real_broker: TestBroker, tmp_path: Path, by: str, kind: str
) -> None:
    """Erased by either release: what both publish then is of a stream that rejected the row."""
    life(stage, OLD, 2)
    eraser, first = (OLD, kind) if by == "before" else (kind, kind)
    own, place = stage.settings, "0:7"
    given = ["--bootstrap-servers", stage.connection.servers, "--name", own.name, "--input-topic", own.input.topic]
    given += ["--checkpoint-directory", str(own.checkpoint.directory), "--output-models-topic", own.output.models_topic]
    erasing = start(stage, eraser, ["history", "forget", "--position", place, "--yes", *given])
    assert erasing.wait() == 0, erasing.said
    life(stage, first, 4)
    begun: dict[str, Any] = {} if kind == "optional" else {"reset": "m/2", "again": 4}
    if begun:
        assert "the part 'later'" in refused(stage)
        move_away(stage)
    life(stage, OLD, 6, **begun)
    values = [record.value or b"" for record in topic(stage.connection, own.output.models_topic)]
    clean = Stage(stage.connection, settings_for(real_broker.name("clean"), tmp_path / "clean"), EACH)
    clean.create()
    rows: list[bytes | None] = [row for seed in (2, 4, 6) for row in records(ROWS, seed=seed)]
    clean.feed([b"{" if at == 7 else row for at, row in enumerate(rows)])
    clean.run_through(6)
    wanted = {content(version) for version in versions(clean.connection, clean.settings)}
    found = []
    for value in values[2:]:
        with suppress(UnknownFormat):
            found.append(message.decode(value))
    assert found[-1].stream.points == 3 * ROWS - 1
    assert {*map(content, found)} <= wanted
