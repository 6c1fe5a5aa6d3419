"""A backfill: what the input holds, learned by processes that end; the records that streaming writes."""

from __future__ import annotations

import io
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

from consumers.branches.workers.backfill import backfill
from consumers.branches.workers.backfill_process import progress_of, until
from consumers.branches.workers.coresets_topic import CoresetsWriter, coresets_of, read_partition
from consumers.branches.workers.metrics import WORKER
from consumers.branches.workers.settings import coresets_topic
from consumers.cli.app import app
from consumers.metrics import Metrics
from consumers.settings import Settings
from streamsvm.errors import ConfigurationError
from streamsvm.kafka import Cluster, Connection
from tests.branches.workers.group_workers import WorkerRunning, check_topic
from tests.branches.workers.test_group_workers import ENOUGH, adopting_settings, covered
from tests.branches.workers.test_workers import PARTITIONS, ROWS, check, fill
from tests.brokers.fixtures import TestBroker
from tests.consumers.trainers import Running


@pytest.fixture
def settings(broker: TestBroker, tmp_path: Path) -> Settings:
    return adopting_settings(broker, tmp_path / "checkpoint")


def manifests(settings: Settings, connection: Connection) -> list[bytes]:
    """Return each partition's highest complete manifest: it names all parts by the hashes of their bytes."""
    found = [read_partition(Cluster(connection), settings, partition)[0].highest() for partition in range(PARTITIONS)]
    return [b"" if one is None else one.manifest.encode() for one in found]


def copy_openings(settings: Settings, connection: Connection) -> None:
    """Open a second coresets topic as a trainer opened the first one."""
    cluster, other = Cluster(connection), second(settings)
    cluster.create(coresets_of(other, cluster))
    writer = CoresetsWriter(coresets_topic(other), cluster.outbox(), Metrics(WORKER))
    for partition in range(PARTITIONS):
        opening = read_partition(cluster, settings, partition)[0].opening
        assert opening is not None
        writer.open(opening)


def second(settings: Settings) -> Settings:
    """Return the same model with another coresets topic."""
    training = settings.training.model_copy(update={"coresets_topic": f"{coresets_topic(settings)}-2"})
    return settings.model_copy(update={"training": training})


def run(settings: Settings, connection: Connection, processes: int, *, stopped: bool = False) -> int:
    """Run a backfill; return its status."""
    stop = threading.Event()
    if stopped:
        stop.set()
    return backfill(settings, Cluster(connection), processes, stop)


def stream(settings: Settings, connection: Connection, offset: int) -> None:
    """Let a worker learn each partition up to an offset."""
    with WorkerRunning(settings, connection, ordinal=0, of=1) as worker:
        worker.wait_until(
            lambda: all(
                worker.metrics.registry.get_sample_value("streamsvm_input_lag_records", {"partition": str(p)}) == 0
                for p in range(PARTITIONS)
            )
        )
    for partition in range(PARTITIONS):
        held = read_partition(Cluster(connection), settings, partition)[0].highest()
        assert held is not None
        assert held.state.position.offset == offset


@pytest.mark.long
def test_half_backfilled_and_half_streamed_is_all_streamed(settings: Settings, connection: Connection) -> None:
    """The highest manifests are the same bytes, with dead letters among the records; a trainer's versions, too."""
    bad = (3, 90)
    fill(connection, settings.input.topic, 0, 70, bad)
    with Running(settings, connection) as trainer:
        trainer.wait_until_started()
        copy_openings(settings, connection)
        assert run(settings, connection, processes=2) == 0
        fill(connection, settings.input.topic, 70, bad=bad)
        stream(settings, connection, ROWS)
        trainer.wait_until(covered(trainer, ENOUGH - 2 * PARTITIONS))
    stream(second(settings), connection, ROWS)
    assert manifests(settings, connection) == manifests(second(settings), connection)
    check(settings, connection, bad)
    assert sum(one.rewritten for one in check_topic(connection, settings, PARTITIONS)) == 0


@pytest.mark.long
def test_a_backfill_that_was_stopped_goes_on(settings: Settings, connection: Connection) -> None:
    """It ends with a status that asks for another start; one that has nothing to learn ends at once."""
    with Running(settings, connection) as trainer:
        trainer.wait_until_started()
    fill(connection, settings.input.topic)
    copy_openings(settings, connection)
    assert run(settings, connection, processes=1, stopped=True) == 75
    assert run(settings, connection, processes=9) == 0
    found = manifests(settings, connection)
    assert run(settings, connection, processes=1) == 0
    assert manifests(settings, connection) == found
    stream(second(settings), connection, ROWS)
    assert manifests(second(settings), connection) == found


def test_a_backfill_needs_a_trainer_that_opened_the_topic(settings: Settings, connection: Connection) -> None:
    """Where learning begins is the trainer's to say."""
    cluster = Cluster(connection)
    cluster.create(coresets_of(settings, cluster))
    with pytest.raises(ConfigurationError, match="has opened partition 0"):
        run(settings, connection, processes=1)


def test_no_process_is_too_few() -> None:
    """The command refuses it before it asks a broker."""
    found = CliRunner().invoke(app, ["scale", "backfill", "--processes", "0", "--points-dimension", "2"])
    assert found.exit_code == 2
    assert "--processes" in found.output


def test_a_process_ends_at_its_marks_and_tells_so() -> None:
    """A partition that is not restored yet has not reached its mark, even where nothing is to be learned."""
    lines = io.BytesIO()
    enough = until({0: 0, 2: 5}, lines)
    assert not enough({})
    assert not enough({2: 9})
    assert not enough({0: 0, 2: 4})
    assert enough({0: 3, 2: 5})
    assert progress_of(lines.getvalue().splitlines()[-1]) == {0: 3, 2: 5}
