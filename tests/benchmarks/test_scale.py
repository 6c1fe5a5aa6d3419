"""The benchmark of workers runs, and compares what was learned; nothing here is about speed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from streamsvm.config import ModelConfig
from streamsvm.learning.learner import Learner
from streamsvm.points import Position
from tests.benchmarks import scale
from tests.brokers.fixtures import TestBroker
from tests.streams import gaussian, rows_of, small_config

ROW = {"workers", "partitions", "format", "rate", "cpu_us_a_point", "bytes_equal"}


@pytest.mark.long
def test_every_number_of_workers_has_its_row(real_broker: TestBroker, capfd: pytest.CaptureFixture[str]) -> None:
    """One process and two workers learn the same bytes of a topic; each process's time is told."""
    n = scale.points_of(9_000, "json", 2)
    scale.fill(real_broker.connection, "json", n, 3, 2)
    alone = scale.run(real_broker.connection, "json", n, 3, 2, 1)
    group = scale.run_group(real_broker.connection, "json", n, 3, 2, 2, 3)
    assert group["digest"] == alone["digest"]
    found = scale.row(2, 2, "json", n, 3, [group], 100 * group["published_bytes"])
    assert found["published_share"] == 0.01
    assert all(cpu > 0.0 for cpu in found["worker_cpu_us_a_point"])
    rows = [
        {**scale.row(workers, 2, "json", n, 3, [run]), "bytes_equal": True, "times_one": 1.0}
        for workers, run in {0: alone, 2: group}.items()
    ]
    assert all(row.keys() >= ROW for row in rows)
    assert len(rows[1]["worker_cpu_us_a_point"]) == 2
    assert rows[0]["slowest_worker_rate"] is None
    assert len(list(scale.lines(rows, 0.0))) == 3 + len(rows)
    assert "Traceback" not in capfd.readouterr().err


def digest_of(config: ModelConfig, n: int, spoil: bool = False) -> str:
    learner = Learner(config, {0: Position(0)}, 1 << 30)
    learner.learn(rows_of(gaussian(n)))
    state = learner.state()
    if spoil:
        own = state.partitions[0]
        weight = np.nextafter(own.leaf_points.weight, 9.0)
        own = replace(own, leaf_points=own.leaf_points.reweighted(weight))
        state = replace(state, partitions={0: own})
    return scale.digest_of(state, config)


def test_the_digest_knows_the_last_bit() -> None:
    """Equal streams have one digest; one more row, or a weight moved by the least step, has another."""
    config = small_config()
    assert digest_of(config, 101) == digest_of(config, 101)
    assert digest_of(config, 101) != digest_of(config, 102)
    assert digest_of(config, 101) != digest_of(config, 101, spoil=True)


def test_streams_end_with_whole_records() -> None:
    """As many in each partition."""
    assert scale.points_of(100_000, "arrow", 8) == 3 * 4_096 * 8
    assert scale.points_of(100, "arrow", 2) == 4_096 * 2
    assert scale.points_of(100, "json", 8) == 96
