"""`streamsvm model follow`: a command for each version, at least once, in their order."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from consumers.models.follow_versions import Hook, LastDone, read_position, write_position
from streamsvm.errors import ConfigurationError, StateError, StreamsvmError
from streamsvm.kafka import Cluster, Connection, TopicSpec
from streamsvm.model import message as model_codec
from streamsvm.model.pointers import Retired, encode_retired, retired_key
from tests.brokers.fixtures import TestBroker
from tests.consumers.command import PLAIN
from tests.forked import PROGRAM, ROOT, Forked
from tests.test_anchoring import Topic
from tests.test_subscriber import NAME, eventually


@pytest.fixture
def connection(broker: TestBroker) -> Connection:
    return broker.connect(fetch_wait_max_ms=10)


@pytest.fixture
def topic(broker: TestBroker, connection: Connection) -> Iterator[Topic]:
    models = broker.name("models")
    Cluster(connection).create([TopicSpec(name) for name in (models, f"{models}.aliases")])
    with closing(Topic(connection, models)) as made:
        yield made


def command(directory: Path, then: str = "true") -> str:
    """Return a command that notes number and hash of the version, keeps its message, and does one thing more."""
    kept = "cat > new && mv new $MODEL_NAME.$MODEL_VERSION"
    return f'cd "{directory}" && {kept} && echo $MODEL_VERSION $MODEL_SHA256 >> log && {then}'


def noted(directory: Path) -> list[int]:
    """Return the numbers for which the command was run, having checked hash and message of each."""
    log = directory / "log"
    found = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
    for number, sha256 in found:
        assert model_codec.sha256((directory / f"{NAME}.{number}").read_bytes()) == sha256
    return [int(number) for number, _ in found]


class Following:
    """A hook in a thread.

    Attributes
    ----------
    said : list of str
    failure : StreamsvmError or None
        What ended it.
    """

    def __init__(self, connection: Connection, models: str, command: str, file: Path, begin: int | None) -> None:
        self.said: list[str] = []
        self.failure: StreamsvmError | None = None
        self._stop = threading.Event()
        self._hook = Hook(
            cluster=Cluster(connection),
            name=NAME,
            models_topic=models,
            command=command,
            file=file,
            begin=begin,
            trusted=None,
            stop=self._stop,
            say=self.said.append,
            wait_s=0.01,
        )
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self._hook.run()
        except StreamsvmError as error:
            self.failure = error

    def stop(self) -> None:
        self._stop.set()
        self.thread.join(30.0)
        assert not self.thread.is_alive()


Follow = Callable[..., AbstractContextManager[Following]]


@pytest.fixture
def follow(connection: Connection, topic: Topic, tmp_path: Path) -> Callable[..., contextmanager[Following]]:  # type: ignore[valid-type]
    """Return what runs a hook with its files in the test's directory."""

    @contextmanager
    def following(then: str = "true", begin: int | None = None) -> Iterator[Following]:
        made = Following(connection, topic.models, command(tmp_path, then), tmp_path / "position", begin)
        made.thread.start()
        try:
            yield made
        finally:
            made.stop()

    return following


def test_each_version_is_done_in_its_order(follow: Follow, topic: Topic, tmp_path: Path) -> None:
    """Those before the start from the one that was asked for, those that come, and those that came while it was off."""
    topic.grow(3)
    with follow(begin=2) as one:
        eventually(lambda: noted(tmp_path) == [2, 3], "those that are there")
        topic.grow(1)
        eventually(lambda: noted(tmp_path) == [2, 3, 4], "one that comes")
    assert one.failure is None
    topic.grow(3)
    with follow():
        eventually(lambda: noted(tmp_path) == [2, 3, 4, 5, 6, 7], "those that came meanwhile")
    position = read_position(tmp_path / "position", NAME, topic.models)
    assert position == LastDone(models_topic=topic.models, model=NAME, version=7, sha256=topic.hashes[7])


def test_it_begins_with_the_newest(follow: Follow, topic: Topic, tmp_path: Path) -> None:
    """History is done only if one asks for it."""
    topic.grow(3)
    with follow():
        eventually(lambda: noted(tmp_path) == [3], "the newest")


def test_a_command_that_fails_is_run_again(follow: Follow, topic: Topic, tmp_path: Path) -> None:
    """Until it succeeds; the next version waits for it, and no failure moves the position."""
    topic.grow(2)
    with follow("test $(grep -c ^$MODEL_VERSION log) -ge 3", begin=1) as one:
        eventually(lambda: noted(tmp_path) == [1, 1, 1, 2, 2, 2], "three attempts each")
        eventually(lambda: f"{NAME}@2 is done" in one.said, "it says so")
    assert any(line.startswith(f"{NAME}@1: the command ended with status 1, and is run again") for line in one.said)
    topic.grow(1)
    with follow("false") as one:
        eventually(lambda: noted(tmp_path)[6:].count(3) >= 2, "it fails on")
    position = read_position(tmp_path / "position", NAME, topic.models)
    assert position is not None
    assert position.version == 2


def test_a_version_that_was_retired_is_passed_over(follow: Follow, topic: Topic, tmp_path: Path) -> None:
    """It is said, and no reason to stop."""
    topic.grow(3)
    topic.write(None, f"{NAME}@2".encode())
    topic.say(retired_key(NAME), encode_retired(Retired(0, (), (2,))))
    with follow(begin=1) as one:
        eventually(lambda: noted(tmp_path) == [1, 3], "the others")
        assert any(line.startswith(f"{NAME}@2 is passed over: version 2 of {NAME} was retired") for line in one.said)


def test_a_position_of_another_topic_is_refused(follow: Follow, topic: Topic, tmp_path: Path) -> None:
    """A topic that was made again begins at 1: versions would be left out in silence."""
    topic.grow(2)
    for version, sha256 in ((2, "ab" * 32), (7, topic.hashes[2])):
        write_position(
            tmp_path / "position", LastDone(models_topic=topic.models, model=NAME, version=version, sha256=sha256)
        )
        with follow() as one:
            one.thread.join(60.0)
        assert isinstance(one.failure, StateError)
        assert f"version {version} with the SHA-256 {sha256[:12]} was done" in one.failure.what
    assert noted(tmp_path) == []


def test_a_position_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    """Of another model, damaged, or nowhere to be written."""
    file = tmp_path / "position"
    mine = LastDone(models_topic="models", model="a", version=1, sha256="ab")
    write_position(file, mine)
    assert read_position(file, "a", "models") == mine
    assert not file.with_name("position.new").exists()
    with pytest.raises(ConfigurationError, match="is of a in models, not of b in models"):
        read_position(file, "b", "models")
    file.write_text("{")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_position(file, "a", "models")
    with pytest.raises(ConfigurationError, match="cannot be written: No such file"):
        write_position(tmp_path / "nowhere" / "position", mine)


PAGE = (ROOT / "deploy" / "HOOKS.md").read_text()


def example(section: str) -> str:
    """Return the command that a section of the page gives to --exec."""
    return PAGE.split(f"\n## {section}\n")[1].split("--exec '")[1].split("'\n```")[0]


def run_example(section: str, directory: Path, **environment: str) -> int:
    """Run it as a hook would."""
    own = {"PATH": os.environ["PATH"], "MODEL_NAME": NAME, "MODEL_VERSION": "7", "MODEL_SHA256": "ab" * 32}
    ran = subprocess.run(
        example(section), shell=True, cwd=directory, input=b"message", env={**own, **environment}, check=False
    )
    return ran.returncode


def test_the_page_s_file_is_that_of_the_newest_good_version(tmp_path: Path) -> None:
    """A version that the gate held back leaves it as it is."""
    (tmp_path / "pulsars.json").write_text("before")
    for gate, expected in (("refused", "before"), ("passed", "message")):
        assert run_example("A file", tmp_path, MODEL_GATE=gate) == 0
        assert (tmp_path / "pulsars.json").read_text() == expected


def test_the_page_s_webhook_posts_the_message(tmp_path: Path) -> None:
    """With number and hash; an error of the server is one of the command."""
    if shutil.which("curl") is None:
        pytest.skip("there is no curl")
    came: list[tuple[str, str, bytes]] = []

    class Server(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            came.append((self.path, self.headers["Idempotency-Key"], body))
            self.send_response(503 if len(came) == 1 else 204)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_port}/hook"
            statuses = [run_example("A webhook", tmp_path, WEBHOOK_URL=url, MODEL_GATE="passed") for _ in range(2)]
        finally:
            server.shutdown()
            thread.join()
    assert (statuses[0] != 0, statuses[1]) == (True, 0)
    assert came == [(f"/hook?model={NAME}&version=7", "ab" * 32, b"message")] * 2


@pytest.mark.real_broker
def test_a_kill_after_the_command_runs_it_again(connection: Connection, topic: Topic, tmp_path: Path) -> None:
    """The command kills who called it, once for each version: every version is done twice, none is left out."""
    topic.grow(3)
    kills = "if [ $(grep -c ^$MODEL_VERSION log) -lt 2 ]; then kill -9 $PPID; fi"
    arguments = ["model", "follow", "--bootstrap-servers", connection.servers, "--name", NAME, "--from", "1"]
    arguments += ["--output-models-topic", topic.models, "--position", str(tmp_path / "position")]
    arguments += ["--exec", command(tmp_path, kills)]
    for killed in range(3):
        process = Forked(PROGRAM, arguments, {**PLAIN, "PATH": "/usr/bin:/bin"})
        with process.stdout, process.stderr:
            assert process.wait(120.0) == -9
        assert noted(tmp_path) == [1, 1, 2, 2, 3, 3][: 2 * killed + 1]
    process = Forked(PROGRAM, arguments, {**PLAIN, "PATH": "/usr/bin:/bin"})
    with process.stdout, process.stderr:
        eventually(lambda: noted(tmp_path) == [1, 1, 2, 2, 3, 3], "the last")
        eventually(lambda: b'"version":3' in (tmp_path / "position").read_bytes(), "its position", 60.0)
        process.send_signal(15)
        assert process.wait(60.0) == 0
