"""The dead-letter topic takes nothing for a while."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.consumers.trainers import records, settings_for, topic
from tests.faults.faulty import FaultyBroker
from tests.kafka.steps import eventually
from tests.live.process import ask
from tests.live.proxy import Proxy
from tests.live.stage import Stage
from tests.promise.topics import check_counts, check_promise

BAD = [b"no point", b'{"x": [1', b"[]"]
ROWS_A_VERSION = 40
OPTIONS = {"checkpoint_interval_s": 1, "MOST_CHECKPOINT_AGE_S": 2}
"""A checkpoint waits for dead letters; without one for this long the trainer is not ready."""


@pytest.fixture
def stage(faulty: FaultyBroker, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Stage]:
    """A trainer that reaches its broker by the faulty network."""
    made = Stage(faulty.through, settings_for(f"letters-{uuid.uuid4().hex[:8]}", tmp_path / "checkpoint"), OPTIONS)
    yield made
    request.node.user_properties.append(("processes", len(made.started)))
    made.clear()


def keep_letters_waiting(stage: Stage, proxy: Proxy, outage_s: float, planted: str = "") -> None:
    """Let bad records come while no letter is taken; the trainer must publish, say what it lacks, and deliver later."""
    stage.create()
    stage.feed(records(ROWS_A_VERSION))
    daemon = stage.start(planted)
    assert daemon.reaches_version(1), daemon.said
    proxy.refuse_writes(stage.settings.input.dead_letters)
    stage.feed([*BAD, *records(ROWS_A_VERSION - len(BAD), seed=1)])
    assert daemon.reaches_version(2), daemon.said
    assert "did not acknowledge" in daemon.wait_for("checkpoint_failed")["what"]
    eventually(lambda: ask(daemon, "readyz")[0] == 503, "it is not ready")
    threading.Event().wait(outage_s)  # the fault itself
    stage.feed(records(ROWS_A_VERSION, seed=2))
    assert daemon.reaches_version(3), daemon.said
    proxy.mend()
    eventually(lambda: ask(daemon, "readyz")[0] == 200, "it is ready again")
    assert daemon.stop() == 0, daemon.said
    assert len(topic(stage.connection, stage.settings.input.dead_letters)) == len(BAD)
    check_counts(check_promise(stage.connection, stage.settings))


@pytest.mark.long
@pytest.mark.parametrize("outage_s", [0.0, pytest.param(90.0, marks=pytest.mark.faults_long)])
def test_an_outage_of_the_dead_letters_only_delays_them(
    stage: Stage, faulty: FaultyBroker, outage_s: float, record_property: Callable[[str, object], None]
) -> None:
    """Versions go on, no checkpoint passes the letters, it is not ready and says why; then each is delivered once."""
    keep_letters_waiting(stage, faulty.proxy, outage_s)
    record_property("letters_waiting", len(BAD))


@pytest.mark.faults_long
def test_a_trainer_without_patience_is_found(stage: Stage, faulty: FaultyBroker) -> None:
    """The row can fail: a trainer whose letters must be delivered within a second ends."""
    with pytest.raises(AssertionError, match="failed to deliver"):
        keep_letters_waiting(stage, faulty.proxy, 1.0, "has-no-patience-with-dead-letters")
