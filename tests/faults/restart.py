"""Restart time against state size: `python -m tests.faults.restart`, on a broker of its own.

The seconds from executing the process to its readiness, with nothing to read again: what a checkpoint of that size
costs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from consumers.settings import Settings
from streamsvm.config import PointsConfig, SvmConfig
from streamsvm.kafka import Connection
from tests.brokers.jvm import JvmBroker
from tests.consumers.trainers import produce, settings_for
from tests.faults.daemon import Daemon
from tests.faults.observed import read_all
from tests.faults.stage import Stage
from tests.sizes import sized
from tests.streams import gaussian

ROWS_A_RECORD: Final = 500
READY_POLL_S: Final = 0.01


def settings_of(points: int, dimension: int, directory: Path) -> Settings:
    """Return the settings of a trainer that keeps a leaf and a bucket of so many points."""
    return settings_for(f"restart-{points}-{dimension}", directory, policy="latest", every_leaves=1_000).model_copy(
        update={
            "points": PointsConfig(dimension=dimension),
            "coreset": sized(reducer="uniform", leaf_rows=points, bucket_points=points, train_points=1_000),
            "svm": SvmConfig(C=1.0),
        }
    )


def fill(stage: Stage, points: int, dimension: int) -> None:
    """Store points for three buckets and most of a leaf, many in each record."""
    stage.create()
    made = gaussian(points, dimension=dimension)
    rows = [{"x": x.tolist(), "y": int(y), "w": float(w)} for x, y, w in zip(made.X, made.y, made.weight, strict=True)]
    values = [msgspec.json.encode(rows[at : at + ROWS_A_RECORD]) for at in range(0, points, ROWS_A_RECORD)]
    for _ in range(3):
        produce(stage.connection, stage.settings.input.topic, values)
    produce(stage.connection, stage.settings.input.topic, values[: 9 * len(values) // 10])


def ready_after(stage: Stage, **options: Any) -> float:
    """Start a process and return the seconds until /readyz says yes."""
    begun = time.perf_counter()
    daemon = stage.start(**options)
    address = daemon.wait_for("configuration")["http"]
    while not _ready(f"{address}/readyz"):
        assert daemon.ended() is None, daemon.wait()
        time.sleep(READY_POLL_S)
    seconds = time.perf_counter() - begun
    daemon.kill()
    return seconds


def _ready(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=10) as answer:
            return bool(answer.status == 200)
    except urllib.error.HTTPError:
        return False


def measure(connection: Connection, points: int, dimension: int, runs: int) -> dict[str, Any]:
    """Make a state of a size, and restart on it several times."""
    with tempfile.TemporaryDirectory() as directory:
        stage = Stage(connection, settings_of(points, dimension, Path(directory)))
        options = {
            "coreset_reducer": "uniform",
            "coreset_train_points": 1_000,
            "points_max_record_bytes": 1 << 20,
            "checkpoint_interval_s": 3_600.0,
        }
        fill(stage, points, dimension)
        daemon: Daemon = stage.start(**options)
        daemon.wait_for("started")
        read_all(daemon)
        assert daemon.stop() == 0, daemon.said
        size = max(file.stat().st_size for file in Path(directory).glob("checkpoint-*"))
        seconds = [ready_after(stage, **options) for _ in range(runs)]
    return {
        "points_held": round(points * 2.9),
        "d": dimension,
        "checkpoint_mb": round(size / 1e6, 3),
        "ready_s_median": round(statistics.median(seconds), 3),
        "ready_s_min": round(min(seconds), 3),
        "ready_s_max": round(max(seconds), 3),
    }


def table_of(rows: Sequence[dict[str, Any]]) -> Table:
    """Return the rows as people read them."""
    table = Table(title="From exec to ready, nothing to read again", box=box.SIMPLE_HEAD)
    for heading in ("points held", "d", "checkpoint MB", "seconds (least-greatest)"):
        table.add_column(heading, justify="right")
    for row in rows:
        spread = f"{row['ready_s_median']:.2f} ({row['ready_s_min']:.2f}-{row['ready_s_max']:.2f})"
        table.add_row(f"{row['points_held']:,}", str(row["d"]), f"{row['checkpoint_mb']:,.1f}", spread)
    return table


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, show the table, and write JSON where asked."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.restart", description=__doc__.splitlines()[0])
    parser.add_argument("--points", default="1000,20000,100000,400000", help="points of a bucket (%(default)s)")
    parser.add_argument("--dimension", type=int, default=24, help="features a point (%(default)s)")
    parser.add_argument("--runs", type=int, default=5, help="restarts for each size (%(default)s)")
    parser.add_argument("--json", default="", metavar="FILE", help="also write JSON")
    options = parser.parse_args(arguments)
    broker = JvmBroker()
    try:
        broker.start()
        connection = Connection(options={"bootstrap.servers": broker.bootstrap_servers})
        sizes = [int(part) for part in options.points.split(",")]
        rows = [measure(connection, points, options.dimension, options.runs) for points in sizes]
    finally:
        broker.stop()
    Console(width=100).print(table_of(rows))
    if options.json:
        Path(options.json).write_text(json.dumps({"benchmark": "restart", "rows": rows}, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
