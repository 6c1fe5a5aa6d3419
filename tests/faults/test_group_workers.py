"""SIGKILL and SIGSTOP of workers of their own, two owners of one partition, kills between parts and manifests.

A stream of four partitions is learned by two members of a group, whose states a trainer adopts from a compacted topic.
Whatever happens to them, at every prefix of that topic the highest manifest is complete, and at the end every version
is recomputed in one process from the log.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.branches.workers.group_workers import check_topic
from tests.faults.workers import (
    DEADLINE_S,
    LATEST_S,
    PARTITIONS,
    adopting,
    asleep,
    check_letters,
    covers,
    feed,
    start_trainer,
    start_worker,
)
from tests.live.process import Daemon
from tests.live.stage import NO_LIMITS, Stage
from tests.promise.topics import check_counts, check_promise

Note = Callable[[str, object], None]
KILLS = int(os.environ.get("STREAMSVM_TEST_KILLS", "200"))
STOPS = max(1, KILLS // 20)


@pytest.fixture
def with_workers(stage: Stage) -> Stage:
    """A trainer that reads no points, and saves twenty times a second."""
    return adopting(stage)


def covered(trainer: Daemon, rows: int) -> None:
    """Wait until a version covers all rows but those of open leaves."""
    deadline = time.monotonic() + DEADLINE_S
    while not covers(trainer, rows):
        assert trainer.ended() is None, trainer.said
        assert time.monotonic() < deadline, trainer.said[-3000:]
        time.sleep(0.1)


def finish(stage: Stage, trainer: Daemon, workers: list[Daemon], rows: int) -> int:
    """Let all rows be learned, stop everything, and check what was left and published."""
    covered(trainer, rows)
    for daemon in (*workers, trainer):
        assert daemon.stop() == 0, daemon.said
    found = check_promise(stage.connection, stage.settings)
    check_counts(found)
    check_letters(stage)
    checked = check_topic(stage.connection, stage.settings, PARTITIONS)
    assert sum(one.manifests for one in checked) >= PARTITIONS
    return len(found)


def disturb(stage: Stage, kinds: list[str], seed: int) -> int:
    """Strike as often as there are kinds, feeding some more each time; return how many versions there are."""
    chance, rows = random.Random(seed), 0
    stage.create(PARTITIONS)
    trainer, workers = start_trainer(stage), [start_worker(stage), start_worker(stage)]
    for number, kind in enumerate(kinds):
        rows += feed(stage, number)
        time.sleep(chance.uniform(0.0, LATEST_S))  # not to wait for anything: the moment is the fault
        victim = chance.randrange(2)
        if kind == "worker":
            workers[victim].kill()
            workers[victim] = start_worker(stage)
        elif kind == "trainer":
            trainer.kill()
            trainer = start_trainer(stage)
        else:
            asleep(workers[victim], workers[1 - victim])
    return finish(stage, trainer, workers, rows)


@pytest.mark.long
def test_kills_and_a_stop_of_workers_change_nothing(with_workers: Stage, record_property: Note) -> None:
    """Ten kills, the trainer's among them, and one worker that sleeps until another has taken its partitions."""
    kinds = ["worker"] * 4 + ["stop"] + ["trainer", "worker"] * 2 + ["worker"] * 2
    record_property("versions", disturb(with_workers, kinds, seed=3))


@pytest.mark.faults_long
def test_two_hundred_kills_and_ten_stops_of_workers_change_nothing(with_workers: Stage, record_property: Note) -> None:
    """Or as many as STREAMSVM_TEST_KILLS says, and a twentieth of it."""
    seed = random.SystemRandom().randrange(1 << 32)
    record_property("seed", seed)
    kinds = ["worker"] * (KILLS - KILLS // 4) + ["trainer"] * (KILLS // 4) + ["stop"] * STOPS
    random.Random(seed).shuffle(kinds)
    record_property("versions", disturb(with_workers, kinds, seed))


@pytest.mark.long
def test_two_workers_that_own_everything_change_nothing(with_workers: Stage) -> None:
    """Split brain from the first row to the last, with a kill on each side."""
    stage = with_workers
    stage.create(PARTITIONS)
    trainer = start_trainer(stage)
    sides = [start_worker(stage, ordinal=0, of=1) for _ in range(2)]
    rows = 0
    for number in range(4):
        rows += feed(stage, number)
        time.sleep(0.5)
        if number in (1, 2):
            sides[number - 1].kill()
            sides[number - 1] = start_worker(stage, ordinal=0, of=1)
    finish(stage, trainer, sides, rows)


@pytest.mark.long(keep=("coresets.parts:3",))
@pytest.mark.parametrize("point", ["coresets.parts:3", "coresets.manifests:3", "input.learned:5"])
def test_a_kill_at_a_named_point_of_a_worker_changes_nothing(with_workers: Stage, point: str) -> None:
    """Between parts and manifests, between manifests and tombstones, between learning and both."""
    stage = with_workers
    stage.create(PARTITIONS)
    trainer = start_trainer(stage)
    rows = feed(stage, 0)
    doomed = start_worker(stage, {"STREAMSVM_TEST_CRASH_AT": point}, ordinal=0, of=1)
    for number in range(1, 4):
        rows += feed(stage, number)
    assert doomed.wait() == -9, doomed.said
    finish(stage, trainer, [start_worker(stage, ordinal=0, of=1)], rows)


@pytest.mark.long
@pytest.mark.parametrize("point", ["coresets.left:2", "coresets.opened:2"])
def test_a_kill_at_a_named_point_of_a_trainer_changes_nothing(with_workers: Stage, point: str) -> None:
    """While it leaves the states of its checkpoint for workers: the next start goes on with that."""
    stage = with_workers
    stage.create(PARTITIONS)
    rows = feed(stage, 0)
    one = replace(stage, options={**NO_LIMITS, "training_policy": "latest"})
    one.run_through(1)
    doomed = stage.start(environment={"STREAMSVM_TEST_CRASH_AT": point})
    assert doomed.wait() == -9, doomed.said
    trainer, worker = start_trainer(stage), start_worker(stage, ordinal=0, of=1)
    rows += feed(stage, 1)
    finish(stage, trainer, [worker], rows)


@pytest.mark.faults_long
def test_a_worker_that_writes_manifests_first_is_found(with_workers: Stage) -> None:
    """The row can fail: at some prefix of the topic the highest manifest lacks its parts."""
    stage = with_workers
    stage.create(PARTITIONS)
    trainer = start_trainer(stage)
    rows = feed(stage, 0)
    worker = start_worker(stage, planted="manifest-first", ordinal=0, of=1)
    with pytest.raises(AssertionError, match="lacks"):
        finish(stage, trainer, [worker], rows)


@pytest.mark.faults_long
def test_a_trainer_that_adopts_less_than_was_left_is_found(with_workers: Stage) -> None:
    """The row can fail: one point of each open leaf is lost on the way."""
    stage = with_workers
    stage.create(PARTITIONS)
    trainer = stage.start("adopts-a-point-less")
    trainer.wait_for("started")
    rows = feed(stage, 0)
    with pytest.raises(AssertionError):
        finish(stage, trainer, [start_worker(stage, ordinal=0, of=1)], rows)
