"""Apache Kafka as a container, by testcontainers."""

from __future__ import annotations

import atexit
import contextlib
import gc
import warnings

import docker
import docker.errors
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import LogMessageWaitStrategy

from tests.brokers.jvm import CannotRun
from tests.brokers.settings import KAFKA_VERSION, SETTINGS

IMAGE = f"apache/kafka:{KAFKA_VERSION}"
STARTED = "Kafka Server started"
PORT = 9092
RUN = "/etc/kafka/docker/run"
SCRIPT = "/tmp/start.sh"
AWAIT = f"while [ ! -f {SCRIPT} ]; do sleep 0.05; done; exec sh {SCRIPT}"


class ContainerBroker:
    """One Kafka node in a container, reachable from here, wherever "here" is.

    The broker must tell clients an address that is only known once the container runs, so the
    container waits for a script that says it.

    Raises
    ------
    CannotRun
        If no engine answers, or the image can neither be found nor pulled.
    """

    def __init__(self) -> None:
        self.remark = _prepare_engine()
        self.bootstrap_servers = ""
        self._container = DockerContainer(IMAGE).with_exposed_ports(PORT).with_command(["sh", "-c", AWAIT])
        for name, value in SETTINGS.items():
            self._container.with_env(_variable(name), value)

    def start(self) -> None:
        """Start it and wait until it answers."""
        atexit.register(self.stop)
        self._container.start()
        host, port = self._container.get_container_host_ip(), self._container.get_exposed_port(PORT)
        self.bootstrap_servers = f"{host}:{port}"
        settings = _listeners(self.bootstrap_servers)
        exports = "".join(f"export {_variable(name)}='{value}'; " for name, value in settings.items())
        script = f'echo "{exports} exec {RUN}" > {SCRIPT}.new && mv {SCRIPT}.new {SCRIPT}'
        self._container.exec(["sh", "-c", script])
        LogMessageWaitStrategy(STARTED).with_startup_timeout(60).wait_until_ready(self._container)

    def stop(self) -> None:
        """Remove it; more than once does no harm."""
        atexit.unregister(self.stop)
        if self._container.get_wrapped_container() is not None:
            self._container.stop()
            self._container._container = None


def _variable(setting: str) -> str:
    return "KAFKA_" + setting.upper().replace(".", "_")


def _listeners(advertised: str) -> dict[str, str]:
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": f"PLAINTEXT://:{PORT},CONTROLLER://:9093",
        "advertised.listeners": f"PLAINTEXT://{advertised}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@localhost:9093",
        "inter.broker.listener.name": "PLAINTEXT",
    }


def _prepare_engine() -> str:
    """See that the engine answers and has the image; return what is special about it."""
    with contextlib.closing(_connect()) as engine:
        try:
            engine.ping()
            _require(engine, IMAGE)
        except (docker.errors.DockerException, OSError) as error:
            raise CannotRun(f"no Docker engine with {IMAGE}: {error}") from error
        if testcontainers_config.ryuk_disabled:
            return ""
        try:
            _require(engine, testcontainers_config.ryuk_image)
        except (docker.errors.DockerException, OSError):
            testcontainers_config.ryuk_disabled = True
            return ", without Ryuk, whose image cannot be had: a killed test run leaves its container behind"
    return ""


def _connect() -> docker.DockerClient:
    """Return a client of the engine.

    A client that fails in its making leaves its socket to the garbage collector, which would warn in the midst of
    whichever test runs then: so it is collected here, in silence.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            return docker.from_env()
        except docker.errors.DockerException as error:
            reason = str(error)
        gc.collect()
    raise CannotRun(f"no Docker engine answers: {reason}")


def _require(engine: docker.DockerClient, image: str) -> None:
    try:
        engine.images.get(image)
    except docker.errors.ImageNotFound:
        engine.images.pull(image)
