"""One real broker for all processes of a parallel run.

The process that begins the others keeps it: begun when the first of them asks, for a run that needs none should start
none, and ended with the run. A broker for each process would cost each a JVM, some ten seconds of a processor.
"""

from __future__ import annotations

import contextlib
import os
import threading
from multiprocessing.connection import Client, Listener
from typing import Final

from tests.brokers.choice import NoBroker, RealBroker, start_real_broker

ADDRESS: Final = "STREAMSVM_TEST_SHARED_BROKER"
"""The variable by which processes find who keeps the broker."""

FIND, END = "find", "end"


class SharedBroker:
    """Keeps the broker, or why there is none, once somebody asked, and tells the processes of the run where it listens.

    What starts the broker has to be one thread that lives as long as the broker: the kernel ends a child with the
    thread that began it.
    """

    def __init__(self) -> None:
        self.found: RealBroker | NoBroker | None = None
        self._listener = Listener(family="AF_UNIX")
        self._thread = threading.Thread(target=self._serve, name="shared broker", daemon=True)
        self._thread.start()
        os.environ[ADDRESS] = str(self._listener.address)

    def close(self) -> None:
        """End the broker, if there is one."""
        del os.environ[ADDRESS]
        with Client(self._listener.address, "AF_UNIX") as keeper:
            keeper.send(END)
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while True:
            with contextlib.suppress(EOFError, ConnectionError), self._listener.accept() as asker:
                if asker.recv() == END:
                    break
                self.found = self.found or _found()
                asker.send(_told(self.found))
        if isinstance(self.found, RealBroker):
            self.found.stop()


def _told(found: RealBroker | NoBroker) -> tuple[bool, str, str | bool]:
    """Return whether there is one, and what makes a `RealBroker`, or a `NoBroker`, of it elsewhere."""
    if isinstance(found, RealBroker):
        return True, found.bootstrap_servers, found.description
    return False, str(found), found.forced


def _found() -> RealBroker | NoBroker:
    try:
        return start_real_broker()
    except NoBroker as error:
        return error


def find_real_broker() -> RealBroker:
    """Return the broker of this run: the shared one where somebody keeps one, else one of this process's own."""
    address = os.environ.get(ADDRESS)
    if address is None:
        return start_real_broker()
    with Client(address, "AF_UNIX") as keeper:
        keeper.send(FIND)
        is_there, *told = keeper.recv()
    if is_there:
        return RealBroker(*told, stop=lambda: None)
    reason, forced = told
    raise NoBroker(reason, forced=forced)
