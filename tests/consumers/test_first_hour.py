"""The page of the first hour, command by command, on a real broker: what it shows is what is printed."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from tests.brokers.fixtures import TestBroker

ROOT = Path(__file__).parents[2]
TOPIC = "pulsars"
TRAIN = "streamsvm train"
REPLAY_ODD = "streamsvm replay odd.csv"
COMMAND = f"""#!/bin/sh
exec {shlex.quote(sys.executable)} -m consumers "$@"
"""
"""`streamsvm` of this tree; one process, so that a signal to it reaches the program."""
PRELUDE = """
set -e
trap 'kill -9 $(jobs -p) 2>/dev/null || true' EXIT
until_logged() {
    for _ in $(seq 600); do
        [ "$(grep -c "\\"event\\": \\"$1\\"" log)" -ge "$2" ] && return
        sleep 0.1
    done
    exit 9
}
"""


def console_of_the_first_hour() -> list[str]:
    """Return the lines of its console: commands after a dollar, what they print below."""
    section = (ROOT / "deploy" / "FIRST_HOUR.md").read_text().split("## A session")[1].split("\n## ")[0]
    (block,) = re.findall(r"```console\n(.*?)```", section, re.DOTALL)
    return str(block).splitlines()


def script_of(commands: list[str]) -> str:
    """Return them as a script, which waits where a reader looks at the log of the trainer."""
    lines, starts = [PRELUDE], 0
    for command in commands:
        lines.append(command.replace(" &", " 2>>log &"))
        if command.startswith(TRAIN):
            starts += 1
            lines += [f"until_logged started {starts}", "until_logged model_published 2"]
        elif command.startswith(REPLAY_ODD):
            lines.append("until_logged rows_rejected 1")
    return "\n".join([*lines, "wait $!"])


def install_command(directory: Path) -> str:
    """Make the command and return where programs are looked for."""
    directory.mkdir()
    program = directory / "streamsvm"
    program.write_text(COMMAND)
    program.chmod(0o755)
    return f"{directory}:{os.environ['PATH']}"


def test_the_first_hour_goes_as_its_page_says(real_broker: TestBroker, tmp_path: Path) -> None:
    """A bad record, a kill and a rollback: every line that the page shows is printed, and the auditor finds nothing."""
    topic = real_broker.name("pulsars")
    console = console_of_the_first_hour()
    commands = [line.removeprefix("$ ").replace(TOPIC, topic) for line in console if line.startswith("$ ")]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("STREAMSVM_")}
    done = subprocess.run(
        ["bash", "-c", script_of(commands)],
        cwd=tmp_path,
        env={
            **inherited,
            "PATH": install_command(tmp_path / "bin"),
            "STREAMSVM_KAFKA__BOOTSTRAP_SERVERS": real_broker.connection.servers,
            "STREAMSVM_OUTPUT__MODELS_TOPIC": real_broker.name("models"),
            "STREAMSVM_HTTP__PORT": "0",
        },
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    log = (tmp_path / "log").read_text()
    assert done.returncode == 0, done.stderr + log
    printed = done.stdout.replace(topic, TOPIC).splitlines()
    assert [line for line in console if not line.startswith("$ ") and line not in printed] == []
    assert any(line.startswith("to train on them: streamsvm train --input-topic pulsars") for line in printed)
    assert any("clean: 2 identical" in line for line in printed)
    assert log.count('"event": "stopped"') == 1
