"""A faulty network between clients and one broker: slow, cut, silent, or losing, or delaying, the end of a transaction.

It passes whole frames of Kafka's protocol: four bytes of length, then a request (API key, version, correlation id, ...)
or an answer (correlation id, ...). Nothing else of them is understood here; `tests.live.unmarked` reads two requests.
The broker must tell its clients to come back this way (`JvmBroker(advertised=...)`), else only their first question
passes here.

Invariant: a frame is forwarded whole and once, or not at all; but for the end of a transaction that is delivered late.
TCP may do that to a request whose connection is given up: it arrives, once, when the client has long asked again on
another connection. A broker that numbers epochs by the transaction (KIP-890, both sides) refuses it; a client library
without that leaves every transaction of its life in one epoch, and then the late end is taken for that of whichever
transaction is open by then.
"""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from tests.live.unmarked import Unmarked

PRODUCE: Final = 0
END_TXN: Final = 26
"""The API key of the request that commits or aborts a transaction."""

_LENGTH = struct.Struct(">i")
_REQUEST = struct.Struct(">hhi")
_ERROR = struct.Struct(">h")
_ERROR_AT = 8
"""After the correlation id and the throttle time."""

_SLICE_S = 0.05


@dataclass
class Loss:
    """Commits whose answers never arrive.

    A client that hears nothing asks again with the same bytes: those are lost as well, until its patience ends. The
    transactions of a later producer differ in their epoch, and pass.

    `writer`: Part of the transactional id of the writer concerned. `skip`: How many of its commits pass first.
    `applied`: Whether the broker gets the request; its answer is lost in either case. `repeats`: Whether the client's
    later attempts are lost as well; if not, its connection is cut, and the next one passes. `happened`: Set once the
    broker has answered, or the request was dropped. `frame`: The first request that was lost.
    """

    writer: bytes
    skip: int = 0
    applied: bool = True
    repeats: bool = True
    happened: threading.Event = field(default_factory=threading.Event)
    frame: bytes = b""

    def takes(self, frame: bytes) -> bool:
        """Tell whether a request is one of those to be lost."""
        key, _, _ = _REQUEST.unpack_from(frame)
        if key != END_TXN or self.writer not in frame:
            return False
        if self.frame:
            return self.repeats and frame[_REQUEST.size :] == self.frame[_REQUEST.size :]
        if self.skip:
            self.skip -= 1
            return False
        self.frame = frame
        return True


@dataclass
class Late:
    """The end of one transaction, kept back until the next one of its writer is half written.

    `writer`: Part of the transactional id of the writer concerned. `skip`: How many ends pass first. `produces`: After
    how many requests that write, of the transaction after, the end is delivered. `drops`: Whether the request is kept
    back and its connection cut, so that the client asks again. Otherwise it passes at once, and a copy of it comes
    late. `caught, delivered`: Set once the request was kept back, and once the broker has answered it. `answer`: The
    broker's error code; -1 before that.
    """

    writer: bytes
    skip: int = 0
    produces: int = 1
    drops: bool = True
    caught: threading.Event = field(default_factory=threading.Event)
    delivered: threading.Event = field(default_factory=threading.Event)
    answer: int = -1
    frame: bytes = b""
    _ended: bool = False

    def sees(self, frame: bytes) -> tuple[bool, bool]:
        """Look at a request on its way: tell whether to keep it back, and whether to deliver the late one after it."""
        key = _REQUEST.unpack_from(frame)[0]
        if key not in (END_TXN, PRODUCE) or self.writer not in frame or self.delivered.is_set():
            return False, False
        if key == END_TXN:
            return self._sees_end(frame), False
        if not self._ended:
            return False, False
        self.produces -= 1
        return False, self.produces == 0

    def _sees_end(self, frame: bytes) -> bool:
        if self.frame:
            self._ended = True
            return False
        if self.skip:
            self.skip -= 1
            return False
        self.frame = frame
        self.caught.set()
        self._ended = not self.drops
        return self.drops


class Proxy:
    """Listens at `address` and forwards to a port on this machine; a context manager.

    Whatever is set holds for connections that are open, too.
    """

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        self.loss: Loss | None = None
        self.late: Late | None = None
        self.unmarked: Unmarked | None = None
        self._target = 0
        self._latency_s = 0.0
        self._bytes_per_s = 0.0
        self._passing = threading.Event()
        self._passing.set()
        self._refusing = False
        self._unwritable = b""
        self._closed = False
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()

    def forward_to(self, port: int) -> None:
        """Begin to accept connections, for this port."""
        self._target = port
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    def slow(self, latency_s: float, bytes_per_s: float = 0.0) -> None:
        """Delay every frame, and let at most so many bytes a second through in each direction; 0 is no limit."""
        self._latency_s, self._bytes_per_s = latency_s, bytes_per_s

    def cut(self) -> None:
        """Close all connections, and every new one at once."""
        self._refusing = True
        self._hang_up()

    def go_silent(self) -> None:
        """Keep connections open and accept new ones, and let nothing pass: no end is ever told of it."""
        self._passing.clear()

    def refuse_writes(self, topic: str) -> None:
        """Hang up on everyone who writes to this topic; all else passes."""
        self._unwritable = topic.encode()

    def breaks_on(self, frame: bytes) -> bool:
        """Tell whether a request is not let through, and costs its connection; a late one may follow it."""
        if (late := self.late) is not None:
            keep, deliver = late.sees(frame)
            if keep:
                return True
            if deliver:
                threading.Thread(target=self._deliver, args=(late,), daemon=True).start()
        return bool(self._unwritable) and _REQUEST.unpack_from(frame)[0] == PRODUCE and self._unwritable in frame

    def deliver_late(self, frame: bytes) -> int:
        """Give the broker a request that was lost on its way, and return the error code it answers with."""
        with socket.create_connection(("127.0.0.1", self._target)) as broker:
            broker.sendall(_LENGTH.pack(len(frame)) + frame)
            answer = next(_frames(broker), b"")
        if not answer:
            raise ConnectionAbortedError  # the broker stops: as any other request that it does not answer
        return int(_ERROR.unpack_from(answer, _ERROR_AT)[0])

    def _deliver(self, late: Late) -> None:
        time.sleep(random.uniform(0.0, 0.01))  # the fault itself: the request it follows arrives first
        with contextlib.suppress(OSError, StopIteration, struct.error):
            late.answer = self.deliver_late(late.frame)
        late.delivered.set()

    def recover(self) -> None:
        """Forget every fault that was set up, and be a good network again."""
        self.late = self.loss = self.unmarked = None
        self.mend()

    def mend(self) -> None:
        """Be a good network again; what was held back passes now."""
        self.slow(0.0)
        self._refusing = False
        self._unwritable = b""
        self._passing.set()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *exception: object) -> None:
        self._closed = True
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._passing.set()
        self._hang_up()

    def _hang_up(self) -> None:
        with self._lock:
            for each in self._sockets:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            if self._refusing:
                client.close()
                continue
            try:
                broker = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                client.close()
                continue
            _Conversation(self, client, broker).begin()

    def holds(self, *pair: socket.socket) -> None:
        """Remember a connection's ends, to cut them."""
        with self._lock:
            self._sockets.update(pair)

    def forgets(self, *pair: socket.socket) -> None:
        """Forget a connection's ends, and close them."""
        with self._lock:
            self._sockets.difference_update(pair)
            for each in pair:
                each.close()

    def send(self, to: socket.socket, frame: bytes) -> None:
        """Forward a frame as well, or as badly, as the network is now."""
        whole = _LENGTH.pack(len(frame)) + frame
        self._wait(self._latency_s)
        while whole:
            self._passing.wait()
            rate = self._bytes_per_s
            piece = max(int(rate * _SLICE_S), 1) if rate else len(whole)
            to.sendall(whole[:piece])
            whole = whole[piece:]
            if rate:
                self._wait(_SLICE_S)

    @staticmethod
    def _wait(seconds: float) -> None:
        if seconds:
            time.sleep(seconds)  # the fault itself, no synchronisation


class _Conversation:
    """One client's connection, forwarded by a thread in each direction."""

    def __init__(self, proxy: Proxy, client: socket.socket, broker: socket.socket) -> None:
        self._proxy, self._client, self._broker = proxy, client, broker
        self._lost: set[int] = set()
        for each in (client, broker):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        proxy.holds(client, broker)

    def begin(self) -> None:
        """Forward until either end hangs up."""
        threads = [threading.Thread(target=each, daemon=True) for each in (self._requests, self._answers)]
        threading.Thread(target=self._close_after, args=(threads,), daemon=True).start()

    def _close_after(self, threads: list[threading.Thread]) -> None:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._proxy.forgets(self._client, self._broker)

    def _requests(self) -> None:
        with self._hanging_up():
            for frame in _frames(self._client):
                if self._proxy.breaks_on(frame):
                    return
                unmarked = self._proxy.unmarked
                if unmarked is not None and (answer := unmarked.answer(frame)) is not None:
                    self._proxy.send(self._client, answer)
                    continue
                loss = self._proxy.loss
                if loss is not None and loss.takes(frame):
                    self._lost.add(_REQUEST.unpack_from(frame)[2])
                    if not loss.applied:
                        self._lose(loss)
                        continue
                self._proxy.send(self._broker, frame)

    def _answers(self) -> None:
        with self._hanging_up():
            for frame in _frames(self._broker):
                loss = self._proxy.loss
                if loss is not None and _LENGTH.unpack_from(frame)[0] in self._lost:
                    self._lose(loss)
                    continue
                self._proxy.send(self._client, frame)

    def _lose(self, loss: Loss) -> None:
        loss.happened.set()
        if not loss.repeats:
            raise ConnectionAbortedError

    @contextlib.contextmanager
    def _hanging_up(self) -> Iterator[None]:
        try:
            with contextlib.suppress(OSError):
                yield
        finally:
            for each in (self._client, self._broker):
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)


def _frames(end: socket.socket) -> Iterator[bytes]:
    """Read whole frames until the other end hangs up."""
    with end.makefile("rb") as stream:
        while len(head := stream.read(_LENGTH.size)) == _LENGTH.size:
            frame = stream.read(_LENGTH.unpack(head)[0])
            if len(frame) < _LENGTH.unpack(head)[0]:
                return
            yield frame
