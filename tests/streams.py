"""Streams for tests: rows of a partition made from arrays, without a broker."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from streamsvm.checkpoint import Snapshot
from streamsvm.config import ModelConfig, PointsConfig, SvmConfig
from streamsvm.learning import LearnerState
from streamsvm.model import Head, PartitionCut
from streamsvm.points import LookedUp, Points, Position, Rows
from tests.config.sizes import sized

DIMENSION = 3


def small_config(**coreset: object) -> ModelConfig:
    """Return a configuration whose tree grows fast: leaves of 8 rows, buckets of 5 points, an audit sample of 7."""
    options = {"leaf_rows": 8, "bucket_points": 5, "audit_points": 7, "train_points": 64, **coreset}
    return ModelConfig(
        points=PointsConfig(dimension=DIMENSION), coreset=sized(**options), svm=SvmConfig(C=1.0), seed=11
    )


def gaussian(n: int, seed: int = 0, dimension: int = DIMENSION) -> Points:
    """Return two overlapping Gaussian classes, one third positive, with weights from 0.5 to 2."""
    random = np.random.default_rng(seed)
    y = np.where(random.random(n) < 1 / 3, 1, -1).astype(np.int8)
    X = (random.normal(size=(n, dimension)) + 0.7 * y[:, None]).astype(np.float32)
    return Points(X, y, random.uniform(0.5, 2.0, n))


def rows_of(
    points: Points,
    partition: int = 0,
    accepted: NDArray[np.bool_] | None = None,
    record_rows: NDArray[np.int64] | None = None,
    first_offset: int = 0,
) -> Rows:
    """Lay points out as consecutive rows; `record_rows` says how many rows each record holds (1 if left out)."""
    n = len(points)
    counts = np.ones(n, np.int64) if record_rows is None else record_rows
    assert counts.sum() == n
    offset = np.repeat(np.arange(len(counts)) + first_offset, counts)
    row = np.arange(n) - np.repeat(np.cumsum(counts) - counts, counts)
    last = np.zeros(n, np.bool_)
    last[np.cumsum(counts) - 1] = True
    return Rows(
        partition=partition,
        offset=offset,
        row=row.astype(np.int64),
        last=last,
        times=LookedUp.of(1_700_000_000_000 + offset * 10),
        accepted=np.ones(n, np.bool_) if accepted is None else accepted,
        points=points,
        leader_epoch=offset // 50,
    )


def id_hash(id_: str | int | None, name: str) -> int:
    """Return what a coreset of a model keeps of an id, by the letter of its description."""
    if id_ is None:
        return 0
    salt = hashlib.blake2b(name.encode(), digest_size=16).digest()
    return int.from_bytes(hashlib.blake2b(str(id_).encode(), digest_size=8, salt=salt).digest(), "little", signed=True)


def head_of(number: int, cut: Sequence[PartitionCut] = (), **changes: Any) -> Head:
    """Return the head record of a version of the first incarnation."""
    plain = Head(
        number=number,
        incarnation=1,
        cut=tuple(cut),
        sha256="ab" * 32,
        offset=number,
        training_set_sha256="cd" * 32,
        build={},
        links=(),
    )
    return msgspec.structs.replace(plain, **changes)


def snapshot_of(state: LearnerState, **changes: Any) -> Snapshot:
    """Return what a checkpoint holds that knows a learner's state, and besides what is given."""
    plain = Snapshot(
        name="m",
        incarnation=1,
        sequence=1,
        topic="t",
        topic_id="",
        base=dict.fromkeys(state.partitions, Position(0)),
        configuration={},
        configuration_sha256="",
        build={},
        head=None,
        learner=state,
        pending=None,
    )
    return replace(plain, **changes)


def ring(n: int, dimension: int = 3, seed: int = 0) -> Points:
    """Return a ball and what is around it, features of unlike scales, weights from 0.5 to 2."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, dimension))
    y = np.where((X**2).sum(axis=1) > dimension, 1, -1).astype(np.int8)
    return Points((X * [1.0, 50.0, 0.1][:dimension] + 7.0).astype(np.float32), y, random.uniform(0.5, 2.0, n))
