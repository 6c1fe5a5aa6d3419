"""Which connections are open, and which one goes when there are too many.

Invariant: a request that comes whole and at once is answered, however many others are open: room is made by the oldest
connection whose request is unfinished, of the address that has the most of these. Only whoever opens all of them
between two turns of the loop can push out such a request.
"""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

MOST_CONNECTIONS: Final = 256
"""Connections that are open at once; each costs a descriptor and at most a head and an answer of memory."""

_IPV6_PREFIX: Final = 64
"""Bits of an IPv6 address that stand for one network: whoever has one address there has all of them."""


class Phase(Enum):
    """What a connection waits for."""

    READING = "the rest of the request"
    WAITING = "its answer to be made"
    WRITING = "its answer to be taken"


@dataclass(eq=False, slots=True, kw_only=True)
class HttpConnection:
    """A client: its socket, what came of its request, and what is left of its answer."""

    socket: socket.socket
    address: str
    begun_at: float
    phase: Phase = Phase.READING
    received: bytearray = field(default_factory=bytearray)
    unsent: memoryview = field(default_factory=lambda: memoryview(b""))

    @property
    def unfinished(self) -> bool:
        """Whether its request has not come yet."""
        return self.phase is Phase.READING


class Connections:
    """The open connections, by address and by age.

    Parameters
    ----------
    most : int
        How many there may be.
    """

    def __init__(self, most: int = MOST_CONNECTIONS) -> None:
        self._most = most
        self._unfinished: dict[str, dict[HttpConnection, None]] = {}
        self._finished: dict[HttpConnection, None] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, connection: HttpConnection) -> bool:
        return connection in self._finished or connection in self._unfinished.get(connection.address, ())

    def add(self, connection: HttpConnection) -> HttpConnection | None:
        """Add one, which is the youngest; return the one that has to go for it."""
        going = self._oldest() if self._count >= self._most else None
        if going is not None:
            self.remove(going)
        self._unfinished.setdefault(connection.address, {})[connection] = None
        self._count += 1
        return going

    def finish(self, connection: HttpConnection) -> None:
        """Note that its request has come."""
        self._forget_unfinished(connection)
        self._finished[connection] = None

    def remove(self, connection: HttpConnection) -> None:
        """Forget one."""
        if connection in self:
            self._forget_unfinished(connection)
            self._finished.pop(connection, None)
            self._count -= 1

    def all(self) -> list[HttpConnection]:
        """Return every one."""
        return [*self._finished, *(one for own in self._unfinished.values() for one in own)]

    def _oldest(self) -> HttpConnection:
        if not self._unfinished:
            return next(iter(self._finished))
        largest = max(self._unfinished.values(), key=len)
        return next(iter(largest))

    def _forget_unfinished(self, connection: HttpConnection) -> None:
        own = self._unfinished.get(connection.address, {})
        own.pop(connection, None)
        if not own:
            self._unfinished.pop(connection.address, None)


def address_of(peer: tuple[str, int] | tuple[str, int, int, int]) -> str:
    """Return whose a connection is, as far as its address says: an IPv4 address, or an IPv6 network."""
    try:
        address = ipaddress.ip_address(peer[0])
    except ValueError:
        return str(peer[0])
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((int(address), _IPV6_PREFIX), strict=False))
    return str(address)
