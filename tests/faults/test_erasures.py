"""Random deletions, SIGKILL of trainer and command in between: what is left is of a stream that rejected the rows."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import pytest
from consumers.branches.history.searching import Search, contents_of, search
from streamsvm.branches.history.traces import FORMS, Content

from consumers.branches.history.settings import ArchiveConfig
from consumers.verify.verify import verify
from streamsvm.ingest.decoder import PointDecoder
from streamsvm.kafka import Cluster, TopicSpec
from streamsvm.points import Points
from tests.branches.history.test_erasing import content, given_to, newest, plain, produce, record_of, rejected
from tests.branches.history.test_searching import LOOKED_AT, Planted, forms_of
from tests.consumers.trainers import encoded, topic, versions
from tests.faults.daemon import Daemon
from tests.faults.stage import NO_LIMITS, Stage
from tests.faults.test_kill import KILLED_AFTER, LATEST_KILL_S, ROWS_A_LIFE, ROWS_A_VERSION
from tests.streams import gaussian

Note = Callable[[str, object], None]
DELETIONS: Final = int(os.environ.get("STREAMSVM_TEST_DELETIONS", "1000"))
"""Of the long form."""
AT_ONCE: Final = 20
"""Most rows of one command."""
STEPS: Final = ("erase.marked", "erase.recorded", "checkpoint.pruned", "erase.emptied", "")
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


def archived(stage: Stage, directory: Path) -> Stage:
    """Return a stage whose trainers have an archive, and whose every store has its place."""
    own = stage.settings
    archive = ArchiveConfig(directory=directory, leaf_rows=8, span_rows=16, bucket_points=16)
    scoring = own.scoring.model_copy(
        update={"topic": f"{own.input.topic}-events", "output_topic": f"{own.input.topic}-s"}
    )
    options = {f"archive_{name}": value for name, value in archive.model_dump(exclude_none=True).items()}
    del options["archive_trust_directory"]
    settings = own.model_copy(update={"archive": archive, "scoring": scoring})
    return replace(stage, settings=settings, options={**stage.options, **options})


def command(stage: Stage, gone: Sequence[int], crash_at: str = "") -> Daemon:
    """Start a command that erases rows, and dies at a point if one is given."""
    asked = [part for at in gone for part in ("--position", f"0:{at}")]
    given = given_to(stage.connection, stage.settings, stage.settings.archive.directory)
    environment = {"STREAMSVM_TEST_CRASH_AT": crash_at} if crash_at else None
    daemon = Daemon(["history", "forget", *asked, "--yes", "--retire", *given], environment)
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
    assert {one.store for one in left(stage, [at]).left} >= {"checkpoints", "archive"}
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
    retiring = stage.start()  # the newest of these rows once another one has its place
    retiring.wait_for("started")
    assert retiring.stop() == 0, retiring.said
    return state


def left(stage: Stage, gone: Sequence[int], given: dict[str, list[Path]] | None = None) -> Search:
    """Look for rows in every store."""
    return search(Cluster(stage.connection), stage.settings, contents(stage, gone), given or {}, 30.0)


def contents(stage: Stage, gone: Sequence[int]) -> list[Content]:
    """Return what stands at some places of the input."""
    own, config = stage.settings, stage.settings.models()
    decoder = PointDecoder(config.points, labeled=False, recipe=config.recipe)
    records = topic(stage.connection, own.input.topic)
    return [each for at in gone for each in contents_of(decoder, records[at]).values()]


def check(stage: Stage, state: Erased, gone: set[int], directory: Path) -> None:
    """Compare with a trainer of a stream that rejected rows: checkpoint, and each version since the last command."""
    clean = stage.elsewhere(directory, directory.name)
    source = clean.settings.input.model_copy(update={"topic": f"{stage.settings.input.topic}-{directory.name}"})
    options = {name: value for name, value in stage.options.items() if not name.startswith("archive_")}
    clean = replace(
        clean, settings=clean.settings.model_copy(update={"input": source}), options={**options, **NO_LIMITS}
    )
    clean.create(retention_ms="-1")
    produce(clean.connection, clean.settings, records_of(rejected(state.points, tuple(gone)))[: state.rows])
    clean.run_through(state.rows // ROWS_A_VERSION)
    ends = {plain(newest(each.settings)) for each in (stage, clean)}
    assert len(ends) == 1, "not the checkpoint of a stream that rejected the rows"
    retired = record_of(stage.connection, stage.settings).retires
    own, of_clean = (versions(each.connection, each.settings) for each in (stage, clean))
    after = {version.lineage.cut: content(version) for version in own if version.number not in retired}
    cuts = {version.lineage.cut: content(version) for version in of_clean}
    assert after, "no version is left"
    assert after.items() <= cuts.items(), "not the versions of a stream that rejected the rows"


def check_everything(stage: Stage, deletions: int, seed: int, tmp_path: Path, note: Note) -> Erased:
    """Erase at random; compare, verify, and look for bytes of the rows in every store, where planted ones are found."""
    note("seed", seed)
    own = archived(stage, tmp_path / "archive")
    state = erase_at_random(own, deletions, seed)
    check(own, state, state.gone, tmp_path / "clean")
    report = verify(Cluster(own.connection), own.settings)
    assert report.clean, "\n".join(report.lines())
    assert not left(own, sorted(state.gone)).left
    assert state.gone == {at.offset for at in record_of(own.connection, own.settings).places()[0]}
    into, row = Planted(own.connection, own.settings, tmp_path), contents(own, sorted(state.gone))[deletions // 2]
    for store in LOOKED_AT:
        Cluster(own.connection).create([TopicSpec(name, 1) for name in store.topics(own.settings)])
        for number, form in enumerate(FORMS):
            into.put(store, number, forms_of(row)[form])
    into.done()
    found = {(one.store, one.form) for one in left(own, sorted(state.gone), into.given).left}
    assert found >= {(store.name, form) for store in LOOKED_AT for form in FORMS}
    note("deletions", len(state.gone))
    note("random_kills", state.kills)
    note("commands", state.commands)
    return state


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_kills_between_random_deletions_change_nothing(stage: Stage, tmp_path: Path, record_property: Note) -> None:
    """A dozen deletions; the comparison can fail: it does where one of the rows is not rejected."""
    seed = random.SystemRandom().randrange(1 << 31)
    state = check_everything(stage, 12, seed, tmp_path, record_property)
    with pytest.raises(AssertionError, match="not the checkpoint"):
        check(archived(stage, tmp_path / "archive"), state, set(list(state.gone)[1:]), tmp_path / "another")


@pytest.mark.faults_long
@pytest.mark.timeout(7_200)
def test_a_thousand_deletions_change_nothing(stage: Stage, tmp_path: Path, record_property: Note) -> None:
    """A thousand random rows, or as many as STREAMSVM_TEST_DELETIONS says."""
    seed = random.SystemRandom().randrange(1 << 31)
    check_everything(stage, DELETIONS, seed, tmp_path, record_property)
