"""The processes of a parallel run, forked from one in which everything is imported and the kernels are loaded.

pytest-xdist starts each of its processes as a new interpreter, which imports scikit-learn, numba, pyarrow and all the
rest: seconds of processor time, once for each. Here it is paid for once, as `tests.forked` does for daemons. How
a process talks to the one that began it, and what it runs, is execnet's and xdist's as before.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from multiprocessing.connection import Connection
from typing import Any, Final

import execnet
from execnet import gateway_io
from execnet.gateway_base import Popen2IO

from tests.forked import LOADED

IMPORTED: Final = (*LOADED, "tests.imported")


class ForkedIO(Popen2IO):  # type: ignore[misc,no-any-unimported]
    """A forked process with a pipe to its input and one from its output, as execnet wants of a process that it starts.

    Parameters
    ----------
    execmodel
        How execnet runs what this end does.
    """

    def __init__(self, execmodel: Any) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([*IMPORTED])
        (read_in, write_in), (read_out, write_out) = (context.Pipe(duplex=False) for _ in range(2))
        self._process = context.Process(target=_run, args=(read_in, write_out))
        self._process.start()
        read_in.close()
        write_out.close()
        super().__init__(_file(write_in, "wb"), _file(read_out, "rb"), execmodel)

    def wait(self) -> int | None:
        """Wait until it has ended, and return its exit status."""
        self._process.join()
        return self._process.exitcode

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()


def fork_workers() -> None:
    """Have the processes of a parallel run forked from now on; those that are to be elsewhere are execnet's own."""
    begin = gateway_io.create_io

    def create_io(spec: execnet.XSpec, execmodel: Any) -> Any:
        return ForkedIO(execmodel) if spec.popen and not spec.python else begin(spec, execmodel)

    gateway_io.create_io = create_io


def _file(end: Connection, mode: str) -> Any:
    file = os.fdopen(os.dup(end.fileno()), mode)
    end.close()
    return file


def _run(stdin: Connection, stdout: Connection) -> None:
    """Do what `python -c` does in a process that execnet starts: run the line that comes in."""
    for number, end in ((0, stdin), (1, stdout)):
        os.dup2(end.fileno(), number)
        end.close()
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
    sys.argv = ["pytest"]
    exec(eval(sys.stdin.readline()), {"__name__": "__main__"})
