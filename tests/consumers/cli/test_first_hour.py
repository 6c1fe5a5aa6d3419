"""The page of the first hour, command by command, on a real broker: what it shows is what is printed.

Each session runs in this environment, and in an empty one that has nothing but what the program itself needs.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.brokers.fixtures import TestBroker

ROOT = Path(__file__).parents[3]
TOPIC = "pulsars"
TRAIN = "streamsvm train"
REPLAY_ODD = "streamsvm replay odd.csv"
COMMAND = f"""#!/bin/sh
exec {shlex.quote(sys.executable)} -m consumers "$@"
"""
"""`streamsvm` of this tree; one process, so that a signal to it reaches the program."""
INSTALL: Final = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
INSTALL_TIMEOUT_S: Final = 600.0
COLD_TIMEOUT_S: Final = 800.0
"""Of a session that compiles everything first: a minute of a processor that has nothing else to do."""
PRELUDE = """
set -e
trap 'kill -9 $(jobs -p) 2>/dev/null || true' EXIT
until_logged() {
    for _ in $(seq 6000); do
        [ "$(grep -c "\\"event\\": \\"$1\\"" log)" -ge "$2" ] && return
        sleep 0.1
    done
    exit 9
}
"""


def blocks(heading: str, kind: str) -> list[str]:
    """Return the blocks of a kind in a section of the page."""
    section = (ROOT / "deploy" / "FIRST_HOUR.md").read_text().split(f"## {heading}")[1].split("\n## ")[0]
    return re.findall(rf"```{kind}\n(.*?)```", section, re.DOTALL)


def console_of(heading: str) -> list[str]:
    """Return the lines of a section's console: commands after a dollar, what they print below."""
    (block,) = blocks(heading, "console")
    return block.splitlines()


def commands_in(console: list[str]) -> list[str]:
    return [line.removeprefix("$ ") for line in console if line.startswith("$ ")]


def missing(console: list[str], printed: list[str]) -> list[str]:
    """Return the lines that the page shows, and that were not printed."""
    return [line for line in console if not line.startswith("$ ") and line not in printed]


def script_of(commands: list[str]) -> str:
    """Return the commands of the session as a script, which waits where a reader looks at the log of the trainer."""
    lines, starts = [PRELUDE], 0
    for command in commands:
        lines.append(command.replace(" &", " 2>>log &"))
        if command.startswith(TRAIN):
            starts += 1
            lines += [f"until_logged started {starts}", "until_logged model_published 2"]
        elif command.startswith(REPLAY_ODD):
            lines.append("until_logged rows_rejected 1")
    return "\n".join([*lines, "wait $!"])


def script_of_events(commands: list[str]) -> str:
    """Return the commands of the section on events, which wait for the whole file's version and for its scores."""
    lines = [PRELUDE, "set -m"]
    for command in commands:
        lines.append(command.replace(" --http-port 9465", "").replace(" &", " 2>>log &"))
        if command.startswith(TRAIN):
            lines.append("until_logged model_published 1; until grep -q '\"points\": 6000, ' log; do sleep 0.1; done")
        elif command.startswith("streamsvm score"):
            lines.append("until_logged serving 1")
    return "\n".join([*lines, "wait"])


class Place(NamedTuple):
    """Where the commands of the page run: an interpreter that has the package, and variables that lead to its programs.

    A session there takes so long at most.
    """

    python: str
    environment: dict[str, str]
    timeout_s: float


def searched(programs: Path) -> str:
    """Return the search path with a folder before all others."""
    return f"{programs}:{os.environ['PATH']}"


@pytest.fixture
def here(tmp_path: Path) -> Place:
    """Return this tree in the environment of the tests."""
    program = tmp_path / "bin" / "streamsvm"
    program.parent.mkdir()
    program.write_text(COMMAND)
    program.chmod(0o755)
    return Place(sys.executable, {"PATH": searched(program.parent), "PYTHONPATH": str(ROOT)}, 280.0)


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Return an environment with what the program needs, by hash, and the program: what `make demo` makes."""
    folder = tmp_path_factory.mktemp("empty")
    python = folder / "bin" / "python"
    required = [part for name in ("build", "runtime") for part in ("-r", f"requirements/{name}.txt")]
    for command in (
        [sys.executable, "-m", "venv", str(folder)],
        [str(python), *INSTALL, "--require-hashes", *required],
        [str(python), *INSTALL, "--no-deps", "--no-build-isolation", "--no-index", "."],
    ):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, check=False)
        assert done.returncode == 0, done.stderr
    return Place(str(python), {"PATH": searched(python.parent)}, COLD_TIMEOUT_S)


def run(script: str, broker: TestBroker, models: str, directory: Path, place: Place) -> tuple[str, str]:
    """Run a script beside a broker, and return what it printed and what the daemons logged."""
    left_out = ("STREAMSVM_", "PYTHONPATH", "VIRTUAL_ENV", "NUMBA_")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=directory,
        env={
            **inherited,
            **place.environment,
            "STREAMSVM_KAFKA__BOOTSTRAP_SERVERS": broker.connection.servers,
            "STREAMSVM_OUTPUT__MODELS_TOPIC": models,
            "STREAMSVM_SCORING__OUTPUT_TOPIC": broker.name("scores"),
            "STREAMSVM_HTTP__PORT": "0",
        },
        capture_output=True,
        text=True,
        timeout=place.timeout_s,
        check=False,
    )
    log = directory / "log"
    logged = log.read_text() if log.exists() else ""
    assert done.returncode == 0, done.stdout + done.stderr + logged
    return done.stdout, logged


def check_events(real_broker: TestBroker, tmp_path: Path, place: Place) -> None:
    """From a raw file to a judged, explained model: what was evaluated is what is served, and the leak is not in it."""
    topic, applications, models = (real_broker.name(kind) for kind in ("loans", "applications", "models"))
    heading = "Events as they are"
    console, (loans, read) = console_of(heading), blocks(heading, "python")
    (tmp_path / "loans.py").write_text(loans)
    at_home = read.replace("localhost:9092", real_broker.connection.servers)
    (tmp_path / "read.py").write_text(at_home.replace('"loans")', f'"loans", models_topic="{models}")'))
    own = [
        line.replace("python3", shlex.quote(place.python))
        .replace("topic loans", f"topic {topic}")
        .replace("topic applications", f"topic {applications}")
        for line in commands_in(console)
    ]
    printed, log = run(script_of_events(own), real_broker, models, tmp_path, place)
    printed = printed.replace(f"topic {topic}", "topic loans")
    assert missing(console, printed.splitlines()) == []
    (content,) = re.findall(r"content ([0-9a-f]{64})", printed)
    assert re.sub(r"[\s│]", "", printed).count(content) == 2, "evaluate printed the hash, and model show did not"
    assert "collection" not in printed.split("to train on them")[1]
    assert re.search(r"Answer\(score=.*True", printed), printed
    assert "Traceback" not in log


def check_session(real_broker: TestBroker, tmp_path: Path, place: Place) -> None:
    """A bad record, a kill and a rollback: every line that the page shows is printed, and the auditor finds nothing."""
    topic = real_broker.name("pulsars")
    console = console_of("A session")
    script = script_of([line.replace(TOPIC, topic) for line in commands_in(console)])
    printed, log = run(script, real_broker, real_broker.name("models"), tmp_path, place)
    lines = printed.replace(topic, TOPIC).splitlines()
    assert missing(console, lines) == []
    assert any(line.startswith("to train on them: streamsvm train --input-topic pulsars") for line in lines)
    assert "clean: 2 identical" in printed
    assert log.count('"event": "stopped"') == 1


SESSIONS: Final = (check_session, check_events)


@pytest.mark.long
@pytest.mark.parametrize("check", SESSIONS)
def test_the_page_goes_as_it_says(
    check: Callable[..., None], real_broker: TestBroker, tmp_path: Path, here: Place
) -> None:
    """Every line that it shows is printed."""
    check(real_broker, tmp_path, here)


@pytest.mark.long
@pytest.mark.timeout(INSTALL_TIMEOUT_S + COLD_TIMEOUT_S)  # it downloads some 200 MB, and compiles what the program runs
@pytest.mark.parametrize("check", SESSIONS)
def test_the_page_goes_as_it_says_in_an_empty_environment(
    check: Callable[..., None], real_broker: TestBroker, tmp_path: Path, empty: Place
) -> None:
    """With the requirements of the runtime and the package itself: nothing that only tests need is used."""
    check(real_broker, tmp_path, empty)
