"""`streamsvm history forget`: rows that a trainer has learned, taken out as if they were rejected when they came."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from shutil import copytree
from typing import Literal

import numpy as np
import pytest
from confluent_kafka import Producer

from consumers.branches.history import attached
from consumers.branches.history.attached import History
from consumers.branches.history.erased_rows import ErasedRows
from consumers.branches.history.erasing import erase
from consumers.branches.history.forgetting import ForgettingReport, report_of
from consumers.settings import Settings
from streamsvm.branches.history.erased import Erased
from streamsvm.branches.history.erased_part import Obeyed, obeyed_of
from streamsvm.checkpoint import CheckpointDirectory, FileSystem, Snapshot, encode
from streamsvm.config import SvmConfig
from streamsvm.errors import StateError, TopicMissing
from streamsvm.kafka import Cluster, Connection, TopicSpec
from streamsvm.model import left_out_key
from streamsvm.points import Points, Position
from tests.branches.history.traces import left, sought, topics_of, traces_of
from tests.brokers.fixtures import TestBroker
from tests.conformance.properties import content
from tests.consumers.command import run
from tests.consumers.trainers import encoded, run_until, settings_for, topic, versions
from tests.streams import gaussian

ROWS, FIRST = 230, 150
PLACES = (3, 77, 148)
"""Of one row in a sealed leaf that the first versions are of, one in a later leaf, and one in the open leaf."""


def produce(
    connection: Connection, settings: Settings, values: list[bytes], first: int = 0, partition: int = 0
) -> None:
    """Put records into a partition; their times follow from their places."""
    producer = Producer(dict(connection.options))
    for place, value in enumerate(values, first):
        time_ms = 1_700_000_000_000 + 1_000 * place
        producer.produce(settings.input.topic, value, partition=partition, timestamp=time_ms)
    assert not producer.flush(60.0)


def started(connection: Connection, prefix: str, directory: Path) -> Settings:
    """Return settings of a trainer whose input is there, and keeps records of any time."""
    settings = settings_for(prefix, directory / "checkpoint")
    Cluster(connection).create([TopicSpec(settings.input.topic, 1, config={"retention.ms": "-1"})])
    return settings


def newest(settings: Settings) -> Snapshot:
    with CheckpointDirectory(FileSystem(settings.checkpoint.directory), 2) as directory:
        found = next(each.snapshot for each in directory.generations())
    assert found is not None
    return found


def plain(snapshot: Snapshot) -> bytes:
    """Return the bytes of a checkpoint but for the names of its topics and the count of its files and heads."""
    assert snapshot.pending is None
    return encode(replace(snapshot, topic="t", topic_id="", head=None, incarnation=1, sequence=1, parts={}))


def forgotten(connection: Connection, settings: Settings, *places: int) -> ForgettingReport:
    """Erase rows of partition 0."""
    positions = {0: [Position(place) for place in places]}
    report = report_of("m", positions, "tester")
    assert erase(connection, settings, positions, report, agree=lambda: True)
    return report


def rejected(points: Points, places: tuple[int, ...]) -> Points:
    """Return points of which some are rejected when they come."""
    X = points.X.copy()
    X[list(places)] = np.nan
    return replace(points, X=X)


def clean_of(connection: Connection, prefix: str, directory: Path, *places: int, rows: int = ROWS) -> Settings:
    """Return a trainer's settings that learned a stream in which rows were rejected."""
    clean = started(connection, prefix, directory)
    produce(connection, clean, encoded(rejected(gaussian(rows, 5), places)))
    run_until(clean, connection, rows)
    return clean


def assert_same(connection: Connection, own: Settings, clean: Settings, before: int) -> None:
    """Checkpoint and the versions after those of before the erasure, byte for byte."""
    assert plain(newest(own)) == plain(newest(clean))
    after = versions(connection, own)[before:]
    of_clean = {version.lineage.cut[0].offset: content(version) for version in versions(connection, clean)}
    assert after
    assert [content(version) for version in after] == [of_clean[version.lineage.cut[0].offset] for version in after]


@pytest.mark.long
def test_a_row_is_erased_once_and_others_are_named(real_broker: TestBroker, tmp_path: Path) -> None:
    """Twice is once; rows that never came, were rejected or lie in another partition are told; a report is kept.

    A trainer elsewhere, with a copy of the old checkpoints, begins without the rows; without --yes nothing changes.
    """
    connection, rows = real_broker.connection, rejected(gaussian(90, 6), (5,))
    own = started(connection, real_broker.name("once"), tmp_path / "once")
    produce(connection, own, encoded(rows))
    run_until(own, connection, 90)
    place = own.checkpoint.directory
    copytree(place, tmp_path / "copy")
    old = {file.name for file in place.glob("*.ssvm")}
    given = given_to(connection, own)
    asked = [part for at in ("0:7", "0:7", "0:5", "0:8.1", "1:0", "0:90") for part in ("--position", at)]
    looked = run("history", "forget", *asked, *given)
    assert looked.returncode == 1, looked.stderr
    assert "90 rows" in looked.stdout
    assert "nothing was changed" in looked.stderr
    assert {file.name for file in place.glob("*.ssvm")} == old
    done = run("history", "forget", *asked, *given, "--yes", "--json", "--reason", "asked by mail")
    assert done.returncode == 1, done.stderr  # some rows are not there
    told = json.loads(done.stdout)
    assert told["asked"] == ["0:5", "0:7", "0:8.1", "0:90", "1:0"]
    assert told["found"] == ["0:7"]
    assert [line.split(": ")[1].split(",")[0] for line in told["absent"]] == [
        "the row was rejected when it came",
        "the log holds no such row",
        "the log has not reached this offset",
        "the model does not learn this partition",
    ]
    assert [one["key"] for one in told["versions"]] == ["m@1", "m@2"]
    assert all("0:7" in one["rows"] for one in told["versions"])
    assert [one["what"] for one in told["checkpoints"]] == ["removed"] * len(old) + [
        "is what the trainer continues from"
    ]
    entry = json.loads(topic(connection, own.output.audit_topic)[-1].value or b"")
    assert (entry["event"], entry["rows"], entry["reason"]) == ("rows_erased", [[0, 7, 0]], "asked by mail")
    again = run("history", "forget", "--position", "0:7", *given, "--yes")
    assert again.returncode == 0, again.stderr
    assert "0:7, which was erased before" in again.stdout
    assert record_of(connection, own).rows == ((0, 7, 0, 2),)
    elsewhere = own.model_copy(
        update={"checkpoint": own.checkpoint.model_copy(update={"directory": tmp_path / "copy"})}
    )
    run_until(elsewhere, connection, 90)
    state = newest(elsewhere)
    assert state.incarnation == 2
    assert sum(held.learned.count for held in state.learner.partitions.values()) == 88
    assert not old & {file.name for file in (tmp_path / "copy").glob("*.ssvm")}


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_nothing_of_a_row_is_in_what_is_left_and_what_comes(
    real_broker: TestBroker, tmp_path: Path, kernel: Literal["linear", "rbf"]
) -> None:
    """Neither its numbers nor its text, as they are or scaled: in checkpoints, and in all records that come later."""
    connection, values = real_broker.connection, encoded(gaussian(130, 7))
    own = started(connection, real_broker.name(f"bytes-{kernel}"), tmp_path / "bytes")
    if kernel == "rbf":
        own = own.model_copy(update={"svm": SvmConfig(C=1.0, kernel="rbf")})
    produce(connection, own, values[:100])
    run_until(own, connection, 100)
    cluster, content = Cluster(connection), b"".join(one.read_bytes() for one in own.checkpoint.directory.iterdir())
    rows = {at: sought(values[at]) for at in range(100)}
    held = [at for at, row in rows.items() if any(trace in content for _, trace in traces_of(row))][-5:]
    gone = [rows[at] for at in held]
    assert ("checkpoints", "value") in left(cluster, own, gone)
    ends = {}
    for name in topics_of(own).values():
        with suppress(TopicMissing):
            ends[name] = cluster.log_range(name, 0)[1]
    forgotten(connection, own, *held)
    assert not left(cluster, own, gone, since=ends)
    produce(connection, own, values[100:], 100)
    run_until(own, connection, 130)
    assert len(versions(connection, own)) > 2
    assert not left(cluster, own, gone, since=ends)


def record_of(connection: Connection, settings: Settings) -> Erased:
    found = ErasedRows(Cluster(connection), settings.output.aliases_topic, 30.0).of("m")
    assert found is not None
    return found


def given_to(connection: Connection, settings: Settings) -> list[str]:
    """Return the options by which a command finds a trainer's topics and directory."""
    given = ["--bootstrap-servers", str(connection.options["bootstrap.servers"]), "--name", "m"]
    given += ["--checkpoint-directory", str(settings.checkpoint.directory), "--input-topic", settings.input.topic]
    given += ["--output-models-topic", settings.output.models_topic]
    return given


def test_a_build_that_does_not_know_the_record_does_not_undo_it(
    real_broker: TestBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its checkpoints, of the erasure's own incarnation, are emptied: what is learned next is without the rows.

    Versions go on after those that it published, and nothing is published twice.
    """
    connection, rows = real_broker.connection, gaussian(ROWS, 5)
    own = started(connection, real_broker.name("undone"), tmp_path / "undone")
    produce(connection, own, encoded(rows)[:FIRST])
    run_until(own, connection, FIRST)
    forgotten(connection, own, *PLACES)
    with monkeypatch.context() as former:
        former.setattr(History, "found", lambda *_: None)
        former.setattr(attached, "_refuse_without_record", lambda *_: None)
        run_until(own, connection, FIRST)
        produce(connection, own, encoded(rows)[FIRST:190], FIRST)
        run_until(own, connection, 190 - FIRST)
    learned = newest(own)
    assert (learned.incarnation, obeyed_of(learned), learned.learner.partitions[0].learned.count) == (2, None, 190)
    before = versions(connection, own)
    produce(connection, own, encoded(rows)[190:], 190)
    run_until(own, connection, ROWS)
    clean = clean_of(connection, real_broker.name("clean"), tmp_path / "clean", *PLACES)
    assert_same(connection, own, clean, len(before))
    assert obeyed_of(newest(own)) == Obeyed.of(record_of(connection, own), 2)
    with CheckpointDirectory(FileSystem(own.checkpoint.directory), 2) as directory:
        assert {each.snapshot.incarnation for each in directory.generations() if each.snapshot} == {3}
    cuts = [version.lineage.cut[0].offset for version in versions(connection, own)[len(before) - 1 :]]
    assert cuts[0] == cuts[1]  # in the place of the newest one, which may be of the rows
    assert cuts[1:] == sorted(set(cuts[1:]))


def test_a_checkpoint_whose_record_is_gone_is_refused(real_broker: TestBroker, tmp_path: Path) -> None:
    """Without the record the rows would be learned; the same command writes it anew."""
    connection = real_broker.connection
    own = started(connection, real_broker.name("norecord"), tmp_path)
    produce(connection, own, encoded(gaussian(50, 9)))
    run_until(own, connection, 50)
    forgotten(connection, own, 30)
    producer = Producer(dict(connection.options))
    producer.produce(own.output.aliases_topic, None, left_out_key("m").encode(), partition=0)
    assert not producer.flush(60.0)
    with pytest.raises(StateError, match="but the aliases topic holds no record m@erased") as refused:
        run_until(own, connection, 1)
    assert "give streamsvm history forget the same rows once more" in refused.value.remedy
    forgotten(connection, own, 30)
    run_until(own, connection, 50)
    assert newest(own).learner.partitions[0].learned.count == 49
