"""Late labels at length: `python -m tests.faults.late_labels [--rows N] [--kills K] [--json FILE]`.

Rows come ten a second, their labels late by a heavy tail (Pareto, index 1.1), and one in ten never. One trainer reads
both logs as they come; a second one gets them in portions of random size, often only one of the two; a third is a
process that is killed again and again, at random moments. The versions of all three have to be the same bytes, of as
many labels as a join by pandas finds, and `verify` has to find nothing.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import pandas as pd
from confluent_kafka import Producer

from consumers.branches.late_labels import joined_source
from consumers.branches.late_labels.settings import LabelsConfig
from consumers.settings import Settings
from consumers.verify.verify import verify
from streamsvm.ingest.label_records import WATERMARK_HEADER
from streamsvm.joining.log_time import ENOUGH
from streamsvm.kafka import Cluster, Connection, Input, TopicSpec
from streamsvm.kafka.records import Batch
from tests.brokers.jvm import JvmBroker
from tests.consumers.trainers import Running, settings_for, topic
from tests.kafka.foreign import Silent
from tests.live.process import Daemon, arguments
from tests.streams import gaussian

ROW_MS: Final = 100
HORIZON_S: Final = 600.0
NEVER: Final = 0.1
LONGEST_S: Final = 100_000.0
VERSIONS: Final = 40
"""About as many are published, whatever the number of rows."""
DEADLINE_S: Final = 3_600.0
NOTHING_COMES_S: Final = 10.0
"""A trainer that lost rows never learns them all."""
BEGUN_BEFORE_S: Final = 30 * 86_400
"""Retention goes by the time of records; topics are made without."""


def settings_of(prefix: str, directory: Path, rows: int) -> Settings:
    """Return a trainer's settings under which so many rows make about `VERSIONS` versions."""
    made = settings_for(prefix, directory)
    coreset = made.coreset.model_copy(update={"points": 11 * rows // (2 * VERSIONS), "train_points": 2_000})
    return made.model_copy(
        update={
            "labels": LabelsConfig(topic=f"{prefix}-labels", horizon=HORIZON_S),
            "coreset": coreset,
            "training": made.training.model_copy(update={"every_leaves": 1}),
            "checkpoint": made.checkpoint.model_copy(update={"interval_s": 1.0}),
        }
    )


def written(settings: Settings, directory: Path, suffix: str) -> Settings:
    """Return the same trainer with another topic to write, and another directory."""
    output = settings.output.model_copy(update={"models_topic": f"{settings.output.models_topic}{suffix}"})
    checkpoint = settings.checkpoint.model_copy(update={"directory": directory})
    return settings.model_copy(update={"output": output, "checkpoint": checkpoint})


def fill(connection: Connection, settings: Settings, rows: int, seed: int) -> pd.DataFrame:
    """Write both logs, and return who is who."""
    unlimited = {"retention.ms": "-1", "message.timestamp.type": "CreateTime"}
    Cluster(connection).create(
        [TopicSpec(name, 1, config=unlimited) for name in (settings.input.topic, settings.labels.topic)]
    )
    points, chance = gaussian(rows, seed), np.random.default_rng(seed)
    late_ms = (1_000 * np.minimum(4.0 * chance.pareto(1.1, rows), LONGEST_S)).astype(np.int64)
    table = pd.DataFrame(
        {
            "y": points.y,
            "time_ms": ROW_MS * np.arange(rows),
            "label_ms": ROW_MS * np.arange(rows) + late_ms,
            "comes": chance.random(rows) >= NEVER,
        }
    )
    begun_ms = 1_000 * (int(time.time()) - BEGUN_BEFORE_S - rows * ROW_MS // 1_000)
    end_ms = ROW_MS * rows + round(1_000 * HORIZON_S) + 1
    producer = Producer(
        {**connection.options, "linger.ms": 50, "queue.buffering.max.messages": 500_000}, logger=Silent()
    )

    def send(name: str, value: bytes, time_ms: int, headers: list[tuple[str, bytes]] | None = None) -> None:
        while True:
            try:
                producer.produce(name, value, partition=0, timestamp=begun_ms + time_ms, headers=cast(Any, headers))
            except BufferError:
                producer.poll(0.1)
            else:
                break
        producer.poll(0)

    for i, x in enumerate(points.X.tolist()):
        send(settings.input.topic, b'{"x": [%.5f, %.5f, %.5f], "id": "t%d"}' % (*x, i), ROW_MS * i)
    coming = table[table.comes & (table.label_ms < end_ms)].sort_values("label_ms", kind="stable")
    for i, y, at in zip(coming.index.tolist(), coming.y.tolist(), coming.label_ms.tolist(), strict=True):
        send(settings.labels.topic, b'{"id": "t%d", "y": %d}' % (i, y), at)
    for name in (settings.input.topic, settings.labels.topic) * ENOUGH:
        send(name, b"", end_ms, [(WATERMARK_HEADER, b"")])
    assert producer.flush(120.0) == 0
    return table


class UnevenInput:
    """An input that brings records in portions of random size, and half of the time none.

    Parameters
    ----------
    source : Input
    chance : random.Random
    """

    def __init__(self, source: Input, chance: random.Random) -> None:
        self._source, self._chance = source, chance

    def poll(self, max_records: int, timeout_s: float) -> Batch:
        """Return fewer records than there are, or none."""
        if self._chance.random() < 0.5:
            return Batch([])
        return self._source.poll(self._chance.randint(1, max_records), timeout_s)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)


class UnevenCluster(Cluster):
    """A broker both of whose logs come unevenly."""

    chance = random.Random(5)

    def input(self, topic: str, group: str | None) -> Input:
        """See `Cluster.input`."""
        return cast(Input, UnevenInput(super().input(topic, group), self.chance))


def values(connection: Connection, settings: Settings) -> list[bytes]:
    """Return every version as it is published."""
    return [record.value or b"" for record in topic(connection, settings.output.models_topic)]


def until_all(settings: Settings, connection: Connection, rows: int, cluster: Cluster | None = None) -> Running:
    """Run a trainer until every row is learned, or until nothing is left to read and no version comes."""
    with Running(settings, connection, cluster) as running:
        running.wait_until_started()
        seen, since = 0.0, time.monotonic()

        def settled() -> bool:
            nonlocal seen, since
            covered = running.value("streamsvm_model_points_covered")
            behind = running.metrics.registry.get_sample_value("streamsvm_input_lag_records", {"partition": "0"})
            if covered != seen or behind != 0:
                seen, since = covered, time.monotonic()
            return covered >= _covered(settings, rows) or time.monotonic() - since > NOTHING_COMES_S

        running.wait_until(settled, DEADLINE_S)
    return running


def _covered(settings: Settings, rows: int) -> int:
    leaf = settings.coreset.leaf_rows
    return rows - rows % leaf


def killed(settings: Settings, connection: Connection, kills: int, seed: int, defect: str = "") -> int:
    """Run a trainer as a process that is killed at random moments; return how many versions were there at the last.

    `defect` is planted in it, of `tests.defects`.
    """
    chance = random.Random(seed)
    options = {
        "labels_topic": settings.labels.topic,
        "labels_horizon": settings.labels.horizon,
        "coreset_train_points": settings.coreset.train_points,
        "checkpoint_interval_s": 0.1,
    }
    command, newest = arguments(settings, connection, **options), 0
    for number in range(kills):
        daemon = Daemon([defect, *command], module="tests.defects.process") if defect else Daemon(command)
        newest = max(newest, 1 + VERSIONS * number // (kills + 1))
        assert daemon.reaches_version(newest), daemon.said[-2_000:]
        time.sleep(chance.uniform(0.0, 0.4))  # a random moment, on purpose
        daemon.kill()
    return newest


def run(
    connection: Connection, rows: int, kills: int, directory: Path, prefix: str, *, seed: int = 3, defect: str = ""
) -> dict[str, Any]:
    """Run all three trainers and `verify`; raises `AssertionError` where anything differs."""
    lap = Lap()
    settings = settings_of(prefix, directory / "plain", rows)
    table = fill(connection, settings, rows, seed)
    figures: dict[str, Any] = {"rows": rows, "fill_s": lap()}
    plain = until_all(settings, connection, rows)
    in_time = int((table.comes & (table.label_ms <= table.time_ms + 1_000 * HORIZON_S)).sum())
    joined, absent = (plain.value("streamsvm_labels_total", outcome=outcome) for outcome in ("joined", "absent"))
    assert (joined, absent) == (in_time, rows - in_time)
    found = values(connection, settings)
    figures |= {"plain_s": lap(), "joined": in_time, "absent": rows - in_time, "versions": len(found)}
    before, joined_source.MOST_WAITING = joined_source.MOST_WAITING, 3_000  # type: ignore[misc]
    try:
        uneven = written(settings, directory / "uneven", "-uneven")
        until_all(uneven, connection, rows, UnevenCluster(connection))
    finally:
        joined_source.MOST_WAITING = before  # type: ignore[misc]
    assert values(connection, uneven) == found
    figures["uneven_s"] = lap()
    often = written(settings, directory / "killed", "-killed")
    figures["versions_at_last_kill"] = killed(often, connection, kills, seed, defect)
    until_all(often, connection, rows)
    assert values(connection, often) == found, "the trainer that was killed gave other versions"
    figures |= {"kills": kills, "killed_s": lap()}
    report = verify(Cluster(connection), settings)
    assert report.clean, report.lines()
    assert len(report.rows) == len(found)
    return figures | {"verify_s": lap(), "verified": len(report.rows)}


class Lap:
    """Seconds since it was last asked."""

    def __init__(self) -> None:
        self._at = time.monotonic()

    def __call__(self) -> float:
        """Return them."""
        before, self._at = self._at, time.monotonic()
        return round(self._at - before, 1)


def main(given: Sequence[str] | None = None) -> None:
    """Run, and say what it came to."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.late_labels", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="%(default)s")
    parser.add_argument("--kills", type=int, default=20, help="%(default)s")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(given)
    broker = JvmBroker()
    try:
        broker.start()
        connection = Connection(options={"bootstrap.servers": broker.bootstrap_servers})
        with tempfile.TemporaryDirectory() as directory:
            figures = run(connection, options.rows, options.kills, Path(directory), "late")
    finally:
        broker.stop()
    print(json.dumps(figures, indent=2))
    if options.json is not None:
        options.json.write_text(json.dumps(figures) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
