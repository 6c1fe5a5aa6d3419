"""What every daemon shares: logs, signals, health over HTTP, exit codes."""

from __future__ import annotations

import json
import logging
import signal
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Final, Self
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import structlog
from prometheus_client import CollectorRegistry, make_wsgi_app

from streamsvm.config import HttpConfig, LogConfig, Settings
from streamsvm.errors import ConfigurationError, StateError, StreamsvmError, TransientError
from streamsvm.kafka import Connection

STALE_AFTER_S: Final = 10.0
"""What was true this long ago is no answer to /readyz: the main loop may hang on a broker that is gone."""

EXIT_CLEAN: Final = 0
EXIT_USAGE: Final = 2
EXIT_FATAL: Final = 70
EXIT_RETRYABLE: Final = 75
EXIT_CONFIGURATION: Final = 78


def exit_code(error: StreamsvmError) -> int:
    """Return the exit status that an error ends a process with (sysexits.h)."""
    if isinstance(error, ConfigurationError | StateError):
        return EXIT_CONFIGURATION
    if isinstance(error, TransientError):
        return EXIT_RETRYABLE
    return EXIT_FATAL


def configure_logging(config: LogConfig) -> None:
    """Send every log line of ours, and of the libraries, to standard error: JSON unless that is a terminal."""
    level = logging.getLevelNamesMapping()[config.level.upper()]
    as_json = config.format == "json" or (config.format == "auto" and not sys.stderr.isatty())
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    handler = logging.StreamHandler()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder()],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.processors.StackInfoRenderer(),
            structlog.processors.format_exc_info,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )


def stop_on_signals() -> threading.Event:
    """Return an event that SIGTERM or SIGINT sets; a second signal ends the process at once."""
    stop = threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        stop.set()
        for either in (signal.SIGTERM, signal.SIGINT):
            signal.signal(either, signal.SIG_DFL)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    return stop


@dataclass
class Health:
    """What /healthz and /readyz answer; safe from any thread.

    Attributes
    ----------
    stuck_after_s : float
        Longest time between two beats of the main loop.
    clock : callable
        Monotonic seconds.
    """

    stuck_after_s: float
    clock: Callable[[], float] = time.monotonic
    _beat_at: float = field(init=False)
    _fatal: str = ""
    _stuck: dict[str, str] = field(default_factory=dict)
    _conditions: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._beat_at = self.clock()

    def beat(self) -> None:
        """Say that the main loop turned."""
        self._beat_at = self.clock()

    def fail(self, why: str) -> None:
        """Say that the process cannot go on."""
        self._fatal = why

    def suspect(self, part: str, why: str) -> None:
        """Say that a part of the process seems stuck, and why; empty if it works."""
        self._stuck[part] = why

    def require(self, condition: str, missing: str) -> None:
        """Set a condition of readiness: `missing` says why it does not hold, empty if it does."""
        self._conditions[condition] = missing

    def healthy(self) -> tuple[bool, dict[str, Any]]:
        """Tell whether the process works, and why not."""
        idle_s = self.clock() - self._beat_at
        if self._fatal:
            return False, {"healthy": False, "why": self._fatal}
        stuck = next((why for why in tuple(self._stuck.values()) if why), "")
        if stuck:
            return False, {"healthy": False, "why": stuck}
        if idle_s > self.stuck_after_s:
            return False, {"healthy": False, "why": f"the main loop has not turned for {idle_s:.0f} s"}
        return True, {"healthy": True}

    def ready(self) -> tuple[bool, dict[str, Any]]:
        """Tell whether the process does its work now, and what it waits for."""
        conditions = dict(self._conditions)  # the main loop may add one meanwhile
        missing = {condition: why for condition, why in conditions.items() if why}
        idle_s = self.clock() - self._beat_at
        if idle_s > STALE_AFTER_S:
            missing["loop"] = f"the main loop has not turned for {idle_s:.0f} s: it waits for the broker or the disk"
        healthy, answer = self.healthy()
        if not healthy:
            missing["health"] = answer["why"]
        ready = bool(self._conditions) and not missing
        return ready, {"ready": ready, "waiting_for": missing or {} if self._conditions else {"start": "starting"}}


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _QuietHandler(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Write no line per request."""


class HttpServer:
    """/metrics, /healthz and /readyz in a thread.

    Parameters
    ----------
    config : HttpConfig
    health : Health
    registry : CollectorRegistry

    Raises
    ------
    ConfigurationError
        If the address cannot be bound.
    """

    def __init__(self, config: HttpConfig, health: Health, registry: CollectorRegistry) -> None:
        metrics = make_wsgi_app(registry)

        def route(environment: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
            path = environment.get("PATH_INFO", "")
            if path == "/metrics":
                return metrics(environment, start)  # type: ignore[no-any-return]
            checks = {"/healthz": health.healthy, "/readyz": health.ready}
            if path not in checks:
                start("404 Not Found", [("Content-Type", "text/plain; charset=utf-8")])
                return [b"Here are /metrics, /healthz and /readyz.\n"]
            fine, answer = checks[path]()
            start("200 OK" if fine else "503 Service Unavailable", [("Content-Type", "application/json")])
            return [json.dumps(answer).encode() + b"\n"]

        try:
            self._server = make_server(config.host, config.port, route, _Server, _QuietHandler)
        except OSError as error:
            raise ConfigurationError(
                f"cannot listen on {config.host}:{config.port} for metrics and health: {error.strerror}",
                "Name a free port with --http-port (0: any).",
            ) from None
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, name="http", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()


def connect(settings: Settings, role: str) -> Connection:
    """Return how this process reaches the broker."""
    return Connection(settings.kafka, client_id=f"streamsvm-{settings.name}-{role}")
