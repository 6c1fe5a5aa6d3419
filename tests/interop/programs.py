"""Programs in other languages, of the readers in deploy/java and deploy/node: they run until they are told to stop.

What they need is fetched once into a cache. Node's packages come by npm, at the versions that `node/package.json`
names, and no script of theirs is run; Java's are the jars of the test broker, which hold the client and Jackson. Where
something is missing a test skips and says what.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, Self

import pytest

from tests.brokers.jvm import CannotRun, die_with_parent, kafka_jars
from tests.npm import cache, packages

HERE = Path(__file__).parent
NODE = HERE / "node"
JAVA = HERE / "java"
PYTHON = HERE / "python"
DEPLOY = HERE.parents[1] / "deploy"
NODE_READER = DEPLOY / "node"
JAVA_READER = DEPLOY / "java" / "src" / "main" / "java"
INSTALL_TIMEOUT_S = 300.0
COMPILE_TIMEOUT_S = 120.0
ANSWER_TIMEOUT_S = 300.0
STOP_TIMEOUT_S = 20.0


def node_packages() -> Path:
    """Return the directory `node_modules`; the first call on a machine downloads it (some 100 MB).

    Raises `CannotRun` if node or npm is missing, or a package cannot be fetched.
    """
    if shutil.which("node") is None:
        raise CannotRun("node is not installed")
    return packages(NODE / "package.json", "interop", INSTALL_TIMEOUT_S)


def install_node_reader(directory: Path) -> None:
    """Put the reader's files into a directory; programs there can import `streamsvm-reader`: a package finds itself."""
    for file in (NODE_READER / "package.json", *NODE_READER.glob("*.mjs")):
        shutil.copy(file, directory)


def node_program(name: str, directory: Path, *, with_packages: bool = True) -> list[str]:
    """Return the command that runs a program of `node/`, put beside the reader, and its packages, in `directory`."""
    if shutil.which("node") is None:
        raise CannotRun("node is not installed")
    if with_packages:
        packages = node_packages()
        with contextlib.suppress(FileExistsError):
            (directory / "node_modules").symlink_to(packages, target_is_directory=True)
    install_node_reader(directory)
    assert not (NODE_READER / name).exists(), "the program would replace a module of the reader"
    shutil.copy(NODE / name, directory)
    return ["node", str(directory / name)]


def java_program() -> list[str]:
    """Return the command that runs `java/Subscriber.java`; it is compiled once a state of the sources."""
    if shutil.which("javac") is None:
        raise CannotRun("javac is not installed")
    own = [source for source in JAVA_READER.rglob("*.java") if source.name != "AvroEvents.java"]  # Avro is optional
    jars, sources = str(kafka_jars() / "*"), sorted([*JAVA.glob("*.java"), *own])
    state = hashlib.sha256(b"".join([jars.encode(), *(source.read_bytes() for source in sources)])).hexdigest()
    classes = cache() / f"java-{state[:12]}"
    if not classes.is_dir():
        cache().mkdir(parents=True, exist_ok=True)
        made = tempfile.mkdtemp(dir=cache())
        subprocess.run(["javac", "-d", made, "-cp", jars, *map(str, sources)], check=True, timeout=COMPILE_TIMEOUT_S)
        with contextlib.suppress(OSError):  # another test run was faster: its classes are as good
            Path(made).rename(classes)
    return ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{classes}:{jars}", "Subscriber"]


def command(language: str, directory: Path, java: str, node: str, *given: str) -> list[str]:
    """Return the command of a program in a language, or skip with the reason why there is none."""
    try:
        if language == "Python":
            return [sys.executable, "-W", "ignore", str(PYTHON / "subscriber.py"), *given]
        if language == "Java":
            return [*java_program(), *([java] if java else []), *given]
        return [*node_program(node, directory), *given]
    except CannotRun as missing:
        pytest.skip(f"nothing to run in {language}: {missing}")


def lines_of(language: str, directory: Path, *given: str) -> list[Any]:
    """Return the lines of JSON that a language's program of answers prints.

    Raises `CannotRun` if the language's tools are missing.
    """
    program = java_program() if language == "Java" else node_program("answers.mjs", directory, with_packages=False)
    ran = subprocess.run([*program, *given], capture_output=True, text=True, timeout=ANSWER_TIMEOUT_S, check=False)
    assert ran.returncode == 0, (language, ran.stderr)
    return [json.loads(line) for line in ran.stdout.splitlines()]


class Program:
    """A running program that prints lines of JSON, such as one for each version that it serves; it ends with its block.

    `language`: For messages. `directory`: Where its complaints go.
    """

    def __init__(self, language: str, command: list[str], directory: Path) -> None:
        self.language = language
        self.lines: list[dict[str, Any]] = []
        self._log = directory / f"{language}.log"
        with self._log.open("w") as errors:
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, text=True, preexec_fn=die_with_parent
            )
        self._printed: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for(self, version: int, timeout_s: float) -> None:
        """Wait until it has served this version, or fail with what it said."""
        while not self.lines or self.lines[-1]["version"] < version:
            self.next(timeout_s, f"version {version}")

    def next(self, timeout_s: float, what: str = "another line") -> dict[str, Any]:
        """Wait for its next line and return it, or fail with what it said."""
        try:
            line = self._printed.get(timeout=timeout_s)
        except queue.Empty:
            line = None
        assert line is not None, f"{self.language}: {what} was not printed\n{self.complaints}"
        self.lines.append(json.loads(line))
        return self.lines[-1]

    def stop(self) -> None:
        """Let it end in its own way."""
        self._process.terminate()
        self._process.wait(STOP_TIMEOUT_S)

    @property
    def waiting(self) -> bool:
        """Whether a line that it printed waits to be read."""
        return not self._printed.empty()

    @property
    def complaints(self) -> str:
        """The end of what it wrote to its standard error."""
        return self._log.read_text()[-2000:]

    @property
    def versions(self) -> list[int]:
        """The versions that it served, in their order."""
        return [line["version"] for line in self.lines]

    @property
    def seen(self) -> list[int]:
        """The versions that it has served so far, in their order."""
        with contextlib.suppress(queue.Empty):
            while (line := self._printed.get_nowait()) is not None:
                self.lines.append(json.loads(line))
        return self.versions

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait(STOP_TIMEOUT_S)
        self._reader.join(STOP_TIMEOUT_S)

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout:
            for line in self._process.stdout:
                if line.startswith("{"):  # others are of a library's log
                    self._printed.put(line)
        self._printed.put(None)
