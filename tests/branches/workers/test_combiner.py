"""Partitions that others learned: what travels between them, and cuts of it, are those of one learner."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from streamsvm.branches.workers.combiner import Combiner
from streamsvm.checkpoint import records
from streamsvm.config import ModelConfig, PointsConfig, SvmConfig
from streamsvm.coreset.partition import PartitionState
from streamsvm.errors import CorruptCheckpoint
from streamsvm.learning.learner import Learner, LearnerState
from streamsvm.points import Position, Rows
from tests.branches.memories.test_forgetful import MEMORIES
from tests.config.sizes import sized
from tests.learning.test_learner import audit_bytes, state_bytes
from tests.streams import DIMENSION, gaussian, rows_of

NEVER = 1 << 30
PARTITIONS = 3
MEMORIES_AND_SHAPES: list[dict[str, Any]] = [
    {"structure": "tree"},
    {"structure": "chain"},
    {"reducer": "sensitivity"},
    *MEMORIES,
]


def config_of(**coreset: Any) -> ModelConfig:
    sizes = {"leaf_rows": 16, "bucket_points": 12, "audit_points": 20, "train_points": 90, **coreset}
    return ModelConfig(points=PointsConfig(dimension=DIMENSION), coreset=sized(**sizes), svm=SvmConfig(), seed=5)


def base_of(partitions: Any) -> dict[int, Position]:
    return dict.fromkeys(partitions, Position(0))


def stream(partition: int, n: int) -> Rows:
    accepted = np.random.default_rng(partition).random(n) > 0.1
    return rows_of(gaussian(n, seed=partition), partition, accepted=accepted)


def encoded(partition: int, state: PartitionState) -> tuple[list[bytes], bytes]:
    """Return the records of a partition's buckets, and its own."""
    buckets = [records.encode_bucket(bucket) for bucket in state.buckets]
    own = records.encode_partition(partition, state, [record.name for record in buckets])
    return [record.value for record in buckets], own


def decoded(buckets: list[bytes], value: bytes) -> PartitionState:
    """Return the state that records are of."""
    return records.decode_partition(value, dict(map(records.decode_bucket, buckets)))[1]


@pytest.mark.parametrize("coreset", MEMORIES_AND_SHAPES)
@settings(max_examples=3, deadline=None)
@given(data=st.data(), workers=st.integers(1, PARTITIONS))
def test_a_cut_of_adopted_partitions_is_that_of_one_learner(
    coreset: dict[str, Any], workers: int, data: st.DataObject
) -> None:
    """However many learn, whenever they hand over, and with a worker begun anew from what it had handed over."""
    config = config_of(**coreset)
    lengths = [data.draw(st.integers(1, 700)) for _ in range(PARTITIONS)]
    streams = {partition: stream(partition, n) for partition, n in enumerate(lengths)}
    one = Learner(config, base_of(streams), NEVER)
    for rows in streams.values():
        one.learn(rows)
    combiner = Combiner(config, base_of(streams), 1)
    for worker in range(workers):
        own = {partition: rows for partition, rows in streams.items() if partition % workers == worker}
        learner = Learner(config, base_of(own), NEVER)
        for share in (0.4, 0.7, 1.0):
            for rows in own.values():
                learner.learn(rows.slice(0, int(len(rows) * share)))
            held = learner.state().partitions
            states = {partition: decoded(*encoded(partition, state)) for partition, state in held.items()}
            combiner.adopt(states, 1)
            if share == 0.4:
                learner = Learner(config, base_of(own), NEVER)
                learner.restore(LearnerState(states, 0))
    expected, found = one.cut(), combiner.cut()
    assert found.positions == expected.positions
    assert found.points.sha256() == expected.points.sha256()
    assert audit_bytes(found) == audit_bytes(expected)
    assert found.moments.square.tobytes() == expected.moments.square.tobytes()
    one.decline_cut()
    combiner.decline_cut()
    assert state_bytes(combiner) == state_bytes(one)


def test_a_partition_without_one_of_its_buckets_is_refused() -> None:
    """By name, and never taken for a smaller one."""
    learner = Learner(config_of(), base_of([0]), NEVER)
    learner.learn(stream(0, 600))
    buckets, value = encoded(0, learner.state().partitions[0])
    with pytest.raises(CorruptCheckpoint, match="1 of them are not there, such as b/"):
        decoded(buckets[1:], value)


def test_a_damaged_record_is_refused_and_so_is_a_part_that_nobody_knows() -> None:
    """Every single byte counts; under a valid checksum a part that may be passed over is."""
    learner = Learner(config_of(), base_of([0]), NEVER)
    learner.learn(stream(0, 200))
    buckets, value = encoded(0, learner.state().partitions[0])
    known = dict(map(records.decode_bucket, buckets))
    kinds: list[tuple[bytes, bytes, Callable[[bytes], object]]] = [
        (buckets[0], value, records.decode_bucket),
        (value, buckets[0], lambda content: records.decode_partition(content, known)),
    ]
    for record, other, decode in kinds:
        decode(record)
        for at in range(0, len(record), max(1, len(record) // 200)):
            with pytest.raises(CorruptCheckpoint):
                decode(record[:at] + bytes([record[at] ^ 1]) + record[at + 1 :])
        with pytest.raises(CorruptCheckpoint, match="has only 7 bytes"):
            decode(record[:7])
        with pytest.raises(CorruptCheckpoint, match="does not begin with"):
            decode(other)
        decode(with_part(record, "info_remark"))
        with pytest.raises(CorruptCheckpoint, match="the record has the part 'secret', which this build does not know"):
            decode(with_part(record, "secret"))


def with_part(record: bytes, name: str) -> bytes:
    """Return a record with another part, under a valid checksum."""
    end = 20 + int.from_bytes(record[12:20], "little")
    header = json.loads(record[20:end])
    header["parts"].insert(0, {"part": name})
    described = json.dumps(header).encode()
    changed = record[:12] + len(described).to_bytes(8, "little") + described + record[end:-32]
    return changed + hashlib.sha256(changed).digest()


def test_an_older_state_is_passed_over() -> None:
    """A partition never goes back."""
    learner, combiner = Learner(config_of(), base_of([0]), NEVER), Combiner(config_of(), base_of([0]), 1)
    rows = stream(0, 400)
    learner.learn(rows.slice(0, 100))
    early = learner.state().partitions
    learner.learn(rows)
    combiner.adopt(learner.state().partitions, 0)
    combiner.adopt(early, 0)
    assert combiner.position(0) == Position(400)


def test_a_cut_falls_due_with_the_leaves_that_were_told() -> None:
    """And never before a valid point was sealed."""
    combiner = Combiner(config_of(), base_of([0, 1]), 3)
    combiner.adopt({}, 5)
    assert not combiner.cut_due
    learner = Learner(config_of(), base_of([0]), NEVER)
    learner.learn(stream(0, 100))
    combiner.adopt(learner.state().partitions, 2)
    assert not combiner.cut_due
    combiner.adopt({}, 1)
    assert combiner.cut_due
    combiner.cut()
    assert not combiner.cut_due
