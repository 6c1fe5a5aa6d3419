"""The server: one loop that reads every request without waiting for any, and two threads that make longer answers.

A liveness probe must be answered while the daemon works, whatever else is asked: by a client that sends a byte a
second, by a thousand that send nothing, by one that asks for pages all day. So the loop reads whatever has come,
answers the probes itself, and leaves metrics and pages to a thread each, whose queues are bounded.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import selectors
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from http import HTTPStatus
from typing import Final, Self

from prometheus_client import CollectorRegistry

from consumers.host.web.access import Names
from consumers.host.web.answers import Checks, Site, metrics_of, page, probe, refuse
from consumers.host.web.connections import Connections, HttpConnection, Phase, address_of
from consumers.host.web.head import MOST_HEAD_BYTES, HttpRequest, end_of_head, parse
from consumers.settings import HttpConfig
from streamsvm.errors import ConfigurationError

HEAD_TIMEOUT_S: Final = 5.0
"""Seconds in which a request has to come: one across the world takes about one."""

REQUEST_TIMEOUT_S: Final = 10.0
"""Seconds after which a connection is cut off, answered or not."""

MOST_WAITING: Final = 32
"""Requests that wait for one of the threads; more are told to come again."""

MOST_WAITING_OF_ONE: Final = 8
"""Of these from one address; a browser opens six connections."""

_ACCEPTED_AT_ONCE: Final = 64
_BACKLOG: Final = 1_024
"""Connections that the system holds until the loop accepts them. Of more it drops the new ones, a probe's too, whose
system tries again after a second, then after two: with 128 of them two of 1,200 probes failed under attack."""
_READ_BYTES: Final = 8_192
_TURN_S: Final = 0.25
_NO_DESCRIPTOR_PAUSE_S: Final = 0.05

logger = logging.getLogger("streamsvm.http")


class HttpServer:
    """/metrics, /healthz, /readyz and a site in a thread.

    A request is at most `MOST_HEAD_BYTES` long, has no body, comes within `HEAD_TIMEOUT_S`, and is over after
    `REQUEST_TIMEOUT_S`. When more than `MOST_CONNECTIONS` are open, the oldest unfinished one goes.

    Parameters
    ----------
    config : HttpConfig
    checks : Checks
        What the probes ask, in the loop's thread; returns at once.
    registry : CollectorRegistry
    site : callable, optional
        Answers for every other path; called in a thread of its own.

    Raises
    ------
    ConfigurationError
        If the address cannot be bound.
    """

    def __init__(
        self, config: HttpConfig, checks: Checks, registry: CollectorRegistry, site: Site | None = None
    ) -> None:
        listener = _listen(config)
        self.port: int = listener.getsockname()[1]
        host = f"[{config.host}]" if ":" in config.host else config.host
        self.url = f"http://{host}:{self.port}"
        self._loop = _Loop(listener, Names(config), _Routes(checks, registry, site or (lambda _: None)))
        self._thread = threading.Thread(target=self._loop.run, name="http", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening, and hang up."""
        self._loop.stop()
        self._thread.join()


def _listen(config: HttpConfig) -> socket.socket:
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    try:
        return socket.create_server(
            (config.host, config.port),
            family=family,
            backlog=_BACKLOG,
            dualstack_ipv6=config.host == "::" and socket.has_dualstack_ipv6(),
        )
    except OSError as error:
        raise ConfigurationError(
            f"cannot listen on {config.host}:{config.port} for metrics and health: {error.strerror}",
            "Choose a free port with --http-port (0: any free port).",
        ) from None


class _Routes:
    """Which request is answered by what."""

    def __init__(self, checks: Checks, registry: CollectorRegistry, site: Site) -> None:
        self._checks = {"/healthz": checks.healthy, "/readyz": checks.ready}
        self._metrics = metrics_of(registry)
        self._site = site
        self._metrics_maker, self._page_maker = _Maker("http-metrics"), _Maker("http-page")

    def at_once(self, request: HttpRequest) -> bytes | None:
        """Return the answer to a probe; None if the request is for something else."""
        check = self._checks.get(request.path)
        return None if check is None else probe(check)

    def later(self, request: HttpRequest, address: str, then: Callable[[bytes], None]) -> bool:
        """Have the answer made, and given to `then` in the thread that made it; False if too many wait."""
        maker = self._metrics_maker if request.path == "/metrics" else self._page_maker
        return maker.make(address, lambda: self.answer(request), then)

    def answer(self, request: HttpRequest) -> bytes:
        """Make the answer to a request that is not a probe."""
        return self._metrics(request) if request.path == "/metrics" else page(request, self._site)

    def stop(self) -> None:
        """Make no more answers."""
        self._metrics_maker.stop()
        self._page_maker.stop()


class _Maker:
    """A thread that makes answers, one after another, from a bounded queue with a bounded share for each address."""

    def __init__(self, name: str) -> None:
        self._waiting: queue.SimpleQueue[tuple[str, Callable[[], bytes], Callable[[bytes], None]] | None]
        self._waiting = queue.SimpleQueue()
        self._of: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._said = False
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def make(self, address: str, answer: Callable[[], bytes], then: Callable[[bytes], None]) -> bool:
        """Take an order; False if too many wait, in all or of this address."""
        with self._lock:
            if self._of.total() >= MOST_WAITING or self._of[address] >= MOST_WAITING_OF_ONE:
                return False
            self._of[address] += 1
        self._waiting.put((address, answer, then))
        return True

    def stop(self) -> None:
        """End the thread after what waits now."""
        self._waiting.put(None)

    def _run(self) -> None:
        while (order := self._waiting.get()) is not None:
            address, answer, then = order
            then(self._answer(answer))
            with self._lock:
                self._of[address] -= 1
                if not self._of[address]:
                    del self._of[address]

    def _answer(self, answer: Callable[[], bytes]) -> bytes:
        try:
            return answer()
        except Exception:
            level = logging.DEBUG if self._said else logging.WARNING  # anyone who can connect can make it happen again
            logger.log(level, "failed to create an answer", exc_info=True)
            self._said = True
            return refuse(HTTPStatus.INTERNAL_SERVER_ERROR)


class _Loop:
    """Accepts, reads, answers and hangs up; everything but `stop` and `_made` runs in its thread."""

    def __init__(self, listener: socket.socket, names: Names, routes: _Routes) -> None:
        self._listener, self._names, self._routes = listener, names, routes
        self._connections = Connections()
        self._answers: deque[tuple[HttpConnection, bytes]] = deque()
        self._selector = selectors.DefaultSelector()
        self._woken, self._waker = socket.socketpair()
        self._stopping = False
        for one in (self._listener, self._woken, self._waker):
            one.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)

    def stop(self) -> None:
        """End the loop; returns at once."""
        self._stopping = True
        self._wake()

    def run(self) -> None:
        """Serve until `stop`; no client's doing ends it."""
        next_sweep_at = 0.0
        while not self._stopping:
            ready = [key for key, _ in self._selector.select(_TURN_S)]
            self._send_answers()
            # Connections that are open are served before new ones are accepted, which might push them out.
            for key in ready:
                if isinstance(key.data, HttpConnection) and key.data in self._connections:
                    self._advance(key.data)
            if any(key.fileobj is self._listener for key in ready):
                self._accept()
            now = time.monotonic()
            if now >= next_sweep_at:
                self._cut_off(now)
                next_sweep_at = now + _TURN_S
        self._close()

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                client, peer = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionError:
                continue
            except OSError:  # no descriptor is left: waiting is all that can be done
                time.sleep(_NO_DESCRIPTOR_PAUSE_S)
                return
            self._admit(client, address_of(peer))

    def _admit(self, client: socket.socket, address: str) -> None:
        connection = HttpConnection(socket=client, address=address, begun_at=time.monotonic())
        try:
            client.setblocking(False)
            self._selector.register(connection.socket, selectors.EVENT_READ, connection)
        except (OSError, ValueError):
            client.close()
            return
        going = self._connections.add(connection)
        if going is not None:
            self._hang_up(going)
        self._advance(connection)

    def _advance(self, connection: HttpConnection) -> None:
        """Do what can be done without waiting."""
        try:
            if connection.phase is Phase.READING:
                self._read(connection)
            if connection.phase is Phase.WRITING:
                self._write(connection)
        except (BlockingIOError, InterruptedError):
            writes = connection.phase is Phase.WRITING
            self._watch(connection, selectors.EVENT_WRITE if writes else selectors.EVENT_READ)
        except Exception:
            logger.debug("request failed", exc_info=True)  # anyone who can connect can make it fail
            self._hang_up(connection)

    def _watch(self, connection: HttpConnection, events: int) -> None:
        try:
            self._selector.modify(connection.socket, events, connection)
        except KeyError:
            self._selector.register(connection.socket, events, connection)

    def _read(self, connection: HttpConnection) -> None:
        while connection.phase is Phase.READING:
            chunk = connection.socket.recv(_READ_BYTES)
            if not chunk:
                raise ConnectionAbortedError("the client closed the connection before its request had arrived")
            seen = len(connection.received)
            connection.received += chunk
            end = end_of_head(connection.received, seen)
            if (end or len(connection.received)) > MOST_HEAD_BYTES:
                self._reply(connection, refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE))
            elif end is not None:
                self._answer(connection, bytes(connection.received[:end]))

    def _answer(self, connection: HttpConnection, head: bytes) -> None:
        request = parse(head)
        if isinstance(request, HTTPStatus):
            self._reply(connection, refuse(request))
            return
        if not self._names.answers_to(request.headers.get("host", "")):
            self._reply(connection, refuse(HTTPStatus.MISDIRECTED_REQUEST))
            return
        answer = self._routes.at_once(request)
        if answer is not None:
            self._reply(connection, answer)
            return
        connection.phase = Phase.WAITING
        self._connections.finish(connection)
        self._selector.unregister(connection.socket)  # nothing that the client does meanwhile matters
        if not self._routes.later(request, connection.address, lambda made: self._made(connection, made)):
            self._reply(connection, refuse(HTTPStatus.SERVICE_UNAVAILABLE))

    def _reply(self, connection: HttpConnection, answer: bytes) -> None:
        self._connections.finish(connection)
        unsent = memoryview(answer)
        if connection.received.startswith(b"HEAD "):
            unsent = unsent[: end_of_head(answer)]
        connection.phase, connection.unsent = Phase.WRITING, unsent

    def _made(self, connection: HttpConnection, answer: bytes) -> None:
        """Take an answer from the thread that made it."""
        self._answers.append((connection, answer))
        self._wake()

    def _wake(self) -> None:
        with contextlib.suppress(OSError):  # full: it wakes anyway; closed: it has ended
            self._waker.send(b"w")

    def _send_answers(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._woken.recv(_READ_BYTES)
        while self._answers:
            connection, answer = self._answers.popleft()
            if connection in self._connections:
                self._reply(connection, answer)
                self._advance(connection)

    def _write(self, connection: HttpConnection) -> None:
        while connection.unsent:
            connection.unsent = connection.unsent[connection.socket.send(connection.unsent) :]
        self._hang_up(connection)

    def _cut_off(self, now: float) -> None:
        for connection in self._connections.all():
            limit_s = HEAD_TIMEOUT_S if connection.unfinished else REQUEST_TIMEOUT_S
            if now - connection.begun_at > limit_s:
                self._hang_up(connection)

    def _hang_up(self, connection: HttpConnection) -> None:
        """Close a connection; what the client still sends is read first, else it might lose its answer."""
        self._connections.remove(connection)
        with contextlib.suppress(OSError, ValueError, KeyError):
            self._selector.unregister(connection.socket)
        with contextlib.suppress(OSError, ValueError):
            if connection.phase is Phase.WRITING:
                connection.socket.recv(MOST_HEAD_BYTES)
        with contextlib.suppress(OSError):
            connection.socket.close()

    def _close(self) -> None:
        for connection in self._connections.all():
            self._hang_up(connection)
        self._routes.stop()
        self._selector.close()
        for one in (self._listener, self._woken, self._waker):
            one.close()
