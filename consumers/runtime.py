"""What every daemon shares: logs, signals, health and pages over HTTP, exit codes."""

from __future__ import annotations

import gc
import io
import json
import logging
import signal
import socket
import socketserver
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from types import FrameType
from typing import Any, Final, Self
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import structlog
from prometheus_client import CollectorRegistry, make_wsgi_app

from streamsvm.config import HttpConfig, LogConfig, Settings
from streamsvm.errors import ConfigurationError, StateError, StreamsvmError, TransientError
from streamsvm.kafka import Connection, SchemaRegistry

STALE_AFTER_S: Final = 10.0
"""What was true this long ago is no answer to /readyz: the main loop may hang on a broker that is gone."""

REQUEST_TIMEOUT_S: Final = 10.0
"""Seconds after which a request is cut off, complete or not."""

MOST_REQUESTS: Final = 16
"""Requests that are answered at once; more are turned away, and come again by the scraper's own clock."""

MOST_HEAD_BYTES: Final = 16_384
"""Longest request line and headers, in bytes."""

COLLECT_AFTER_OBJECTS: Final = 50_000
"""How many more objects there must be before the cyclic collector looks at the young ones."""

EXIT_CLEAN: Final = 0
EXIT_UNFORESEEN: Final = 1
"""An error that is none of ours: a defect. A supervisor starts the daemon again, and an alert tells if that repeats."""
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


def writes_json(config: LogConfig) -> bool:
    """Tell whether log lines are for machines: JSON unless standard error is a terminal."""
    return config.format == "json" or (config.format == "auto" and not sys.stderr.isatty())


def configure_logging(config: LogConfig) -> None:
    """Send every log line of ours, and of the libraries, to standard error: JSON unless that is a terminal."""
    level = logging.getLevelNamesMapping()[config.level.upper()]
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if writes_json(config)
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
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


def spare_the_collector() -> None:
    """Let thousands of records come and go without the cyclic collector looking through the whole heap for them.

    They form no cycles, and are freed as soon as they are decoded; the default threshold is 700 objects.
    """
    gc.set_threshold(COLLECT_AFTER_OBJECTS)


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
    started : bool
        Whether the main loop ever turned.
    """

    stuck_after_s: float
    clock: Callable[[], float] = time.monotonic
    started: bool = field(default=False, init=False)
    _beat_at: float = field(init=False)
    _fatal: str = ""
    _stuck: dict[str, str] = field(default_factory=dict)
    _conditions: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._beat_at = self.clock()

    def beat(self) -> None:
        """Say that the main loop turned."""
        self.started = True
        self._beat_at = self.clock()

    def fail(self, why: str) -> None:
        """Say that the process cannot go on."""
        self._fatal = why

    @contextmanager
    def failing(self, unless: tuple[type[BaseException], ...] = ()) -> Iterator[None]:
        """Turn red with whatever ends the process from within; /healthz says it while the rest is wound up.

        Parameters
        ----------
        unless : tuple of types
            Errors after which the process goes on.
        """
        try:
            yield
        except unless:
            raise
        except BaseException as error:
            self.fail(str(error) or type(error).__name__)
            raise

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
    """Answers a few requests at once, each in a thread; what does not fit is turned away unanswered."""

    daemon_threads = True

    def __init__(self, *arguments: Any) -> None:
        self.tls: ssl.SSLContext | None = None
        self._free = threading.BoundedSemaphore(MOST_REQUESTS)
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer one request; it is cut off after `REQUEST_TIMEOUT_S`, however slowly it comes."""
        cut_off = threading.Timer(REQUEST_TIMEOUT_S, _cut_off, (request,))
        cut_off.daemon = True
        cut_off.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            cut_off.cancel()
            self._free.release()

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Shake hands in the request's own thread: a client that does not would hold up everyone else."""
        if self.tls is None:
            super().finish_request(request, client_address)
            return
        with self.tls.wrap_socket(request.dup(), server_side=True) as wrapped:
            super().finish_request(wrapped, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        """Say nothing louder than debug: anyone who can connect can make requests fail."""
        logging.getLogger("streamsvm.http").debug("request failed", exc_info=True)


def _cut_off(request: socket.socket) -> None:
    with suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


class _Handler(WSGIRequestHandler):
    """Reads a bounded head of a GET request, and nothing after it."""

    timeout = REQUEST_TIMEOUT_S

    def handle(self) -> None:
        """Answer, unless the head is too large or asks for more than an answer."""
        head = _head(self.rfile)
        self.rfile = io.BytesIO(head)
        if len(head) <= MOST_HEAD_BYTES:
            super().handle()
            return
        self.requestline, self.request_version, self.command = "", "HTTP/1.0", ""
        self.send_error(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def parse_request(self) -> bool:
        """Refuse what is no plain GET."""
        if not super().parse_request():
            return False
        if self.command != "GET":
            self.send_error(HTTPStatus.METHOD_NOT_ALLOWED)
            return False
        if self.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers:
            self.send_error(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return False
        return True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Write no line per request."""


def _head(stream: io.BufferedIOBase) -> bytes:
    """Read a request up to its empty line, and at most one byte more than is allowed."""
    head = b""
    while len(head) <= MOST_HEAD_BYTES:
        line = stream.readline(MOST_HEAD_BYTES + 1 - len(head))
        head += line
        if line in (b"\r\n", b"\n", b""):
            break
    return head


@dataclass(frozen=True, slots=True)
class Answer:
    """What a request for a page gets; a header `ETag` among `headers` lets who has it already be told so."""

    content_type: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


Site = Callable[[str], Answer | None]
"""Answers a request for a path; None if there is nothing of this path."""


class HttpServer:
    """/metrics, /healthz, /readyz and a site in a thread; over HTTPS if a certificate is configured.

    A request is at most `MOST_HEAD_BYTES` long, has no body, and is over after `REQUEST_TIMEOUT_S`; at most
    `MOST_REQUESTS` are answered at once.

    Parameters
    ----------
    config : HttpConfig
    health : Health
    registry : CollectorRegistry
    site : callable, optional
        Answers for every other path; called in the thread of a request.

    Raises
    ------
    ConfigurationError
        If the address cannot be bound, or the certificate or its key cannot be used.
    """

    def __init__(
        self, config: HttpConfig, health: Health, registry: CollectorRegistry, site: Site | None = None
    ) -> None:
        tls = _tls_context(config)
        routes = _routes(health, registry, site or (lambda _: None))
        try:
            self._server = make_server(config.host, config.port, routes, _Server, _Handler)
        except OSError as error:
            raise ConfigurationError(
                f"cannot listen on {config.host}:{config.port} for metrics and health: {error.strerror}",
                "Name a free port with --http-port (0: any).",
            ) from None
        self._server.tls = tls
        self.port = self._server.server_port
        self.url = f"{'http' if tls is None else 'https'}://{config.host}:{self.port}"
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


def _routes(health: Health, registry: CollectorRegistry, site: Site) -> Callable[..., Iterable[bytes]]:
    metrics = make_wsgi_app(registry)
    checks = {"/healthz": health.healthy, "/readyz": health.ready}

    def route(environment: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        path = environment.get("PATH_INFO", "")
        if path == "/metrics":
            return metrics(environment, start)  # type: ignore[no-any-return]
        if path in checks:
            fine, answer = checks[path]()
            start("200 OK" if fine else "503 Service Unavailable", [("Content-Type", "application/json")])
            return [json.dumps(answer).encode() + b"\n"]
        page = site(path)
        if page is None:
            start("404 Not Found", [("Content-Type", "text/plain; charset=utf-8")])
            return [b"Here are /metrics, /healthz and /readyz.\n"]
        known = environment.get("HTTP_IF_NONE_MATCH", "")
        if known and known == dict(page.headers).get("ETag"):
            start("304 Not Modified", list(page.headers))
            return []
        start("200 OK", [("Content-Type", page.content_type), *page.headers])
        return [page.body]

    return route


def _tls_context(config: HttpConfig) -> ssl.SSLContext | None:
    if config.tls_certificate is None or config.tls_key is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(config.tls_certificate, config.tls_key, password=_no_password)
    except (OSError, ValueError) as error:  # of which ssl.SSLError is one
        raise ConfigurationError(
            f"cannot answer over HTTPS with {config.tls_certificate} and {config.tls_key}: {error}",
            "Give PEM files of a certificate and of its own key, without a password, that this user may read.",
        ) from None
    return context


def _no_password() -> str:
    """Answer instead of the terminal, which a daemon must not wait for."""
    raise ValueError("the key is protected by a password")


def connect(settings: Settings, role: str) -> Connection:
    """Return how this process reaches the broker, having warned of what is risky about it."""
    connection = Connection(
        settings.kafka,
        client_id=f"streamsvm-{settings.name}-{role}",
        allow_insecure_tls=settings.security.allow_insecure_tls,
    )
    for risk in connection.risks():
        structlog.get_logger("streamsvm").warning("insecure_connection", what=risk)
    return connection


@contextmanager
def schemas_of(settings: Settings) -> Iterator[SchemaRegistry | None]:
    """Hold the configured schema registry; None if there is none.

    Raises
    ------
    ConfigurationError
        If the points are Avro and no registry is configured, or it cannot be used.
    """
    if settings.registry.url:
        registry = SchemaRegistry(settings.registry)
        try:
            yield registry
        finally:
            registry.close()
        return
    if settings.points is not None and settings.points.format == "avro":
        raise ConfigurationError(
            "points.format is avro, and no schema registry is configured", "Give registry.url, its base address."
        )
    yield None
