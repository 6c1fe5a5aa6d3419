"""A history under test: points that a topic holds, or held, and the same points in files."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from consumers.branches.workers.coresets_topic import read_partition
from consumers.branches.workers.files.backfill import Files, backfill_files
from consumers.settings import Settings
from streamsvm.errors import TopicMissing
from streamsvm.ingest.decoder import encode
from streamsvm.kafka import Cluster, Connection
from tests.branches.workers.files.tables import FEATURES, partition_of, table, write
from tests.branches.workers.test_workers import PARTITIONS
from tests.consumers.trainers import START_S, produce
from tests.sizes import sized

COLUMNS = {"label": "y", "features": ",".join(FEATURES), "weight": "w", "key": "user", "time": "at"}


@dataclass(frozen=True)
class History:
    """Points, the partition of each, and its place in that."""

    points: pa.Table
    partition: np.ndarray[Any, np.dtype[np.int64]]
    index: np.ndarray[Any, np.dtype[np.int64]]

    @staticmethod
    def of(rows: int) -> History:
        """Make so many."""
        points = table(rows)
        partition = partition_of(points.column("user").to_pylist(), PARTITIONS)
        index = np.empty(rows, np.int64)
        for own in range(PARTITIONS):
            index[partition == own] = np.arange(np.count_nonzero(partition == own))
        return History(points, partition, index)

    def rows(self, partition: int) -> int:
        """Count the rows of a partition."""
        return int(np.count_nonzero(self.partition == partition))

    def send(self, connection: Connection, topic: str, begin: float = 0.0, end: float = 1.0) -> None:
        """Put a share of each partition's rows into a topic, one a record."""
        X = np.stack([self.points.column(name).to_numpy() for name in FEATURES], axis=1)
        y, w = self.points.column("y").to_pylist(), self.points.column("w").to_pylist()
        for own in range(PARTITIONS):
            at = np.flatnonzero(self.partition == own)
            chosen = at[int(begin * len(at)) : int(end * len(at))].tolist()
            produce(connection, topic, [encode(X[k], y[k], w[k]) for k in chosen], own)

    def timed(self, connection: Connection, topic: str) -> History:
        """Return it with the times that the topic's records have."""
        at = np.full(len(self.index), -1, np.int64)
        for own in range(PARTITIONS):
            records = Cluster(connection).read_to_end(topic, own, timeout_s=30.0)
            times = np.array([record.timestamp_ms for record in records], np.int64)
            mine = np.flatnonzero(self.partition == own)[: len(times)]
            at[mine] = times
        column = self.points.schema.get_field_index("at")
        return History(self.points.set_column(column, "at", pa.array(at)), self.partition, self.index)

    def files(self, folder: Path, share: float = 1.0, count: int = 3) -> Path:
        """Write the first share of each partition's rows as some Parquet files of several parts each."""
        rows = np.array([self.rows(own) for own in range(PARTITIONS)])
        chosen = np.flatnonzero(self.index < (share * rows).astype(np.int64)[self.partition])
        for number, part in enumerate(np.array_split(chosen, count)):
            write(folder / f"part={number}" / "points.parquet", self.points.take(part), 700)
        return folder


def large(settings: Settings) -> Settings:
    """Return settings with leaves of 250 rows."""
    coreset = sized(leaf_rows=250, bucket_points=40, audit_points=50, train_points=500)
    return settings.model_copy(update={"coreset": coreset})


def given(paths: Sequence[Path], folder: Path, *, in_topic: bool = True, **columns: str) -> Files:
    """Return what a person would give."""
    return Files(paths=paths, columns={**COLUMNS, **columns}, in_topic=in_topic, dead_letters=folder / "letters")


class Backfilling:
    """A backfill in a thread, which waits for its trainer."""

    def __init__(self, settings: Settings, connection: Connection, files: Files, processes: int = 2) -> None:
        self.stop, self.status, self.failure = threading.Event(), -1, list[BaseException]()

        def run() -> None:
            try:
                self.status = backfill_files(
                    settings, Cluster(connection), files, self.stop, engine="process", master=None, processes=processes
                )
            except BaseException as error:  # noqa: BLE001 - shown to the test
                self.failure.append(error)

        self._thread = threading.Thread(target=run, name="backfill-under-test", daemon=True)
        self._thread.start()
        self._settings, self._connection = settings, connection

    def wait_until_recorded(self) -> None:
        """Wait until the cut of files stands in the coresets topic."""
        pause = threading.Event()
        while self._thread.is_alive():
            with suppress(TopicMissing):  # the backfill makes it
                if read_partition(Cluster(self._connection), self._settings, PARTITIONS - 1)[0].files is not None:
                    return
            pause.wait(0.05)
        self.wait()

    def wait(self) -> int:
        """Wait until it has ended; return its status, or raise what ended it."""
        self._thread.join(START_S)
        assert not self._thread.is_alive(), "the backfill did not end"
        if self.failure:
            raise self.failure[0]
        return self.status
