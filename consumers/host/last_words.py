"""The last line of a process that ends by an error: for people, or JSON where the log before it was."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime

_json = False


def follow(*, writes_json: bool) -> None:
    """Say it as the log does from now on."""
    global _json
    _json = writes_json


def say(what: str, exit_status: int, traceback: str = "") -> None:
    """Write the line to standard error; of a defect the traceback, too: before the line, or as a field of it."""
    if not _json:
        sys.stderr.write(f"{traceback}streamsvm: error: {what}\n")
        return
    line = {"event": "fatal", "what": what, "exit_status": exit_status}
    if traceback:
        line["exception"] = traceback
    line |= {"level": "critical", "logger": "streamsvm", "timestamp": datetime.now(UTC).isoformat()}
    sys.stderr.write(f"{json.dumps(line)}\n")
