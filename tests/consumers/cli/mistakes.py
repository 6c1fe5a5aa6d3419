"""Mistakes that people make with the configuration, each made for real, and what the command line says to them.

``python -m tests.consumers.cli.mistakes`` prints the table. None takes a broker.
"""

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
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from unittest import mock

from consumers.cli import app as cli
from streamsvm.checkpoint.directory import CheckpointDirectory
from streamsvm.checkpoint.disk import FileSystem


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """One mistake.

    Attributes
    ----------
    what : str
        In people's words.
    arguments : str
        Of `streamsvm`, as a shell would read them; `DIRECTORY` stands for one of its own.
    status : int
    happened : str
        What the message must name, a regular expression.
    remedy : str
        What it must say to do, a regular expression.
    toml : str
        Content of a file given by --config.
    environment : mapping
    prepare : callable
        Makes the circumstances in a directory, until it is closed.
    """

    what: str
    arguments: str
    status: int = 78
    happened: str
    remedy: str
    toml: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    prepare: Callable[[Path], contextlib.AbstractContextManager[object]] = lambda _: contextlib.nullcontext()


@dataclass(frozen=True)
class Answer:
    """What the command line said: its exit status, and its message in one line."""

    status: int
    message: str


def make(mistake: Mistake, directory: Path) -> Answer:
    """Make a mistake, with a directory of its own to work in."""
    arguments = shlex.split(mistake.arguments.replace("DIRECTORY", str(directory)))
    if mistake.toml:
        (directory / "streamsvm.toml").write_text(mistake.toml)
        arguments += ["--config", str(directory / "streamsvm.toml")]
    if arguments[0] == "train" and "--checkpoint-directory" not in arguments and "directory" not in mistake.toml:
        arguments += ["--checkpoint-directory", str(directory / "checkpoint")]
    with mistake.prepare(directory):
        return run(arguments, mistake.environment, directory)


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


@contextlib.contextmanager
def _held(directory: Path) -> Iterator[None]:
    with CheckpointDirectory(FileSystem(directory / "checkpoint"), 3):
        yield


@contextlib.contextmanager
def _file(directory: Path) -> Iterator[None]:
    (directory / "file").touch()
    yield


def _one(what: str, arguments: str, status: int, happened: str, remedy: str, **more: Any) -> Mistake:
    return Mistake(what=what, arguments=arguments, status=status, happened=happened, remedy=remedy, **more)


MISTAKES: Final = (
    _one("a flag misspelt", "train --input-topik t", 2, r"No such option: --input-topik", "--input-topic"),
    _one(
        "a TOML key misspelt",
        "train",
        78,
        r"input.topik: there is no such option",
        "did you mean input.topic",
        toml="[input]\ntopik='a'\n[points]\ndimension=2",
    ),
    _one(
        "a TOML section misspelt",
        "train",
        78,
        r"inputs: there is no such option",
        "did you mean input",
        toml="[inputs]\ntopic='a'\n[points]\ndimension=2",
    ),
    _one(
        "a variable misspelt",
        "train --points-dimension 2",
        78,
        r"input.topik: there is no such option",
        "did you mean input.topic",
        environment={"STREAMSVM_INPUT__TOPIK": "x"},
    ),
    _one(
        "a section of a variable misspelt",
        "train --points-dimension 2",
        78,
        r"STREAMSVM_INPT__TOPIC does not name an option",
        "an example is STREAMSVM_INPUT__TOPIC",
        environment={"STREAMSVM_INPT__TOPIC": "x"},
    ),
    _one(
        "a number that is none", "train --points-dimension many", 78, r"points.dimension.*'many'", "must be an integer"
    ),
    _one(
        "three faults at once",
        "train",
        78,
        r"points.dimension.*svm.kernel.*svm.alpha",
        "must be at least 1 .*must be 'linear' or 'rbf'",
        toml="[points]\ndimension=0\n[svm]\nalpha=-1\nkernel='poly'",
    ),
    _one(
        "TOML that is none",
        "train",
        78,
        r"streamsvm\.toml is not valid TOML: .*line 1",
        "Correct that line",
        toml="[points\ndimension=2",
    ),
    _one(
        "a file that is not there",
        "train --config nowhere.toml",
        78,
        r"nowhere.toml does not exist",
        "Correct the path",
    ),
    _one("no dimension", "train", 78, r"points.dimension is not given", "--points-dimension N"),
    _one(
        "C and alpha",
        "train --points-dimension 2 --svm-c 1 --svm-alpha 0.1",
        78,
        r"svm.alpha = 0.1, and svm.C = 1.0: both set the same trade-off",
        "Give only one",
    ),
    _one("one label", "train --points-dimension 2 --points-labels 1", 78, r"holds 1 label", "there must be 2 to 128"),
    _one(
        "one label twice",
        "train --points-dimension 2 --points-labels 1,1",
        78,
        r"the same label twice: 1",
        "points.labels",
    ),
    _one(
        "labels of two types",
        "train --points-dimension 2 --points-labels 1,yes",
        78,
        r"mixes two types: 1 and 'yes'",
        "points.labels",
    ),
    _one(
        "too many names",
        "train --points-dimension 2 --points-feature-names a,b,c",
        78,
        r"has 3 names",
        "points.dimension is 2",
    ),
    _one("a negative C", "train --points-dimension 2 --svm-c -1", 78, r"svm.C", "must be at least 1e-100"),
    _one(
        "a start that is no time",
        "train --points-dimension 2 --input-start yesterday",
        78,
        r"input.start.*'yesterday'",
        "'earliest' or 'latest' or a time such as",
    ),
    _one(
        "a kernel that there is not",
        "train --points-dimension 2 --svm-kernel poly",
        78,
        r"svm.kernel.*'poly'",
        "'linear' or 'rbf'",
    ),
    _one(
        "a log level that there is not",
        "train --points-dimension 2 --log-level loud",
        78,
        r"log.level.*'loud'",
        "'debug', 'info'",
    ),
    _one("a name with a slash", "train --points-dimension 2 --name a/b", 78, r"name: .*'a/b'", "letters, digits"),
    _one(
        "a password on the command line",
        "train --points-dimension 2 --kafka sasl.password=x",
        78,
        r"would show a secret",
        "STREAMSVM_KAFKA__SASL_PASSWORD",
    ),
    _one(
        "a broker option without a value",
        "train --points-dimension 2 --kafka acks",
        78,
        r"acks has no value",
        "--kafka OPTION=VALUE",
    ),
    _one(
        "a broker option that there is not",
        "train --points-dimension 2 --http-port 0 --kafka no.such.option=1",
        78,
        r"no.such.option",
        "Correct the broker options",
    ),
    _one(
        "a broker option that would lose records",
        "train --points-dimension 2 --http-port 0 --kafka enable.idempotence=false",
        78,
        r"enable.idempotence may not be set",
        "Remove it",
    ),
    _one(
        "a protocol that there is not",
        "train --points-dimension 2 --http-port 0 --kafka security.protocol=tls",
        78,
        r'"tls" for configuration property "security.protocol"',
        "Correct the broker options",
    ),
    _one(
        "no broker's address",
        "train --points-dimension 2 --bootstrap-servers ''",
        78,
        r"bootstrap.servers is not given",
        "host:port",
    ),
    _one(
        "a port beyond all",
        "train --points-dimension 2 --http-port 99999",
        78,
        r"http.port.*'99999'",
        "must be at most 65535",
    ),
    _one(
        "a host to listen on that there is not",
        "train --points-dimension 2 --http-host 'no such host'",
        78,
        r"cannot listen on no such host",
        "--http-port",
    ),
    _one(
        "one topic for two uses",
        "train --points-dimension 2 --http-port 0 --input-topic models",
        78,
        r"both for input.topic and for output.models_topic",
        "a different topic for each",
    ),
    _one(
        "a signing key that is not there",
        "train --points-dimension 2 --http-port 0 --output-signing-key-file nope.pem",
        78,
        r"the signing key file .*nope.pem cannot be read",
        "Give a file",
    ),
    _one(
        "a checkpoint directory below a file",
        "train --points-dimension 2 --http-port 0 --checkpoint-directory DIRECTORY/file/c",
        78,
        r"file/c",
        "--checkpoint-directory",
        prepare=_file,
    ),
    _one(
        "a checkpoint directory in use",
        "train --points-dimension 2 --http-port 0 --checkpoint-directory DIRECTORY/checkpoint",
        78,
        r"another process holds",
        "[Oo]ne trainer|Stop|directory",
        prepare=_held,
    ),
    _one(
        "no broker there",
        "train --points-dimension 2 --http-port 0 --bootstrap-servers 127.0.0.1:1",
        75,
        r"no broker answered at 127.0.0.1:1",
        "Check bootstrap.servers",
    ),
    _one("nothing to evaluate", "evaluate", 78, r"needs either a file or --dataset", "For example: streamsvm evaluate"),
    _one("a file of points that is not there", "evaluate nope.csv", 78, r"nope.csv does not exist", "Give the path"),
    _one("a data set that there is not", "evaluate --dataset higgs", 78, r"unknown data set higgs", "htru2"),
    _one("no topic to replay to", "replay --dataset htru2", 2, r"Missing option '--topic'", "streamsvm replay -h"),
    _one("a replay of nothing", "replay --topic t", 78, r"either a file or --dataset", "file|--dataset"),
    _one("since a time that is none", "dead-letters --since yesterday", 78, r"--since is 'yesterday'", "30min"),
    _one(
        "a reason that there is not",
        "dead-letters --reason nonsense",
        78,
        r"unknown reason 'nonsense'",
        "Give one of empty_record",
    ),
    _one(
        "mended letters, and nowhere to send them",
        "dead-letters --mended x",
        78,
        r"--resend is not given",
        "--resend TOPIC",
    ),
    _one(
        "mended letters that are not there",
        "dead-letters --resend t --mended nope.jsonl",
        78,
        r"nope.jsonl cannot be read",
        "that --json printed",
    ),
    _one("a command misspelt", "trane", 2, r"No such command 'trane'", "Did you mean 'train'"),
)


def main() -> None:
    """Make every mistake, and print what was said to it."""
    print("| mistake | command | exit | message |\n|---|---|---|---|")
    for mistake in MISTAKES:
        with tempfile.TemporaryDirectory() as directory:
            answer = make(mistake, Path(directory))
        given = [mistake.arguments, mistake.toml.replace("\n", "; "), *map("=".join, mistake.environment.items())]
        told = answer.message.replace(directory, "DIRECTORY").replace("|", "\\|")
        print(f"| {mistake.what} | `{' '.join(part for part in given if part)}` | {answer.status} | {told} |")


if __name__ == "__main__":
    main()
