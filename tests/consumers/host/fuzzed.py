"""Requests for the fuzzers, read by the server's own loop."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Final

from prometheus_client import CollectorRegistry

from consumers.host import Health, HttpConnection, HttpRequest, Names, Phase
from consumers.host.web.server import _listen, _Loop, _Routes
from consumers.settings import HttpConfig
from tests.fuzz.targets import Target, kept, messages, words


class _AtOnce(_Routes):
    """Makes every answer in the thread that asks for it."""

    def later(self, request: HttpRequest, address: str, then: Callable[[bytes], None]) -> bool:
        """Make it."""
        then(self.answer(request))
        return True


@cache
def _http_loop() -> _Loop:
    config = HttpConfig(port=0)
    return _Loop(
        _listen(config), Names(config), _AtOnce(Health(stuck_after_s=60.0), CollectorRegistry(), lambda _: None)
    )


STATUSES: Final = frozenset(
    map(int, ["200", "304", "400", "403", "404", "405", "408", "413", "414", "421", "431", "501", "503", "505"])
)


def _http(value: bytes) -> str:
    """Read one request, after which the client says no more, as the loop does; the answer is one of a few."""
    loop = _http_loop()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.sendall(value)
        theirs.shutdown(socket.SHUT_WR)
        connection = HttpConnection(socket=ours, address="127.0.0.1", begun_at=0.0)
        loop._selector.register(ours, selectors.EVENT_READ, connection)
        try:
            loop._read(connection)
        except ConnectionAbortedError:
            return "none"
        finally:
            with suppress(KeyError):
                loop._selector.unregister(ours)
            loop._connections.remove(connection)
    answer = bytes(connection.unsent) if connection.phase is Phase.WRITING else loop._answers.popleft()[1]
    assert not loop._answers
    status = int(answer.split(b" ", 2)[1])
    assert answer.startswith(b"HTTP/1.")
    assert status in STATUSES, answer[:80]
    assert answer.count(b"\nHTTP/1.") == 0
    return str(status)


TARGET: Final = Target("http", kept("http"), words("http"), messages(_http))
