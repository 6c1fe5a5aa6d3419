"""A checkpoint of a build that had no bound on outliers, and the training set that it made further down the stream.

The files were written once, by ``python -m tests.golden.lineage`` under that build: what was begun then goes on so.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np

from streamsvm.checkpoint.format import Snapshot, encode
from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig, SvmConfig
from streamsvm.learning.learner import Learner
from streamsvm.points import Points, Position, Rows

HERE: Final = Path(__file__).parent
CHECKPOINT: Final = HERE / "unbounded.ssvm"
TRAINING_SET: Final = HERE / "unbounded.json"
ROWS: Final = 700
SAVED_AT: Final = 333


def configuration(**coreset: Any) -> ModelConfig:
    """Return a configuration whose coresets need no pilot, so that their bytes are those of any machine."""
    sizes: dict[str, Any] = {"reducer": "uniform", "leaf_rows": 100, "bucket_points": 60, "audit_points": 20}
    return ModelConfig(
        points=PointsConfig(dimension=2),
        coreset=CoresetConfig(max_partitions=1, **sizes, **coreset),
        svm=SvmConfig(C=1.0),
        seed=3,
    )


def stream() -> Rows:
    """Return a stream of which row 250 lies a million times too far, and row 450 weighs a million."""
    n = ROWS
    at = np.arange(n)
    X = np.stack([(at * 37 % 101) / 50.0 - 1.0, (at * 53 % 89) / 44.0 - 1.0], axis=1).astype(np.float32)
    X[250] *= 1e6
    weight = np.ones(n)
    weight[450] = 1e6
    y = np.where(at * 29 % 7 < 3, 1, -1).astype(np.int8)
    none = np.full(n, -1, np.int64)
    every = np.ones(n, np.bool_)
    return Rows(
        partition=0,
        offset=at,
        row=np.zeros(n, np.int64),
        last=every,
        time_ms=none,
        accepted=every,
        points=Points(X, y, weight),
        leader_epoch=none,
    )


def learner_of(config: ModelConfig) -> Learner:
    """Return a learner to which no cut falls due."""
    return Learner(config, {0: Position(0)}, 1 << 40)


def written() -> tuple[bytes, dict[str, Any]]:
    """Return the checkpoint and what the training set is at the stream's end."""
    config = configuration()
    learner = learner_of(config)
    learner.learn(stream(), until=Position(SAVED_AT))
    base = {0: Position(0)}
    canonical, sha256 = config.canonical(), config.sha256()
    saved = Snapshot(
        name="m",
        incarnation=1,
        sequence=1,
        topic="points",
        topic_id="",
        base=base,
        configuration=canonical,
        configuration_sha256=sha256,
        build={},
        head=None,
        learner=learner.state(),
        pending=None,
    )
    learner.learn(stream())
    cut = learner.cut()
    return encode(saved), {"training_set_sha256": cut.points.sha256(), "mean": cut.moments.mean.tolist()}


if __name__ == "__main__":
    if not CHECKPOINT.exists():
        checkpoint, training_set = written()
        CHECKPOINT.write_bytes(checkpoint)
        TRAINING_SET.write_text(json.dumps(training_set) + "\n")
