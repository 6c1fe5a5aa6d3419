"""What a request gets, as bytes: one answer a connection, with the same guard of headers on every one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, Final, Protocol

from prometheus_client import CollectorRegistry, make_wsgi_app

from consumers.host.web.head import HttpRequest

GUARD: Final = (
    ("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cache-Control", "no-store"),
)
"""Headers of every answer that does not give one of the same name itself."""

PLAIN: Final = "text/plain; charset=utf-8"

_EXPLANATIONS: Final = {
    HTTPStatus.NOT_FOUND: "Not found. Available: /metrics, /healthz and /readyz.",
    HTTPStatus.MISDIRECTED_REQUEST: "This daemon does not answer to this host name. Use its IP address, or add the "
    "name to http.allowed_hosts.",
    HTTPStatus.SERVICE_UNAVAILABLE: "Too many requests are waiting for an answer. Try again.",
}
_MORE: Final[dict[HTTPStatus, tuple[tuple[str, str], ...]]] = {
    HTTPStatus.METHOD_NOT_ALLOWED: (("Allow", "GET, HEAD"),),
    HTTPStatus.SERVICE_UNAVAILABLE: (("Retry-After", "1"),),
}


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """The answer to a request for a page. A header `ETag` lets a client that has the page already get 304 instead."""

    content_type: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


Site = Callable[[str], HttpAnswer | None]
"""Answers a request for a path; None if there is nothing of this path."""


class Checks(Protocol):
    """What /healthz and /readyz ask."""

    def healthy(self) -> tuple[bool, dict[str, Any]]:
        """Return whether the process works, and why not."""

    def ready(self) -> tuple[bool, dict[str, Any]]:
        """Return whether the process does its work now, and what it waits for."""


def encode(status: HTTPStatus, content_type: str, body: bytes, headers: tuple[tuple[str, str], ...] = ()) -> bytes:
    """Return an answer's bytes."""
    given = {name.lower() for name, _ in headers}
    lines = [f"HTTP/1.1 {status.value} {status.phrase}", f"Date: {formatdate(usegmt=True)}", "Connection: close"]
    if status is not HTTPStatus.NOT_MODIFIED:
        lines += [f"Content-Type: {content_type}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers]
    lines += [f"{name}: {value}" for name, value in GUARD if name.lower() not in given]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def refuse(status: HTTPStatus) -> bytes:
    """Return the answer to a request that gets nothing else."""
    text = _EXPLANATIONS.get(status, status.phrase)
    return encode(status, PLAIN, text.encode() + b"\n", _MORE.get(status, ()))


def probe(check: Callable[[], tuple[bool, dict[str, Any]]]) -> bytes:
    """Return what a check says."""
    fine, said = check()
    status = HTTPStatus.OK if fine else HTTPStatus.SERVICE_UNAVAILABLE
    return encode(status, "application/json", json.dumps(said).encode() + b"\n")


def page(request: HttpRequest, site: Site) -> bytes:
    """Return a page, or that the client has it already, or that there is none."""
    answer = site(request.path)
    if answer is None:
        return refuse(HTTPStatus.NOT_FOUND)
    known = request.headers.get("if-none-match", "")
    if known and known == dict(answer.headers).get("ETag"):
        return encode(HTTPStatus.NOT_MODIFIED, answer.content_type, b"", answer.headers)
    return encode(HTTPStatus.OK, answer.content_type, answer.body, answer.headers)


def metrics_of(registry: CollectorRegistry) -> Callable[[HttpRequest], bytes]:
    """Return what answers for the metrics: in the format, compressed or not, that the client prefers."""
    application = make_wsgi_app(registry)

    def answer(request: HttpRequest) -> bytes:
        begun: list[tuple[str, list[tuple[str, str]]]] = []
        environment = {
            "REQUEST_METHOD": "GET",
            "PATH_INFO": request.path,
            "QUERY_STRING": request.query,
            "HTTP_ACCEPT": request.headers.get("accept", ""),
            "HTTP_ACCEPT_ENCODING": request.headers.get("accept-encoding", ""),
        }
        body = b"".join(application(environment, lambda status, headers: begun.append((status, headers))))
        status, headers = begun[0]
        kind = dict(headers)["Content-Type"]
        rest = tuple((name, value) for name, value in headers if name not in ("Content-Type", "Content-Length"))
        return encode(HTTPStatus(int(status.split()[0])), kind, body, rest)

    return answer
