"""Power loss: whatever a file system may lose of what was not synced, every state starts and gives the same models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from streamsvm.checkpoint.directory import CheckpointDirectory
from streamsvm.checkpoint.snapshot import Snapshot
from streamsvm.kafka import Cluster, TopicSpec
from streamsvm.learning import Cut, Learner
from streamsvm.model import partition_cuts
from streamsvm.points import Position, Rows
from tests.brokers.fixtures import TestBroker
from tests.checkpoint.disks import Files, SmallDisk, VolatileDisk
from tests.consumers.trainers import Running, produce, records, settings_for
from tests.promise.topics import check_counts, check_promise
from tests.streams import gaussian, head_of, rows_of, small_config, snapshot_of

ROWS = 120
STEP = 13
BASE = {0: Position(0)}
CONFIG = small_config()


ROOMY = 1 << 40


class RecordingDisk(SmallDisk):
    """Tells after each call that changed something."""

    def __init__(
        self, files: Files, planted: frozenset[str], after: Callable[[VolatileDisk], None], room: int = ROOMY
    ) -> None:
        super().__init__(room, files, planted)
        self._tell = after

    def _after(self) -> None:
        self._tell(self)


@dataclass
class Life:
    """A trainer without a broker: learns a stream, notes each cut's training set as published, saves as it goes.

    `published`: The hash of each version's training set: what the models topic would hold. A version that is there
    already is not published again, but must be the same. `promised`: Sequence number of the newest checkpoint that
    `save` returned from.
    """

    published: list[str] = field(default_factory=list)
    promised: int = 0

    def run(self, disk: VolatileDisk, saves: int = 1_000) -> None:
        with CheckpointDirectory(disk, 2) as directory:
            snapshot = newest(directory)
            learner = Learner(CONFIG, BASE, 2)
            number = last = 0
            if snapshot is not None:
                learner.restore(snapshot.learner)
                number, last = snapshot.head.number if snapshot.head else 0, snapshot.sequence
            rest = stream().slice(learner.positions[0].offset, ROWS)
            for sequence in range(last + 1, last + 1 + saves):
                directory.save(saved(learner, number, sequence))
                self.promised = sequence
                if not len(rest):
                    return
                step, rest = rest.slice(0, STEP), rest.slice(STEP, len(rest))
                while len(step):
                    step = step.slice(learner.learn(step), len(step))
                    if learner.cut_due:
                        number += 1
                        self._publish(number, learner.cut())

    def _publish(self, number: int, cut: Cut) -> None:
        made = cut.points.sha256()
        if number <= len(self.published):
            assert self.published[number - 1] == made, f"version {number} has become another"
        else:
            assert number == len(self.published) + 1, f"version {number} follows version {len(self.published)}"
            self.published.append(made)


@cache
def stream() -> Rows:
    return rows_of(gaussian(ROWS))


def newest(directory: CheckpointDirectory) -> Snapshot | None:
    """Return what a start would load; a file that has its name is whole."""
    found = list(directory.generations())
    assert not [f"{one.name}: {one.fault}" for one in found if one.snapshot is None]
    return found[0].snapshot if found else None


def saved(learner: Learner, number: int, sequence: int) -> Snapshot:
    head = head_of(number, partition_cuts(learner.positions, {})) if number else None
    return snapshot_of(learner.state(), sequence=sequence, head=head)


@dataclass(frozen=True)
class State:
    """What a power loss may leave, and what must be true of it."""

    files: dict[str, bytes]
    published: tuple[str, ...]
    promised: int


def states_of(
    start: State, planted: frozenset[str] = frozenset(), saves: int = 1_000, room: int = ROOMY
) -> list[State]:
    """Run a life and return every state that a power loss at any moment of it may leave."""
    life = Life(list(start.published), start.promised)
    found: dict[tuple[frozenset[tuple[str, bytes]], int, int], State] = {}

    def note(disk: VolatileDisk) -> None:
        for files in disk.states():
            key = (frozenset(files.items()), len(life.published), life.promised)
            found.setdefault(key, State(files, tuple(life.published), life.promised))

    disk = RecordingDisk(start.files, planted, note, room)
    life.run(disk, saves)
    note(disk)
    return list(found.values())


@cache
def clean() -> tuple[str, ...]:
    life = Life()
    life.run(VolatileDisk())
    assert len(life.published) == ROWS // 16
    return tuple(life.published)


def check_all(states: list[State]) -> None:
    for state in states:
        check(state)


def check(state: State) -> None:
    """Start from a state: nothing promised is lost, and the stream's end has the same versions, each once."""
    disk = VolatileDisk(state.files)
    with CheckpointDirectory(disk, 2) as directory:
        loaded = newest(directory)
    assert (loaded.sequence if loaded else 0) >= state.promised, "a checkpoint that was promised is lost"
    assert not [name for name in disk.names() if name.endswith("partial")]
    go_on(frozenset((name, disk.read(name)) for name in disk.names()), state.published)


@cache
def go_on(files: frozenset[tuple[str, bytes]], published: tuple[str, ...]) -> None:
    """Live to the stream's end from what a start found; once for each different finding."""
    life = Life(list(published))
    life.run(VolatileDisk(dict(files)))
    assert tuple(life.published) == clean()


NOTHING = State({}, (), 0)


def test_every_state_after_a_power_loss_starts(record_property: Callable[[str, object], None]) -> None:
    """Each state that may be left by a power loss after any call of any checkpoint: the same models, nothing lost."""
    check_all(states_of(NOTHING, saves=3))  # a name that is never synced would double the states with each save
    states = states_of(NOTHING)
    record_property("states", len(states))
    assert len(states) > 200
    check_all(states)


def test_every_state_of_a_disk_that_is_too_small_starts() -> None:
    """The older checkpoint goes before the next one is written: the newest is there at every moment."""
    largest = max(len(content) for state in states_of(NOTHING) for content in state.files.values())
    states = states_of(NOTHING, room=2 * largest)
    alone = [state for state in states if state.promised > 2 and len(state.files) == 1]
    assert alone, "the older one never went first"
    check_all(states)


@pytest.mark.long
def test_a_second_power_loss_while_recovering_from_the_first(
    record_property: Callable[[str, object], None],
) -> None:
    """From states with leftovers in them a life of two checkpoints is cut short in turn, and each state starts."""
    first = [state for state in states_of(NOTHING, saves=4) if any(name.endswith("partial") for name in state.files)]
    chosen = first[:: max(1, len(first) // 12)]
    second = [state for start in chosen for state in states_of(start, saves=2)]
    record_property("states_of_a_second_loss", len(second))
    assert len(second) > 200
    check_all(second)


@pytest.mark.parametrize(
    ("planted", "symptom"),
    [("sync", r"checkpoint-.*\.ssvm: (it|the) "), ("sync_names", "a checkpoint that was promised is lost")],
)
def test_a_missing_fsync_is_found(planted: str, symptom: str) -> None:
    """The check can fail: without the file's, or the directory's, fsync some state is bad."""
    with pytest.raises(AssertionError, match=symptom):
        check_all(states_of(NOTHING, frozenset({planted}), saves=3))


@pytest.mark.long
def test_the_trainer_goes_on_from_states_after_a_power_loss(
    embedded_broker: TestBroker, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """The real trainer: from states of one life that differ most, with the topic of its end; no version twice."""
    connection = embedded_broker.connection
    trainer = settings_for(embedded_broker.name("power"), tmp_path)
    Cluster(connection).create([TopicSpec(trainer.input.topic, 1)])
    produce(connection, trainer.input.topic, records(ROWS))
    states: dict[tuple[str, ...], Files] = {}

    def note(disk: VolatileDisk) -> None:
        if any(name.endswith("ssvm") for name in disk.names()):
            for files in disk.states():
                states.setdefault(tuple(sorted(files)), files)

    with Running(trainer, connection, disk=RecordingDisk({}, frozenset(), note)) as running:
        running.wait_until(lambda: running.value("streamsvm_model_version") == 3)
    startable = [files for names, files in sorted(states.items()) if any(name.endswith("ssvm") for name in names)]
    chosen = startable[:: max(1, len(startable) // 4)]
    for number, files in enumerate(chosen, start=4):
        produce(connection, trainer.input.topic, records(40, seed=number))
        with Running(trainer, connection, disk=VolatileDisk(files)) as running:
            running.wait_until(lambda number=number: running.value("streamsvm_model_version") == number)  # type: ignore[misc]
    found = check_promise(connection, trainer)
    check_counts(found)
    assert len(found) == 3 + len(chosen)
    record_property("trainers_started", len(chosen))
