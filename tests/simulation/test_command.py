"""A later run of the command goes on where an earlier one ended."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.simulation.running import Broken, Tally, load, save


def test_a_tally_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Counts, events and violations; the seeds are those of the first run."""
    tally = Tally(schedules=3, steps=50, lives=4)
    tally.happened["kill"] += 2
    tally.violations.append(Broken("the promise", "--replay 7"))
    save(tmp_path / "tally", 5, tally)
    assert load(tmp_path / "tally") == (5, tally)


def run(*arguments: str) -> str:
    """Run the command in a process of its own, whose pool of processes is none of a test's; return what it says."""
    command = [sys.executable, "-m", "tests.simulation", "--processes", "1", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_a_run_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    """Two runs of one file are one run of all seeds."""
    path, at_once = tmp_path / "tally", tmp_path / "at once"
    run("--schedules", "2", "--seed", "3", "--tally", str(path))
    assert json.loads(path.read_text())["schedules"] == 2
    assert "seeds 3 to 6, from 5 on" in run("--schedules", "4", "--tally", str(path))
    run("--schedules", "4", "--seed", "3", "--tally", str(at_once))
    assert load(path) == load(at_once)
