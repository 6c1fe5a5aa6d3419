"""Partitions that others learned: what travels between them, and cuts of it, are those of one learner."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from streamsvm.config import ModelConfig, PointsConfig, SvmConfig
from streamsvm.coreset import Names, PartitionState, decode_state, encode_state
from streamsvm.learning import Learner, LearnerState
from streamsvm.points import Position, Rows
from tests.config.sizes import sized
from tests.coreset.test_memories import MEMORIES
from tests.learning.test_learner import audit_bytes, state_bytes
from tests.streams import DIMENSION, gaussian, rows_of

NEVER = 1 << 30
PARTITIONS = 3
MEMORIES_AND_SHAPES: list[dict[str, Any]] = [
    {"structure": "counter"},
    {"reducer": "uniform"},
    *MEMORIES,
]
NAMES = Names(1, "t", "learned")


def config_of(**coreset: Any) -> ModelConfig:
    sizes = {"leaf_rows": 16, "bucket_points": 12, "audit_points": 100, "train_points": 90, **coreset}
    return ModelConfig(points=PointsConfig(dimension=DIMENSION), coreset=sized(**sizes), svm=SvmConfig(), seed=5)


def base_of(partitions: Any) -> dict[int, Position]:
    return dict.fromkeys(partitions, Position(0))


def stream(partition: int, n: int) -> Rows:
    accepted = np.random.default_rng(partition).random(n) > 0.1
    return rows_of(gaussian(n, seed=partition), partition, accepted=accepted)


def content(state: PartitionState) -> bytes:
    """Return the bytes of a partition."""
    return encode_state(state, NAMES)


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
    combiner = Learner(config, base_of(streams), 1)
    for worker in range(workers):
        own = {partition: rows for partition, rows in streams.items() if partition % workers == worker}
        learner = Learner(config, base_of(own), NEVER)
        for share in (0.4, 0.7, 1.0):
            for rows in own.values():
                learner.learn(rows.slice(0, int(len(rows) * share)))
            held = learner.state().partitions
            states = {partition: decode_state(content(state), PartitionState)[1] for partition, state in held.items()}
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


def test_an_older_state_is_passed_over() -> None:
    """A partition never goes back."""
    learner, combiner = Learner(config_of(), base_of([0]), NEVER), Learner(config_of(), base_of([0]), 1)
    rows = stream(0, 400)
    learner.learn(rows.slice(0, 100))
    early = learner.state().partitions
    learner.learn(rows)
    combiner.adopt(learner.state().partitions, 0)
    combiner.adopt(early, 0)
    assert combiner.position(0) == Position(400)


def test_a_cut_falls_due_with_the_leaves_that_were_told() -> None:
    """And never before a valid point was sealed."""
    combiner = Learner(config_of(), base_of([0, 1]), 3)
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
