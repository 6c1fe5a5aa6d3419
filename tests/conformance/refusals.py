"""The table of refusals in `refusals.toml`, and what answers what is given there: settings, a command, an estimator."""

from __future__ import annotations

import contextlib
import gc
import io
import json
import logging
import os
import re
import shlex
import signal
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from unittest import mock

import numpy as np

from consumers.cli import app as cli
from consumers.loader import load
from streamsvm import CoresetSVC

TABLE: Final[Mapping[str, Any]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
TRAIN: Final = "train --points-dimension 2 --http-port 0"
WORD: Final = re.compile(r"[A-Z_]+=")


def toml(given: str) -> dict[str, Any]:
    """Return what TOML in one line says."""
    return tomllib.loads(given.replace("; ", "\n"))


def settle(given: str) -> None:
    """Make the settings of sections in TOML, and the part of them that decides what a model is."""
    sections = toml(given)
    points = {} if "features" in sections else {"dimension": 2}
    if points or "points" in sections:
        sections["points"] = {**points, **sections.get("points", {})}
    load(sections).models()


def estimate(given: str) -> None:
    """Fit an estimator of parameters in TOML."""
    parameters = toml(given)
    labels = parameters.pop("labels", 2)
    CoresetSVC(**parameters).fit(np.arange(180.0).reshape(90, 2), np.arange(90) % labels)


def command(given: str, directory: Path) -> Answer:
    """Run a command line, in this process, with a directory of its own to work in."""
    (directory / "file").touch()
    (directory / "events.jsonl").write_text('{"amount": 1, "fraud": true}\n')
    line, _, config = given.replace("TRAIN", TRAIN).replace("DIRECTORY", str(directory)).partition(" <<< ")
    words = shlex.split(line)
    variables = [word for word in words if WORD.match(word)]
    arguments = words[len(variables) :]
    if config:
        (directory / "streamsvm.toml").write_text(config.replace("; ", "\n"))
        arguments += ["--config", str(directory / "streamsvm.toml")]
    if arguments[0] == "train" and "--checkpoint-directory" not in arguments:
        arguments += ["--checkpoint-directory", str(directory / "checkpoint")]
    return run(arguments, dict(word.split("=", 1) for word in variables), directory)


def says(message: str, said: str) -> bool:
    """Tell whether a message has all parts of what it must say."""
    return all(part in message for part in re.split(" ?… ?", said))


@dataclass(frozen=True)
class Answer:
    """What the command line said: its exit status, and its message in one line."""

    status: int
    message: str


def run(arguments: list[str], environment: Mapping[str, str], directory: Path) -> Answer:
    """Run the command line in this process."""
    said, status = io.StringIO(), 0
    with _undisturbed(), contextlib.chdir(directory), mock.patch.object(sys, "argv", ["streamsvm", *arguments]):
        others = {name: value for name, value in os.environ.items() if not name.startswith("STREAMSVM_")}
        plain = {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb", **environment}
        with mock.patch.dict(os.environ, others | plain, clear=True), contextlib.redirect_stderr(said):
            try:
                with contextlib.redirect_stdout(io.StringIO()):
                    cli.main()
            except SystemExit as ended:
                status = ended.code if isinstance(ended.code, int) else 1
    return Answer(status, _message(said.getvalue()))


def _message(said: str) -> str:
    """Return the error, or what the parser of the command line says of wrong usage, without its frame."""
    for line in said.splitlines():
        if line.startswith("streamsvm: error: "):
            return line.removeprefix("streamsvm: error: ")
        if line.startswith('{"event": "fatal"'):
            return str(json.loads(line)["what"])
    return " ".join(re.sub(r"[─-╿]", " ", said).split())


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Put back what a command changes of its process."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    threshold, root = gc.get_threshold(), logging.getLogger()
    logs, level = root.handlers, root.level
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        gc.set_threshold(*threshold)
        root.handlers, root.level = logs, level
