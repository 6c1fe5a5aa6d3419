"""Apache Kafka as a plain process: jars from Maven Central, one node, data in a temporary directory."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path

from tests.brokers.settings import KAFKA_VERSION, SETTINGS

POM = Path(__file__).with_name("pom.xml")
COPY_JARS = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
JAVA_FLAGS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 15.0
POLL_S = 0.05
PR_SET_PDEATHSIG = 1


class CannotRun(Exception):
    """What is missing to run the broker here."""


def kafka_jars() -> Path:
    """Return the directory of Kafka's jars; the first call on a machine downloads them (43 MB)."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    jars = home / "streamsvm" / f"kafka-{KAFKA_VERSION}"
    if jars.is_dir():
        return jars
    if shutil.which("mvn") is None:
        raise CannotRun("mvn is not installed, and Kafka's jars are not in the cache")
    jars.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=jars.parent) as work:
        fresh = Path(work) / "jars"
        command = ["mvn", "-B", "-q", "-f", str(POM), COPY_JARS, "-DincludeScope=runtime"]
        done = subprocess.run(
            [*command, f"-DoutputDirectory={fresh}"], cwd=work, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise CannotRun(f"mvn could not fetch Kafka's jars: {_tail(done.stdout + done.stderr)}")
        with contextlib.suppress(OSError):  # another test run was faster: its jars are as good
            fresh.rename(jars)
    return jars


class JvmBroker:
    """One Kafka node as a child process, on the loopback interface.

    The port and the data directory stay the same from `start` to `stop`, so that it can be killed and
    started again in between. It never outlives this process.

    Parameters
    ----------
    settings : mapping, optional
        Server settings on top of those of every test broker.
    """

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        java = shutil.which("java")
        if java is None:
            raise CannotRun("java is not installed")
        self._java = [java, *JAVA_FLAGS, "-cp", str(kafka_jars() / "*")]
        self._directory = Path(tempfile.mkdtemp(prefix="streamsvm-kafka-"))
        self._settings = self._directory / "server.properties"
        self._log = self._directory / "broker.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._port, controller_port = _free_ports(2)
        self._write_settings(controller_port, settings or {})
        atexit.register(self.stop)

    @property
    def bootstrap_servers(self) -> str:
        """Where clients find it."""
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it, on the first time with an empty log, and wait until it answers."""
        if not (self._directory / "logs").exists():
            self._format()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._java, "kafka.Kafka", str(self._settings)],
                stdout=log,
                stderr=log,
                cwd=self._directory,
                start_new_session=True,  # Ctrl-C is for the tests, which then stop the broker
                preexec_fn=_die_with_parent,
            )
        self._wait_for_port()

    def kill(self) -> None:
        """Kill it as a power failure of the process would; the data remain."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Freeze it: connections stay open, nothing is answered."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on after `pause`."""
        self._signal(signal.SIGCONT)

    def restart(self) -> None:
        """Kill it if it runs, and start it again on the same port and data."""
        self.kill()
        self.start()

    def stop(self) -> None:
        """Shut it down and delete its data; more than once does no harm."""
        atexit.unregister(self.stop)
        if self._process is not None:
            self.resume()
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_TIMEOUT_S)
            self.kill()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _write_settings(self, controller_port: int, extra: Mapping[str, str]) -> None:
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"PLAINTEXT://127.0.0.1:{self._port},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self._port}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller_port}",
            "log.dirs": str(self._directory / "logs"),
            **SETTINGS,
            **extra,
        }
        self._settings.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

    def _format(self) -> None:
        cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        command = ["kafka.tools.StorageTool", "format", "--standalone", f"--cluster-id={cluster}"]
        done = subprocess.run(
            [*self._java, *command, "-c", str(self._settings)], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise CannotRun(f"the broker's log could not be formatted: {_tail(done.stdout + done.stderr)}")

    def _wait_for_port(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            assert self._process is not None
            if self._process.poll() is not None:
                break
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port), 1.0):
                return
            time.sleep(POLL_S)
        said = _tail(self._log.read_text(errors="replace"))
        self.kill()
        raise CannotRun(f"the broker did not start: {said}")

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)


def _die_with_parent() -> None:
    """Ask the kernel to end the broker even if the tests are killed; elsewhere than on Linux, hope."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _tail(text: str) -> str:
    return " | ".join(text.strip().splitlines()[-5:])
