"""A backfill of files: the records that streaming writes, whoever is killed; versions that name their files."""

from __future__ import annotations

import threading
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from typer.testing import CliRunner

from consumers.branches.workers.coresets_topic import CoresetsWriter, files_of, read_partition
from consumers.branches.workers.files.backfill import Files, backfill_files, layout_of
from consumers.branches.workers.files.survey import found_in
from consumers.branches.workers.metrics import WORKER
from consumers.branches.workers.settings import FilesConfig, coresets_topic
from consumers.cli.app import app
from consumers.metrics import Metrics
from consumers.settings import Settings
from consumers.verify.verify import verify
from streamsvm.branches.workers.files_part import FilesOrigin
from streamsvm.errors import ConfigurationError, StateError
from streamsvm.kafka import Cluster, Connection
from streamsvm.model.version import positions
from streamsvm.points import Position
from streamsvm.verification.report import Outcome
from tests.branches.workers.files.history import Backfilling, History, given, large
from tests.branches.workers.files.tables import table, write
from tests.branches.workers.group_workers import WorkerRunning, check_topic
from tests.branches.workers.test_backfill import copy_openings, manifests, second
from tests.branches.workers.test_group_workers import adopting_settings, covered
from tests.branches.workers.test_workers import PARTITIONS
from tests.brokers.fixtures import TestBroker
from tests.consumers.trainers import Running, produce, versions

pytestmark = pytest.mark.enough("embedded")


@pytest.fixture
def settings(broker: TestBroker, tmp_path: Path) -> Settings:
    return large(adopting_settings(broker, tmp_path / "checkpoint"))


def with_files(settings: Settings, *paths: Path) -> Settings:
    """Return settings for `verify --files`."""
    return settings.model_copy(update={"files": FilesConfig(paths=tuple(map(str, paths)))})


def stream(settings: Settings, connection: Connection, history: History) -> None:
    """Let a worker learn each partition to its end."""
    with WorkerRunning(settings, connection, ordinal=0, of=1) as worker:
        worker.wait_until(lambda: worker.value("streamsvm_worker_partitions") == PARTITIONS)
        worker.wait_until(
            lambda: all(
                worker.metrics.registry.get_sample_value("streamsvm_input_lag_records", {"partition": str(p)}) == 0
                for p in range(PARTITIONS)
            )
        )
    for partition in range(PARTITIONS):
        held = read_partition(Cluster(connection), settings, partition)[0].highest()
        assert held is not None
        assert held.state.learned.rows == history.rows(partition)


@pytest.mark.long(keep=("embedded-short",))
@pytest.mark.parametrize("rows", [20_000, 200_000], ids=["short", "more"])
def test_half_from_files_and_half_streamed_is_all_streamed(
    settings: Settings, connection: Connection, tmp_path: Path, rows: int
) -> None:
    """So many rows in four partitions: the same manifests, byte for byte, and versions that name the files."""
    history, topic = History.of(rows), settings.input.topic
    history.send(connection, topic)
    history = history.timed(connection, topic)
    folder = history.files(tmp_path / "files", share=0.5)
    running = Backfilling(settings, connection, given([folder], tmp_path))
    running.wait_until_recorded()
    with Running(settings, connection) as trainer:
        trainer.wait_until_started()
        copy_openings(settings, connection)
        assert running.wait() == 0
        trainer.wait_until(covered(trainer, rows // 4))
        stream(settings, connection, history)
        trainer.wait_until(covered(trainer, rows - 4 * 250 * 4))
    stream(second(settings), connection, history)
    assert manifests(settings, connection) == manifests(second(settings), connection)
    assert sum(one.rewritten for one in check_topic(connection, settings, PARTITIONS)) == 0
    found = versions(connection, settings)
    for version in found:
        origin = version.lineage.fact(FilesOrigin)
        assert origin is not None
        assert [file.name for file in origin.files] == [f"part={k}/points.parquet" for k in range(3)]
        assert positions(version.lineage.base) == origin.base == dict.fromkeys(range(PARTITIONS), Position(0))
    report = verify(Cluster(connection), settings)
    assert {row.outcome for row in report.rows} == {Outcome.UNAVAILABLE}
    assert "give them with --files" in report.rows[0].note
    report = verify(Cluster(connection), with_files(settings, folder))
    assert {row.outcome for row in report.rows} == {Outcome.IDENTICAL}, list(report.lines())
    changed = folder / "part=1" / "points.parquet"
    write(changed, table(10))
    with pytest.raises(StateError, match=r"part=1/points.parquet has the SHA-256 \w{64} now, and had \w{64}"):
        verify(Cluster(connection), with_files(settings, folder))


@pytest.mark.long
def test_a_backfill_that_was_stopped_goes_on(settings: Settings, connection: Connection, tmp_path: Path) -> None:
    """Three times, in the middle of a part: what is stored in the end is what a backfill at one go stores."""
    history, topic = History.of(20_000), settings.input.topic
    history.send(connection, topic)
    folder = history.timed(connection, topic).files(tmp_path / "files")
    files = given([folder], tmp_path)
    running = Backfilling(settings, connection, files, processes=1)
    running.wait_until_recorded()
    with Running(settings, connection) as trainer:
        trainer.wait_until_started()
    copy_openings(settings, connection)
    running.stop.set()
    assert running.wait() == 75
    for _ in range(2):
        running = Backfilling(settings, connection, files, processes=1)
        before = manifests(settings, connection)
        pause = threading.Event()
        while manifests(settings, connection) == before:
            pause.wait(0.02)
        running.stop.set()
        assert running.wait() in (0, 75)
    assert Backfilling(settings, connection, files).wait() == 0
    assert Backfilling(second(settings), connection, files).wait() == 0
    assert manifests(settings, connection) == manifests(second(settings), connection)
    check_topic(connection, settings, PARTITIONS)


def room(connection: Connection, topic: str) -> None:
    """Let each partition begin at offset 1."""
    for partition in range(PARTITIONS):
        produce(connection, topic, [b"{}"], partition)
    admin = AdminClient({"bootstrap.servers": Cluster(connection).servers})
    for done in admin.delete_records([TopicPartition(topic, p, 1) for p in range(PARTITIONS)]).values():
        done.result(30.0)


def test_files_go_before_a_topic(real_broker: TestBroker, tmp_path: Path) -> None:
    """Which holds none of their rows: versions are made again from both, and only from both."""
    connection = real_broker.connection
    settings = large(adopting_settings(real_broker, tmp_path / "checkpoint"))
    topic = settings.input.topic
    room(connection, topic)
    history = History.of(8_000)
    folder = history.files(tmp_path / "files", share=0.75)
    running = Backfilling(settings, connection, given([folder], tmp_path, in_topic=False))
    running.wait_until_recorded()
    with Running(settings, connection) as trainer:
        trainer.wait_until_started()
        assert running.wait() == 0
        trainer.wait_until(covered(trainer, 3_000))
    history.send(connection, topic, 0.75)
    with Running(settings, connection) as trainer:  # goes on from its checkpoint
        trainer.wait_until_started()
        stream(settings, connection, history)
        trainer.wait_until(covered(trainer, 8_000 - 4 * 250 * 2))
    report = verify(Cluster(connection), settings)
    assert {row.outcome for row in report.rows} == {Outcome.UNAVAILABLE}
    report = verify(Cluster(connection), with_files(settings, folder))
    assert {row.outcome for row in report.rows} == {Outcome.IDENTICAL}, list(report.lines())
    assert versions(connection, settings)[-1].lineage.fact(FilesOrigin) is not None


def test_nothing_goes_before_the_first_offset(settings: Settings, connection: Connection, tmp_path: Path) -> None:
    """Nor does a topic hold rows that it does not hold; both are refused before anything is written."""
    folder = History.of(200).files(tmp_path / "files")
    cluster, stop = Cluster(connection), threading.Event()
    engine = {"engine": "process", "master": None, "processes": 1}
    for in_topic, said in ((False, "begins at offset 0, so nothing can go before it"), (True, "holds 0 records")):
        files = given([folder], tmp_path, in_topic=in_topic)
        with pytest.raises(ConfigurationError, match=said):
            backfill_files(settings, cluster, files, stop, **engine)  # type: ignore[arg-type]
    assert files_of(cluster, settings) is None


def recorded(settings: Settings, connection: Connection, files: Files) -> None:
    """Record the cut of files, let a trainer begin with it, and learn nothing."""
    running = Backfilling(settings, connection, files, processes=1)
    running.wait_until_recorded()
    running.stop.set()
    running.wait()
    with Running(settings, connection) as trainer:
        trainer.wait_until_started()


def test_other_files_are_refused_where_a_trainer_has_begun(
    settings: Settings, connection: Connection, tmp_path: Path
) -> None:
    """By name and both digests; so is a trainer that began without files, and a damaged record."""
    history, topic = History.of(400), settings.input.topic
    history.send(connection, topic)
    folder = history.files(tmp_path / "files", share=0.5)
    files = given([folder], tmp_path)
    recorded(settings, connection, files)
    worker = WorkerRunning(settings, connection, ordinal=0, of=1)
    with worker:  # streaming waits for the files
        worker.wait_until(lambda: "files go before the stream" in str(worker.health.ready()))
    write(folder / "part=2" / "points.parquet", table(1))
    with pytest.raises(StateError, match=r"part=2/points.parquet has the SHA-256 \w{64} now, and had \w{64}"):
        Backfilling(settings, connection, files).wait()
    outbox = Cluster(connection).outbox()
    cut = files_of(Cluster(connection), settings)
    assert cut is not None
    wrong = msgspec.structs.replace(cut, format=9)
    CoresetsWriter(coresets_topic(settings), outbox, Metrics(WORKER)).put_files(wrong)
    outbox.close()
    with pytest.raises(StateError, match="record m/f is of format 9"):
        Backfilling(settings, connection, files).wait()


def test_a_trainer_that_began_elsewhere_is_told(settings: Settings, connection: Connection, tmp_path: Path) -> None:
    """With the option by which it begins anew; nothing of it is touched."""
    history, topic = History.of(400), settings.input.topic
    latest = settings.model_copy(update={"input": settings.input.model_copy(update={"start": "latest"})})
    history.send(connection, topic)
    with Running(latest, connection) as trainer:
        trainer.wait_until_started()
    folder = history.files(tmp_path / "files", share=0.5)
    with pytest.raises(StateError, match="without these files") as raised:
        Backfilling(settings, connection, given([folder], tmp_path)).wait()
    assert "--reset m/1" in raised.value.remedy


def test_bad_rows_are_listed_in_files(settings: Settings, connection: Connection, tmp_path: Path) -> None:
    """And wrong columns end the backfill with the first of them."""
    history, topic = History.of(1_600), settings.input.topic
    history.send(connection, topic)
    points = history.points.to_pydict()
    points["f1"][7] = None
    path = write(tmp_path / "points.parquet", history.points.from_pydict(points))
    files = given([path], tmp_path)
    recorded(settings, connection, files)
    assert Backfilling(settings, connection, files).wait() == 0
    (letters,) = (tmp_path / "letters").iterdir()
    (line,) = letters.read_bytes().splitlines()
    found = msgspec.json.decode(line)
    assert (found["file"], found["row"], found["column"]) == ("points.parquet", 8, "f1")


def test_columns_are_found_by_their_names(settings: Settings, tmp_path: Path) -> None:
    """Else the command says which option is missing."""
    files = found_in([write(tmp_path / "a.csv", table(3).drop_columns(["w", "unused"]))])
    layout = layout_of(files, settings, {"key": "user", "time": "at"}, 4)
    assert (layout.label, layout.features) == ("y", ("f0", "f1", "f2"))
    with pytest.raises(ConfigurationError, match="in which of the 4 partitions"):
        layout_of(files, settings, {"features": "f0,f1,f2"}, 4)
    with pytest.raises(ConfigurationError, match="has 2 feature columns"):
        layout_of(files, settings, {"features": "f0,f1", "key": "user"}, 4)
    with pytest.raises(ConfigurationError, match="has no column f9"):
        layout_of(files, settings, {"features": "f0,f1,f9", "key": "user"}, 4)
    files = found_in([write(tmp_path / "b.csv", table(3).drop_columns(["y"]))])
    with pytest.raises(ConfigurationError, match="no column named y"):
        layout_of(files, settings, {"key": "user"}, 4)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--key", "user"], "--key is for files"),
        (["--engine", "spark"], "--engine spark is for files"),
        (["a.csv", "--master", "local"], "--master is for Spark"),
    ],
)
def test_options_of_something_else_are_refused(options: list[str], said: str) -> None:
    """Before a broker is asked."""
    found = CliRunner().invoke(app, ["scale", "backfill", *options, "--points-dimension", "2"])
    assert found.exit_code != 0
    assert said in f"{found.output} {found.exception}"
