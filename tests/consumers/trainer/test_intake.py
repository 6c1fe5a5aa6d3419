"""How much a trainer reads at once."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from consumers.host.runtime import Health
from consumers.metrics import TRAINER, Metrics
from consumers.streams.dead_letters import DeadLetters
from consumers.trainer.intake import BACKLOG_BATCHES, Intake
from streamsvm.ingest.decoder import PointDecoder
from streamsvm.kafka import Record
from tests.consumers.trainers import records, settings_for

MOST = 10


class Log:
    """An input that has so many records, and notes what it is asked for."""

    def __init__(self, count: int) -> None:
        self._left = [Record("t", 0, at, None, value, (), 1, 0) for at, value in enumerate(records(count))]
        self.asked: list[tuple[int, float]] = []

    def poll(self, max_records: int, timeout_s: float) -> list[Record]:
        """Return what is there."""
        self.asked.append((max_records, timeout_s))
        came, self._left = self._left[:max_records], self._left[max_records:]
        return came

    def assign(self, offsets: dict[int, int]) -> None:
        """Read anywhere."""

    def connected(self) -> bool:
        """Be there."""
        return True

    def in_open_transactions(self) -> dict[int, int]:
        """Have none."""
        return {}


def intake_of(log: Log, directory: Path) -> tuple[Intake, list[int]]:
    """Return an intake, and where the number of rows of each of its offers is noted."""
    settings, metrics, offered = settings_for("t", directory), Metrics(TRAINER), list[int]()
    pipeline: Any = SimpleNamespace(
        note_read=lambda ends: None, offer=lambda rows: offered.append(len(rows)), points_accepted=lambda: 0
    )
    outside: Any = SimpleNamespace(send=None, poll=lambda: None)
    reader: Any = log
    made = Intake(
        settings,
        pipeline,
        reader=reader,
        outbox=outside,
        dead_letters=DeadLetters("m", "t", "t.dlq", metrics),
        decoder=PointDecoder(settings.points),
        metrics=metrics,
        health=Health(stuck_after_s=60.0),
        monotonic=lambda: 0.0,
        clock=lambda: datetime.now(UTC),
    )
    return made, offered


def test_a_backlog_is_read_in_larger_batches(tmp_path: Path) -> None:
    """After a full read what was fetched meanwhile is taken without a wait; at the end of the log it is as before."""
    log = Log((1 + BACKLOG_BATCHES) * MOST + 3)
    intake, offered = intake_of(log, tmp_path)
    assert [intake.read(MOST, 0.5) for _ in range(4)] == [MOST, BACKLOG_BATCHES * MOST, 3, 0]
    assert offered == [MOST, BACKLOG_BATCHES * MOST, 3]
    larger = (BACKLOG_BATCHES * MOST, 0.0)
    assert log.asked == [(MOST, 0.5), larger, larger, (MOST, 0.5)]


def test_an_assignment_begins_with_a_small_batch(tmp_path: Path) -> None:
    """What waits elsewhere is not known yet; and where nothing was fetched the read waits as it was asked to."""
    log = Log(MOST)
    intake, _ = intake_of(log, tmp_path)
    assert intake.read(MOST, 0.5) == MOST
    assert intake.read(MOST, 0.5) == 0
    assert log.asked[1:] == [(BACKLOG_BATCHES * MOST, 0.0), (MOST, 0.5)]
    again = Log(2 * MOST)
    intake, _ = intake_of(again, tmp_path)
    intake.read(MOST, 0.5)
    intake.assign({0: 0})
    intake.read(MOST, 0.5)
    assert again.asked == [(MOST, 0.5)] * 2
