"""The command line, run to its end in a process that is forked for it."""

from __future__ import annotations

import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from subprocess import CompletedProcess
from typing import Final

from tests.forked import PROGRAM, Forked

TIMEOUT_S: Final = 120.0
PLAIN: Final = {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}


def run(*arguments: str, **environment: str) -> CompletedProcess[str]:
    """Run `streamsvm`, with variables on top of this process's own, which are passed on without those of streamsvm."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("STREAMSVM_")}
    process = Forked(PROGRAM, arguments, {**inherited, **PLAIN, **environment})
    with process.stdout, process.stderr, ThreadPoolExecutor(2) as readers:
        said = [readers.submit(end.read) for end in (process.stdout, process.stderr)]
        try:
            status = process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError(
                f"{arguments} did not end within {TIMEOUT_S:.0f} s: {[end.result() for end in said]}"
            ) from None
        return CompletedProcess(arguments, status, *(end.result() for end in said))


def error_of(finished: subprocess.CompletedProcess[str]) -> str:
    """Return the one line of the error, having checked that it is one, without a traceback; of JSON, what it says."""
    assert "Traceback" not in finished.stderr
    begins = ("streamsvm: error: ", '{"event": "fatal"')
    lines = [line for line in finished.stderr.splitlines() if line.startswith(begins)]
    assert len(lines) == 1, finished.stderr
    assert finished.stderr.splitlines()[-1] == lines[0]
    if lines[0].startswith("{"):
        line = json.loads(lines[0])
        assert (line["level"], line["exit_status"]) == ("critical", finished.returncode)
        return f"streamsvm: error: {line['what']}"
    return lines[0]
