"""Workers of their own: a topic between those who learn and the one who trains; versions as of one process."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import msgspec
import numpy as np
import pytest

from consumers import constants
from consumers.branches.workers import adopting
from consumers.branches.workers.coresets_topic import (
    READ_TO,
    WATERMARK,
    check_topic as check_fit,
    read_partition,
    topic_spec,
)
from consumers.branches.workers.owned_partitions import NewestRows
from consumers.branches.workers.ownership import FixedShare
from consumers.branches.workers.settings import coresets_topic
from consumers.settings import Settings
from consumers.verify.verify import verify
from streamsvm.config import CoresetConfig
from streamsvm.errors import ConfigurationError, StateError
from streamsvm.kafka import Cluster, Connection, Message, TopicInfo, TopicSpec
from streamsvm.model import Version, positions
from tests import streams
from tests.branches.workers.group_workers import (
    PARTITIONS,
    ROWS,
    WorkerRunning,
    check,
    check_topic,
    fill,
    of_one_learner,
)
from tests.branches.workers.test_coreset_log import manifest_of
from tests.brokers.fixtures import TestBroker
from tests.consumers.trainers import START_S, Running, changed, run_until, settings_for, versions
from tests.kafka.foreign import add_partitions, delete_records
from tests.streams import gaussian

ENOUGH = PARTITIONS * (ROWS - 20)
Headers = tuple[tuple[str, bytes], ...]


@pytest.fixture
def settings(broker: TestBroker, tmp_path: Path) -> Settings:
    return adopting_settings(broker, tmp_path / "checkpoint")


def adopting_settings(broker: TestBroker, directory: Path, partitions: int = PARTITIONS) -> Settings:
    """Return the settings of a trainer that adopts what workers learn, with its input topic made."""
    made = settings_for(broker.name("g"), directory, policy="latest", from_coresets=True)
    made = made.model_copy(update={"name": broker.name("m")})
    Cluster(broker.connection).create([TopicSpec(made.input.topic, partitions)])
    return made


def covered(running: Running, rows: int = ENOUGH) -> Callable[[], bool]:
    """Return what tells whether the newest version covers so many rows."""
    return lambda: running.value("streamsvm_model_points_covered") >= rows


def alone(settings: Settings) -> Settings:
    """Return the same trainer as one process."""
    return settings.model_copy(update={"training": settings.training.model_copy(update={"from_coresets": False})})


def test_every_version_has_the_bytes_of_one_process(settings: Settings, connection: Connection) -> None:
    """Of two workers that share the partitions out by numbers; the topic is whole at every prefix."""
    fill(connection, settings.input.topic, 0, 60)
    with Running(settings, connection) as trainer, ExitStack() as stack:
        trainer.wait_until_started()
        workers = [stack.enter_context(WorkerRunning(settings, connection, ordinal=k, of=2)) for k in range(2)]
        trainer.wait_until(covered(trainer, PARTITIONS * 40))
        fill(connection, settings.input.topic, 60)
        trainer.wait_until(covered(trainer))
        assert all(worker.value("streamsvm_worker_partitions") == 2 for worker in workers)
        assert all(worker.health.ready()[0] for worker in workers)
        for worker in workers:
            worker.wait_until(
                lambda w=worker: w.value("streamsvm_input_rows_total", outcome="accepted") == ROWS * 2  # type: ignore[misc]
            )
        assert trainer.value("streamsvm_input_records_total", partition="0") == 0
        scored = trainer.value("streamsvm_prequential_points_total")
    found = check(settings, connection)
    assert 0 < scored <= ROWS * PARTITIONS - found[0].stream.rows, "scored before it was learned, once"
    assert not any(one.rewritten for one in check_topic(connection, settings, PARTITIONS))


@pytest.mark.long
def test_new_partitions_are_taken_up(real_broker: TestBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the worker that owns them."""
    settings, connection = adopting_settings(real_broker, tmp_path / "checkpoint", partitions=2), real_broker.connection
    monkeypatch.setattr(constants, "WATCH_INTERVAL_S", 0.2)
    Cluster(connection).create([topic_spec(settings, PARTITIONS)])
    fill(connection, settings.input.topic, partitions=(0, 1))
    with Running(settings, connection) as trainer, WorkerRunning(settings, connection, ordinal=0, of=1):
        trainer.wait_until(covered(trainer, 2 * (ROWS - 20)))
        add_partitions(connection, settings.input.topic, PARTITIONS)
        fill(connection, settings.input.topic, partitions=(2, 3))
        trainer.wait_until(covered(trainer))
    assert set(positions(check(settings, connection)[-1].lineage.cut)) == {0, 1, 2, 3}


@pytest.mark.long
def test_a_stream_goes_on_from_one_process_to_workers_and_back(settings: Settings, connection: Connection) -> None:
    """Checkpoint, topic, checkpoint: one chain, each row learned once, and the same bytes."""
    one_process = alone(settings)
    fill(connection, settings.input.topic, 0, 40)
    run_until(one_process, connection, 40 * PARTITIONS)
    fill(connection, settings.input.topic, 40, 90)
    with Running(settings, connection) as trainer:
        trainer.wait_until_started()
        with WorkerRunning(settings, connection, ordinal=0, of=1) as worker:
            trainer.wait_until(covered(trainer, PARTITIONS * 70))
            worker.wait_until(lambda: worker.value("streamsvm_input_rows_total", outcome="accepted") >= 50 * PARTITIONS)
            assert worker.value("streamsvm_input_rows_total", outcome="accepted") == 50 * PARTITIONS
    fill(connection, settings.input.topic, 90)
    with Running(one_process, connection) as running:
        running.wait_until_started()
        running.wait_until(covered(running))
    with Running(settings, connection) as trainer, WorkerRunning(settings, connection, ordinal=0, of=1):
        trainer.wait_until_started()
        fill(connection, settings.input.topic, 0, 0)
    found = check(settings, connection)
    assert len(found) >= 3
    check_topic(connection, settings, PARTITIONS)


@pytest.mark.long
def test_a_trainer_without_newest_checkpoints_adopts_what_is_there(settings: Settings, connection: Connection) -> None:
    """Its head is past them; so are the manifests: no row has to be read again for it."""
    fill(connection, settings.input.topic, 0, 60)
    directory = settings.checkpoint.directory
    with Running(settings, connection) as trainer, WorkerRunning(settings, connection, ordinal=0, of=1):
        trainer.wait_until_started()
        early = {path.name: path.read_bytes() for path in directory.glob("checkpoint-*")}
        trainer.wait_until(covered(trainer, PARTITIONS * 40))
    published = len(versions(connection, settings))
    for path in directory.glob("checkpoint-*"):
        path.unlink()
    for name, content in early.items():
        (directory / name).write_bytes(content)
    fill(connection, settings.input.topic, 60)
    with Running(settings, connection) as trainer, WorkerRunning(settings, connection, ordinal=0, of=1) as worker:
        trainer.wait_until_started()
        trainer.wait_until(covered(trainer))
        assert worker.value("streamsvm_input_rows_total", outcome="accepted") <= (ROWS - 60 + 20) * PARTITIONS
    assert len(check(settings, connection)) > published


def remove(connection: Connection, topic: str, before: int) -> None:
    """Remove every record before an offset, as retention does, in all partitions at once."""
    delete_records(connection, topic, range(PARTITIONS), before)


@pytest.mark.real_broker
def test_a_gap_in_the_input_begins_anew_for_workers_too(
    settings: Settings, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under `input.on_gap = reset` the worker waits until its trainer has; under `fail` it ends."""
    fill(connection, settings.input.topic, 0, 60)
    monkeypatch.setattr(constants, "WATCH_INTERVAL_S", 0.2)
    input_ = settings.input.model_copy(update={"on_gap": "reset"})
    resetting = settings.model_copy(update={"input": input_})
    with Running(resetting, connection) as trainer:
        trainer.wait_until_started()
        with WorkerRunning(resetting, connection, ordinal=0, of=1) as worker:
            worker.wait_until(lambda: worker.value("streamsvm_input_rows_total", outcome="accepted") == 60 * PARTITIONS)
            trainer.wait_until(covered(trainer, PARTITIONS * 40))
        fill(connection, settings.input.topic, 60, 90)
        remove(connection, settings.input.topic, 80)
        with pytest.raises(StateError, match="offset 60"):
            WorkerRunning(settings, connection, ordinal=0, of=1).__enter__().wait_until(lambda: False, START_S)
        with WorkerRunning(resetting, connection, ordinal=0, of=1):
            fill(connection, settings.input.topic, 90)
            trainer.wait_until(lambda: begins_at(versions(connection, settings)[-1]) == {80})
            trainer.wait_until(lambda: versions(connection, settings)[-1].stream.rows >= PARTITIONS * 30)


def begins_at(version: Version) -> set[int]:
    return {part.offset for part in version.lineage.base}


@pytest.mark.long
@pytest.mark.real_broker
def test_a_trainer_that_was_away_goes_on_past_what_retention_took(settings: Settings, connection: Connection) -> None:
    """Its workers have read it, and what they learned of it lies in the topic."""
    fill(connection, settings.input.topic, 0, 60)
    with WorkerRunning(settings, connection, ordinal=0, of=1) as worker:
        with Running(settings, connection) as trainer:
            trainer.wait_until_started()
            trainer.wait_until(covered(trainer, PARTITIONS * 40))
        fill(connection, settings.input.topic, 60, 110)
        worker.wait_until(lambda: worker.value("streamsvm_input_rows_total", outcome="accepted") == 110 * PARTITIONS)
    remove(connection, settings.input.topic, 100)
    fill(connection, settings.input.topic, 110)
    with Running(settings, connection) as trainer, WorkerRunning(settings, connection, ordinal=0, of=1):
        trainer.wait_until_started()
        trainer.wait_until(covered(trainer))
    check(settings, connection)


@pytest.mark.long
def test_a_reset_begins_anew_for_workers_too(settings: Settings, connection: Connection) -> None:
    """One that has the new options learns it from its first row, and clears the old one away; one of the old ends."""
    fill(connection, settings.input.topic, 0, 60)
    Cluster(connection).create([TopicSpec(coresets_topic(settings), PARTITIONS, config={"cleanup.policy": "compact"})])
    Cluster(connection).create([TopicSpec(settings.input.dead_letters)])
    old = WorkerRunning(settings, connection, ordinal=0, of=1).__enter__()
    unopened = "no trainer with --from-coresets has opened it"
    old.wait_until(lambda: unopened in str(old.health.ready()[1]["waiting_for"]))
    with Running(settings, connection) as trainer:
        trainer.wait_until_started()
        trainer.wait_until(covered(trainer, PARTITIONS * 40))
    other = settings.model_copy(update={"seed": 5})
    with pytest.raises(StateError, match=f"--reset {settings.name}/1"):
        Running(other, connection).__enter__().wait_until(lambda: False, START_S)
    fill(connection, settings.input.topic, 60)
    with Running(other, connection, reset=f"{settings.name}/1") as trainer:
        trainer.wait_until_started()
        with pytest.raises(StateError, match="differs from its trainer's: seed was 5, is now 0"):
            old.wait_until(lambda: False)
        with WorkerRunning(other, connection, ordinal=0, of=1):
            trainer.wait_until(covered(trainer))
    left = [
        record.key
        for partition in range(PARTITIONS)
        for record in Cluster(connection).read_to_end(coresets_topic(settings), partition, timeout_s=30.0)
    ]
    assert all(left.count(key) > 1 for key in set(left) if key and key.startswith(b"m/00000001-")), "a tombstone each"
    found = versions(connection, other)
    newest = [version for version in found if version.lineage.seed == 5]
    assert newest
    for version in newest:
        assert of_one_learner(other, version)[0] == version.lineage.training_set_sha256


def test_another_configuration_is_refused_by_name(settings: Settings, connection: Connection) -> None:
    """What differs is said; nothing is learned."""
    with Running(settings, connection) as trainer:
        trainer.wait_until_started()
        coreset = CoresetConfig(**{**settings.coreset.model_dump(exclude_unset=True), "points": 121})
        other = settings.model_copy(update={"coreset": coreset})
        worker = WorkerRunning(other, connection, ordinal=0, of=1).__enter__()
        with pytest.raises(StateError, match=r"differs from its trainer's: coreset\.points"):
            worker.wait_until(lambda: False, START_S)


def test_options_of_training_change_for_each_by_itself(settings: Settings, connection: Connection) -> None:
    """Trainer and workers with others each go on with what was learned: no row is read again, `verify` is clean."""
    rbf, third = changed(settings, "svm", kernel="rbf"), changed(settings, "svm", loss="squared_hinge", tune="auto")

    def learned(worker: Running) -> int:
        return int(worker.value("streamsvm_input_rows_total", outcome="accepted"))

    fill(connection, settings.input.topic, 0, 60)
    with WorkerRunning(settings, connection, ordinal=0, of=1) as worker:
        with Running(settings, connection) as trainer:
            trainer.wait_until(covered(trainer, PARTITIONS * 40), START_S)
        with Running(rbf, connection) as trainer:
            trainer.wait_until_started()
            fill(connection, settings.input.topic, 60, 100)
            trainer.wait_until(covered(trainer, PARTITIONS * 80))
            worker.wait_until(lambda: learned(worker) >= PARTITIONS * 100)
    assert learned(worker) == PARTITIONS * 100
    with Running(rbf, connection) as trainer, WorkerRunning(third, connection, ordinal=0, of=1) as worker:
        fill(connection, settings.input.topic, 100)
        trainer.wait_until(covered(trainer), START_S)
        worker.wait_until(lambda: learned(worker) >= PARTITIONS * (ROWS - 100))
    assert learned(worker) == PARTITIONS * (ROWS - 100)
    run_until(third, connection, 0)
    found = versions(connection, settings)
    for version in found:
        assert of_one_learner(settings, version)[0] == version.lineage.training_set_sha256
    kernels = [version.lineage.configuration["svm"]["kernel"] for version in found]
    assert sorted(kernels[:-1]) == kernels[:-1]
    assert (kernels[0], kernels[-2:]) == ("linear", ["rbf", "linear"])
    report = verify(Cluster(connection), alone(settings))
    assert report.clean, list(report.lines())


def forge(
    connection: Connection, settings: Settings, records: list[tuple[int, bytes, bytes | None]], headers: Headers = ()
) -> None:
    """Write records of the coresets topic: partition, key and value of each."""
    outbox = Cluster(connection).outbox()
    for partition, key, value in records:
        outbox.send(Message(coresets_topic(settings), value, key, headers, partition=partition))
    outbox.flush(30.0)
    outbox.close()


def test_manifests_of_nothing_neither_stop_versions_nor_hide_a_worker_that_is_gone(
    settings: Settings, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cut is due, and the worker is late, by what was checked, between checkpoints too."""
    monkeypatch.setattr(adopting, "LATE_AFTER_S", 0.5)
    monkeypatch.setattr(adopting, "REPORT_EVERY_S", 0.0, raising=False)
    seldom = settings.model_copy(update={"checkpoint": settings.checkpoint.model_copy(update={"interval_s": 600.0})})
    fill(connection, settings.input.topic, 0, 60)
    with Running(seldom, connection) as trainer:
        trainer.wait_until_started()
        with WorkerRunning(settings, connection, ordinal=0, of=1):
            trainer.wait_until(covered(trainer, PARTITIONS * 40))
            for partition in range(PARTITIONS):
                key, value = manifest_of(opening_prefix(connection, settings, partition), (10**15, 0), 1)
                forge(connection, settings, [(partition, key, value)])
            # With headers of any number, too.
            told = ((READ_TO, b"9" * 15), (WATERMARK, b"9" * 18))
            held = read_partition(Cluster(connection), settings, 0)[0].highest()
            assert held is not None
            key = f"{opening_prefix(connection, settings, 0)}{held.manifest.key}".encode()
            forge(connection, settings, [(0, key, held.manifest.encode())], told)
            fill(connection, settings.input.topic, 60, ROWS - 5)
            trainer.wait_until(covered(trainer, ENOUGH - PARTITIONS * 5))
            trainer.wait_until(lambda: trainer.value("streamsvm_coresets_passed_over_total") >= PARTITIONS)
            trainer.wait_until(lambda: trainer.health.ready()[0])
        fill(connection, settings.input.topic, ROWS - 5)
        trainer.wait_until(lambda: "do their workers run?" in str(trainer.health.ready()))
        with WorkerRunning(settings, connection, ordinal=0, of=1):
            trainer.wait_until(lambda: trainer.health.ready()[0])
    check(settings, connection)


def opening_prefix(connection: Connection, settings: Settings, partition: int) -> str:
    opening = read_partition(Cluster(connection), settings, partition)[0].opening
    assert opening is not None
    return opening.prefix


def test_a_forged_opening_is_taken_back_by_a_tombstone(settings: Settings, connection: Connection) -> None:
    """It stops workers, and the next start of the trainer; then both go on, and a running trainer opens again."""
    fill(connection, settings.input.topic, 0, 60)
    with Running(settings, connection) as trainer, WorkerRunning(settings, connection, ordinal=0, of=1):
        trainer.wait_until_started()
        trainer.wait_until(covered(trainer, PARTITIONS * 40))
    opening = read_partition(Cluster(connection), settings, 1)[0].opening
    assert opening is not None
    forged = msgspec.structs.replace(opening, incarnation=99_999_999)
    forge(connection, settings, [(1, forged.key, forged.encode())])
    with pytest.raises(StateError, match="write a tombstone"):
        run_until(settings, connection, ENOUGH)
    forge(connection, settings, [(1, forged.key, None)])
    fill(connection, settings.input.topic, 60, 100)
    with Running(settings, connection) as trainer, WorkerRunning(settings, connection, ordinal=0, of=1) as worker:
        trainer.wait_until_started()
        trainer.wait_until(covered(trainer, PARTITIONS * 80))
        forge(connection, settings, [(1, forged.key, forged.encode()), (1, forged.key, None), (1, opening.key, None)])
        fill(connection, settings.input.topic, 100)
        trainer.wait_until(covered(trainer))
        worker.wait_until(lambda: worker.value("streamsvm_worker_partitions") == PARTITIONS)
    assert read_partition(Cluster(connection), settings, 1)[0].opening == opening
    check(settings, connection)


@pytest.mark.real_broker
def test_a_topic_that_is_not_compacted_is_refused(settings: Settings, connection: Connection) -> None:
    """By the trainer and by the worker, with the command that helps."""
    Cluster(connection).create([TopicSpec(coresets_topic(settings), PARTITIONS, config={"cleanup.policy": "delete"})])
    said = "has cleanup.policy=delete, so Kafka would remove what workers learned. Set the policy: kafka-configs"
    with pytest.raises(ConfigurationError, match=said):
        Running(settings, connection).__enter__().wait_until(lambda: False, START_S)
    with pytest.raises(ConfigurationError, match=said):
        WorkerRunning(settings, connection, ordinal=0, of=1).__enter__().wait_until(lambda: False, START_S)


@pytest.mark.parametrize(
    ("config", "partitions", "client", "said"),
    [
        ({"cleanup.policy": "compact,delete"}, 4, 1 << 20, "cleanup.policy=compact,delete"),
        ({"cleanup.policy": "compact"}, 5, 1 << 20, "has 4 partitions, but the input has 5"),
        ({"max.message.bytes": "1000"}, 4, 1 << 20, "accepts only 1000 bytes"),
        ({}, 4, 1_000, "accepts only 1000 bytes"),
    ],
)
def test_an_unfit_topic_is_refused(config: dict[str, str], partitions: int, client: int, said: str) -> None:
    """Each thing by name."""
    with pytest.raises(ConfigurationError, match=said):
        check_fit(TopicInfo("c", None, (0, 1, 2, 3), config), partitions, client)


def test_newest_rows_are_the_last_ones() -> None:
    """Whatever batches they came in."""
    rows = streams.rows_of(gaussian(500, seed=1), 1)
    for batch in (1, 7, 100, 500):
        newest = NewestRows(60)
        for begin in range(0, 500, batch):
            newest.add(rows.slice(begin, min(begin + batch, 500)))
        found = newest.rows()
        assert found is not None
        assert np.array_equal(found.offset, np.arange(440, 500))


def test_fixed_shares_are_all_partitions(broker: TestBroker) -> None:
    """Each once, whatever the number of workers."""
    cluster, topic = Cluster(broker.connection), broker.topic(PARTITIONS)
    for of in (1, 2, 3, 5):
        shares = [FixedShare(cluster, topic, ordinal=k, of=of, look_every_s=60.0) for k in range(of)]
        assert sorted(p for share in shares for p in share.poll()) == list(range(PARTITIONS))
        assert shares[0].poll() == {p for p in range(PARTITIONS) if p % of == 0}
