"""Clients that nobody should have: `python -m tests.faults.hostile_http --connections 100000 [--json FILE]`.

A trainer at work, a prober that asks for /healthz as an orchestrator does, and beside it connections that are silent,
slow, cut off, malformed, endless, half closed, of other names, or that read nothing of what they ask for. What is
counted: probes that failed, processes that had to be started again, answers that should not have been given, and the
resident set. A file that is named is written after every thousand connections, and a run that finds it goes on there.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import socket
import struct
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from consumers.host.web.head import MOST_HEAD_BYTES
from streamsvm.kafka import Connection, Message, Outbox
from tests.brokers.jvm import JvmBroker
from tests.consumers.trainers import records, settings_for
from tests.live.process import Daemon, lag
from tests.live.stage import Stage

AT_ONCE: Final = 600
"""Hostile connections that are open at once, more than twice what the daemon allows."""
CHUNK: Final = 1_000
HOLD_S: Final = 0.6
"""Longest time that a connection is held; the daemon hangs up on most before."""
PROBE_EVERY_S: Final = 0.25
PROBE_TIMEOUT_S: Final = 5.0
GOOD_PER_S: Final = 200
OPTIONS: Final = {
    "svm_c": None,
    "coreset_points": 1_100,
    "coreset_train_points": 2_000,
    "training_every_leaves": 10,
    "training_policy": "latest",
    "checkpoint_interval_s": 5.0,
    "http_allowed_hosts": "trainer",
}


@dataclass(frozen=True)
class Attack:
    """What one client does: pieces with a pause after each, and then waiting, reading or not.

    Attributes
    ----------
    pieces : tuple of bytes
    allowed : frozenset of int
        Statuses that it may get; besides, it may always be hung up on.
    pause_s : float
    reads : bool
    reset : bool
        Whether it ends with a reset instead of reading to the end.
    half_closes : bool
    raw : bool
        Whether it stays without TLS even where the daemon has it.
    """

    pieces: tuple[bytes, ...] = ()
    allowed: frozenset[int] = frozenset()
    pause_s: float = 0.0
    reads: bool = True
    reset: bool = False
    half_closes: bool = False
    raw: bool = False


PATHS: Final = (b"/healthz", b"/readyz", b"/metrics", b"/", b"/status.json", b"/page.js", b"/nothing")


def get(path: bytes, headers: bytes = b"", version: bytes = b"HTTP/1.1") -> bytes:
    return b"GET " + path + b" " + version + b"\r\n" + headers + b"\r\n"


def silent(chance: random.Random) -> Attack:
    return Attack(raw=chance.random() < 0.5)


def slow(chance: random.Random) -> Attack:
    return Attack((b"GET /healthz HTTP/1.1\r\n", *(b"X: y\r\n" for _ in range(20))), pause_s=chance.uniform(0, 0.05))


def cut_short(chance: random.Random) -> Attack:
    whole = get(chance.choice(PATHS), b"Host: 127.0.0.1\r\n")
    return Attack((whole[: chance.randrange(len(whole) - 1)],), reset=chance.random() < 0.5, half_closes=True)


def garbage(chance: random.Random) -> Attack:
    return Attack((chance.randbytes(chance.randrange(1, 3_000)), b"\r\n\r\n"), frozenset({400, 431, 505}), raw=True)


def endless(chance: random.Random) -> Attack:
    begin = chance.choice((b"", b"GET /", b"GET / HTTP/1.1\r\nX: ", b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 3_000))
    return Attack((begin, *(b"x" * 4_096 for _ in range(1 + 2 * MOST_HEAD_BYTES // 4_096))), frozenset({431}))


def many_headers(chance: random.Random) -> Attack:
    return Attack((get(b"/healthz", b"a: b\r\n" * chance.randrange(101, 1_000)),), frozenset({431}))


def wrong_method(chance: random.Random) -> Attack:
    method = chance.choice((b"POST", b"PUT", b"HEAD", b"OPTIONS", b"TRACE", b"CONNECT", b"X" * 30))
    return Attack((get(chance.choice(PATHS)).replace(b"GET", method, 1),), frozenset({405}))


def malformed(chance: random.Random) -> Attack:
    bad = (
        get(b"/healthz", b"Host: a\r\nHost: b\r\n"),
        get(b"/healthz", b"A: b\r\n folded\r\n"),
        get(b"/healthz", b"A: \x00\r\n"),
        get(b"/healthz", b": empty\r\n"),
        get(b"/healthz", b"A\x00: b\r\n"),
        b"\r\n" + get(b"/healthz"),
        b"GET /healthz\r\n\r\n",
        get(b"/healthz", version=b"HTTP/11.1"),
        get(b"/healthz /more"),
        get(b"/heal\xffthz"),
    )
    return Attack((chance.choice(bad),), frozenset({400}))


def other_version(chance: random.Random) -> Attack:
    return Attack((get(b"/healthz", version=chance.choice((b"HTTP/2.0", b"HTTP/0.9", b"HTTP/9.9"))),), frozenset({505}))


def with_a_body(chance: random.Random) -> Attack:
    header = chance.choice((b"Content-Length: 9\r\n", b"Content-Length: -1\r\n", b"Transfer-Encoding: chunked\r\n"))
    body = chance.choice((b"", b"x" * 9, b"x" * 100_000))
    return Attack((get(chance.choice(PATHS), header), body), frozenset({413}))


def another_name(chance: random.Random) -> Attack:
    name = chance.choice((b"evil.example.com", b"127.0.0.1.evil.example.com", b"trainer.evil.example.com:80", b"127.1"))
    return Attack((get(chance.choice(PATHS), b"Host: " + name + b"\r\n"),), frozenset({421}))


def pipelined(chance: random.Random) -> Attack:
    return Attack((get(chance.choice(PATHS)) * chance.randrange(2, 500),), frozenset({200, 404, 431, 503}))


def reads_nothing(chance: random.Random) -> Attack:
    return Attack((get(chance.choice(PATHS)),), frozenset({200, 404, 503}), reads=False)


def half_closed(chance: random.Random) -> Attack:
    return Attack((get(chance.choice(PATHS)),), frozenset({200, 404, 503}), half_closes=True)


def asks_and_leaves(chance: random.Random) -> Attack:
    return Attack((get(chance.choice(PATHS)),), frozenset({200, 404, 503}), reset=True)


def half_a_handshake(chance: random.Random) -> Attack:
    hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + chance.randbytes(32)
    return Attack((hello[: chance.randrange(1, len(hello))],), frozenset({400}), raw=True)


KINDS: Final[tuple[Callable[[random.Random], Attack], ...]] = (
    silent,
    slow,
    cut_short,
    garbage,
    endless,
    many_headers,
    wrong_method,
    malformed,
    other_version,
    with_a_body,
    another_name,
    pipelined,
    reads_nothing,
    half_closed,
    asks_and_leaves,
    half_a_handshake,
)


@dataclass
class Count:
    """What a run came to, so far; it can be gone on with."""

    connections: int = 0
    by_kind: dict[str, int] = field(default_factory=dict)
    answers: dict[str, int] = field(default_factory=dict)
    escapes: list[str] = field(default_factory=list)
    probes: int = 0
    failed: int = 0
    failures: list[str] = field(default_factory=list)
    slowest_probe_s: float = 0.0
    restarts: int = 0
    rss_mb_at_start: float = 0.0
    rss_mb_most: float = 0.0
    descriptors_most: int = 0
    threads_most: int = 0
    seconds: float = 0.0
    good_sent: int = 0
    good_learned: int = 0


class Prober:
    """Asks for /healthz as an orchestrator does, in a thread of its own."""

    def __init__(self, count: Count, url: str) -> None:
        self.url = url
        self._count = count
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop asking."""
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(PROBE_EVERY_S):
            begun = time.monotonic()
            try:
                asked = urllib.request.urlopen(f"{self.url}/healthz", timeout=PROBE_TIMEOUT_S)
                with asked as answer:
                    assert answer.status == 200
            except (OSError, AssertionError) as error:
                self._count.failed += 1
                self._count.failures.append(f"after {self._count.connections} connections: {error!r}")
            self._count.probes += 1
            self._count.slowest_probe_s = max(self._count.slowest_probe_s, round(time.monotonic() - begun, 3))


class Producer:
    """Sends good points at an even rate, in a thread of its own."""

    def __init__(self, count: Count, connection: Connection, topic: str) -> None:
        self._count, self._outbox, self._topic = count, Outbox(connection), topic
        self._values = records(5_000)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop sending; what was sent is stored."""
        self._end.set()
        self._thread.join()
        self._outbox.flush(30.0)
        self._outbox.close()

    def _run(self) -> None:
        while not self._end.wait(0.1):
            for _ in range(GOOD_PER_S // 10):
                value = self._values[self._count.good_sent % len(self._values)]
                self._outbox.send(Message(self._topic, value, partition=0))
                self._count.good_sent += 1


async def commit(attack: Attack, port: int) -> int | None:
    """Do it; return the status of the answer, None if the daemon hung up."""
    try:
        async with asyncio.timeout(10.0):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except (OSError, TimeoutError):
        return None
    try:
        async with asyncio.timeout(10.0 + HOLD_S):
            return await _speak(attack, reader, writer)
    except (OSError, TimeoutError):
        return None
    finally:
        if attack.reset:
            with suppress(OSError, AttributeError):
                plain: socket.socket = writer.get_extra_info("socket")
                plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort() if attack.reset else writer.close()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(1.0):
                await writer.wait_closed()


async def _speak(attack: Attack, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int | None:
    with suppress(OSError):  # it may have answered and hung up before the last piece
        for piece in attack.pieces:
            writer.write(piece)
            await writer.drain()
            if attack.pause_s:
                await asyncio.sleep(attack.pause_s)
        if attack.half_closes and writer.can_write_eof():
            writer.write_eof()
    if attack.reset:
        return None
    if not attack.reads:
        await asyncio.sleep(HOLD_S)
    line = b""
    with suppress(TimeoutError):
        async with asyncio.timeout(HOLD_S if not attack.allowed else 10.0):
            line = await reader.readline()
            while await reader.read(65_536):
                pass
    return int(line.split()[1]) if line.startswith(b"HTTP/") else None


async def attack_in_chunk(count: Count, port: int, size: int) -> None:
    """Commit so many attacks, of which the seed is their number."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        chance = random.Random(number)
        kind = chance.choice(KINDS)
        attack = kind(chance)
        async with room:
            status = await commit(attack, port)
        name = kind.__name__
        count.by_kind[name] = count.by_kind.get(name, 0) + 1
        count.answers[str(status)] = count.answers.get(str(status), 0) + 1
        if status is not None and status not in attack.allowed:
            count.escapes.append(f"{number}: {name} got {status}")

    await asyncio.gather(*(one(count.connections + index) for index in range(size)))
    count.connections += size


@dataclass
class Target:
    """The trainer under attack; one that has ended is started again, which is counted."""

    stage: Stage
    options: dict[str, Any]
    planted: str
    daemon: Daemon = field(init=False)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Start it, and wait until it works."""
        self.daemon = self.stage.start(self.planted, **self.options)
        self.daemon.wait_for("started")

    @property
    def url(self) -> str:
        """Its address."""
        return str(self.daemon.events("configuration")[0]["http"])

    def watch(self, count: Count, prober: Prober) -> None:
        """Note what it takes, and start it again if it has ended."""
        if self.daemon.ended() is not None:
            count.restarts += 1
            self.start()
            prober.url = self.url
        process = Path(f"/proc/{self.daemon.pid}")
        count.rss_mb_most = max(count.rss_mb_most, round(self.daemon.rss_bytes() / 2**20, 1))
        count.descriptors_most = max(count.descriptors_most, len(list((process / "fd").iterdir())))
        count.threads_most = max(count.threads_most, len(list((process / "task").iterdir())))


def learned(url: str) -> tuple[int, float]:
    """Return how many rows were accepted, and how many records are still to be read."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=20) as answer:
        lines = answer.read().decode().splitlines()
    said = {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}
    return int(said.get('streamsvm_input_rows_total{outcome="accepted"}', 0)), lag(said)


def attacked(
    stage: Stage,
    count: Count,
    connections: int,
    save: Callable[[], object] = list,
    planted: str = "",
) -> Count:
    """Attack a trainer until so many connections were made in all; `count` goes on from where it stands.

    Parameters
    ----------
    stage : Stage
    count : Count
    connections : int
    save : callable
        Called after each chunk.
    planted : str
        A defect of `tests.faults.planted`.
    """
    options: dict[str, Any] = dict(OPTIONS)
    target = Target(stage, options, planted)
    producer = Producer(count, stage.connection, stage.settings.input.topic)
    prober = Prober(count, target.url)
    try:
        while count.connections < connections:
            begun = time.monotonic()
            size = min(CHUNK, connections - count.connections)
            asyncio.run(attack_in_chunk(count, int(target.url.rpartition(":")[2]), size))
            target.watch(count, prober)
            count.rss_mb_at_start = count.rss_mb_at_start or count.rss_mb_most
            count.seconds = round(count.seconds + time.monotonic() - begun, 1)
            save()
    finally:
        producer.close()
        prober.close()
    deadline = time.monotonic() + 60
    while (found := learned(target.url))[1] != 0 and time.monotonic() < deadline:
        time.sleep(0.2)
    count.good_learned += found[0]
    assert target.daemon.stop() == 0, target.daemon.said
    save()
    return count


def main(arguments: Sequence[str] | None = None) -> None:
    """Attack, and print what it came to; status 1 if a probe failed, a process ended or an answer escaped."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.hostile_http", description=__doc__.splitlines()[0])
    parser.add_argument("--connections", type=int, default=100_000, help="how many in all (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the counts go, and from where to go on")
    options = parser.parse_args(arguments)
    known = options.json is not None and options.json.exists()
    count = Count(**json.loads(options.json.read_text())) if known else Count()

    def save() -> None:
        if options.json is not None:
            partial = options.json.with_suffix(".partial")
            partial.write_text(json.dumps(asdict(count), indent=2) + "\n", encoding="utf-8")
            partial.replace(options.json)
        print(
            f"{count.connections} connections, {count.probes} probes, {count.failed} failed, "
            f"{count.restarts} restarts, {count.rss_mb_most} MB",
            flush=True,
        )

    broker = JvmBroker()
    try:
        broker.start()
        with tempfile.TemporaryDirectory() as directory:
            connection = Connection(options={"bootstrap.servers": broker.bootstrap_servers})
            stage = Stage(connection, settings_for("hostile-http", Path(directory) / "checkpoint"))
            stage.create()
            try:
                attacked(stage, count, options.connections, save)
            finally:
                stage.clear()
    finally:
        broker.stop()
    print(json.dumps(asdict(count), indent=2))
    raise SystemExit(bool(count.failed or count.restarts or count.escapes))


if __name__ == "__main__":
    main()
