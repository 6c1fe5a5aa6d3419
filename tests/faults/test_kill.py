"""SIGKILL at random moments and at every named point.

The killed trainer's models topic must hold, byte for byte, the keys and values of a clean run's: nothing lost, nothing
doubled, no number skipped. The clean run reads the same topic once the killed one is through.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from streamsvm.checkpoint.format import decode
from streamsvm.crashpoints import POINTS
from tests.consumers.trainers import records, versions
from tests.live.stage import Stage
from tests.promise.topics import check_counts, check_promise

Note = Callable[[str, object], None]
ROWS_A_VERSION = 40
ROWS_A_LIFE = 2 * ROWS_A_VERSION
KILLS = int(os.environ.get("STREAMSVM_TEST_KILLS", "200"))
"""Random kills of the long form."""
TRAINERS = [point for point in POINTS if not point.startswith(("scores.", "settle.", "coresets.", "erase."))]
"""Those of a settlement are passed only after a broker lost a marker: `tests/consumers/streams/test_settling.py`."""
PARTS = 4
"""Streams over which the named points are spread."""
KILLED_AFTER = ("configuration", "started", "started")
"""From which log line the moment is counted: before the first question to the broker, or in the middle of the work."""
LATEST_KILL_S = 1.0
SCREENED_ROWS = 10 * ROWS_A_VERSION
"""After so many rows every leaf is screened."""
WITHIN_A_LEAF = ("input.learned:2", "publish.committed", "checkpoint.renamed:2")
AROUND_A_TUNING = ("cut.emitted", "cut.trained", "publish.committed", "checkpoint.renamed:2", "cut.trained:2")
AFTER_A_LOST_ANSWER = {"renew.begun", "renew.fenced"}


def life(seed: int) -> list[bytes]:
    """Return the records of one life: two versions' worth, one of them for the dead letters."""
    values = records(ROWS_A_LIFE, seed)
    values[7] = b'{"x": [1'
    return values


def kill_at(stage: Stage, point: str, upto: int) -> None:
    """Run a process that dies at a point, at the latest when stopped after a version; fail if it never gets there."""
    planted = "loses-an-answer" if point.partition(":")[0] in AFTER_A_LOST_ANSWER else ""
    daemon = stage.start(planted, {"STREAMSVM_TEST_CRASH_AT": point})
    status = daemon.stop() if daemon.reaches_version(upto) else daemon.wait()
    assert status == -signal.SIGKILL, f"{point} was never reached; exit status {status}\n{daemon.said}"


def finish(stage: Stage, number: int, tmp_path: Path, planted: str = "") -> None:
    """Let the killed trainer end its work, and compare it with a clean run of the same topic."""
    stage.run_through(number, planted)
    clean = stage.elsewhere(tmp_path / "clean", "clean")
    clean.run_through(number)
    assert len(clean.models()) == number
    assert stage.models() == clean.models(), "not the models of a clean run"
    found = check_promise(stage.connection, stage.settings)
    if not stage.settings.labels.topic:  # of joined rows several may have come by one offset, and none by another
        check_counts(found)


def kill_everywhere(
    stage: Stage, points: Sequence[str], tmp_path: Path, life: Callable[[int], list[bytes]] = life
) -> None:
    """One life for each point, each with new records to learn."""
    stage.create()
    versions = 0
    for number, point in enumerate(points):
        stage.feed(life(number))
        versions += ROWS_A_LIFE // ROWS_A_VERSION
        kill_at(stage, point, versions)
    stage.feed(life(len(points)))
    finish(stage, versions + 2, tmp_path)


@pytest.mark.long(keep=("0",))
@pytest.mark.parametrize("part", range(PARTS))
def test_a_kill_at_any_named_point_changes_nothing(
    stage: Stage, tmp_path: Path, part: int, record_property: Note
) -> None:
    """Every durable step, before and after: each named point is reached, and none leaves a trace."""
    points = TRAINERS[part::PARTS]
    kill_everywhere(stage, points, tmp_path)
    record_property("named_kills", len(points))


@pytest.mark.faults_long
def test_a_kill_at_later_passages_of_a_point_changes_nothing(
    stage: Stage, tmp_path: Path, record_property: Note
) -> None:
    """Not the first passage of a point only: the second and third one of those that a life passes often."""
    often = ("input.learned", "cut.", "publish.", "checkpoint.")
    points = [f"{point}:{times}" for times in (2, 3) for point in TRAINERS if point.startswith(often)]
    points = [point for point in points if not point.startswith(("cut.", "publish.")) or point.endswith(":2")]
    kill_everywhere(stage, points, tmp_path)
    record_property("named_kills", len(points))


def kill_at_random(
    stage: Stage,
    kills: int,
    rows: int,
    seed: int,
    tmp_path: Path,
    records: Callable[[int, int], list[bytes]] = records,
) -> int:
    """Kill trainers of one input at random moments, each through to its end, and return how many versions each made.

    The moment is drawn from before the first answer of the broker to some dozens of versions later.
    """
    chance = random.Random(seed)
    stage.create()
    stage.feed(records(rows, seed))
    total = rows // ROWS_A_VERSION
    clean = stage.elsewhere(tmp_path / "clean", "clean")
    clean.run_through(total)
    done = lives = 0
    while done < kills:
        lives += 1
        killed = stage.elsewhere(tmp_path / f"killed-{lives}", f"killed-{lives}")
        finished = False
        while not finished and done < kills:
            daemon = killed.start()
            daemon.wait_for(chance.choice(KILLED_AFTER))
            time.sleep(chance.uniform(0.0, LATEST_KILL_S))  # not to wait for anything: the moment is the fault
            daemon.kill()
            finished = any(entry["version"] == f"m@{total}" for entry in daemon.events("model_published"))
            done += 1
        killed.run_through(total)
        assert killed.models() == clean.models(), "not the models of a clean run"
        check_counts(check_promise(stage.connection, killed.settings))
    return total * lives


@pytest.mark.long
def test_a_kill_at_a_random_moment_changes_nothing(stage: Stage, tmp_path: Path, record_property: Note) -> None:
    """A handful of kills between the first contact and the last version."""
    seed = random.SystemRandom().randrange(1 << 32)
    record_property("seed", seed)
    record_property("versions", kill_at_random(stage, 3, 2_000, seed, tmp_path))
    record_property("random_kills", 3)


@pytest.mark.faults_long
def test_two_hundred_kills_change_nothing(stage: Stage, tmp_path: Path, record_property: Note) -> None:
    """Two hundred kills at random moments, or as many as STREAMSVM_TEST_KILLS says."""
    seed = random.SystemRandom().randrange(1 << 32)
    record_property("seed", seed)
    record_property("versions", kill_at_random(stage, KILLS, 20_000, seed, tmp_path))
    record_property("random_kills", KILLS)


@pytest.mark.long
def test_kills_within_a_screened_leaf_change_nothing(stage: Stage, tmp_path: Path, record_property: Note) -> None:
    """Where leaves span many times their points: what was screened out, and the totals of it, survive every kill."""
    versions = SCREENED_ROWS // ROWS_A_VERSION
    stage.create()
    stage.feed(records(SCREENED_ROWS, seed=9))
    stage.run_through(versions)
    within = 0
    for number, point in enumerate(WITHIN_A_LEAF):
        stage.feed(life(seed=number))
        versions += ROWS_A_LIFE // ROWS_A_VERSION
        kill_at(stage, point, versions)
        within += open_leaf_is_screened(stage)
    assert within, "no checkpoint was made in the middle of a screened leaf"  # the clock decides when one is
    stage.feed(life(seed=len(WITHIN_A_LEAF)))
    finish(stage, versions + 2, tmp_path)
    record_property("named_kills", len(WITHIN_A_LEAF))


def open_leaf_is_screened(stage: Stage) -> bool:
    """Tell whether the newest checkpoint was made in the middle of a screened leaf."""
    newest = max(stage.settings.checkpoint.directory.glob("*.ssvm"))
    (partition,) = decode(newest.read_bytes()).learner.partitions.values()
    return partition.screened is not None and partition.leaf_extent.rows > 0


@pytest.mark.long
def test_kills_around_a_tuning_change_nothing(stage: Stage, tmp_path: Path, record_property: Note) -> None:
    """The first version chooses C: killed before, in and after that, what is in force is what it was."""
    tuned = replace(stage, options={"svm_tune": "auto"})
    kill_everywhere(tuned, list(AROUND_A_TUNING), tmp_path)
    found = versions(stage.connection, stage.settings)
    assert {version.lineage.tuned_at == version.lineage.cut for version in found} == {True, False}
    record_property("named_kills", len(AROUND_A_TUNING))


@pytest.mark.faults_long
def test_a_restart_that_forgets_points_is_found(stage: Stage, tmp_path: Path) -> None:
    """The row can fail: a trainer that resumes without its open leaf does not end with a clean run's models."""
    stage.create()
    stage.feed(records(90))
    stage.run_through(2)
    stage.feed(records(30, seed=1))
    with pytest.raises(AssertionError, match="not the models of a clean run"):
        finish(stage, 3, tmp_path, "forgets-the-leaf")


def test_a_kill_before_the_first_poll_keeps_the_start(stage: Stage) -> None:
    """start = latest is resolved and saved before anything is read: a kill right then does not move it."""
    stage.create()
    stage.feed(records(30))
    daemon = stage.start(input_start="latest")
    daemon.wait_for("started")
    daemon.kill()
    stage.feed(records(50, seed=1))
    stage.run_through(1, input_start="latest")
    (version,) = check_promise(stage.connection, stage.settings)
    assert version.lineage.base[0].offset == 30
    assert version.stream.points == 40
