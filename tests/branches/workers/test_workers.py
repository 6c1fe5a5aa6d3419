"""Workers: processes that read and learn for one trainer; versions, dead letters and restarts as of one process."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from consumers.branches.workers.crew import owner, plain
from consumers.branches.workers.messages import newest_of, rows_of
from consumers.branches.workers.process import NEWEST_ROWS, NewestRowsByPartition
from consumers.cli.app import app
from consumers.settings import Settings, TrainingConfig
from consumers.streams.dead_letters import HANDFUL
from streamsvm.config import CoresetConfig, PointsConfig
from streamsvm.errors import ConfigurationError, TransientError
from streamsvm.ingest import dead_letter as deadletter
from streamsvm.ingest.decoder import encode
from streamsvm.kafka import Cluster, Connection, TopicSpec
from streamsvm.learning.learner import Learner
from streamsvm.learning.training import train
from streamsvm.model import message as model_codec
from streamsvm.model.version import Version, positions
from streamsvm.points import Points, Position
from tests import streams
from tests.brokers.fixtures import TestBroker
from tests.consumers.trainers import START_S, Running, produce, run_until, settings_for, topic, versions
from tests.streams import gaussian
from tests.test_subscriber import eventually

PARTITIONS = 4
ROWS = 130
"""Of each partition."""


@pytest.fixture
def settings(broker: TestBroker, tmp_path: Path) -> Settings:
    made = settings_for(broker.name("w"), tmp_path / "checkpoint", policy="latest", workers=2)
    Cluster(broker.connection).create([TopicSpec(made.input.topic, PARTITIONS)])
    return made


def fill(connection: Connection, topic_: str, begin: int = 0, end: int = ROWS, bad: tuple[int, ...] = ()) -> None:
    """Put each partition's own points into it, some of them spoiled."""
    for partition in range(PARTITIONS):
        points = gaussian(ROWS, seed=partition)
        values: list[bytes | None] = [
            encode(points.X[at], int(points.y[at]), float(points.weight[at])) for at in range(begin, end)
        ]
        for at in bad:
            if begin <= at < end:
                values[at - begin] = b"{"
        produce(connection, topic_, values, partition)


def of_one_learner(settings: Settings, version: Version, bad: tuple[int, ...] = ()) -> tuple[str, bytes]:
    """Return training set and coefficients of a version's cut, made without broker, processes or daemon."""
    config, cut = settings.models(), positions(version.lineage.cut)
    learner = Learner(config, dict.fromkeys(cut, Position(0)), 1 << 30)
    for partition, end in cut.items():
        accepted = np.ones(ROWS, np.bool_)
        accepted[list(bad)] = False
        rows = streams.rows_of(gaussian(ROWS, seed=partition), partition, accepted=accepted)
        learner.learn(rows, until=end)
    made = learner.cut()
    assert dict(made.positions) == cut
    trained = train(made.points, made.moments, config.svm)
    return made.points.sha256(), trained.model.machine.coefficients.tobytes()  # type: ignore[union-attr]


def check(settings: Settings, connection: Connection, bad: tuple[int, ...] = ()) -> list[Version]:
    """Check numbers, chain and bytes of every version; return them."""
    found = versions(connection, settings)
    assert [version.number for version in found] == list(range(1, len(found) + 1))
    hashes = [model_codec.sha256(record.value) for record in topic(connection, settings.output.models_topic)]
    assert [version.lineage.parent for version in found] == [None, *hashes[:-1]]
    for version in found:
        expected = of_one_learner(settings, version, bad)
        assert (version.lineage.training_set_sha256, version.model.machine.coefficients.tobytes()) == expected  # type: ignore[union-attr]
    return found


def test_every_version_has_the_bytes_of_one_process(settings: Settings, connection: Connection) -> None:
    """Whatever its cut is; the last one covers all that completed a leaf."""
    fill(connection, settings.input.topic)
    running = run_until(settings, connection, ROWS * PARTITIONS)
    found = check(settings, connection)
    assert found[-1].stream.rows >= PARTITIONS * (ROWS - 20)
    assert running.value("streamsvm_workers") == 2
    assert running.value("streamsvm_input_records_total", partition="3") == ROWS
    assert running.value("streamsvm_worker_cpu_seconds_total", worker="1") > 0.0


@pytest.mark.long
def test_workers_write_dead_letters(settings: Settings, connection: Connection) -> None:
    """Once each; no row of a rejected record is in a version, and people see the newest."""
    bad = (3, 40, 77)
    fill(connection, settings.input.topic, bad=bad)
    running = run_until(settings, connection, ROWS * PARTITIONS)
    check(settings, connection, bad)
    cluster = Cluster(connection)
    letters = [
        dict(record.headers)["__streams.errors.offset"].decode()
        for partition in cluster.describe(settings.input.dead_letters).partitions
        for record in cluster.read_to_end(settings.input.dead_letters, partition, timeout_s=30.0)
    ]
    assert sorted(map(int, letters)) == sorted(bad * PARTITIONS)
    assert running.value("streamsvm_input_rows_total", outcome="rejected") == len(letters)
    assert running.board.snapshot is not None


def test_workers_under_a_wrong_configuration_reject_a_handful(settings: Settings, connection: Connection) -> None:
    """Of each worker; the next start begins with the same records."""
    wrong = settings.model_copy(
        update={
            "points": PointsConfig(dimension=7),
            "input": settings.input.model_copy(update={"max_consecutive_dead_letters": 30}),
        }
    )
    fill(connection, settings.input.topic)
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="30 records in a row"), Running(wrong, connection) as running:
            running.wait_until(lambda: False)
    letters = [deadletter.decode(one.value, one.headers) for one in topic(connection, settings.input.dead_letters)]
    assert len(letters) <= 2 * 2 * HANDFUL
    # A worker may end before its letters are on their way; the next start rejects the same records again.
    assert all(letter.offset < HANDFUL for letter in letters)


@pytest.mark.long
def test_a_stream_goes_on_through_restarts_and_other_numbers_of_workers(
    settings: Settings, connection: Connection
) -> None:
    """From two processes to one, to three: one chain, and nothing is learned twice or left out."""
    begin = 0
    for end, workers in ((50, 2), (90, 1), (ROWS, 3)):
        fill(connection, settings.input.topic, begin, end)
        training = settings.training.model_copy(update={"workers": workers})
        with Running(settings.model_copy(update={"training": training}), connection) as running:
            running.wait_for_rows((end - begin) * PARTITIONS)
        begin = end
    found = check(settings, connection)
    assert found[-1].stream.rows >= PARTITIONS * (ROWS - 20)


@pytest.mark.long(keep=("embedded",))
def test_a_killed_worker_ends_the_trainer_with_its_name_and_nothing_is_lost(
    settings: Settings, connection: Connection
) -> None:
    """The next start goes on from the checkpoint."""
    fill(connection, settings.input.topic, 0, 70)
    running = Running(settings, connection).__enter__()
    running.wait_for_rows(70 * PARTITIONS)
    os.kill(worker_of(1), signal.SIGKILL)
    with pytest.raises(TransientError, match=r"worker 1 of 2 \(process \d+\) was ended by SIGKILL. Start the trainer"):
        running.wait_until(lambda: False)
    fill(connection, settings.input.topic, 70)
    with Running(settings, connection) as running:
        running.wait_until_started()
        running.wait_until(lambda: running.value("streamsvm_model_points_covered") >= PARTITIONS * (ROWS - 20))
    check(settings, connection)


def worker_of(number: int) -> int:
    """Return the process of a worker among this process's children."""
    own, children = Path(f"/proc/{os.getpid()}/task"), []
    for task in own.iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended meanwhile
            children += [int(child) for child in (task / "children").read_text().split()]
    found = [
        child
        for child in children
        if b"consumers.branches.workers.process" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]
    return sorted(found)[number]


@pytest.mark.long
def test_a_worker_ends_with_its_trainer(settings: Settings, connection: Connection) -> None:
    """No process is left behind, and a worker lets signals be the trainer's business."""
    with Running(settings, connection) as running:
        running.wait_until_started()
        pids = [worker_of(0), worker_of(1)]
        os.kill(pids[0], signal.SIGTERM)
        os.kill(pids[1], signal.SIGINT)
        time.sleep(0.3)
        assert all(Path(f"/proc/{pid}").exists() for pid in pids)
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "both workers have ended")


@pytest.mark.long
def test_a_replay_ends_exactly_at_the_newest_version(settings: Settings, connection: Connection) -> None:
    """A start without the newest checkpoints reads again up to the head's cut, and finds its training set there."""
    fill(connection, settings.input.topic, 0, 60)
    directory = settings.checkpoint.directory
    with Running(settings, connection) as running:
        running.wait_until_started()
        early = {path.name: path.read_bytes() for path in directory.glob("checkpoint-*")}
        running.wait_for_rows(60 * PARTITIONS)
    published = len(versions(connection, settings))
    assert published
    for path in directory.glob("checkpoint-*"):
        path.unlink()
    for name, content in early.items():
        (directory / name).write_bytes(content)
    fill(connection, settings.input.topic, 60)
    with Running(settings, connection) as running:
        running.wait_until_started()
        running.wait_until(lambda: running.value("streamsvm_model_points_covered") >= PARTITIONS * (ROWS - 20))
    assert len(check(settings, connection)) > published


@pytest.mark.long
def test_new_partitions_are_taken_up(broker: TestBroker, tmp_path: Path) -> None:
    """By the worker that owns them."""
    if broker.connection.embedded:
        pytest.skip("the embedded broker cannot add partitions")
    from confluent_kafka.admin import AdminClient, NewPartitions

    made = settings_for(broker.name("g"), tmp_path / "checkpoint", policy="latest", workers=2)
    made = made.model_copy(update={"input": made.input.model_copy(update={"watch_interval_s": 0.2})})
    cluster = Cluster(broker.connection)
    cluster.create([TopicSpec(made.input.topic, 2)])
    for partition in (0, 1):
        points = gaussian(ROWS, seed=partition)
        produce(
            broker.connection, made.input.topic, [encode(x, int(y), float(w)) for x, y, w in parts(points)], partition
        )
    with Running(made, broker.connection) as running:
        running.wait_for_rows(2 * ROWS)
        admin = AdminClient(dict(broker.connection.options))
        admin.create_partitions([NewPartitions(made.input.topic, 4)])[made.input.topic].result(30)
        for partition in (2, 3):
            points = gaussian(ROWS, seed=partition)
            values = [encode(x, int(y), float(w)) for x, y, w in parts(points)]
            produce(broker.connection, made.input.topic, values, partition)
        running.wait_until(lambda: running.value("streamsvm_model_points_covered") >= 4 * (ROWS - 20))
    assert set(positions(check(made, broker.connection)[-1].lineage.cut)) == {0, 1, 2, 3}


def parts(points: Points) -> Any:
    return zip(points.X, points.y, points.weight, strict=True)


@pytest.mark.long
def test_a_wrong_stream_is_refused_by_the_worker_that_reads_it(settings: Settings, connection: Connection) -> None:
    """The error has its class, so the exit status is that of one process."""
    produce(connection, settings.input.topic, [b"{"] * 1_200, 1)
    running = Running(settings, connection).__enter__()
    with pytest.raises(ConfigurationError, match="worker 1: "):
        running.wait_until(lambda: False, START_S)


def test_every_cut_needs_one_process() -> None:
    """Refused by name."""
    with pytest.raises(ValueError, match=r"training.policy = every, but training.workers = 2: where each cut falls"):
        TrainingConfig(policy="every", workers=2)


def test_workers_have_a_short_flag() -> None:
    """`--workers` is `--training-workers`."""
    found = CliRunner().invoke(app, ["train", "--workers", "2", "--training-policy", "every"])
    assert isinstance(found.exception, ConfigurationError)
    assert "training.policy = every, but training.workers = 2: where each cut falls" in str(found.exception)


def test_settings_reach_a_worker_as_they_are() -> None:
    """Whatever was derived of what was given."""
    for coreset in ({}, {"memory": "adaptive"}, {"points": 5_000}, {"structure": "tree"}):
        made = Settings(points=PointsConfig(dimension=5), coreset=CoresetConfig(**coreset), kafka={"a.b": "c"})
        again = Settings(**plain(made))
        assert again == made
        assert again.models().sha256() == made.models().sha256()


def test_each_partition_has_one_owner() -> None:
    """All are owned, whatever the number of workers."""
    assert [owner(partition, 3) for partition in range(7)] == [0, 1, 2, 0, 1, 2, 0]


def test_the_newest_rows_travel_whole() -> None:
    """The newest of each partition, in their order, byte for byte."""
    newest, streams_ = NewestRowsByPartition(), {p: streams.rows_of(gaussian(2_000, seed=p), p) for p in (0, 1)}
    for start in range(0, 2_000, 90):
        for rows in streams_.values():
            newest.note(rows.slice(start, min(start + 90, 2_000)))
    found = {one.partition: rows_of(one) for one in newest.take()}
    for partition, rows in streams_.items():
        expected = rows.slice(2_000 - NEWEST_ROWS, 2_000)
        assert newest_of(found[partition]) == newest_of(expected)
        assert found[partition].points.sha256() == expected.points.sha256()
    assert not newest.take()
