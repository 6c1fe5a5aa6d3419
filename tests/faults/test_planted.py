"""What is planted fits the code that it is planted in: a defect that fits no longer shows nothing when it is called."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.faults.planted import CLOCK_FILE, DEFECTS, EIO_FILE, TRANSACTION_TIMEOUT
from tests.forked import ROOT

PLANT_ALL = "from tests.faults.planted import DEFECTS\nfor plant in DEFECTS.values():\n    plant()\nprint(len(DEFECTS))"


def test_all_that_can_be_planted_fits(tmp_path: Path) -> None:
    """Each takes what the function that it replaces takes; in a process of its own, for nothing takes it out again."""
    environment = {CLOCK_FILE: str(tmp_path / "clock"), EIO_FILE: str(tmp_path / "eio"), TRANSACTION_TIMEOUT: "1"}
    command = [sys.executable, "-c", PLANT_ALL]
    planted = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert planted.stdout.split() == [str(len(DEFECTS))], planted.stderr
