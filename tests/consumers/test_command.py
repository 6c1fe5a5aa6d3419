"""A command that is forked is the command that is started."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.consumers.command import PLAIN, ROOT, run


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
    assert (forked.returncode, forked.stdout, forked.stderr) == (program.returncode, program.stdout, program.stderr)


def test_variables_are_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of streamsvm that this process has are not passed on; those that are given are."""
    monkeypatch.setenv("STREAMSVM_SEED", "7")
    assert json.loads(run("config", "--effective", STREAMSVM_POINTS__DIMENSION="3").stdout)["seed"] == 0
