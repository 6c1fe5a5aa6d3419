"""Lines on standard error: those of the log, and the last one of a process that ends by an error.

Whoever should read them may have stopped reading: a pipe that is full would hold up whatever writes to it, for ever.
Here a line waits for its reader a moment at most; afterwards lines are dropped until there is room again, and counted.
"""

from __future__ import annotations

import json
import logging
import os
import select
import sys
from datetime import UTC, datetime
from typing import Final

PATIENCE_S: Final = 1.0
"""How long the first line waits for a reader that does not read."""

_json = False
_dropped = 0


def follow(*, writes_json: bool) -> None:
    """Say it as the log does from now on."""
    global _json
    _json = writes_json


class LineHandler(logging.Handler):
    """Puts log lines on standard error, and holds up nobody."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        put(f"{self.format(record)}\n")


def put(text: str) -> None:
    """Write to standard error; blocks at most `PATIENCE_S`, and not at all while nobody reads it."""
    global _dropped
    if sys.stderr is None:
        return
    try:
        handle = sys.stderr.fileno()
    except (OSError, ValueError):  # not a file of the system's: it cannot be full
        sys.stderr.write(text)
        return
    if _dropped and _write(handle, f"\n{_count_of_dropped(_dropped)}\n", 0.0):
        _dropped = 0
    if _dropped or not _write(handle, text, PATIENCE_S):
        _dropped += 1


def _write(handle: int, text: str, patience_s: float) -> bool:
    """Write in pieces for which a pipe that says it has room has room; return whether all of it was written."""
    data = text.encode(errors="backslashreplace")
    try:
        for start in range(0, len(data), select.PIPE_BUF):
            if not select.select([], [handle], [], patience_s)[1]:
                return False
            os.write(handle, data[start : start + select.PIPE_BUF])
    except OSError:  # nobody will ever read it
        return False
    return True


def _count_of_dropped(lines: int) -> str:
    what = f"{lines} lines of the log were dropped: nobody read standard error"
    if not _json:
        return f"streamsvm: warning: {what}"
    return _line({"event": "log_lines_dropped", "what": what, "lines": lines, "level": "warning"})


def say(what: str, exit_status: int, traceback: str = "") -> None:
    """Write the line to standard error; of a defect the traceback, too: before the line, or as a field of it."""
    if not _json:
        put(f"{traceback}streamsvm: error: {what}\n")
        return
    line = {"event": "fatal", "what": what, "exit_status": exit_status}
    if traceback:
        line["exception"] = traceback
    put(f"{_line({**line, 'level': 'critical'})}\n")


def _line(fields: dict[str, object]) -> str:
    return json.dumps({**fields, "logger": "streamsvm", "timestamp": datetime.now(UTC).isoformat()})
