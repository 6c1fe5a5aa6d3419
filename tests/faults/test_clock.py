"""The clock jumps a day either way: same models."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.consumers.trainers import records
from tests.faults.planted import CLOCK_FILE
from tests.faults.promise import check_counts, check_promise
from tests.faults.stage import Stage

DAY_S = 86_400
JUMPS_S = (0, DAY_S, 0, -DAY_S, DAY_S)
LIBRARIES = ("/usr/lib/x86_64-linux-gnu/faketime", "/usr/lib/aarch64-linux-gnu/faketime", "/usr/lib/faketime")


@cache
def libfaketime() -> str:
    """Return the library that fakes a process's clock, or nothing where it is not installed (Debian: faketime)."""
    for directory in LIBRARIES:
        library = Path(directory) / "libfaketimeMT.so.1"
        if library.exists():
            return str(library)
    return ""


def set_clock(file: Path, seconds: int) -> None:
    """Set how far the clock of the process is off, in one step."""
    fresh = file.with_suffix(".new")
    fresh.write_text(f"{seconds:+d}\n", encoding="utf-8")
    fresh.rename(file)


def jump(stage: Stage, tmp_path: Path, environment: dict[str, str], file: Path, planted: str) -> None:
    """Let the clock jump between two versions and between two lives; compare with a clean run."""
    stage.create()
    number = 0
    for turn, seconds in enumerate((*JUMPS_S, *reversed(JUMPS_S))):
        if turn % len(JUMPS_S) == 0:
            if turn:
                assert daemon.stop() == 0, daemon.said  # noqa: F821 - started on the first turn
            daemon = stage.start(planted, environment)
            daemon.wait_for("started")
        set_clock(file, seconds)
        stage.feed(records(80, seed=turn))
        number += 2
        assert daemon.reaches_version(number), daemon.said
    times = [entry["timestamp"] for entry in daemon.events("model_published")]
    assert times != sorted(times), "the clock did not go back"
    assert daemon.stop() == 0, daemon.said
    clean = stage.elsewhere(tmp_path / "clean", "clean")
    clean.run_through(number)
    assert stage.models() == clean.models(), "not the models of a clean run"
    check_counts(check_promise(stage.connection, stage.settings))


def with_libfaketime(stage: Stage, tmp_path: Path) -> None:
    file = tmp_path / "faketime"
    set_clock(file, 0)
    environment = {
        "LD_PRELOAD": libfaketime(),
        "FAKETIME_TIMESTAMP_FILE": str(file),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }
    jump(stage, tmp_path, environment, file, "")


def with_an_injected_clock(stage: Stage, tmp_path: Path, planted: str = "follows-another-clock") -> None:
    file = tmp_path / "clock"
    set_clock(file, 0)
    jump(stage, tmp_path, {CLOCK_FILE: str(file)}, file, planted)


def test_a_clock_that_jumps_changes_no_model(
    stage: Stage, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """A day ahead, back, a day behind, in the middle of a run and between two: by libfaketime where it is installed."""
    by = "libfaketime" if libfaketime() else "an injected clock"
    (with_libfaketime if libfaketime() else with_an_injected_clock)(stage, tmp_path)
    record_property("jumps", 2 * len(JUMPS_S))
    record_property("by", by)


def test_a_model_that_knows_the_day_is_found(stage: Stage, tmp_path: Path) -> None:
    """The row can fail: with the day in a version's value the models are others."""
    with pytest.raises(AssertionError, match="not the models of a clean run"):
        with_an_injected_clock(stage, tmp_path, "follows-another-clock+dates-the-model")
