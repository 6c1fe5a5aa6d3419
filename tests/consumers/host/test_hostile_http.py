"""Hostile HTTP clients, several hundred at once: every probe beside them is answered, and nothing grows."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from consumers.host.runtime import Health
from consumers.host.web.connections import MOST_CONNECTIONS
from consumers.host.web.head import MOST_HEAD_BYTES
from consumers.host.web.server import HttpServer
from consumers.metrics import TRAINER, Metrics
from consumers.settings import HttpConfig
from tests.consumers.host.test_web import REQUESTS
from tests.defects import planted

CLIENTS: Final = 2_000
AT_ONCE: Final = 600
"""Hostile connections that are open at once: more than twice what the server allows."""
HOLD_S: Final = 0.6
"""Longest time that a client keeps its connection; the server hangs up on most before."""
PROBE_EVERY_S: Final = 0.1
PROBE_TIMEOUT_S: Final = 5.0
OWN_DESCRIPTORS: Final = 60
MOST_THREADS: Final = 60
ANSWERED: Final = (200, 404, 503)
ENDLESS: Final = tuple(b"x" * 4_096 for _ in range(1 + 2 * MOST_HEAD_BYTES // 4_096))


@dataclass(frozen=True)
class Client:
    """What a hostile client sends, piece by piece, and which statuses it may get; it may always be hung up on."""

    pieces: tuple[bytes, ...] = ()
    statuses: tuple[int, ...] = ()
    pause_s: float = 0.0
    reads: bool = True
    resets: bool = False
    half_closes: bool = False


METRICS: Final = b"GET /metrics HTTP/1.1\r\n\r\n"


def get(headers: bytes = b"") -> bytes:
    """Return the head of a request."""
    return b"GET /healthz HTTP/1.1\r\n%b\r\n" % headers


def cut_short(chance: random.Random) -> Client:
    whole = get(b"Host: 127.0.0.1\r\n")
    return Client((whole[: chance.randrange(len(whole) - 1)],), resets=chance.random() < 0.5, half_closes=True)


def garbage(chance: random.Random) -> Client:
    return Client((chance.randbytes(chance.randrange(1, 3_000)), b"\r\n\r\n"), (400, 431, 505))


def refused(chance: random.Random) -> Client:
    request, status = chance.choice(REQUESTS)
    return Client((request,), (status,))


KINDS: Final[dict[str, Callable[[random.Random], Client]]] = {
    "silent": lambda chance: Client(),
    "slow": lambda chance: Client((b"GET / HTTP/1.1\r\n", *[b"X: y\r\n"] * 20), pause_s=chance.uniform(0, 0.05)),
    "cut short": cut_short,
    "garbage": garbage,
    "endless": lambda chance: Client((chance.choice((b"", b"GET /", b"GET / HTTP/1.1\r\nX: ")), *ENDLESS), (431,)),
    "a body": lambda chance: Client((get(b"Content-Length: 9\r\n"), b"x" * 100_000), (413,)),
    "another name": lambda chance: Client((get(b"Host: 127.0.0.1.evil.example.com\r\n"),), (421,)),
    "pipelined": lambda chance: Client((get() * chance.randrange(2, 500),), (*ANSWERED, 431)),
    "reads nothing": lambda chance: Client((METRICS,), ANSWERED, reads=False),
    "half closed": lambda chance: Client((METRICS,), ANSWERED, half_closes=True),
    "leaves": lambda chance: Client((METRICS,), ANSWERED, resets=True),
    "half a handshake": lambda chance: Client((b"\x16\x03\x01\x02\x00\x01" + chance.randbytes(32),), (400,)),
    "refused": refused,
}


async def converse(client: Client, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int | None:
    """Send what this client sends; return the status of the answer, `None` where the server hung up."""
    with suppress(OSError):  # the server may hang up before the last piece
        for piece in client.pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(client.pause_s)
        if client.half_closes and writer.can_write_eof():
            writer.write_eof()
    if client.resets:
        plain = writer.get_extra_info("socket")
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
        return None
    if not client.reads:
        await asyncio.sleep(HOLD_S)
    line = b""
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(10.0 if client.statuses else HOLD_S):
            line = await reader.readline()
            while await reader.read(65_536):
                pass
    return int(line.split()[1]) if line.startswith(b"HTTP/") else None


async def attack(port: int) -> list[str]:
    """Let all clients connect; return each answer that a client should not have got."""
    escapes: list[str] = []
    room = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        name = [*KINDS][number % len(KINDS)]
        client = KINDS[name](random.Random(number))
        async with room:
            try:
                async with asyncio.timeout(10.0):
                    reader, writer = await asyncio.open_connection("127.0.0.1", port)
            except (OSError, TimeoutError):
                return
            status = await converse(client, reader, writer)
            writer.close()
        if status is not None and status not in client.statuses:
            escapes.append(f"client {number}, {name}, got {status}")

    await asyncio.gather(*map(one, range(CLIENTS)))
    return escapes


def descriptors() -> int:
    """Return how many descriptors this process has open."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


class Prober:
    """Asks for /healthz as an orchestrator does, in a thread, and counts descriptors and threads of the process."""

    def __init__(self, port: int) -> None:
        self.asked = self.descriptors = self.threads = 0
        self.failures: list[str] = []
        self._url, self._end = f"http://127.0.0.1:{port}/healthz", threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def close(self) -> None:
        """Stop asking."""
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(PROBE_EVERY_S):
            self.asked += 1
            try:
                urllib.request.urlopen(self._url, timeout=PROBE_TIMEOUT_S).close()
            except OSError as error:
                self.failures.append(repr(error))
            self.descriptors = max(self.descriptors, descriptors())
            self.threads = max(self.threads, threading.active_count())


@contextmanager
def attacked() -> Iterator[tuple[Prober, list[str]]]:
    """Serve, attack and probe; give the prober, which has ended, and what escaped."""
    with HttpServer(HttpConfig(port=0), Health(stuck_after_s=60.0), Metrics(TRAINER).registry, None) as server:
        prober = Prober(server.port)
        try:
            escapes = asyncio.run(attack(server.port))
        finally:
            prober.close()
        yield prober, escapes


def test_probes_are_answered_among_hostile_connections() -> None:
    """Silent, slow, cut off, malformed, endless, nameless clients: every probe is answered, and all is given back."""
    before, began = descriptors(), time.monotonic()
    with attacked() as (prober, escapes):
        assert escapes == []
        assert prober.failures == []
        assert prober.asked >= 10, f"the attack was over after {time.monotonic() - began:.1f} s"
        assert prober.descriptors - before <= AT_ONCE + MOST_CONNECTIONS + OWN_DESCRIPTORS
        assert prober.threads <= MOST_THREADS
    assert descriptors() <= before + 3, "connections are left open"


def test_a_server_that_turns_newcomers_away_is_found() -> None:
    """Planted: whoever came first keeps his place, as slow clients wish; probes fail."""
    with planted("turns-away-newcomers"), attacked() as (prober, _):
        assert prober.failures
