"""An erasure where rows are learned by other processes, or joined with labels of a log of their own."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pandas as pd
import pytest

from consumers.branches.history.erasing import erase
from consumers.branches.history.forgetting import ForgettingReport, report_of
from consumers.settings import Settings
from consumers.verify.verify import verify
from streamsvm.branches.history.without_part import WithoutRows
from streamsvm.errors import ConfigurationError
from streamsvm.kafka import Cluster, Connection
from streamsvm.model import Version
from streamsvm.points import Position
from streamsvm.verification import Outcome
from tests.branches.late_labels.test_labels import Timed, expected, joined_settings, stream, topics, write
from tests.branches.workers.group_workers import PARTITIONS, ROWS, WorkerRunning, check_topic, fill, of_one_learner
from tests.branches.workers.test_group_workers import adopting_settings, covered
from tests.brokers.fixtures import TestBroker
from tests.consumers.trainers import Running, run_until, topic, versions
from tests.kafka.foreign import delete_records

BAD = (3, 40, 77)
"""Of each partition that workers learn."""
EVERYWHERE = {partition: [Position(at) for at in BAD] for partition in range(PARTITIONS)}


def erased(connection: Connection, settings: Settings, places: dict[int, list[Position]]) -> ForgettingReport:
    report = report_of("m", places, "tester")
    assert erase(connection, settings, places, report, agree=lambda: True)
    return report


def check_replaced(settings: Settings, connection: Connection, before: list[Version]) -> None:
    """Check that the later versions are those of one learner that rejected the rows, by bytes and by `verify`."""
    after = versions(connection, settings)[len(before) :]
    assert after
    for version in after:
        expected = of_one_learner(settings, version, BAD)
        assert (version.lineage.training_set_sha256, version.model.machine.coefficients.tobytes()) == expected  # type: ignore[union-attr]
        assert version.lineage.fact(WithoutRows) is not None
    found = verify(Cluster(connection), settings)
    assert [row.outcome for row in found.rows] == [Outcome.LEFT_OUT] * len(before) + [Outcome.IDENTICAL] * len(after)


def test_workers_of_their_own_pass_over_erased_rows(broker: TestBroker, tmp_path: Path) -> None:
    """One that runs all the while is told by the new opening, and so is one that begins later."""
    own, connection = adopting_settings(broker, tmp_path / "checkpoint"), broker.connection
    fill(connection, own.input.topic, 0, 100)
    with ExitStack() as stack:
        with Running(own, connection) as trainer:
            trainer.wait_until_started()
            stack.enter_context(WorkerRunning(own, connection, ordinal=0, of=2))
            with WorkerRunning(own, connection, ordinal=1, of=2):
                trainer.wait_until(covered(trainer, PARTITIONS * 80))
        before = versions(connection, own)
        assert len(erased(connection, own, EVERYWHERE).found) == len(BAD) * PARTITIONS
        fill(connection, own.input.topic, 100)
        with Running(own, connection) as trainer, WorkerRunning(own, connection, ordinal=1, of=2):
            trainer.wait_until_started()
            trainer.wait_until(
                lambda: (
                    versions(connection, own)[-1].stream.rows >= PARTITIONS * (ROWS - 20)
                    and len(versions(connection, own)) > len(before)
                )
            )
    check_replaced(own, connection, before)
    check_topic(connection, own, PARTITIONS)


N = 300


def written(connection: Connection, settings: Settings) -> tuple[list[Timed], list[Timed], pd.DataFrame]:
    """Write both logs, and return what was written, and who is who."""
    topics(connection, settings)
    features, labels, table = stream(N)
    write(connection, settings.labels.topic, labels)
    write(connection, settings.input.topic, features)
    return features, labels, table


def test_an_erased_row_without_a_label_becomes_no_dead_letter(real_broker: TestBroker, tmp_path: Path) -> None:
    """Where rows without a label become dead letters: those of others do once more, that of an erased one does not."""
    connection = real_broker.connection
    own = joined_settings(real_broker.name("letters"), tmp_path / "one", absent="dead_letter")
    _, _, table = written(connection, own)
    run_until(own, connection, expected(table))
    before = offsets_of_letters(connection, own)
    first = next(at for at in before if not table.comes[at])
    erased(connection, own, {0: [Position(first)]})
    with Running(own, connection) as running:
        running.wait_for_rows(expected(table))
    assert offsets_of_letters(connection, own) == [*before, *(at for at in before if at != first)]


def offsets_of_letters(connection: Connection, settings: Settings) -> list[int]:
    letters = topic(connection, settings.input.dead_letters)
    return [int(dict(letter.headers)["__streams.errors.offset"]) for letter in letters]


def test_labels_that_are_gone_are_said_before_anything_changes(real_broker: TestBroker, tmp_path: Path) -> None:
    """The command refuses, and says which log begins too late."""
    connection = real_broker.connection
    own = joined_settings(real_broker.name("gone"), tmp_path / "one")
    written(connection, own)
    run_until(own, connection, N)
    delete_records(connection, own.labels.topic, 0, 2)
    with pytest.raises(ConfigurationError, match=r"-labels\[0\] begins at offset 2, but the model began at 0"):
        erased(connection, own, {0: [Position(7)]})
