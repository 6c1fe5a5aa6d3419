"""A schema registry that means harm, or somebody who answers in its place: every answer is a test's to choose."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.brokers.secured import Certificate

Answer = Callable[[BaseHTTPRequestHandler], None]
JSON = "application/vnd.schemaregistry.v1+json"
DRIP_S = 0.05
DRIPS_S = 60.0


@dataclass
class HostileRegistry:
    """Answers whoever asks for a schema by `answer`, which may be replaced at any time.

    `asked` are the paths in their order, `credentials` each request's header `Authorization`, empty if there is none.
    """

    url: str
    answer: Answer
    asked: list[str] = field(default_factory=list)
    credentials: list[str] = field(default_factory=list)


def text(schema: str) -> Answer:
    """Return the answer of an honest registry that knows this schema."""
    return plain(json.dumps({"schema": schema}).encode())


def plain(body: bytes, status: int = 200, **headers: str) -> Answer:
    """Return an answer of any bytes, status and headers, underscores for dashes."""

    def give(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        request.send_header("Content-Length", str(len(body)))
        for name, value in ({"Content-Type": JSON} | headers).items():
            request.send_header(name.replace("_", "-"), value)
        request.end_headers()
        request.wfile.write(body)

    return give


class Large:
    """Answers with a schema of many megabytes, and counts those that were taken."""

    def __init__(self, megabytes: int) -> None:
        self._megabytes = megabytes
        self.taken = 0

    def __call__(self, request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        request.wfile.write(b'{"schema": "')
        for _ in range(self._megabytes):
            request.wfile.write(b" " * 1_000_000)
            self.taken += 1
        request.wfile.write(b'"}')


class Dripping:
    """Answers with a byte now and then, each well within the time that a client waits for one.

    `through` stays false where the client closes the connection before the end.
    """

    def __init__(self, beginning: bytes) -> None:
        self._beginning = beginning
        self.ended = threading.Event()
        self.through = False

    def __call__(self, request: BaseHTTPRequestHandler) -> None:
        try:
            request.wfile.write(self._beginning)
            for _ in range(int(DRIPS_S / DRIP_S)):
                request.wfile.write(b"x")
                time.sleep(DRIP_S)
            self.through = True
        finally:
            self.ended.set()


@contextmanager
def hostile_registry(
    answer: Answer, host: str = "127.0.0.1", certificate: Certificate | None = None
) -> Iterator[HostileRegistry]:
    """Run one on a port of an address of this machine; over TLS if it has a certificate."""

    class Handler(BaseHTTPRequestHandler):
        wbufsize = 0

        def do_GET(self) -> None:
            running.asked.append(self.path)
            running.credentials.append(self.headers.get("Authorization", ""))
            with suppress(OSError):  # the client has had enough
                running.answer(self)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer((host, 0), Handler)
    server.daemon_threads = True
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate.chain, certificate.key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    running = HostileRegistry(f"http{'s' if certificate else ''}://{host}:{server.server_port}", answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield running
    finally:
        server.shutdown()
        server.socket.close()
        thread.join()
