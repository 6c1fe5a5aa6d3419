"""Commands and daemons in processes of their own, without the seconds in which each would import what it needs.

A server (`multiprocessing`'s forkserver) imports the command line, has the compiled kernels of a common trainer loaded,
and forks one process for each command. What makes a start a start is the same: a process of its own, the arguments, the
environment, the exit status, signals. What only a program has, such as its own imports, is tested with a program.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Collection, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Final, TextIO

from tests import constants
from tests.brokers.jvm import die_with_parent

ROOT: Final = Path(__file__).parent.parent
PROGRAM: Final = "consumers.cli.app"
LOADED: Final = (
    PROGRAM,
    "consumers.evaluate",
    "consumers.models.show",
    "consumers.models.version_tables",
    "consumers.replay.replay",
    "consumers.scorer.scorer",
    "consumers.trainer.trainer",
    "consumers.verify.verify",
    "rich.console",
    "tests.defects.process",
    "tests.forked",
    "tests.loaded",
    "tests.live.later",
)
"""What processes import, most of it when they run. One that is not named here is imported by each process; so is one
whose import failed in the server, which says nothing of it: then the process does."""
RUNNING: Final[set[Forked]] = set()
"""Every process that was started here and not yet put away."""


def end_all(but: Collection[Forked] = ()) -> None:
    """End at once what runs, frozen or not, but for some, and wait until it is gone."""
    for process in RUNNING - {*but}:
        process.kill()
        process.wait()
        RUNNING.discard(process)


class Forked:
    """A process that runs `python -m MODULE`, with as much of the interface of `subprocess.Popen` as is used.

    `module`: Which module of `LOADED` to run: its `main` takes its arguments from `sys.argv`. `arguments`: The
    arguments. `environment`: All variables that the process has. `stdout, stderr`: What the process writes. `pid`: Its
    process id.
    """

    def __init__(self, module: str, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([*LOADED])
        (read_out, out), (read_err, err) = (context.Pipe(duplex=False) for _ in range(2))
        self._process = context.Process(
            target=_run, args=(module, [*arguments], {**environment}, out, err), daemon=True
        )
        self._lock = threading.Lock()
        self._process.start()
        RUNNING.add(self)
        out.close()
        err.close()
        self.stdout, self.stderr = _text(read_out), _text(read_err)
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    def poll(self) -> int | None:
        """Return the exit status, the negative number of a signal, or None while it runs."""
        with self._lock:  # of two threads that read the status at once, one would get another one
            return self._process.exitcode

    def wait(self, timeout_s: float | None = None) -> int:
        """Wait until it ends, and return the exit status.

        Raises `subprocess.TimeoutExpired` if it runs longer.
        """
        wait([self._process.sentinel], timeout_s)
        status = self.poll()
        if status is None:
            raise subprocess.TimeoutExpired(str(self._process.name), timeout_s or 0.0)
        return status

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)


def _text(end: Connection) -> TextIO:
    file = os.fdopen(os.dup(end.fileno()), encoding="utf-8")
    end.close()
    return file


def _run(
    module: str, arguments: Sequence[str], environment: Mapping[str, str], stdout: Connection, stderr: Connection
) -> None:
    """Be the program, in the process that was forked for it."""
    die_with_parent()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(ROOT)
    for number, end in ((1, stdout), (2, stderr)):
        os.dup2(end.fileno(), number)
        end.close()
    sys.argv = ["streamsvm" if module == PROGRAM else module, *constants.set_from(arguments)]
    importlib.import_module(module).main()
