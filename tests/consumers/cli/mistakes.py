"""Mistakes that people make with the configuration, each made for real, and what the command line says to them.

None takes a broker.
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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
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
    prepare: Callable[[Path], contextlib.AbstractContextManager[object]] = contextlib.nullcontext


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


TABLE: Final = r"""
a flag misspelt :: 2 :: train --input-topik t :: No such option: --input-topik :: --input-topic
a TOML key misspelt :: 78 :: train :: input.topik: there is no such option :: did you mean input.topic
a TOML section misspelt :: 78 :: train :: inputs: there is no such option :: did you mean input
a variable misspelt :: 78 :: + :: input.topik: there is no such option :: did you mean input.topic
a section of a variable misspelt :: 78 :: +
    :: STREAMSVM_INPT__TOPIC does not name an option :: an example is STREAMSVM_INPUT__TOPIC
a number that is none :: 78 :: train --points-dimension many :: points.dimension.*'many' :: must be an integer
three faults at once :: 78 :: train
    :: points.dimension.*svm.kernel.*svm.alpha :: must be at least 1 .*must be 'linear' or 'rbf'
TOML that is none :: 78 :: train :: streamsvm\.toml is not valid TOML: .*line 1 :: Correct that line
a file that is not there :: 78 :: train --config nowhere.toml :: nowhere.toml does not exist :: Correct the path
no dimension :: 78 :: train :: points.dimension is not given :: --points-dimension N
C and alpha :: 78 :: + --svm-c 1 --svm-alpha 0.1
    :: svm.alpha = 0.1, and svm.C = 1.0: both set the same trade-off :: Give only one
one label :: 78 :: + --points-labels 1 :: holds 1 label :: there must be 2 to 128
one label twice :: 78 :: + --points-labels 1,1 :: the same label twice: 1 :: points.labels
labels of two types :: 78 :: + --points-labels 1,yes :: mixes two types: 1 and 'yes' :: points.labels
too many names :: 78 :: + --points-feature-names a,b,c :: has 3 names :: points.dimension is 2
a negative C :: 78 :: + --svm-c -1 :: svm.C :: must be at least 1e-100
a start that is no time :: 78 :: + --input-start yesterday
    :: input.start.*'yesterday' :: 'earliest' or 'latest' or a time such as
a kernel that there is not :: 78 :: + --svm-kernel poly :: svm.kernel.*'poly' :: 'linear' or 'rbf'
a log level that there is not :: 78 :: + --log-level loud :: log.level.*'loud' :: 'debug', 'info'
a name with a slash :: 78 :: + --name a/b :: name: .*'a/b' :: letters, digits
a password on the command line :: 78 :: + --kafka sasl.password=x
    :: would show a secret :: STREAMSVM_KAFKA__SASL_PASSWORD
a broker option without a value :: 78 :: + --kafka acks :: acks has no value :: --kafka OPTION=VALUE
a broker option that there is not :: 78 :: + --kafka no.such.option=1 :: no.such.option :: Correct the broker options
a broker option that would lose records :: 78 :: + --kafka enable.idempotence=false
    :: enable.idempotence may not be set :: Remove it
a protocol that there is not :: 78 :: + --kafka security.protocol=tls
    :: "tls" for configuration property "security.protocol" :: Correct the broker options
no broker's address :: 78 :: + --bootstrap-servers '' :: bootstrap.servers is not given :: host:port
a port beyond all :: 78 :: + --http-port 99999 :: http.port.*'99999' :: must be at most 65535
a host to listen on that there is not :: 78 :: + --http-host 'no such host'
    :: cannot listen on no such host :: --http-port
one topic for two uses :: 78 :: + --input-topic models
    :: both for input.topic and for output.models_topic :: a different topic for each
a signing key that is not there :: 78 :: + --output-signing-key-file nope.pem
    :: the signing key file .*nope.pem cannot be read :: Give a file
a checkpoint directory below a file :: 78 :: + --checkpoint-directory DIRECTORY/file/c
    :: file/c :: --checkpoint-directory
a checkpoint directory in use :: 78 :: + --checkpoint-directory DIRECTORY/checkpoint
    :: another process holds :: [Oo]ne trainer|Stop|directory
no broker there :: 75 :: + --bootstrap-servers 127.0.0.1:1
    :: no broker answered at 127.0.0.1:1 :: Check bootstrap.servers
nothing to evaluate :: 78 :: evaluate :: needs either a file or --dataset :: For example: streamsvm evaluate
a file of points that is not there :: 78 :: evaluate nope.csv :: nope.csv does not exist :: Give the path
a data set that there is not :: 78 :: evaluate --dataset higgs :: unknown data set higgs :: htru2
no topic to replay to :: 2 :: replay --dataset htru2 :: Missing option '--topic' :: streamsvm replay -h
a replay of nothing :: 78 :: replay --topic t :: either a file or --dataset :: file|--dataset
a replay of a data set that there is not :: 78 :: replay --dataset nothing --topic t :: unknown data set :: htru2
features of nothing :: 78 :: features infer :: a file or a topic :: Give either FILE
features of a file and a topic :: 78 :: features infer a.csv --topic t :: a file or a topic :: Give either FILE
a format of topics for a file :: 78 :: features infer a.csv --format avro :: avro is not a format of a file :: csv
a format of files for a topic :: 78 :: features infer --topic t --format csv :: csv is not a format of a topic :: json
an envelope of a file :: 78 :: features infer a.csv --envelope connect :: --envelope has no meaning with a file :: .
a delimiter of a topic :: 78 :: features infer --topic t --delimiter ';'
    :: --delimiter has no meaning with a topic :: .
since a time that is none :: 78 :: dead-letters --since yesterday :: --since is 'yesterday' :: 30min
a reason that there is not :: 78 :: dead-letters --reason nonsense
    :: unknown reason 'nonsense' :: Give one of empty_record
mended letters, and nowhere to send them :: 78 :: dead-letters --mended x :: --resend is not given :: --resend TOPIC
mended letters that are not there :: 78 :: dead-letters --resend t --mended nope.jsonl
    :: nope.jsonl cannot be read :: that --json printed
a command misspelt :: 2 :: trane :: No such command 'trane' :: Did you mean 'train'
"""
"""What it is :: exit status :: arguments :: what the message names :: what it says to do. `+` is `train` with points of
two features and no page; a line that begins with blanks goes on with the one before it."""

TOML: Final = {
    "a TOML key misspelt": "[input]\ntopik='a'\n[points]\ndimension=2",
    "a TOML section misspelt": "[inputs]\ntopic='a'\n[points]\ndimension=2",
    "three faults at once": "[points]\ndimension=0\n[svm]\nalpha=-1\nkernel='poly'",
    "TOML that is none": "[points\ndimension=2",
}
VARIABLES: Final = {
    "a variable misspelt": {"STREAMSVM_INPUT__TOPIK": "x"},
    "a section of a variable misspelt": {"STREAMSVM_INPT__TOPIC": "x"},
}
CIRCUMSTANCES: Final = {
    "a checkpoint directory below a file": _file,
    "a checkpoint directory in use": _held,
}


def _mistake(line: str) -> Mistake:
    what, status, arguments, happened, remedy = line.split(" :: ")
    return Mistake(
        what=what,
        arguments=re.sub(r"^\+", "train --points-dimension 2 --http-port 0", arguments),
        status=int(status),
        happened=happened,
        remedy=remedy,
        toml=TOML.get(what, ""),
        environment=VARIABLES.get(what, {}),
        prepare=CIRCUMSTANCES.get(what, contextlib.nullcontext),
    )


MISTAKES: Final = tuple(map(_mistake, re.sub(r"\n +", " ", TABLE).strip().splitlines()))
