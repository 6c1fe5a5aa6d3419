"""A command that is forked is the command that is started."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.consumers.command import PLAIN, run
from tests.forked import ROOT


@pytest.mark.parametrize("arguments", [["--version"], ["train"], ["train", "--no-such-option"]])
def test_it_says_what_a_program_says(arguments: list[str]) -> None:
    """The same status, the same words, on the same streams."""
    command = [
        sys.executable,
        "-c",
        "from consumers.cli.app import main; import sys; sys.argv[0] = 'streamsvm'; main()",
    ]
    program = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, cwd=ROOT, env=dict(PLAIN), check=False
    )
    forked = run(*arguments)
    assert (forked.returncode, forked.stdout) == (program.returncode, program.stdout)
    assert untimed(forked.stderr) == untimed(program.stderr)


def untimed(said: str) -> str:
    """Return what was said without the time of the last line."""
    return re.sub(r'"timestamp": "[^"]*"', "", said)
