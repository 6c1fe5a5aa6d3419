"""A producer faster than the trainer: memory stays flat."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.consumers.trainers import records
from tests.live.process import lag, metrics
from tests.live.stage import Stage
from tests.promise.topics import check_promise

RECORDS = 150_000
SLOW = {
    "svm_kernel": "rbf",
    "svm_tolerance": 1e-9,
    "coreset_reducer": "uniform",
    "coreset_structure": "chain",
    "coreset_points": 5_500,
    "coreset_train_points": 4_000,
    "training_every_leaves": 1,
    "BATCH_RECORDS": 1_000,
    "checkpoint_interval_s": 1.0,
}
SAMPLE_S = 0.1
MOST_GROWTH_BYTES = 120 * 2**20
"""The client's buffer of 32 MB, a fetched batch on top, the structure and the solver's cache; not the whole input."""


def sample(stage: Stage, seconds: float, planted: str = "", **options: object) -> float:
    """Return by how many bytes the process grows while it has more to read than it can learn."""
    stage.create()
    stage.feed(records(RECORDS))
    daemon = stage.start(planted, **SLOW, **options)
    daemon.wait_for("started")
    begun = peak = daemon.rss_bytes()
    until = time.monotonic() + seconds
    while time.monotonic() < until and lag(metrics(daemon)) != 0:
        peak = max(peak, daemon.rss_bytes())
        time.sleep(SAMPLE_S)  # the interval between two samples
    assert daemon.reaches_version(1)
    daemon.kill()
    assert peak - begun < MOST_GROWTH_BYTES, f"{(peak - begun) / 2**20:.0f} MB more than at the start"
    check_promise(stage.connection, stage.settings)
    return peak - begun


@pytest.mark.long
@pytest.mark.parametrize("policy", ["latest", pytest.param("every", marks=pytest.mark.faults_long)])
def test_memory_stays_flat_when_training_is_slow(
    stage: Stage, policy: str, record_property: Callable[[str, object], None]
) -> None:
    """With `every` the input is paused, with `latest` cuts are skipped: neither piles anything up."""
    grown = sample(stage, 8.0, training_policy=policy)
    record_property("grown", f"{policy} {grown / 2**20:.0f} MB")


@pytest.mark.faults_long
def test_a_leak_is_found(stage: Stage) -> None:
    """The row can fail: a kilobyte kept of each record read is too much."""
    with pytest.raises(AssertionError, match="MB more than at the start"):
        sample(stage, 8.0, "keeps-what-it-read", training_policy="latest")
