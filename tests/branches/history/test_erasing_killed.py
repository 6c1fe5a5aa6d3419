"""Random deletions, SIGKILL of trainer and command in between: what is left is of a stream that rejected the rows."""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import pytest

from consumers.branches.history.erased_rows import of_rows
from streamsvm.kafka import Cluster
from streamsvm.points import Points
from tests.branches.history.test_erasing import given_to, newest, plain, produce, record_of, rejected
from tests.branches.history.traces import left, sought
from tests.conformance.properties import content
from tests.consumers.trainers import encoded, versions
from tests.live.process import Daemon
from tests.live.stage import NO_LIMITS, Stage
from tests.streams import gaussian

Note = Callable[[str, object], None]
ROWS_A_VERSION: Final = 40
ROWS_A_LIFE: Final = 2 * ROWS_A_VERSION
KILLED_AFTER: Final = ("configuration", "started", "started")
"""From which log line a random moment is counted: before the first question to the broker, or in the midst of work."""
LATEST_KILL_S: Final = 1.0
AT_ONCE: Final = 20
"""Most rows of one command."""
STEPS: Final = ("erase.recorded", "checkpoint.pruned", "erase.emptied", "")
"""At which a command is killed; the last one stands for any moment."""
OPEN: Final = 10
"""Rows of an open leaf at first, so that a checkpoint holds rows as they came."""


@dataclass
class Erased:
    """What was done to a trainer, and what must be gone."""

    points: Points
    gone: set[int] = field(default_factory=set)
    rows: int = 0
    kills: int = 0
    commands: int = 0


def records_of(points: Points) -> list[bytes]:
    """Return points as records with an id each."""
    return [
        json.dumps({**json.loads(value), "id": f"customer-{at}"}).encode() for at, value in enumerate(encoded(points))
    ]


def command(stage: Stage, gone: Sequence[int], crash_at: str = "") -> Daemon:
    """Start a command that erases rows, and dies at a point if one is given."""
    asked = [part for at in gone for part in ("--position", f"0:{at}")]
    given = given_to(stage.connection, stage.settings)
    environment = {"STREAMSVM_TEST_CRASH_AT": crash_at} if crash_at else None
    daemon = Daemon(["history", "forget", *asked, "--yes", *given], environment)
    stage.started.append(daemon)
    return daemon


def kill_trainer(stage: Stage, chance: random.Random, learned: bool) -> None:
    """Kill a trainer once it has published, or at any moment."""
    daemon = stage.start()
    daemon.wait_for("model_published" if learned else chance.choice(KILLED_AFTER))
    time.sleep(chance.uniform(0.0, LATEST_KILL_S))  # not to wait for anything: the moment is the fault
    daemon.kill()


def erase(stage: Stage, gone: Sequence[int], chance: random.Random, state: Erased) -> None:
    """Erase rows by a command that may be killed, with a trainer that meets what it left, and one that is not."""
    if chance.random() < 0.5:
        point = chance.choice(STEPS)
        killed = command(stage, gone, point)
        if not point:
            time.sleep(chance.uniform(0.0, LATEST_KILL_S))
            killed.kill()
        elif (status := killed.wait()) != -signal.SIGKILL:
            raise AssertionError(f"{point} was never reached; exit status {status}\n{killed.said}")
        state.kills += 1
        if chance.random() < 0.5:  # it goes on without the rows, or refuses to start
            daemon = stage.start()
            time.sleep(chance.uniform(0.0, LATEST_KILL_S))
            daemon.kill()
            state.kills += 1
    done = command(stage, gone)
    assert done.wait() == 0, done.said
    state.gone |= set(gone)
    state.commands += 1


def erase_at_random(stage: Stage, deletions: int, seed: int) -> Erased:
    """Erase so many rows of a stream that goes on, drawn from all that it has by then."""
    chance, state = random.Random(seed), Erased(gaussian(ROWS_A_LIFE * (deletions + 2), seed))
    stage.create(retention_ms="-1")
    values = records_of(state.points)

    def feed(rows: int) -> None:
        produce(stage.connection, stage.settings, values[state.rows : state.rows + rows], state.rows)
        state.rows += rows

    feed(ROWS_A_LIFE + OPEN)
    stage.run_through(ROWS_A_LIFE // ROWS_A_VERSION)
    at = ROWS_A_LIFE + 1
    assert ("checkpoints", "value") in left(Cluster(stage.connection), stage.settings, [sought(values[at])])
    erase(stage, [at], chance, state)
    feed(ROWS_A_LIFE - OPEN)
    while len(state.gone) < deletions:
        kill_trainer(stage, chance, learned=chance.random() < 0.5)
        state.kills += 1
        there = sorted(set(range(state.rows)) - state.gone)
        erase(stage, chance.sample(there, min(chance.randint(1, AT_ONCE), deletions - len(state.gone))), chance, state)
        feed(ROWS_A_LIFE)
    daemon = stage.start()
    while versions(stage.connection, stage.settings)[-1].lineage.cut[0].offset < state.rows:
        daemon.wait_for("model_published")
    assert daemon.stop() == 0, daemon.said
    return state


def check(stage: Stage, state: Erased, gone: set[int], directory: Path) -> None:
    """Compare with a trainer of a stream that rejected rows: checkpoint, and each version since the last command."""
    clean = stage.elsewhere(directory, directory.name)
    source = clean.settings.input.model_copy(update={"topic": f"{stage.settings.input.topic}-{directory.name}"})
    clean = replace(
        clean, settings=clean.settings.model_copy(update={"input": source}), options={**stage.options, **NO_LIMITS}
    )
    clean.create(retention_ms="-1")
    produce(clean.connection, clean.settings, records_of(rejected(state.points, tuple(gone)))[: state.rows])
    clean.run_through(state.rows // ROWS_A_VERSION)
    ends = {plain(newest(each.settings)) for each in (stage, clean)}
    assert len(ends) == 1, "not the checkpoint of a stream that rejected the rows"
    record = record_of(stage.connection, stage.settings)
    own, of_clean = (versions(each.connection, each.settings) for each in (stage, clean))
    after = {one.lineage.cut: content(one) for one in own if not of_rows(one, record.since(one.number))}
    cuts = {version.lineage.cut: content(version) for version in of_clean}
    assert after, "no version is left"
    assert after.items() <= cuts.items(), "not the versions of a stream that rejected the rows"


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_kills_between_random_deletions_change_nothing(stage: Stage, tmp_path: Path, record_property: Note) -> None:
    """A dozen deletions, and no store keeps a row; the comparison fails where a row is not rejected."""
    seed = random.SystemRandom().randrange(1 << 31)
    record_property("seed", seed)
    state = erase_at_random(stage, 12, seed)
    check(stage, state, state.gone, tmp_path / "clean")
    values = records_of(state.points)
    assert not left(Cluster(stage.connection), stage.settings, [sought(values[at]) for at in sorted(state.gone)])
    assert state.gone == {at.offset for at in record_of(stage.connection, stage.settings).places()[0]}
    for kind, count in {"deletions": len(state.gone), "kills": state.kills, "commands": state.commands}.items():
        record_property(kind, count)
    with pytest.raises(AssertionError, match="not the checkpoint"):
        check(stage, state, set(list(state.gone)[1:]), tmp_path / "another")
