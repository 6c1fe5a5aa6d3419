"""`archive.directory` and `streamsvm history build`: what a trainer learned, and a model of any stretch of it."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import copytree

import msgspec
import numpy as np
import pytest
from confluent_kafka import Producer
from sklearn.svm import SVC

from consumers.branches.history.archivist import outdated
from consumers.branches.history.building import Builder, BuiltRange, RangeRequest, archive_store, publish_built
from consumers.branches.history.erased_rows import ErasedRows
from consumers.branches.history.forgetting import report_of
from consumers.branches.history.rebuilding import rebuild, summaries
from consumers.branches.history.settings import ArchiveConfig
from consumers.settings import Settings
from consumers.verify.verify import verify
from streamsvm.branches.history.built_part import Built, BuiltOf
from streamsvm.branches.history.names import Node
from streamsvm.checkpoint.disk import FileSystem
from streamsvm.checkpoint.records import encode_bucket
from streamsvm.config import SvmConfig
from streamsvm.delivery.publication import Publication
from streamsvm.errors import ConfigurationError, InvalidMessage, StateError
from streamsvm.kafka import Cluster, Connection, TopicSpec
from streamsvm.learning.recipe import Made
from streamsvm.model import message as model_codec
from streamsvm.model.machine import LinearMachine
from streamsvm.points import Points, Position
from streamsvm.registry.loading import load_record
from streamsvm.verification.report import Outcome
from tests.branches.history.archives import forget
from tests.brokers.fixtures import TestBroker
from tests.consumers.test_cli import error_of, run
from tests.consumers.trainers import encoded, run_until, settings_for, topic
from tests.golden.model import handmade
from tests.kafka.foreign import delete_records
from tests.sizes import sized
from tests.streams import gaussian

ROWS, SPAN = 640, 64
"""Rows of each of two partitions."""
BEGUN = datetime(2026, 3, 1, tzinfo=UTC)
MINUTES = 10
"""Between two rows of a partition: ROWS of them are four and a half days."""
FOR_EVER = {"retention.ms": "-1"}


def at(row: float) -> datetime:
    """Return the time of a row."""
    return BEGUN + timedelta(minutes=MINUTES * row)


def produce(connection: Connection, name: str, points: Points, partition: int, first: int = 0) -> None:
    producer = Producer(dict(connection.options))
    for row, value in enumerate(encoded(points), first):
        producer.produce(name, value, partition=partition, timestamp=round(at(row).timestamp() * 1e3))
    assert not producer.flush(60.0)


def stream(partition: int) -> Points:
    return gaussian(ROWS, 10 + partition)


def settings_of(prefix: str, directory: Path) -> Settings:
    made = settings_for(prefix, directory / "checkpoint")
    return made.model_copy(
        update={
            "coreset": sized(leaf_rows=50, bucket_points=40, audit_points=100),
            "svm": SvmConfig(alpha=1e-2, probability="sigmoid"),
            "training": made.training.model_copy(update={"every_leaves": 4}),
            "archive": ArchiveConfig(directory=directory / "archive", leaf_rows=32, span_rows=SPAN, bucket_points=48),
        }
    )


class Past:
    """A trainer that has learned its stream, stopped once on the way."""

    def __init__(self, connection: Connection, prefix: str, directory: Path) -> None:
        self.connection, self.settings = connection, settings_of(prefix, directory)
        Cluster(connection).create([TopicSpec(self.settings.input.topic, 2, config=FOR_EVER)])
        half = ROWS // 2 + 5  # within a span, and within its screened part
        for partition in range(2):
            produce(connection, self.settings.input.topic, stream(partition).take(np.arange(half)), partition)
        run_until(self.settings, connection, 2 * half)
        for partition in range(2):
            rest = stream(partition).take(np.arange(half, ROWS))
            produce(connection, self.settings.input.topic, rest, partition, half)
        run_until(self.settings, connection, 2 * (ROWS - half))

    @property
    def erased(self) -> ErasedRows:
        return ErasedRows(Cluster(self.connection), self.settings.output.aliases_topic, 30.0)

    @property
    def directory(self) -> Path:
        assert self.settings.archive.directory is not None
        return self.settings.archive.directory

    def builder(self, said: list[str] | None = None, directory: Path | None = None) -> Builder:
        loaded, _ = load_record(self.connection, self.settings.name, models_topic=self.settings.output.models_topic)
        say = (said if said is not None else []).append
        cluster = Cluster(self.connection)
        return Builder(cluster, archive_store(directory or self.directory), loaded, say, self.erased)

    def build(
        self, asked: RangeRequest, name: str, builder: Builder | None = None
    ) -> tuple[BuiltRange, Made, Publication]:
        builder = builder or self.builder()
        found = builder.take(asked)
        made, target = builder.made(found), self.settings.model_copy(update={"name": name})
        return found, made, publish_built(self.connection, target, builder, asked, found, made, "tester")


@pytest.fixture(scope="module")
def past(real_broker: TestBroker, tmp_path_factory: pytest.TempPathFactory) -> Past:
    return Past(real_broker.connection, real_broker.name("past"), tmp_path_factory.mktemp("past"))


def rows_between(first: int, last: int, partitions: Sequence[int] = (0, 1)) -> Points:
    return Points.union([stream(partition).take(np.arange(first, last)) for partition in partitions])


def of_exactly(made: Made, points: Points) -> None:
    """See that a machine is of these points: their exact count and totals, and nearly the least objective over them.

    Nearly, because buckets of 48 points stand for up to 512 rows here.
    """
    cut, fit, scaler = made.cut, made.trained.fit, made.trained.model.scaler
    assert cut.moments.count == len(points)
    np.testing.assert_allclose(cut.moments.mean, np.average(points.X, axis=0, weights=points.weight), rtol=1e-5)
    np.testing.assert_allclose(cut.moments.weight, points.weight.sum(), rtol=1e-12)
    X = scaler.transform(points.X)
    svc = SVC(kernel="linear", C=1.0, tol=1e-8).fit(X, points.y, sample_weight=fit.C * points.weight)

    def objective(machine: LinearMachine) -> float:
        loss = np.maximum(0.0, 1.0 - points.y * (X @ machine.coefficients + machine.intercept))
        return float(machine.coefficients @ machine.coefficients / 2 + fit.C * points.weight @ loss)

    best = objective(LinearMachine(svc.coef_[0], float(svc.intercept_[0])))
    assert isinstance(made.trained.model.machine, LinearMachine)
    assert objective(made.trained.model.machine) <= 1.05 * best


def names(directory: Path) -> set[str]:
    return {file.name for file in directory.iterdir() if Node.parse(file.name)}


def test_an_archive_changes_no_version(past: Past) -> None:
    """Every version is, byte for byte, what a recomputation makes of the log, which knows no archive.

    Not what a second trainer publishes: where its cuts fall depends on which partition's records come first.
    """
    report = verify(Cluster(past.connection), past.settings)
    assert report.rows
    assert {row.outcome for row in report.rows} == {Outcome.IDENTICAL}


def test_a_restart_leaves_the_archive_as_it_would_be(past: Past, tmp_path: Path) -> None:
    """The same files as of an archive that a rebuild makes of the whole log; ten spans of each partition and what is
    above them."""
    assert len(names(past.directory)) == 2 * (10 + 5 + 2 + 1)
    (tmp_path / "archive").mkdir(mode=0o700)
    (tmp_path / "archive" / "archive.json").write_bytes((past.directory / "archive.json").read_bytes())
    done = rebuild(Cluster(past.connection), tmp_path / "archive", print, past.erased)
    assert (done.sound, done.damaged, done.made, done.lost) == (0, 0, 2 * (10 + 5 + 2 + 1), 0)
    assert names(tmp_path / "archive") == names(past.directory)


@pytest.mark.long(keep=("100-500", "0-640"))  # on borders of spans, and of everything
@pytest.mark.parametrize(
    ("first", "last"), [(2 * SPAN, 8 * SPAN), (100, 500), (70, 110), (3 * SPAN + 1, 4 * SPAN - 1), (0, ROWS)]
)
def test_a_model_of_a_stretch_is_of_exactly_its_rows(past: Past, first: int, last: int) -> None:
    """On borders of spans and off them, within one span, and of everything; made again from the log by `verify`."""
    name = f"of-{first}-{last}"
    found, made, sent = past.build(RangeRequest(since=at(first), until=at(last)), name)
    assert found.exact
    of_exactly(made, rows_between(first, last))
    assert found.rows_read <= 2 * 2 * SPAN
    if first % SPAN == last % SPAN == 0:
        assert not found.rows_read
    version = model_codec.decode(sent.value)
    assert version.lineage.fact(Built) is not None
    assert [(part.offset, part.row) for part in version.lineage.base] == [(first, 0)] * 2
    assert [(part.offset, part.row) for part in version.lineage.cut] == [(last, 0)] * 2
    report = verify(Cluster(past.connection), past.settings.model_copy(update={"name": name}))
    assert [row.outcome for row in report.rows] == [Outcome.IDENTICAL], report.lines()


def test_everything_but_a_stretch_is_as_if_that_had_never_been(past: Past) -> None:
    """Not one of its rows counts; a partition may be left out, too."""
    asked = RangeRequest(since=None, until=None, holes=[(at(200), at(206)), (at(300), at(300 + SPAN))])
    found, made, _ = past.build(asked, "clean")
    parts = [rows_between(0, 200), rows_between(206, 300), rows_between(300 + SPAN, ROWS)]
    of_exactly(made, Points.union(parts))
    assert verify(Cluster(past.connection), past.settings.model_copy(update={"name": "clean"})).clean
    one, made, _ = past.build(replace(asked, partitions=frozenset({1})), "clean")
    of_exactly(
        made, Points.union([rows_between(0, 200, [1]), rows_between(206, 300, [1]), rows_between(364, ROWS, [1])])
    )
    assert {part.partition for part in one.parts} == {1}
    assert len(found.parts) > len(one.parts)
    report = verify(Cluster(past.connection), past.settings.model_copy(update={"name": "clean"}))
    assert [row.outcome for row in report.rows] == [Outcome.IDENTICAL] * 2
    audit = [record.value for record in topic(past.connection, past.settings.output.audit_topic) if record.value]
    assert any(json.loads(value)["name"] == "clean" and json.loads(value)["by"] == "tester" for value in audit)


def test_a_lost_or_damaged_bucket_is_named_and_made_of_others(past: Past, tmp_path: Path) -> None:
    """Two halves instead of one, or rows of the log; the answer is of the same rows. A rebuild makes the same bytes."""
    directory = copytree(past.directory, tmp_path / "archive")
    nodes = [node for node in archive_store(directory).nodes() if node.partition == 0]
    top = max(nodes, key=lambda node: node.level)
    lost = [node for node in nodes if (node.level, node.number) in ((1, 9), (2, 4))]
    (directory / top.name).write_bytes((directory / top.name).read_bytes()[:-7])
    for node in lost:
        (directory / node.name).unlink()
    said: list[str] = []
    builder = past.builder(said, directory)
    found = builder.take(RangeRequest(since=at(0), until=at(ROWS)))
    of_exactly(builder.made(found), rows_between(0, ROWS))
    assert found.exact
    assert found.rows_read == SPAN
    assert any(top.name in line and "checksum" in line for line in said)
    again: list[str] = []
    done = rebuild(Cluster(past.connection), directory, again.append, past.erased)
    assert (done.damaged, done.made, done.lost) == (1, 3, 0)
    assert names(directory) == names(past.directory)
    assert all((directory / name).read_bytes() == (past.directory / name).read_bytes() for name in names(directory))


def test_what_the_log_has_lost_is_left_out_and_said(real_broker: TestBroker, past: Past, tmp_path: Path) -> None:
    """Whole spans are there all the same; a border within one is not, and a version says so. A lost bucket is named."""
    own = settings_of(real_broker.name("gone"), tmp_path)
    Cluster(past.connection).create([TopicSpec(own.input.topic, 1, config=FOR_EVER)])
    produce(past.connection, own.input.topic, stream(0), 0)
    run_until(own, past.connection, ROWS)
    delete_records(past.connection, own.input.topic, 0, 5 * SPAN)
    gone = object.__new__(Past)
    gone.connection, gone.settings, said = past.connection, own, list[str]()
    builder = gone.builder(said)
    whole = builder.take(RangeRequest(since=at(SPAN), until=at(4 * SPAN)))
    assert whole.exact
    of_exactly(builder.made(whole), rows_between(SPAN, 4 * SPAN, [0]))
    found, made, sent = gone.build(RangeRequest(since=at(SPAN + 3), until=at(6 * SPAN + 3)), "edges", builder)
    assert not found.exact
    of_exactly(made, rows_between(2 * SPAN, 6 * SPAN + 3, [0]))
    assert any("64" in line and "all of them are left out" in line for line in said)
    built = model_codec.decode(sent.value).lineage.fact(Built)
    assert isinstance(built, Built)
    assert not built.exact
    clean = builder.take(RangeRequest(since=None, until=None, holes=[(at(SPAN + 3), at(SPAN + 5))]))
    of_exactly(builder.made(clean), Points.union([rows_between(0, SPAN, [0]), rows_between(2 * SPAN, ROWS, [0])]))
    report = verify(Cluster(past.connection), own.model_copy(update={"name": "edges"}))
    assert report.rows[0].outcome is Outcome.UNAVAILABLE
    assert "can be built again from its archive only" in report.rows[0].note
    lost = next(node for node in archive_store(gone.directory).nodes() if (node.level, node.number) == (1, 2))
    (gone.directory / lost.name).unlink()
    again: list[str] = []
    done = rebuild(Cluster(past.connection), gone.directory, again.append, past.erased)
    assert done.lost == 1
    assert "the rows from offset 128 to 192 are not archived, and the log no longer holds them" in again[0]


def test_forgotten_rows_are_gone_from_the_archive(real_broker: TestBroker, past: Past, tmp_path: Path) -> None:
    """As if they had been rejected when they came: in spans, above them, and in the open one; after a restart, too.

    The report names what was asked, what changed, and the versions that are of them.
    """
    own, clean = (settings_of(real_broker.name(name), tmp_path / name) for name in ("forget", "never"))
    rows, half = stream(0), ROWS // 2 + 9
    places = [3, 2 * SPAN + 40, half - 2]
    for settings in (own, clean):
        Cluster(past.connection).create([TopicSpec(settings.input.topic, 1, config=FOR_EVER)])
    produce(past.connection, own.input.topic, rows.take(np.arange(half)), 0)
    run_until(own, past.connection, half)
    without = replace(rows, X=rows.X.copy())
    without.X[places] = np.nan
    produce(past.connection, clean.input.topic, without, 0)
    run_until(clean, past.connection, ROWS)
    given = ["--bootstrap-servers", str(past.connection.options["bootstrap.servers"]), "--name", "m"]
    given += ["--archive-directory", str(own.archive.directory), "--input-topic", own.input.topic]
    given += ["--output-models-topic", own.output.models_topic]
    asked = [part for place in places for part in ("--position", f"0:{place}")]
    done = run("history", "forget", "--archive-only", "--json", *asked, *given)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["found"] == [f"0:{place}" for place in places]
    assert {(one["level"], one["start"]) for one in report["changed"] if one["level"] == 1} == {(1, 0), (1, 2 * SPAN)}
    assert all(one["before"] != one["after"] for one in report["changed"])
    assert any(line.startswith("m@1, SHA-256 ") and ", of 0:3" in line for line in report["versions"])
    assert any("Kafka's own log" in line for line in report["remains"])
    again = run("history", "forget", "--archive-only", *asked[:2], "--position", "0:99999", *given)
    assert again.returncode == 1, again.stderr
    assert "0:3, which was forgotten before" in again.stdout
    assert "0:99999: the log has not reached this offset" in again.stdout
    produce(past.connection, own.input.topic, rows.take(np.arange(half, ROWS)), 0, half)
    run_until(own, past.connection, ROWS - half)
    assert own.archive.directory is not None
    assert clean.archive.directory is not None
    assert names(own.archive.directory) == names(clean.archive.directory)
    gone = object.__new__(Past)
    gone.connection, gone.settings = past.connection, own
    found, made, sent = gone.build(RangeRequest(since=at(1), until=at(ROWS)), "forgot")
    of_exactly(made, rows.take(np.setdiff1d(np.arange(1, ROWS), places)))
    built = model_codec.decode(sent.value).lineage.fact(Built)
    assert isinstance(built, Built)
    assert built.forgotten == tuple((0, place, 0) for place in places)
    assert verify(Cluster(past.connection), own.model_copy(update={"name": "forgot"})).clean
    assert found.exact


def test_a_forged_bucket_is_found_by_verify_alone(past: Past, tmp_path: Path) -> None:
    """Who may write to the archive decides what is built of it; the log says what is true while it holds the rows."""
    copytree(past.directory, tmp_path / "forged")
    store = archive_store(tmp_path / "forged")
    for node in store.nodes():
        bucket = store.read(node)
        points = replace(bucket.points, y=-bucket.points.y)
        record = encode_bucket(replace(bucket, points=points))
        (tmp_path / "forged" / node.name).unlink()
        forged = Node.of(node.partition, node.base, bucket, record)
        (tmp_path / "forged" / forged.name).write_bytes(record.value)
    past.build(RangeRequest(since=at(0), until=at(ROWS)), "forged", past.builder(directory=tmp_path / "forged"))
    found = verify(Cluster(past.connection), past.settings.model_copy(update={"name": "forged"}))
    assert [row.outcome for row in found.rows] == [Outcome.DIFFERS]
    assert found.exit_status == 1
    assert verify(Cluster(past.connection), past.settings).clean


@pytest.mark.long
def test_where_a_bucket_cannot_be_made_again_nothing_is_changed(
    real_broker: TestBroker, past: Past, tmp_path: Path
) -> None:
    """Its rows are gone from the log; and a trainer that runs is not disturbed either."""
    own = settings_of(real_broker.name("kept"), tmp_path)
    assert own.archive.directory is not None
    Cluster(past.connection).create([TopicSpec(own.input.topic, 1, config=FOR_EVER)])
    produce(past.connection, own.input.topic, stream(0), 0)
    run_until(own, past.connection, ROWS)
    delete_records(past.connection, own.input.topic, 0, 5 * SPAN)
    before, given = names(own.archive.directory), (Cluster(past.connection), own.archive.directory)
    told = (report_of({}, "tester"), past.erased)
    with pytest.raises(ConfigurationError, match="offsets 0 to 64, cannot be made again"):
        forget(*given, {0: [Position(3)]}, *told)
    assert names(own.archive.directory) == before
    assert not archive_store(own.archive.directory).forgotten().rows
    with running(own.archive.directory), pytest.raises(StateError, match="another process holds the archive directory"):
        forget(*given, {0: [Position(6 * SPAN)]}, *told)


@contextmanager
def running(directory: Path) -> Iterator[None]:
    disk = FileSystem(directory)
    disk.lock()
    yield
    disk.unlock()


def test_what_cannot_be_built_is_refused(past: Past, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="nothing is archived in"):
        past.builder(directory=tmp_path)
    builder = past.builder()
    with pytest.raises(ConfigurationError, match="has no partition 7"):
        builder.take(RangeRequest(since=None, until=None, partitions=frozenset({0, 7})))
    with pytest.raises(StateError, match="the stretch holds no valid point"):
        builder.made(builder.take(RangeRequest(since=at(-9), until=at(-1))))
    with pytest.raises(ConfigurationError, match="m is the model of a trainer"):
        past.build(RangeRequest(since=at(0), until=at(100)), "m")


def test_the_commands(past: Past) -> None:
    given = ["--bootstrap-servers", str(past.connection.options["bootstrap.servers"]), "--name", "m"]
    given += ["--archive-directory", str(past.directory)]
    models = ["--output-models-topic", past.settings.output.models_topic]
    stretch = ["--from", "2026-03-02", "--to", "2026-03-04", "--except", "2026-03-02T06:00:00Z/2026-03-02T07:00:00Z"]
    done = run("history", "build", "--as", "two-days", "--json", *stretch, *given, *models)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["version"], told["points"], told["exact"]) == ("two-days@1", 2 * (2 * 144 - 6), True)
    table = run("history", "build", "--every", "day", *given, *models)
    assert table.returncode == 0, table.stderr
    rows = list(csv.DictReader(io.StringIO(table.stdout)))
    assert [row["from"] for row in rows] == [f"2026-03-0{day}T00:00:00Z" for day in range(1, 6)]
    assert [int(row["points"]) for row in rows] == [288, 288, 288, 288, 2 * (ROWS - 4 * 144)]
    assert all(float(row["x[0]"]) > 0.0 for row in rows)
    shown = run("history", "show", "--json", *given[4:])
    assert shown.returncode == 0, shown.stderr
    assert [(row["partition"], row["rows"], row["missing_buckets"]) for row in json.loads(shown.stdout)] == [
        (0, ROWS, 0),
        (1, ROWS, 0),
    ]
    assert json.loads(shown.stdout) == summaries(past.directory)
    wrong = run("history", "build", "--as", "x", "--from", "2026-03-02T00:00:00", *given, *models)
    assert wrong.returncode == 78
    assert "--from 2026-03-02T00:00:00 has no time zone" in error_of(wrong)


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"parts": ()}, "has 0 parts"),
        ({"span_rows": 65}, "do not fit together"),
        ({"parts": (BuiltOf(partition=0, start=(5, 0), end=(5, 0), level=0, first_row=0, sha256=""),)}, "not valid"),
        ({"parts": (BuiltOf(partition=0, start=(0, 0), end=(9, 0), level=1, first_row=0, sha256="x"),)}, "not valid"),
        (
            {"parts": (BuiltOf(partition=0, start=(0, 0), end=(9, 0), level=2, first_row=64, sha256="0" * 64),)},
            "not valid",
        ),
        (
            {"parts": (BuiltOf(partition=0, start=(1, 0), end=(9, 0), level=0, first_row=0, sha256=""),)},
            "does not begin",
        ),
    ],
)
def test_impossible_parts_are_refused(changed: dict[str, object], what: str) -> None:
    version = handmade("linear")
    parts = tuple(
        BuiltOf(
            partition=base.partition,
            start=(base.offset, base.row),
            end=(cut.offset, cut.row),
            level=0,
            first_row=0,
            sha256="",
        )
        for base, cut in zip(version.lineage.base, version.lineage.cut, strict=True)
    )
    built = Built(
        model="m",
        erased="ab" * 32,
        parts=parts,
        leaf_rows=16,
        span_rows=64,
        bucket_points=40,
        since_ms=None,
        until_ms=5,
        without_ms=((1, 2),),
        exact=True,
        forgotten=((0, 1, 0),),
    )
    lineage = msgspec.structs.replace(version.lineage, facts=(built,))
    assert model_codec.decode(model_codec.encode(replace(version, lineage=lineage))).lineage.fact(Built) == built
    wrong = msgspec.structs.replace(lineage, facts=(msgspec.structs.replace(built, **changed),))
    with pytest.raises(InvalidMessage, match=what):
        model_codec.decode(model_codec.encode(replace(version, lineage=wrong)))


def nodes_of_days(days: int) -> Iterator[Node]:
    day = 86_400_000
    for level in range(1, 4):
        for number in range(days >> level - 1):
            first, last = number << level - 1, (number + 1) << level - 1
            yield Node(
                partition=0,
                base=(0, 0),  # type: ignore[arg-type]
                start=(first, 0),  # type: ignore[arg-type]
                end=(last, 0),  # type: ignore[arg-type]
                level=level,
                number=number,
                first_time_ms=first * day,
                last_time_ms=last * day - 1,
                sha256="0" * 64,
            )


def test_old_buckets_are_let_go() -> None:
    """With their oldest row, so that nothing older stays in a long one; and the oldest first, where bytes decide."""
    sizes = dict.fromkeys(nodes_of_days(8), 10)
    gone = outdated(sizes, 2.0, None)
    assert {(node.level, node.number) for node in sizes.keys() - set(gone)} == {(1, 5), (1, 6), (1, 7), (2, 3)}
    gone = outdated(sizes, None, 55)
    assert {(node.level, node.number) for node in sizes.keys() - set(gone)} == {(1, 5), (1, 6), (1, 7), (2, 3), (1, 4)}
    assert not outdated(sizes, None, 140)
    assert not outdated({}, 1.0, 1)


def test_one_timestamp_ahead_lets_nothing_go() -> None:
    """A record in microseconds is the newest of its bucket, and of those above it; everything else stays."""
    sizes = {replace(one, last_time_ms=10**15) if one.end[0] == 8 else one: 10 for one in nodes_of_days(8)}
    assert outdated(sizes, 8.0, None) == []
