"""The trainer end to end: on the embedded broker, and on a real one where there is one."""

from __future__ import annotations

import hashlib
import itertools
import re
import shutil
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

import msgspec
import pytest

from consumers import constants
from consumers.host import container_limit
from consumers.loader import load
from consumers.settings import Settings
from consumers.trainer import kernels
from consumers.trainer.intake import BACKLOG_BATCHES
from consumers.verify.verify import verify
from streamsvm.config import CoresetConfig, ModelConfig, SvmConfig
from streamsvm.errors import ConfigurationError, FatalError, StateError, TopicMissing
from streamsvm.kafka import Batch, Cluster, Connection, Input, Message, TopicSpec
from streamsvm.learning import Learner
from streamsvm.learning.training import Trained, audited, train
from streamsvm.model import Audit, PartitionCut, Version, message as model_codec
from streamsvm.model.pointers import decode_head, encode_head
from streamsvm.points import Position
from tests.brokers.fixtures import TestBroker
from tests.consumers import leaderless
from tests.consumers.trainers import (
    Running,
    aliases,
    changed,
    ends_by,
    learn,
    produce,
    records,
    run_until,
    send,
    stored,
    versions,
)
from tests.kafka import foreign
from tests.promise.topics import check_promise
from tests.streams import gaussian, rows_of

pytestmark = pytest.mark.enough("real")


Seen = tuple[int, bytes, str, Audit | None]
"""Rows, coefficients, training set and audit of a version."""


def oracle(config: ModelConfig, n: int) -> list[Seen]:
    """Train and audit the same stream without broker, batches or daemon."""
    learner, rows, found = Learner(config, {0: Position(0)}, 2), rows_of(gaussian(n)), []
    while len(rows):
        rows = rows.slice(learner.learn(rows), len(rows))
        if learner.cut_due:
            cut = learner.cut()
            trained = train(cut.points, cut.moments, config.svm)
            audit = audited(trained, cut.audit, "hinge")
            found.append((cut.learned.rows, coefficients(trained.model), cut.points.sha256(), audit))
    return found


def coefficients(model: object) -> bytes:
    machine, scaler = model.machine, model.scaler  # type: ignore[attr-defined]
    return b"".join(part.tobytes() for part in (machine.coefficients, scaler.mean, scaler.scale))


def seen(found: list[Version]) -> list[Seen]:
    return [(v.stream.rows, coefficients(v.model), v.lineage.training_set_sha256, v.audit) for v in found]


def test_versions_are_those_of_the_stream(settings: Settings, connection: Connection) -> None:
    """Bit for bit what the mathematics gives for what went in, with all that belongs to it; metrics name the newest."""
    running = learn(settings, connection, 250)
    found = check_promise(connection, settings)
    assert [version.number for version in found] == [1, 2, 3, 4, 5, 6]
    assert seen(found) == oracle(settings.models(), 250)
    newest = found[-1]
    assert newest.audit is not None
    assert newest.audit.low < newest.audit.objective < newest.audit.high
    shown = [running.value("streamsvm_audit_objective", end=end) for end in ("low", "estimate", "high")]
    assert shown == [newest.audit.low, newest.audit.objective, newest.audit.high]
    assert newest.audit.points == settings.coreset.audit_points
    assert running.value("streamsvm_model_objective") == newest.fit.objective


BAD = {
    b"nonsense": "malformed_json",
    b'{"y": 1}': "missing_field",
    b'{"x": [1], "y": 1}': "wrong_dimension",
    b'{"x": [1, Infinity, 2], "y": 1}': "not_finite",
    b'{"x": [1, 2, 3], "y": 7}': "unknown_label",
    b'{"x": [1, 2, 3], "y": 1, "w": 0}': "invalid_weight",
    b'{"x": [1, 2, 3], "y": 1, "\\ud800": 1}': "malformed_json",
    b'{"x": [1, 2, 3], "y": 1}' + b" " * 300: "oversize_record",
}
DELETED = b'{"x": [1, 2, 3], "y": 1, "__deleted": "true"}'


def test_bad_records_go_to_the_dead_letters_and_the_stream_goes_on(settings: Settings, connection: Connection) -> None:
    """Each is one letter with its bytes, coordinates and reason; the good ones are learned, a deletion is counted."""
    settings = changed(settings, "points", max_record_bytes=250)
    good = records(80)
    mixed = [value for pair in zip(BAD, good, strict=False) for value in pair] + good[len(BAD) :]
    produce(connection, settings.input.topic, [DELETED, *mixed])
    running = run_until(settings, connection, len(mixed))
    told = {}
    for letter in stored(connection, settings.input.dead_letters):
        headers = {name: value.decode() for name, value in letter.headers}
        assert headers["__streams.errors.topic"] == settings.input.topic
        told[int(headers["__streams.errors.offset"])] = (letter.value, headers["__streams.errors.exception"])
    assert told == {2 * at + 1: bad for at, bad in enumerate(BAD.items())}
    assert running.value("streamsvm_dead_letters_total", reason="malformed_json") == 2
    assert running.value("streamsvm_passed_over_rows_total", reason="delete") == 1
    newest = versions(connection, settings)[-1]
    assert (newest.stream.rows, newest.stream.points) == (80, 80 - len(BAD) - 1)


def test_an_array_record_counts_each_of_its_rows(settings: Settings, connection: Connection) -> None:
    """Leaves end inside records: the version's cut says at which row."""
    values = records(90)
    produce(connection, settings.input.topic, [b"[" + b",".join(values[i : i + 7]) + b"]" for i in range(0, 90, 7)])
    run_until(settings, connection, 90)
    found = versions(connection, settings)
    expected = oracle(settings.models(), 90)
    assert [version[:3] for version in seen(found)] == [version[:3] for version in expected]
    assert seen(found) != expected  # the audit sample goes by a row's coordinates
    assert [(v.lineage.cut[0].offset, v.lineage.cut[0].row) for v in found] == [(5, 5), (11, 3)]


def test_latest_skips_cuts_but_no_points(settings: Settings, connection: Connection) -> None:
    """While one model trains only the newest due cut waits; every point is in the last version all the same."""
    produce(connection, settings.input.topic, records(400))
    relaxed = changed(settings, "training", policy="latest")
    running = run_until(relaxed, connection, 400)
    found = versions(connection, relaxed)
    assert [version.number for version in found] == list(range(1, len(found) + 1))
    assert found[-1].stream.points == 400
    assert len(found) + running.value("streamsvm_trainings_total", outcome="skipped") == 10
    assert seen(found)[-1] == oracle(settings.models(), 400)[-1]


def test_another_configuration_is_refused_by_name(
    settings: Settings, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it compiles; with the option and both values, nothing is written, and the printed reset begins anew."""
    learn(settings, connection, 100)
    other = changed(settings, "coreset", train_points=300)
    compiled: list[object] = []
    with monkeypatch.context() as patched:
        patched.setattr(kernels, "prepare", lambda *given, **named: compiled.append(given))
        with pytest.raises(StateError, match=r"coreset.train_points was 500, is now 300.*--reset m/1"):
            run_until(other, connection, 0)
    assert not compiled
    assert len(versions(connection, settings)) == 2
    run_until(other, connection, 100, reset="m/1")
    found = versions(connection, settings)
    assert [version.number for version in found] == [1, 2, 3, 4]
    assert [version.lineage.configuration["coreset"]["train_points"] for version in found] == [500, 500, 300, 300]


def test_other_options_of_training_go_on_from_what_was_learned(settings: Settings, connection: Connection) -> None:
    """A version is made at once, where the trainer stands; numbers go on, no row is read again, and `verify` is clean.

    Set back, the options are the first ones, down to the hash.
    """
    learn(settings, connection, 100)
    other = changed(settings, "svm", C=2.0, loss="squared_hinge", probability="sigmoid")
    for options, expected in ((other, 3), (other, 3), (settings, 4), (changed(settings, "svm", kernel="rbf"), 5)):
        running = run_until(options, connection, 0)
        assert len(versions(connection, settings)) == expected
        assert running.value("streamsvm_input_rows_total", outcome="accepted") == 0
    learn(other, connection, 100, seed=1)
    found = versions(connection, settings)
    assert [version.number for version in found] == [1, 2, 3, 4, 5, 6, 7, 8]
    svm = [version.lineage.configuration["svm"] for version in found]
    assert [one["C"] for one in svm] == [1.0, 1.0, 2.0, 1.0, 1.0, 2.0, 2.0, 2.0]
    assert [one["kernel"] for one in svm] == [*["linear"] * 4, "rbf", *["linear"] * 3]
    assert found[3].lineage.configuration_sha256 == found[0].lineage.configuration_sha256
    assert len({version.lineage.training_set_sha256 for version in found[2:6]}) == 1
    report = verify(Cluster(connection), settings)
    assert report.clean, list(report.lines())


def test_sizes_are_those_of_the_kernel_that_learning_began_with(settings: Settings, connection: Connection) -> None:
    """Memory is checked by them, and a machine with the other kernel fits into a message of a default broker."""
    linear, rbf = (
        settings.model_copy(update={"coreset": CoresetConfig(), "svm": SvmConfig(kernel=kernel)})
        for kernel in ("linear", "rbf")
    )
    limits = [one.models().coreset.largest_bytes(one.models().points, 4) for one in (linear, rbf)]
    assert limits[0] < limits[1]
    leaf = linear.models().coreset.leaf_rows
    learn(linear, connection, 2 * leaf)
    run_until(rbf, connection, 0, memory_limit=lambda: limits[0])
    assert versions(connection, settings)[-1].model.machine.packing is not None  # type: ignore[union-attr]
    report = verify(Cluster(connection), settings)
    assert report.clean, list(report.lines())
    learn(rbf, connection, 2, reset="m/1")
    with pytest.raises(ConfigurationError, match=f"the container has {limits[0]:,}"):
        run_until(linear, connection, 0, memory_limit=lambda: limits[0])


@pytest.mark.parametrize(
    ("options", "directory"),
    [
        ({"name": "pulsar"}, "checkpoint/pulsar"),
        ({"name": "a", "checkpoint": {"directory": "/var/lib/{name}/c"}}, "/var/lib/a/c"),
        ({"name": "a", "checkpoint": {"directory": "mine"}}, "mine"),
    ],
)
def test_each_model_has_a_directory_of_its_own(options: dict[str, object], directory: str) -> None:
    """By default, and in a configured path wherever `{name}` stands."""
    assert str(load(options).checkpoint.directory) == directory


def test_damaged_checkpoints_are_named(settings: Settings, connection: Connection) -> None:
    """All damaged, or of another build: refused, with what to do about it."""
    learn(settings, connection, 50)
    files = list(settings.checkpoint.directory.glob("checkpoint-*"))
    whole = files[0].read_bytes()
    later = whole[:8] + (8).to_bytes(4, "little") + whole[12:-32]
    for content, told in (
        (b"damaged", r"only 7 bytes.*Restore a good copy, or move the directory away"),
        (later + hashlib.sha256(later).digest(), r"its format is 8, .*\. Use the build that wrote it; or start"),
    ):
        for file in files:
            file.write_bytes(content)
        with pytest.raises(StateError, match=rf"no checkpoint in .* can be used: checkpoint-000001-.*{told}"):
            run_until(settings, connection, 0)


def test_coresets_that_do_not_fit_into_the_container_are_refused(
    settings: Settings, connection: Connection, tmp_path: Path
) -> None:
    """Before anything is read, with both figures and what to do; the limit is that of a cgroup, of either version."""
    config = settings.models()
    needed = config.coreset.largest_bytes(config.points, 4)
    absent, old = tmp_path / "memory.max", tmp_path / "memory.limit_in_bytes"
    old.write_text(f"{needed - 1}\n")
    with pytest.raises(
        ConfigurationError, match=rf"{needed:,} bytes .*but the container has {needed - 1:,}"
    ) as refused:
        run_until(settings, connection, 0, memory_limit=lambda: container_limit((absent, old)))
    assert "lower coreset.points" in str(refused.value)
    old.write_text(f"{1 << 63}\n")
    run_until(settings, connection, 0, memory_limit=lambda: container_limit((absent, old)))
    absent.write_text("max\n")
    assert container_limit((absent, old)) is None
    absent.write_text("1000\n")
    assert container_limit((absent, old)) == 1_000


@pytest.mark.real_broker
def test_a_missing_input_topic_is_named(settings: Settings, connection: Connection) -> None:
    """The trainer does not make up an input: it names the topic that is missing."""
    absent = changed(settings, "input", topic="absent")
    with pytest.raises(TopicMissing, match="absent"):
        run_until(absent, connection, 0)


@pytest.mark.real_broker
def test_a_start_by_time_is_resolved_once_and_kept(settings: Settings, connection: Connection) -> None:
    """A first start begins at the first record of that time or later; a later start ignores the option."""
    early, late = records(60, seed=1), records(60, seed=2)
    produce(connection, settings.input.topic, early)
    threading.Event().wait(0.05)
    at = datetime.now(UTC)
    produce(connection, settings.input.topic, late)
    timed = changed(settings, "input", start=at)
    run_until(timed, connection, 60)
    run_until(settings, connection, 0)
    found = versions(connection, settings)
    assert [v.lineage.cut[0].offset for v in found] == [100]
    assert all(v.lineage.base[0].offset == 60 for v in found)
    assert found[0].stream.points == 40


def test_latest_begins_at_the_end(settings: Settings, connection: Connection) -> None:
    """start = latest passes over what is there, and the base says so."""
    produce(connection, settings.input.topic, records(50))
    late = changed(settings, "input", start="latest")
    run_until(late, connection, 0)
    produce(connection, settings.input.topic, records(50, seed=3))
    run_until(late, connection, 50)
    (version,) = versions(connection, settings)
    assert version.lineage.base[0].offset == 50
    assert version.lineage.cut[0].offset == 90


@pytest.mark.embedded_broker
def test_health_is_red_before_anything_is_closed(
    settings: Settings, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of the training thread, which ends the trainer, is on /healthz while clients are still being closed."""
    answers, close = [], Input.close

    def observed(self: Input) -> None:
        answers.append(running.health.healthy())
        close(self)

    def broken(*_: object) -> Trained:
        raise FatalError("the solver is broken")

    monkeypatch.setattr(Input, "close", observed)
    produce(connection, settings.input.topic, records(50))
    running = Running(settings, connection, train=broken)
    with pytest.raises(FatalError), running:
        running.wait_until(lambda: False)
    assert answers == [(False, {"healthy": False, "why": "the solver is broken"})]


class Asked(Cluster):
    """The broker, beside which it is written down what each read asked for, and how many records came."""

    reads: ClassVar[list[tuple[int, float, int]]] = []

    def input(self, topic: str, group: str) -> Input:
        made = super().input(topic, group)
        poll = made.poll

        def noted(max_records: int, timeout_s: float) -> Batch:
            came = poll(max_records, timeout_s)
            self.reads.append((max_records, timeout_s, len(came)))
            return came

        made.poll = noted  # type: ignore[method-assign]
        return made


@pytest.mark.embedded_broker
def test_a_backlog_is_read_in_larger_batches(
    settings: Settings, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a full read what was fetched meanwhile is taken at once, and without a wait; else a read is as usual."""
    monkeypatch.setattr(constants, "BATCH_RECORDS", 10)
    produce(connection, settings.input.topic, records(200))
    cluster, usual, larger = Asked(connection), 10, 10 * BACKLOG_BATCHES
    run_until(settings, connection, 200, cluster=cluster)
    assert (larger, 0.0, larger) in cluster.reads
    assert cluster.reads[0][0] == usual
    for (_, _, came), (asked, wait_s, _) in itertools.pairwise(cluster.reads):
        assert (asked, wait_s == 0.0) == ((larger, True) if came >= usual else (usual, False))


class Deaf(Cluster):
    """The broker, from which no record is read: a trainer starts, and learns nothing before it is stopped."""

    def input(self, topic: str, group: str) -> Input:
        made = super().input(topic, group)
        made.poll = lambda max_records, timeout_s: Batch([])  # type: ignore[method-assign]
        return made


def forget_all_but_the_first_checkpoint(settings: Settings, connection: Connection, rows: int) -> None:
    """Run a trainer, then put its directory back as if no checkpoint after the first had been written."""
    directory = settings.checkpoint.directory
    run_until(settings, connection, 0, cluster=Deaf(connection))
    shutil.copytree(directory, directory.parent / "first")
    run_until(settings, connection, rows)
    shutil.rmtree(directory)
    shutil.copytree(directory.parent / "first", directory)


def forge_head(settings: Settings, connection: Connection, **changes: object) -> None:
    """Write the newest head record again, changed."""
    head = msgspec.structs.replace(decode_head(aliases(connection, settings, "m@head")[-1]), **changes)
    send(connection, Message(settings.output.aliases_topic, encode_head(head), b"m@head", partition=0))


@pytest.mark.parametrize("last_leaf_first", [True, False])
def test_another_training_set_is_refused(last_leaf_first: bool, settings: Settings, connection: Connection) -> None:
    """With several partitions too, in whatever order they reach the newest version's cut."""
    parts = [(0, 40, 1), (1, 10, 2)] if last_leaf_first else [(1, 10, 2), (0, 40, 1)]
    for partition, n, seed in parts:
        produce(connection, settings.input.topic, records(n, seed), partition)
    forget_all_but_the_first_checkpoint(settings, connection, 50)
    # The cut of 40 and 10 rows, whichever came first: this build, but a hash that cannot be right.
    cut = tuple(PartitionCut(p, n, 0, 0) for p, n in ((0, 40), (1, 10), (2, 0), (3, 0)))
    forge_head(settings, connection, cut=cut, training_set_sha256="0" * 64)
    produce(connection, settings.input.topic, records(1, seed=3))
    ends_by(StateError, "a different training set for m@1", settings, connection)


@pytest.mark.real_broker
@pytest.mark.parametrize("more", [40, 0])
def test_a_gap_at_the_newest_cut_is_refused(more: int, settings: Settings, connection: Connection) -> None:
    """Where the log no longer holds the cut's last record (a compacted input), whether or not anything follows it."""
    for seed, rows in ((1, 40), (2, more)):  # the marker after each group is offset 40, 81
        if rows:
            with foreign.open_transaction(connection, settings.input.topic, records(rows, seed)) as writer:
                writer.commit_transaction(foreign.TIMEOUT_S)
    forget_all_but_the_first_checkpoint(settings, connection, 40 + more)
    cut = (PartitionCut(0, 41, 0, 0), *(PartitionCut(p, 0, 0, -1) for p in (1, 2, 3)))
    forge_head(settings, connection, cut=cut)
    ends_by(StateError, f"the log {'continues' if more else 'ends'} at offset 41", settings, connection)


@pytest.mark.real_broker
@pytest.mark.parametrize("replayed", [True, False])
def test_another_training_set_is_refused_although_a_partition_was_added(
    replayed: bool, settings: Settings, connection: Connection
) -> None:
    """Between two starts: the newest version's cut knows nothing of it, and is compared all the same."""
    produce(connection, settings.input.topic, records(40))
    if replayed:
        forget_all_but_the_first_checkpoint(settings, connection, 40)
    else:
        run_until(settings, connection, 40)
    forge_head(settings, connection, training_set_sha256="0" * 64)
    foreign.add_partitions(connection, settings.input.topic, 5)
    ends_by(StateError, "a different training set for m@1", settings, connection)


@pytest.mark.real_broker
def test_a_default_kernel_machine_fits_a_default_broker(settings: Settings, connection: Connection) -> None:
    """One of 20,000 points starts and publishes where a topic takes 1 MB; a larger machine is told what fits.

    Where the topic takes more than the client sends, the client's limit is named: it would refuse every version.
    """
    default = settings.model_copy(update={"svm": SvmConfig(kernel="rbf"), "coreset": CoresetConfig()})
    large = changed(default, "output", models_topic=f"{default.output.models_topic}-large").output
    for name, limit in ((default.output.models_topic, "1000000"), (large.models_topic, "20000000")):
        config = {"max.message.bytes": limit, "cleanup.policy": "compact"}
        Cluster(connection).create([TopicSpec(name, config=config)])
    for sections, told in (
        ({"coreset": CoresetConfig(reducer="uniform")}, r"allows only 1000000\. Lower coreset\.train_points to \d+"),
        ({"svm": SvmConfig(kernel="rbf", landmarks=90_000), "output": large}, r"\(message\.max\.bytes\) allows only 1"),
        ({"svm": SvmConfig(kernel="rbf", landmarks=90_000)}, r"allows only 1000000\. Lower svm\.landmarks to \d+"),
    ):
        with pytest.raises(ConfigurationError, match=told) as refused:
            run_until(default.model_copy(update=sections), connection, 0)
    (fits,) = re.findall(r"Lower svm\.landmarks to (\d+)", str(refused.value))
    fitting = default.model_copy(update={"svm": SvmConfig(kernel="rbf", landmarks=int(fits))})
    leaf = fitting.models().coreset.leaf_rows
    produce(connection, settings.input.topic, records(2 * leaf))
    run_until(fitting, connection, 2 * leaf)
    version = versions(connection, fitting)[-1]
    machine = version.model.machine  # type: ignore[union-attr]
    assert machine.packing is not None  # type: ignore[union-attr]
    assert len(model_codec.encode(version)) <= 1_000_000


def test_a_large_bad_record_does_not_stop_a_small_client(settings: Settings, broker: TestBroker) -> None:
    """Its letter is cut to what the client and the dead-letter topic take."""
    produce(broker.connection, settings.input.topic, [b'{"x": ' + b"1" * 600_000, *records(40)])
    small = broker.connect(message_max_bytes=100_000)
    run_until(settings, small, 41)
    (letter,) = stored(broker.connection, settings.input.dead_letters)
    assert dict(letter.headers)["streamsvm.deadletter.value.bytes"] == b"600006"
    assert len(versions(broker.connection, settings)) == 1


@pytest.mark.real_broker
def test_an_input_without_a_leader_is_shown(
    broker: TestBroker, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trainer is not ready while nobody answers for its input, and is ready again by itself."""
    leaderless.without_patience(monkeypatch)
    with Running(settings, broker.connection) as trainer:
        leaderless.shows(trainer, settings.input.topic, monkeypatch)
