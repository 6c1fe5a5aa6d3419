"""The command line: help, exit statuses, one line an error."""

from __future__ import annotations

import inspect
import itertools
import json
import os
import re
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from consumers.cli.app import app
from consumers.help_texts import Commands
from consumers.host import EXIT_UNFORESEEN
from tests.brokers.fixtures import TestBroker
from tests.consumers.command import PLAIN, error_of, run
from tests.forked import ROOT
from tests.live.process import DEADLINE_S, Daemon


def test_the_last_line_is_json_where_the_log_is() -> None:
    """A collector of logs reads the one line that matters."""
    finished = run("train", "--name", "m", "--bootstrap-servers", "127.0.0.1:1", "--input-topic", "t")
    assert finished.returncode == 78, finished.stderr
    assert finished.stderr.splitlines()[-1].startswith('{"event": "fatal"')
    assert "points.dimension is not given" in error_of(finished)


BLAS_THREADS = """
import sys
from consumers.cli.app import main
sys.argv = ["streamsvm", "--version"]
try:
    main()
finally:
    import numpy, scipy.linalg
    from threadpoolctl import threadpool_info
    print({pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"})
"""


def test_a_command_gives_blas_one_thread() -> None:
    """Whatever the environment says: a version's bits depend on the number."""
    own = {**os.environ, "OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
    finished = subprocess.run([sys.executable, "-c", BLAS_THREADS], env=own, capture_output=True, text=True, cwd=ROOT)
    assert finished.stdout.splitlines()[1:] == ["{1}"], finished.stderr


@pytest.mark.parametrize(
    "command",
    [
        ["train", "--points-dimension", "2", "--checkpoint-directory", "DIRECTORY"],
        ["scale", "worker", "--points-dimension", "2"],
        ["score", "--scoring-topic", "t"],
    ],
    ids=lambda command: command[0],
)
def test_a_start_that_waits_for_a_broker_hears_a_signal(command: list[str], tmp_path: Path) -> None:
    """It ends as stopped, with 0: who waits until the broker has not answered in time ends with 75."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        options = ["--bootstrap-servers", address, "--http-port", "0"]
        daemon = Daemon([*(str(tmp_path) if word == "DIRECTORY" else word for word in command), *options])
        try:
            silent.settimeout(DEADLINE_S)
            connection, _ = silent.accept()
            with connection:
                connection.recv(1)  # it asks, and nobody will answer
                assert daemon.stop() == 0, daemon.said
        finally:
            daemon.kill()
    assert daemon.events("stopped")
    assert not daemon.events("fatal")


def test_a_broker_that_cannot_be_reached_is_told_in_one_line(tmp_path: Path) -> None:
    """By every command that asks one but the scorer, which waits: which broker, why, and what to do."""
    commands = (
        "train --points-dimension 2 --http-port 0",
        "scale worker --points-dimension 2 --worker-ordinal 0 --worker-of 1 --http-port 0",
        "topics create",
        "model list",
        "model show",
        "model diff 1 2",
        "model pin 1",
        "verify",
        "dead-letters",
        "replay --dataset htru2 --topic t",
        "features infer --topic t",
        "history forget --points-dimension 2 --position 0:0",
    )
    with ThreadPoolExecutor(len(commands)) as together:
        options = {"STREAMSVM_CHECKPOINT__DIRECTORY": str(tmp_path / "{name}")}
        ran = together.map(lambda one: run(*one.split(), "--bootstrap-servers", "127.0.0.1:1", **options), commands)
        for command, finished in zip(commands, ran, strict=True):
            assert finished.returncode == 75, (command, finished.stderr)
            assert error_of(finished) == (
                "streamsvm: error: no broker answered at 127.0.0.1:1 within 10 s (127.0.0.1:1/bootstrap: Connect to "
                "ipv4#127.0.0.1:1 failed: Connection refused). Check bootstrap.servers, the network, and that the "
                "broker runs."
            ), command


def test_help_begins_with_what_is_needed_first() -> None:
    """Six options of a trainer stand in a box of their own, before all others, and nowhere else."""
    text = run("train", "--help").stdout
    first, others = text.split(" needed first ")[1].split(" sources ")
    needed = ("bootstrap-servers", "name", "input-topic", "points-dimension", "points-labels", "checkpoint-directory")
    assert re.findall(r"^│ --([\w-]+)", first, re.MULTILINE) == list(needed)
    assert not set(re.findall(r"^│ --([\w-]+)", others, re.MULTILINE)) & set(needed)


def completed(command: Any) -> Any:
    """Return a command with its options of the settings, which it gets when it runs."""
    complete = getattr(command.callback, "complete", None)
    if complete is None:
        return command
    made = Commands(add_completion=False)
    made.command()(complete())
    whole = get_command(made)
    command.params, command.help = whole.params, whole.help
    return command


def commands_of(group: Any, *before: str) -> dict[tuple[str, ...], Any]:
    """Return every command, and every group of commands, by its words."""
    found = {before: group}
    for name, command in getattr(group, "commands", {}).items():
        found |= commands_of(command, *before, name)
    return found


EVERY = commands_of(get_command(app))
TAKE_SETTINGS = {
    words: complete()
    for words, command in EVERY.items()
    if (complete := getattr(command.callback, "complete", None)) is not None
}
"""Those that have options of the settings, with the function that has them all."""


def helped(*words: str, columns: int = 80) -> str:
    """Return what a command line that asks for help prints."""
    shown = CliRunner(env={"COLUMNS": str(columns)}).invoke(app, [*words])
    assert shown.exit_code == 0
    return shown.stdout


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_help_is_printed_as_it_is_written(words: tuple[str, ...]) -> None:
    """Every text of every command: brackets are no markup, nothing is cut off. Of `--help` it is a part, as of `-h`."""
    short = helped(*words, "-h", columns=4_000)
    assert short == helped(*words, "--help", columns=4_000)
    printed = helped(*words, "--help-all", columns=4_000) if "--help-all" in short else short
    command = completed(commands_of(get_command(app))[words])
    texts = [command.help, *(getattr(param, "help", None) for param in command.params)]
    texts += [one.help.splitlines()[0] for one in getattr(command, "commands", {}).values()]
    for text in filter(None, texts):
        for line in filter(None, text.split("\n\n")):
            assert "".join(line.split()) in "".join(printed.split())


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_help_fits_a_terminal_of_80_columns(words: tuple[str, ...]) -> None:
    """No name is cut, and no line of a paragraph ends before the next word would not fit."""
    text = helped(*words, "--help")
    assert "…" not in text
    prose = text.partition("╭")[0].splitlines()
    for line, following in itertools.pairwise(one.strip() for one in prose):
        if line and following:
            assert len(f" {line} {following.split()[0]}") > 78


@pytest.mark.parametrize(
    "words", [words for words, made in TAKE_SETTINGS.items() if hasattr(made, "seldom")], ids=" ".join
)
def test_help_is_a_page_and_says_where_the_rest_is(words: tuple[str, ...]) -> None:
    """At most 30 options: a command's own, and what is often given; --help-all shows all."""
    command = EVERY[words]
    command.make_context(" ".join(words), [], resilient_parsing=True)
    params = [one for one in command.params if one.param_type_name == "option"]
    left_out = {one.opts[0] for one in params if one.name in command.seldom}
    whole, text = (helped(*words, flag, columns=160) for flag in ("--help-all", "--help"))
    listed, shown = (set(re.findall(r"^│[* ]+(--[\w-]+)", help_, re.MULTILINE)) for help_ in (whole, text))
    assert len(shown) <= 30
    assert shown == listed - left_out
    assert len(listed) == len(params) + 1
    assert f" {len(left_out)} more options: streamsvm {' '.join(words)} --help-all shows them." in text
    assert "more options" not in whole


def test_commands_that_end_keep_the_client_quiet() -> None:
    """Only daemons have a page's options, and without these the client writes nothing among what people read."""
    loud = {words for words, made in TAKE_SETTINGS.items() if "http__port" in inspect.signature(made).parameters}
    assert loud == {("train",), ("scale", "worker"), ("compile",), ("score",)}


def listed_by(*words: str) -> list[str]:
    """Return the commands that a help text lists."""
    _, found, text = helped(*words).partition(" Commands ")
    return re.findall(r"^│ ([a-z][a-z-]*) ", text, re.MULTILINE) if found else []


def test_lists_show_twenty_commands_and_say_how_to_see_the_rest() -> None:
    """Those of groups count; what few people need stands in --help-all of its group."""
    shown = [(name, below) for name in listed_by("--help") for below in listed_by(name, "--help") or [""]]
    assert len(shown) <= 20, shown
    for group, command in EVERY.items():
        names = getattr(command, "commands", None)
        if names is None:
            continue
        by_help = listed_by(*group, "--help")
        assert {*by_help} <= names.keys()
        left_out = len(names) - len(by_help)
        if left_out > 0:
            assert {*listed_by(*group, "--help-all")} == names.keys()
            counted = f"{left_out} more command{'s' * (left_out > 1)}"
            assert f"{counted}: see {' '.join(('streamsvm', *group))} --help-all." in helped(*group, "--help")


def test_effective_configuration_masks_secrets() -> None:
    """What is in force, as JSON, without the password."""
    finished = run(
        "config",
        "--effective",
        STREAMSVM_KAFKA__SASL_PASSWORD="hush",
        STREAMSVM_POINTS__DIMENSION="3",
        STREAMSVM_SEED="5",
    )
    shown = json.loads(finished.stdout)
    assert shown["seed"] == 5
    assert shown["points"]["dimension"] == 3
    assert "hush" not in finished.stdout


def test_an_error_that_nobody_foresaw_has_a_status_of_its_own() -> None:
    """Status 1, the traceback, and a last line that says what it is; what a supervisor restarts."""
    program = "import consumers.cli.app as c; c.app = lambda: [][0]; c.main()"
    finished = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, timeout=120, check=False
    )
    assert finished.returncode == EXIT_UNFORESEEN == 1
    assert "Traceback" in finished.stderr
    last = finished.stderr.splitlines()[-1]
    assert last.startswith("streamsvm: error: unexpected IndexError: list index out of range. ")
    assert "traceback" in last


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["replay", "--dataset", "htru2", "--topic", ""], "the topic name is empty"),
        (["replay", "--dataset", "htru2", "--topic", "a b"], "Invalid topic. A topic name has"),
        (["replay", "--dataset", "htru2", "--topic", "r", "--create", "1", "--shuffle", "-1"], "shuffle_seed is -1"),
        (["score", "--scoring-output-topic", "models", "--http-port", "0"], "the topic models is configured both for"),
    ],
)
def test_a_wrong_name_or_number_is_one_line(command: list[str], said: str, real_broker: TestBroker) -> None:
    """And its status says that trying again does not help."""
    servers = str(real_broker.connection.options["bootstrap.servers"])
    finished = run(*command, "--bootstrap-servers", servers)
    assert said in error_of(finished)
    assert finished.returncode == 78


@pytest.mark.parametrize("arguments", [["--version"], ["train"], ["train", "--no-such-option"]])
def test_a_command_that_is_forked_says_what_a_program_says(arguments: list[str]) -> None:
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
