"""A network that keeps back, repeats, or loses the end of a transaction: `tests.live.proxy`, with a memory.

What TCP may do to a request whose connection is given up: it arrives, once, when the client has long asked again on
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
from dataclasses import dataclass, field
from typing import Final

from tests.live.proxy import END_TXN, PRODUCE, Proxy

_KEY: Final = struct.Struct(">h")


@dataclass
class Late:
    """The end of one transaction, kept back until the next one of its writer is half written.

    Attributes
    ----------
    writer : bytes
        Part of the transactional id of the writer concerned.
    skip : int
        How many ends pass first.
    produces : int
        After how many requests that write, of the transaction after, the end is delivered.
    drops : bool
        Whether the request is kept back and its connection cut, so that the client asks again. Otherwise it passes at
        once, and a copy of it comes late.
    caught, delivered : threading.Event
        Set once the request was kept back, and once the broker has answered it.
    answer : int
        The broker's error code; -1 before that.
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
        key = _KEY.unpack_from(frame)[0]
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


class Network(Proxy):
    """A `Proxy` that can also deliver the end of a transaction late."""

    def __init__(self) -> None:
        super().__init__()
        self.late: Late | None = None
        self._chance = random.Random(0)

    def breaks_on(self, frame: bytes) -> bool:
        """Look at every request before it is forwarded; tell whether it costs its connection."""
        late = self.late
        if late is not None:
            keep, deliver = late.sees(frame)
            if keep:
                return True
            if deliver:
                threading.Thread(target=self._deliver, args=(late,), daemon=True).start()
        return super().breaks_on(frame)

    def _deliver(self, late: Late) -> None:
        time.sleep(self._chance.uniform(0.0, 0.01))  # the fault itself: the request it follows arrives first
        with contextlib.suppress(OSError, StopIteration, struct.error):
            late.answer = self.deliver_late(late.frame)
        late.delivered.set()

    def recover(self) -> None:
        """Be a good network again."""
        self.late = None
        self.loss = None
        self.mend()

    def __exit__(self, *exception: object) -> None:
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        super().__exit__(*exception)
