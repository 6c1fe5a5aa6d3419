"""What is planted fits the code that it is planted in: a defect that fits no longer shows nothing when it is called."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.planted import CLOCK_FILE, EIO_FILE, TRANSACTION_TIMEOUT
from tests.forked import ROOT
from tests.live.stopping import wait_for_stop

PLANT_ALL = {
    "planted": "from tests.faults.planted import DEFECTS as all\nplants = list(all.values())",
    "altered": "from tests.faults.altered import ALTERATIONS as all\nplants = list(all.values())",
    "histories": "from tests.live.defects import DEFECTS as all\nplants = [one.plant for one in all.values()]",
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


STOPS = """
import os, threading
from tests.live.stopping import stop_here

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
ready = threading.Event()

def stop():
    ready.wait()
    stop_here()
    os.write(1, b"went on")

threading.Thread(target=stop).start()
os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)
ready.set()
"""
"""One processor, and a main thread that is slow to take a signal which is sent to the whole process."""


def test_a_process_stops_at_the_line_that_stops_it() -> None:
    """Whatever its other threads do: a scorer that went on a little has committed what it was to be frozen with."""
    with subprocess.Popen([sys.executable, "-c", STOPS], cwd=ROOT, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT) is not None
            wait_for_stop(process.pid)
            os.set_blocking(process.stdout.fileno(), False)
            assert process.stdout.read() is None, "it went on before it stopped"
            os.set_blocking(process.stdout.fileno(), True)
            process.send_signal(signal.SIGCONT)
            assert process.stdout.read() == b"went on"
        finally:
            process.kill()
