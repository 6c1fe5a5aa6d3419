"""Checkpoints against the size of the state: `python -m tests.benchmarks.checkpoint [--json FILE]`.

Each step by itself: encode, write with both fsyncs, read (from the page cache, unless the machine was just started),
decode. A start reads and decodes one generation, and at its first save the others. Figures are of this machine and
this minute: medians over rounds.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from streamsvm.checkpoint import CheckpointDirectory, FileSystem, Snapshot, decode, encode
from streamsvm.coreset import Bucket, Extent, History, Moments
from streamsvm.learning import LearnerState
from streamsvm.points import Points, Position
from tests.benchmarks.runner import Stopwatch, numbers, parser_of, written
from tests.golden.checkpoint import handmade

BUCKET_POINTS: Final = 1_000
MEGABYTE: Final = 1_000_000
STEPS: Final = ("encode", "write", "read", "decode")


def state(points: int, dimension: int) -> Snapshot:
    """Return a snapshot of one partition that holds so many points, in buckets of a thousand."""
    random = np.random.default_rng(0)
    extent = Extent(
        start=Position(0),
        end=Position(points),
        rows=points,
        first_time_ms=0,
        last_time_ms=0,
        moments=Moments.zero(dimension),
    )
    buckets = tuple(
        Bucket(
            Points(
                random.normal(size=(BUCKET_POINTS, dimension)).astype(np.float32),
                np.where(random.random(BUCKET_POINTS) < 0.5, 1, -1).astype(np.int8),
                random.uniform(0.5, 2.0, BUCKET_POINTS),
            ),
            extent,
        )
        for index in range(points // BUCKET_POINTS)
    )
    leaf = Points.empty(dimension, np.dtype(np.float32))
    plain = handmade()
    own = replace(
        plain.learner.partitions[0],
        sealed=len(buckets),
        buckets=buckets,
        leaf=leaf,
        extent=extent,
        screen=None,
        audit=(),
        history=History.zero(dimension),
    )
    return replace(plain, configuration={}, learner=LearnerState({0: own}, 0), pending=None)


def measure(points: int, dimension: int, directory: Path, rounds: int) -> dict[str, Any]:
    """Return a checkpoint's size, the median seconds of each step, and those of a whole save and a whole load."""
    snapshot, disk = state(points, dimension), FileSystem(directory)
    content, name = encode(snapshot), "benchmark"

    def write() -> None:
        disk.write(name, content)
        disk.sync(name)
        disk.sync_names()

    steps: dict[str, Callable[[], object]] = {
        "encode": lambda: encode(snapshot),
        "write": write,
        "read": lambda: disk.read(name),
        "decode": lambda: decode(content),
    }
    with CheckpointDirectory(disk, 1) as saved:
        steps |= {"save": lambda: saved.save(snapshot), "load": lambda: next(saved.generations())}
        taken = {step: [seconds(work) for _ in range(rounds)] for step, work in steps.items()}
    disk.remove(name)
    medians = {f"{step}_s": statistics.median(laps) for step, laps in taken.items()}
    return {"points": points, "dimension": dimension, "bytes": len(content), **medians}


def seconds(work: Callable[[], object]) -> float:
    """Return how long a piece of work takes."""
    stopwatch = Stopwatch()
    work()
    return stopwatch.lap().wall_s


def line(row: Mapping[str, Any]) -> str:
    """Return megabytes a second of each step, and milliseconds of a whole save and load."""
    size = row["bytes"] / MEGABYTE
    steps = ", ".join(f"{step} {size / row[f'{step}_s']:.0f} MB/s" for step in STEPS)
    whole = ", ".join(f"{step} {row[f'{step}_s'] * 1e3:.1f} ms" for step in ("save", "load"))
    return f"{row['points']:>10,} points of {row['dimension']} features: {size:.1f} MB; {steps}; {whole}"


def main(arguments: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Measure each size, and print."""
    parser = parser_of("checkpoint", __doc__)
    parser.add_argument("--points", type=numbers, default=[1_000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--dimension", type=int, default=24)
    parser.add_argument("--directory", type=Path, help="on the disk to measure; the temporary directory if left out")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=asked.directory) as scratch:
        rows = [measure(points, asked.dimension, Path(scratch), asked.rounds) for points in asked.points]
    print(*map(line, rows), sep="\n")
    written(asked.json, rows)
    return rows


if __name__ == "__main__":
    main()
