"""The head of a request: a GET or a HEAD of a bounded size without a body, or the status by which it is refused.

Nothing here does I/O. The grammar is that of RFC 9112, read strictly: folded lines, control characters and a second
`Host` are refused, so that no two programs can understand one request differently. A missing `Host` is accepted, for
probes written by hand; every browser sends one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

MOST_HEAD_BYTES: Final = 16_384
"""Longest request line and headers, in bytes."""

MOST_HEADERS: Final = 100
"""Most header lines of a request; a browser sends about fifteen."""

_END: Final = re.compile(rb"\r?\n\r?\n")
_LINE: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}) ([!-~]+) HTTP/([0-9])\.([0-9])")
_HEADER: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):([\t -~\x80-\xff]*)")
_ONCE: Final = frozenset({"host", "content-length"})


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A GET or a HEAD; the names of its headers are in lower case."""

    path: str
    query: str
    headers: Mapping[str, str]


def end_of_head(received: bytes | bytearray, seen: int = 0) -> int | None:
    """Return where a head ends, behind its empty line; None if that has not come yet.

    Parameters
    ----------
    received : bytes or bytearray
    seen : int
        How many of these bytes an earlier call has looked at.
    """
    found = _END.search(received, max(0, seen - 3))
    return found.end() if found else None


def parse(head: bytes) -> HttpRequest | HTTPStatus:
    """Return what a complete head asks for, or the status by which it is refused."""
    first, *lines = head.decode("latin-1").removesuffix("\n").removesuffix("\r").split("\n")
    line = _LINE.fullmatch(first.removesuffix("\r"))
    if line is None:
        return HTTPStatus.BAD_REQUEST
    method, target, major, _ = line.groups()
    if major != "1":
        return HTTPStatus.HTTP_VERSION_NOT_SUPPORTED
    headers = _headers([text.removesuffix("\r") for text in lines if text not in ("", "\r")])
    if isinstance(headers, HTTPStatus):
        return headers
    if method not in ("GET", "HEAD"):
        return HTTPStatus.METHOD_NOT_ALLOWED
    if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
        return HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    path, _, query = target.partition("?")
    return HttpRequest(path, query, headers)


def _headers(lines: list[str]) -> dict[str, str] | HTTPStatus:
    if len(lines) > MOST_HEADERS:
        return HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
    headers: dict[str, str] = {}
    for text in lines:
        header = _HEADER.fullmatch(text)
        if header is None:
            return HTTPStatus.BAD_REQUEST
        name, value = header[1].lower(), header[2].strip(" \t")
        if name in headers:
            if name in _ONCE:
                return HTTPStatus.BAD_REQUEST
            value = f"{headers[name]}, {value}"
        headers[name] = value
    return headers
