"""The command line in processes of their own, without the seconds in which each would import what it needs.

A server that has imported the command line forks one process a command (`multiprocessing`'s forkserver). A command that
is to be killed, or whose start is what is tested, is a program: `tests.faults.daemon`.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import CompletedProcess
from typing import Final

ROOT: Final = Path(__file__).parent.parent.parent
TIMEOUT_S: Final = 120.0
LOADED: Final = (
    "consumers.cli.app",
    "consumers.evaluate",
    "consumers.models.show",
    "consumers.models.tables",
    "consumers.replay.replay",
    "consumers.scorer.scorer",
    "consumers.trainer.trainer",
    "consumers.verify.verify",
    "rich.console",
)
"""What commands import, most of it when they are run. One that is not named here is imported by each command."""

PLAIN: Final = {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}


def run(*arguments: str, **environment: str) -> CompletedProcess[str]:
    """Run `streamsvm`, with variables on top of this process's own, which are passed on without those of streamsvm."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("STREAMSVM_")}
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*LOADED, __name__])
    with tempfile.NamedTemporaryFile() as out, tempfile.NamedTemporaryFile() as err:
        process = context.Process(
            target=_command, args=(arguments, {**inherited, **PLAIN, **environment}, out.name, err.name)
        )
        process.start()
        process.join(TIMEOUT_S)
        ended = not process.is_alive()
        process.kill()
        process.join()
        said = [Path(file.name).read_text() for file in (out, err)]
        assert ended, f"{arguments} did not end within {TIMEOUT_S:.0f} s: {said}"
        assert process.exitcode is not None
        return CompletedProcess(arguments, process.exitcode, *said)


def _command(arguments: Sequence[str], environment: Mapping[str, str], out: str, err: str) -> None:
    """Be the command, in the process that was forked for it."""
    from consumers.cli.app import main

    os.environ.clear()
    os.environ.update(environment)
    os.chdir(ROOT)
    for stream, file in ((1, out), (2, err)):
        os.dup2(os.open(file, os.O_WRONLY), stream)
    sys.argv = ["streamsvm", *arguments]
    main()
