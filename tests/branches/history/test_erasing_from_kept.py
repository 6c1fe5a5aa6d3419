"""An erasure that learns again only from the newest kept checkpoint of before the rows (`checkpoint.keep_bytes`)."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from consumers import constants
from consumers.branches.history.erased_rows import ErasedRows
from consumers.branches.history.erasing import erase
from consumers.branches.history.forgetting import report_of
from consumers.settings import Settings
from consumers.verify.verify import verify
from streamsvm.branches.history.past import Past
from streamsvm.checkpoint import FileSystem
from streamsvm.config import SvmConfig
from streamsvm.errors import ConfigurationError
from streamsvm.kafka import Cluster, Connection, TopicSpec
from streamsvm.points import Position
from streamsvm.verification import Outcome
from tests.branches.history.test_erasing import (
    assert_same,
    clean_of,
    forgotten,
    given_to,
    newest,
    plain,
    produce,
    rejected,
    started,
)
from tests.branches.history.traces import left, sought
from tests.brokers.fixtures import TestBroker
from tests.consumers.command import run
from tests.consumers.trainers import encoded, run_until, settings_for, versions
from tests.kafka.foreign import delete_records
from tests.streams import gaussian

ROWS, STEP = 230, 30
POINTS = gaussian(ROWS, 5)
KEEP = 1 << 30


@pytest.fixture(autouse=True)
def one_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """Older ones are those of `checkpoint.keep_bytes` alone."""
    monkeypatch.setattr(constants, "CHECKPOINTS", 1)


def keeping(connection: Connection, prefix: str, directory: Path) -> Settings:
    """Return the settings of a trainer that keeps older checkpoints, two files of generations aside."""
    own = started(connection, prefix, directory)
    checkpoint = own.checkpoint.model_copy(update={"keep_bytes": KEEP, "interval_s": 600.0})
    return own.model_copy(update={"checkpoint": checkpoint})


def learned(connection: Connection, settings: Settings, first: int, end: int) -> None:
    """Let a trainer learn a stretch of rows, a life for every thirty of them, so that checkpoints come between."""
    for at in range(first, end, STEP):
        upto = min(at + STEP, end)
        produce(connection, settings, encoded(POINTS)[at:upto], at)
        begun = newest(settings).positions[0].offset if at else 0
        run_until(settings, connection, upto - begun)
        assert newest(settings).positions[0].offset == upto


def kept(settings: Settings) -> list[int]:
    """Return how many rows each kept checkpoint has learned."""
    past = Past(FileSystem(settings.checkpoint.directory), "m")
    return [one.positions[0].offset for one in past.snapshots()]


def test_only_what_came_since_a_checkpoint_of_before_the_rows_is_learned_again(
    real_broker: TestBroker, tmp_path: Path
) -> None:
    """Of two erasures the first takes all, since its row is of the first leaf; then that row matters no more."""
    connection = real_broker.connection
    own = keeping(connection, real_broker.name("own"), tmp_path / "own")
    learned(connection, own, 0, 60)
    assert kept(own) == [60, 30]
    assert forgotten(connection, own, 3).rows_to_read == 60
    assert newest(own).positions[0].offset == 0
    assert kept(own) == []
    learned(connection, own, 60, 150)
    assert kept(own)[:3] == [150, 120, 90]
    before = len(versions(connection, own))
    report = forgotten(connection, own, 97, 141)
    assert report.rows_to_read == 60
    assert newest(own).positions[0].offset == 90
    assert max(kept(own)) == 90
    assert {one.what for one in report.checkpoints} == {
        "removed",
        "is what the trainer continues from",
        "is kept: it is from before the rows",
    }
    learned(connection, own, 150, ROWS)
    clean = clean_of(connection, real_broker.name("clean"), tmp_path / "clean", 3, 97, 141)
    assert_same(connection, own, clean, before)
    found = verify(Cluster(connection), own).rows
    assert [row.outcome for row in found[before:]] == [Outcome.IDENTICAL] * (len(found) - before)
    # Of a stream that is given up, and where nothing is to be kept any more, nothing is.
    assert kept(own)
    run_until(
        own.model_copy(update={"checkpoint": own.checkpoint.model_copy(update={"keep_bytes": None})}), connection, 0
    )
    assert kept(own) == []


@pytest.mark.long(keep=("checkpoint.pruned",))
@pytest.mark.parametrize("point", ["erase.recorded", "checkpoint.pruned", "erase.emptied"])
def test_a_command_that_is_killed_is_obeyed_by_a_start_and_finished_by_the_same_command(
    real_broker: TestBroker, tmp_path: Path, point: str
) -> None:
    """SIGKILL between record, checkpoint and kept checkpoints: either way what is learned is without the row."""
    connection = real_broker.connection
    own = keeping(connection, real_broker.name(f"killed-{point}"), tmp_path / "own")
    learned(connection, own, 0, 150)
    before = len(versions(connection, own))
    given = ["--checkpoint-keep-bytes", str(KEEP), *given_to(connection, own)]
    asked = run("history", "forget", "--position", "0:97", *given)
    assert "60 rows" in asked.stdout
    assert max(kept(own)) == 150
    killed = run("history", "forget", "--position", "0:97", *given, "--yes", STREAMSVM_TEST_CRASH_AT=point)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert max(kept(own)) == (90 if point == "erase.emptied" else 150)
    if point == "checkpoint.pruned":
        done = run("history", "forget", "--position", "0:97", *given, "--yes", "--json")
        assert done.returncode == 0, done.stderr
        assert "0:97, which was erased before" in json.loads(done.stdout)["found"]
        assert max(kept(own)) == 90
    produce(connection, own, encoded(POINTS)[150:], 150)
    running = run_until(own, connection, ROWS - 90)
    rows = sum(running.value("streamsvm_input_rows_total", outcome=one) for one in ("accepted", "rejected"))
    assert rows == ROWS - 90
    assert any(file.suffix == ".kept" for file in own.checkpoint.directory.iterdir())
    assert ("checkpoints", "value") not in left(Cluster(connection), own, [sought(encoded(POINTS)[97])])
    assert_same(connection, own, clean_of(connection, real_broker.name(f"c-{point}"), tmp_path / "c", 97), before)


def test_where_retention_took_the_beginning_a_kept_checkpoint_does_and_without_one_it_is_refused(
    real_broker: TestBroker, tmp_path: Path
) -> None:
    """Nothing is written where it is refused; a kept checkpoint whose next record is gone is none."""
    connection = real_broker.connection
    own = keeping(connection, real_broker.name("lost"), tmp_path / "own")
    learned(connection, own, 0, 150)
    before = len(versions(connection, own))
    delete_records(connection, own.input.topic, 0, 80)
    with pytest.raises(ConfigurationError, match=r"\[0\] begins at offset 80, but the model began at 0") as refused:
        forgotten(connection, own, 85)
    assert "--reset m/1" in refused.value.remedy
    assert ErasedRows(Cluster(connection), own.output.aliases_topic, 30.0).of("m") is None
    assert kept(own)[:3] == [150, 120, 90]
    assert forgotten(connection, own, 97).rows_to_read == 60
    produce(connection, own, encoded(POINTS)[150:], 150)
    run_until(own, connection, ROWS - 90)
    clean = clean_of(connection, real_broker.name("clean"), tmp_path / "clean", 97)
    assert_same(connection, own, clean, before)


def test_of_a_stream_that_a_reset_gave_up_none_is_kept(real_broker: TestBroker, tmp_path: Path) -> None:
    """A later erasure must not bring it back."""
    connection = real_broker.connection
    own = keeping(connection, real_broker.name("reset"), tmp_path / "own")
    learned(connection, own, 0, 90)
    assert kept(own)
    other = own.model_copy(update={"svm": SvmConfig(C=2.0)})
    run_until(other, connection, 90, reset="m/1")
    assert newest(other).incarnation == 2
    assert not [file.name for file in own.checkpoint.directory.glob("checkpoint-000001-*.kept")]


def test_of_several_partitions_one_checkpoint_is_from_before_the_rows_of_all(
    real_broker: TestBroker, tmp_path: Path
) -> None:
    """Also a partition without erased rows begins again there; each ends as in a stream that rejected the rows."""
    connection, gone = real_broker.connection, {0: 110, 1: 99}
    streams = {partition: gaussian(150, 20 + partition) for partition in gone}
    prefixes = [real_broker.name(name) for name in ("own", "clean")]
    own, clean = (settings_for(prefix, tmp_path / str(at) / "checkpoint") for at, prefix in enumerate(prefixes))
    checkpoint = own.checkpoint.model_copy(update={"keep_bytes": KEEP, "interval_s": 600.0})
    own = own.model_copy(update={"checkpoint": checkpoint})
    for each in (own, clean):
        Cluster(connection).create([TopicSpec(each.input.topic, 2, config={"retention.ms": "-1"})])
    for at in range(0, 120, STEP):
        for partition, points in streams.items():
            produce(connection, own, encoded(points)[at : at + STEP], at, partition)
        run_until(own, connection, 2 * STEP)
    positions = {partition: [Position(at)] for partition, at in gone.items()}
    report, before = report_of("m", positions, "tester"), len(versions(connection, own))
    assert erase(connection, own, positions, report, agree=lambda: True)
    assert newest(own).positions == {0: Position(90), 1: Position(90)}
    assert report.rows_to_read == 60
    for partition, points in streams.items():
        produce(connection, own, encoded(points)[120:], 120, partition)
        produce(connection, clean, encoded(rejected(points, (gone[partition],))), 0, partition)
    run_until(own, connection, 120)
    run_until(clean, connection, 300)
    assert newest(own).positions == newest(clean).positions == {0: Position(150), 1: Position(150)}
    ends = [newest(each) for each in (own, clean)]
    # Where cuts fall depends on the order in which the partitions' records come.
    assert len({plain(replace(end, learner=replace(end.learner, leaves_since_cut=0))) for end in ends}) == 1
    found = verify(Cluster(connection), own).rows
    assert [row.outcome for row in found[before:]] == [Outcome.IDENTICAL] * (len(found) - before)
    assert len(found) > before
