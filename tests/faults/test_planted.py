"""What is planted fits the code that it is planted in: a defect that fits no longer shows nothing when it is called."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.planted import CLOCK_FILE, EIO_FILE, TRANSACTION_TIMEOUT
from tests.forked import ROOT

PLANT_ALL = {
    "planted": "from tests.faults.planted import DEFECTS as all\nplants = list(all.values())",
    "altered": "from tests.faults.altered import ALTERATIONS as all\nplants = list(all.values())",
    "histories": "from tests.histories.defects import DEFECTS as all\nplants = [one.plant for one in all.values()]",
}
RUN = "\nfor plant in plants:\n    plant()\nprint('planted', len(plants))"


@pytest.mark.parametrize("where", PLANT_ALL)
def test_all_that_can_be_planted_fits(tmp_path: Path, where: str) -> None:
    """Each takes what the function that it replaces takes; in a process of its own, for nothing takes it out again."""
    environment = {CLOCK_FILE: str(tmp_path / "clock"), EIO_FILE: str(tmp_path / "eio"), TRANSACTION_TIMEOUT: "1"}
    command = [sys.executable, "-c", PLANT_ALL[where] + RUN]
    planted = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    name, number = planted.stdout.split() or ("", "0")
    assert name == "planted", planted.stderr
    assert int(number) >= 10
