"""SIGSTOP, for certain: a process that is sent the signal goes on until one of its threads takes it.

On a busy machine that is long enough for a whole transaction.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

PATIENCE_S = 120.0


def stop_here() -> None:
    """Stop this process at this line, until it is continued.

    A signal to the process may go to any of its threads, and mostly goes to the main one: until that thread runs, the
    one that sent the signal goes on. A signal to the calling thread is taken before the call returns.
    """
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


def stop(pid: int) -> None:
    """Stop another process, and return once none of its threads goes on."""
    os.kill(pid, signal.SIGSTOP)
    wait_for_stop(pid)


def wait_for_stop(pid: int) -> None:
    """Return once every thread of a process stands still."""
    deadline = time.monotonic() + PATIENCE_S
    while not all("\nState:\tT" in status for status in _statuses(pid)):
        assert time.monotonic() < deadline, f"process {pid} does not stop"
        time.sleep(0.001)


def _statuses(pid: int) -> list[str]:
    try:
        return [(task / "status").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
    except FileNotFoundError:  # a thread that ended meanwhile: look again
        return [""]
