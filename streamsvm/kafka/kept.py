"""Clients that answered one question and wait for the next, for as long as somebody wants them kept.

A new client finds its broker in some twenty milliseconds; its question is answered in two. A start asks forty. Clients
are not kept for ever: an idle one holds threads and connections, and tells nobody of its troubles.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar


class Closable(Protocol):
    """What holds a connection."""

    def close(self) -> None:
        """Let go of it."""


Client = TypeVar("Client", bound=Closable)


class Kept(Generic[Client]):
    """Idle clients by what they were made for. Safe from any thread; a client is one thread's at a time.

    Nothing is kept outside of `keeping`.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keepers = 0
        self._idle = defaultdict[Hashable, list[Client]](list)

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """Keep clients until the end of the block, of the last such block if there are several; then close them."""
        with self._lock:
            self._keepers += 1
        try:
            yield
        finally:
            with self._lock:
                self._keepers -= 1
                ended = [] if self._keepers else [client for idle in self._idle.values() for client in idle]
                if ended:
                    self._idle.clear()
            for client in ended:
                client.close()

    def take(self, purpose: Hashable) -> Client | None:
        """Return an idle client that was made for this, None if there is none; it is the caller's now."""
        with self._lock:
            idle = self._idle.get(purpose)
            return idle.pop() if idle else None

    def give(self, purpose: Hashable, client: Client) -> None:
        """Keep a client, or close it where nobody wants it kept."""
        with self._lock:
            wanted = self._keepers > 0
            if wanted:
                self._idle[purpose].append(client)
        if not wanted:
            client.close()
