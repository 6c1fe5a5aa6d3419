"""A missed deadline, which a busy machine may cause: the only failure that `tests.again` runs once more."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

MARKS: Final = ("tests.deadline.Late: ", "Failed: Timeout (>", "subprocess.TimeoutExpired: ")
"""How a failure is told where a deadline was missed: ours, pytest-timeout's, that of a process."""


class Late(AssertionError):
    """What was waited for did not happen in time."""


def eventually(holds: Callable[[], bool], what: str, timeout_s: float, pause_s: float = 0.01) -> None:
    """Wait until something holds.

    Raises `Late` if it does not within the time.
    """
    end = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > end:
            raise Late(f"never within {timeout_s:.0f} s: {what}")
        time.sleep(pause_s)


def is_missed(report: str) -> bool:
    """Return whether the report of a failure is of a missed deadline, and of nothing else."""
    told = [line[1:].strip() for line in report.splitlines() if line.startswith("E ")]
    return any(f"{line} ".startswith(MARKS) for line in told[:1]) or report.startswith(MARKS)
