"""What a worker leaves in the coresets topic, in bytes of the input: `python -m tests.benchmarks.coresets_share`.

How much that is depends on how many rows lie between two manifests, and on how many rows there are in all. So there is
neither broker nor clock: one partition's points are learned, and after every so many leaves what would be written is
counted, by kind. A worker writes a manifest at most every `worker.publish_interval_s`, so leaves between manifests are
rows a second of a partition, times that, over `leaf_rows`. The input is Arrow, 4,096 rows a record, not compressed.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from streamsvm.branches.workers.coreset_records import FORMAT, Opening, newest_rows
from streamsvm.branches.workers.coreset_writer import PartitionWriter
from streamsvm.config import ModelConfig, PointsConfig
from streamsvm.ingest import arrow
from streamsvm.learning.learner import Learner
from streamsvm.points import Points, Position, Rows, Times

RECORD_ROWS: Final = 4_096
NEVER: Final = 1 << 62


def share(n: int, dimension: int, leaves: int) -> dict[str, Any]:
    """Return the bytes written of n rows, a manifest every so many leaves, over those of the input."""
    config = ModelConfig(points=PointsConfig(dimension=dimension))
    opening = Opening(
        format=FORMAT,
        name="m",
        incarnation=1,
        topic="points",
        topic_id="",
        partition=0,
        base=(0, 0),
        configuration=config.canonical(),
        configuration_sha256=config.sha256(),
    )
    learner, writer = Learner(config, {0: Position(0)}, NEVER), PartitionWriter(opening)
    random, rows_each = np.random.default_rng(3), leaves * config.coreset.leaf_rows
    written, manifests, read = {"b": 0, "l": 0, "n": 0, "rest": 0}, 0, 0
    for begin in range(0, n, rows_each):
        rows = _rows(random, begin, min(rows_each, n - begin), dimension)
        learner.learn(rows)
        newest = rows.slice(max(0, len(rows) - newest_rows(config)), len(rows))
        found = writer.write(learner.state().partitions[0], newest)
        for key, value in found.parts:
            written[key.split(b"/")[2].decode()] += len(key) + len(value)
        written["rest"] += found.size - sum(len(key) + len(value) for key, value in found.parts)
        manifests, read = manifests + 1, read + len(rows)
    X, y = np.zeros((RECORD_ROWS, dimension), np.float32), [0] * RECORD_ROWS
    size = len(arrow.encode(X, y)) * read / RECORD_ROWS
    return {
        "rows": read,
        "leaves_a_manifest": leaves,
        "manifests": manifests,
        "share": round(sum(written.values()) / size, 4),
        **{kind: round(count / size, 4) for kind, count in written.items()},
    }


def _rows(random: np.random.Generator, begin: int, n: int, dimension: int) -> Rows:
    y = np.where(random.random(n) < 0.5, 1, -1).astype(np.int8)
    X = (random.normal(size=(n, dimension)) + 0.5 * y[:, None]).astype(np.float32)
    offset = np.arange(begin, begin + n)
    return Rows(
        partition=0,
        offset=offset,
        row=np.zeros(n, np.int64),
        last=np.ones(n, np.bool_),
        accepted=np.ones(n, np.bool_),
        points=Points(X, y, np.ones(n)),
        times=Times.of(np.full(n, -1)),
        leader_epoch=np.full(n, -1),
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print JSON, a line for each number of leaves."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.coresets_share")
    parser.add_argument("--points", type=int, default=10_000_000, help="rows of the partition (%(default)s)")
    parser.add_argument("--dimension", type=int, default=8, help="features of a point (%(default)s)")
    parser.add_argument("--leaves", default="1,10,100,400", help="leaves between two manifests (%(default)s)")
    options = parser.parse_args(arguments)
    for leaves in map(int, options.leaves.split(",")):
        print(json.dumps(share(options.points, options.dimension, leaves)), flush=True)


if __name__ == "__main__":
    main()
