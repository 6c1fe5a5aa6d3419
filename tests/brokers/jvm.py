"""Apache Kafka as a plain process: jars from Maven Central, one node, data in a temporary directory."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import hashlib
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
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.brokers.settings import KAFKA_VERSION, SETTINGS

COPY_JARS = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
JAVA_FLAGS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
HEAP_MB = 512
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 15.0
ARCHIVE_TIMEOUT_S = 120.0
POLL_S = 0.05
PR_SET_PDEATHSIG = 1


class CannotRun(Exception):
    """What is missing to run the broker here."""


def fetched(name: str, pom: str, *options: str, unpack: Callable[[Path], None] | None = None) -> Path:
    """Return the cached directory of what a POM names; the first call on a machine downloads it, and may unpack it."""
    kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "streamsvm" / name
    if kept.is_dir():
        return kept
    if shutil.which("mvn") is None:
        raise CannotRun(f"mvn is not installed, and {name} is not in the cache")
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as work:
        fresh = Path(work) / "fresh"
        command = ["mvn", "-B", "-q", "-f", str(Path(__file__).parent / pom), COPY_JARS, "-DincludeScope=runtime"]
        command += [f"-DoutputDirectory={fresh}", *options]
        done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise CannotRun(f"mvn could not fetch {name}: {_tail(done.stdout + done.stderr)}")
        if unpack is not None:
            unpack(fresh)
        with contextlib.suppress(OSError):  # another test run was faster: what it fetched is as good
            fresh.rename(kept)
    return kept


def kafka_jars(version: str = KAFKA_VERSION) -> Path:
    """Return the directory of a Kafka's jars (43 MB)."""
    return fetched(f"kafka-{version}", "pom.xml", f"-Dkafka.version={version}")


def class_archive(java: str, version: str = KAFKA_VERSION) -> Path | None:
    """Return the archive of the classes that a broker loads, for this Java: a start takes a third less of it.

    The first call on a machine makes it, which takes two starts' time. None where it cannot be made.
    """
    program, jars = Path(java).resolve(), kafka_jars(version)
    made_for = hashlib.sha256(f"{program} {program.stat().st_mtime_ns} {JAVA_FLAGS}".encode()).hexdigest()[:12]
    archive = jars.with_name(f"{jars.name}-classes-{made_for}.jsa")
    if archive.exists():
        return archive
    with tempfile.TemporaryDirectory(dir=jars.parent) as work:
        fresh = Path(work) / archive.name
        broker = JvmBroker(classes=f"-XX:ArchiveClassesAtExit={fresh}", version=version)
        try:
            broker.start()
            broker.shut_down(ARCHIVE_TIMEOUT_S)
        finally:
            broker.stop()
        if not fresh.exists():
            return None
        with contextlib.suppress(OSError):  # another test run was faster: its archive is as good
            fresh.rename(archive)
    return archive


@dataclass(frozen=True)
class Quorum:
    """The controllers of a cluster, the same for all its nodes: the port of each by the node's id."""

    ports: Mapping[int, int]
    cluster_id: str = field(default_factory=lambda: urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("="))

    @property
    def voters(self) -> str:
        """The value of ``controller.quorum.voters``."""
        return ",".join(f"{node}@127.0.0.1:{port}" for node, port in self.ports.items())


def java() -> str:
    """Return the path of the Java program."""
    found = shutil.which("java")
    if found is None:
        raise CannotRun("java is not installed")
    return found


class JavaProcess:
    """A Java program as a child process; it never outlives this process."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        # A child that dies with its parent dies with the thread that started it; a fault is a thread, and a short one.
        self._starter = ThreadPoolExecutor(1, "java")
        atexit.register(self.stop)

    def _begin(self, command: Sequence[str], directory: Path, log: Path) -> subprocess.Popen[bytes]:
        with log.open("ab") as output:
            self._process = self._starter.submit(
                subprocess.Popen,
                command,
                stdout=output,
                stderr=output,
                cwd=directory,
                start_new_session=True,  # Ctrl-C is for the tests, which then stop the program
                preexec_fn=die_with_parent,
            ).result()
        return self._process

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

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def shut_down(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """End it in good order, as an upgrade does; the data remain."""
        if self._process is not None:
            self.resume()
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout_s)
            self.kill()

    def stop(self) -> None:
        """Shut it down and delete its data; more than once does no harm."""
        self.shut_down()
        self.discard()

    def discard(self) -> None:
        """Kill it and delete its data: a node lost for good."""
        atexit.unregister(self.stop)
        self.kill()
        self._starter.shutdown(wait=False)


class JvmBroker(JavaProcess):
    """One Kafka node as a child process, on the loopback interface.

    The port and the data directory stay the same from `start` to `stop`, so that it can be killed and
    started again in between. `settings` come on top of those of every test broker; with `quorum` it is one node of a
    cluster. `advertised` is the address of a proxy: the node then has one more listener, at the port `behind_proxy`,
    whose clients are told to come back by way of the proxy. `classes` replaces Java's option of `class_archive`.
    """

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        node: int = 1,
        quorum: Quorum | None = None,
        advertised: str = "",
        heap_mb: int = HEAP_MB,
        port: int = 0,
        classes: str = "",
        version: str = KAFKA_VERSION,
    ) -> None:
        program = java()
        if not classes and (archive := class_archive(program, version)) is not None:
            classes = f"-XX:SharedArchiveFile={archive}"
        flags = [f"-Xmx{heap_mb}m", *JAVA_FLAGS, *filter(None, [classes])]
        self._java = [program, *flags, "-cp", str(kafka_jars(version) / "*")]
        self._directory = Path(tempfile.mkdtemp(prefix="streamsvm-kafka-"))
        self._settings = self._directory / "server.properties"
        self._log = self._directory / "broker.log"
        free_port, self.behind_proxy, controller_port = free_ports(3)
        self._port = port or free_port
        self.node = node
        self._quorum = quorum or Quorum({node: controller_port})
        self._write_settings(advertised, settings or {})
        super().__init__()

    @property
    def bootstrap_servers(self) -> str:
        """Where clients find it."""
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it, on the first time with an empty log, and wait until it answers."""
        self.launch()
        self.wait_until_up()

    def launch(self) -> None:
        """Start it without waiting: a node of a cluster answers only when its fellows are there."""
        if not (self._directory / "logs").exists():
            self._format()
        self._begin([*self._java, "kafka.Kafka", str(self._settings)], self._directory, self._log)

    def restart(self) -> None:
        """Kill it if it runs, and start it again on the same port and data."""
        self.kill()
        self.start()

    def revive(self) -> None:
        """See that it runs, whatever was done to it."""
        if self._process is None or self._process.poll() is not None:
            self.restart()
        self.resume()

    def discard(self) -> None:
        """Kill it and delete its data: a node lost for good."""
        super().discard()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _write_settings(self, advertised: str, extra: Mapping[str, str]) -> None:
        listeners = {"PLAINTEXT": f"127.0.0.1:{self._port}"}
        told = dict(listeners)
        if advertised:
            listeners["PROXIED"], told["PROXIED"] = f"127.0.0.1:{self.behind_proxy}", advertised
        listeners["CONTROLLER"] = f"127.0.0.1:{self._quorum.ports[self.node]}"
        settings = {
            "process.roles": "broker,controller",
            "node.id": str(self.node),
            "listeners": ",".join(f"{name}://{address}" for name, address in listeners.items()),
            "advertised.listeners": ",".join(f"{name}://{address}" for name, address in told.items()),
            "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in listeners),
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": self._quorum.voters,
            "log.dirs": str(self._directory / "logs"),
            **SETTINGS,
            **extra,
        }
        self._settings.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

    def _format_command(self) -> list[str]:
        return ["format", f"--cluster-id={self._quorum.cluster_id}", "-c", str(self._settings)]

    def _format(self) -> None:
        command = [*self._java, "kafka.tools.StorageTool", *self._format_command()]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise CannotRun(f"the broker's log could not be formatted: {_tail(done.stdout + done.stderr)}")

    def wait_until_up(self) -> None:
        """Wait until it answers."""
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


def die_with_parent() -> None:
    """Ask the kernel to end this child with the thread that started it, even if that is killed; only Linux does."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on now."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _tail(text: str) -> str:
    return " | ".join(text.strip().splitlines()[-5:])
