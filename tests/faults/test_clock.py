"""The clock jumps a day either way: same models.

The process runs with an injected clock, which follows a file. libfaketime cannot do it: the client library waits until
moments of the system's clock by calls that libfaketime does not see, and so waits a day, or not at all.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from streamsvm.model.message import TIME_HEADER
from tests.consumers.trainers import records, topic
from tests.defects.disturbances import CLOCK_FILE
from tests.live.stage import Stage
from tests.promise.topics import check_counts, check_promise

DAY_S = 86_400
JUMPS_S = ((0, DAY_S, 0, -DAY_S), (DAY_S, 0, DAY_S, -DAY_S))
"""By how much the clock is off, from one pair of versions to the next, in each of two lives."""
VERSIONS_A_JUMP = 2


def set_clock(file: Path, seconds: int) -> None:
    """Set how far the clock of the process is off, in one step."""
    fresh = file.with_suffix(".new")
    fresh.write_text(str(seconds), encoding="utf-8")
    fresh.rename(file)


def live(stage: Stage, planted: str, file: Path, jumps: tuple[int, ...], number: int) -> int:
    """Run one life of the process, whose clock jumps before each pair of versions; return the newest number."""
    daemon = stage.start(planted, {CLOCK_FILE: str(file)})
    for seconds in jumps:
        set_clock(file, seconds)
        stage.feed(records(40 * VERSIONS_A_JUMP, seed=number))
        number += VERSIONS_A_JUMP
        assert daemon.reaches_version(number), daemon.said
    assert daemon.stop() == 0, daemon.said
    return number


def times_of(stage: Stage) -> list[datetime]:
    """Return when each version was made, as its header says."""
    read = topic(stage.connection, stage.settings.output.models_topic)
    return [datetime.fromisoformat(dict(record.headers)[TIME_HEADER].decode()) for record in read]


def jump(stage: Stage, tmp_path: Path, planted: str) -> None:
    """Let the clock jump between versions and between lives, and compare with a clean run."""
    file = tmp_path / "clock"
    set_clock(file, 0)
    stage.create()
    number = 0
    for jumps in JUMPS_S:
        number = live(stage, planted, file, jumps, number)
    times = times_of(stage)
    assert max(times) - min(times) > timedelta(days=2), "the clock did not jump"
    assert times != sorted(times), "the clock did not go back"
    clean = stage.elsewhere(tmp_path / "clean", "clean")
    clean.run_through(number)
    assert stage.models() == clean.models(), "not the models of a clean run"
    check_counts(check_promise(stage.connection, stage.settings))


@pytest.mark.long
def test_a_clock_that_jumps_changes_no_model(
    stage: Stage, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """A day ahead, back, a day behind, two days at once: in the middle of a run and between two."""
    jump(stage, tmp_path, "follows-another-clock")
    record_property("jumps", sum(len(jumps) for jumps in JUMPS_S))


@pytest.mark.faults_long
def test_a_model_that_knows_the_day_is_found(stage: Stage, tmp_path: Path) -> None:
    """The row can fail: with the day in a version's value the models are others."""
    with pytest.raises(AssertionError, match="not the models of a clean run"):
        jump(stage, tmp_path, "follows-another-clock+dates-the-model")
