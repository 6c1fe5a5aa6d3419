"""A process that stops itself stops at the line that says so."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from tests.forked import ROOT
from tests.live.stopping import wait_for_stop

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
