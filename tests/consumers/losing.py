"""A network between daemons and a broker that loses markers of decided transactions, and processes that die then."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from streamsvm import crashpoints
from tests.brokers.jvm import JvmBroker
from tests.live.proxy import Proxy
from tests.live.unmarked import UNVERIFIED, Unmarked

TIMEOUT_S = 5.0
"""Of transactions here: a marker is believed to be lost after as long. Much shorter, and a busy machine makes clients
give up by themselves, whose late records a broker that verifies nothing would take."""


@contextmanager
def unverifying() -> Iterator[Proxy]:
    """Give a network before a broker that takes records of a transaction which its coordinator does not know."""
    with Proxy() as between:
        broker = JvmBroker(UNVERIFIED, advertised=between.address)
        between.forward_to(broker.behind_proxy)
        try:
            broker.start()
            yield between
        finally:
            broker.stop()


class Died(Exception):
    """A process that ends at a point of its program, in a test that goes on."""


@contextmanager
def dying(point: str, network: Unmarked) -> Iterator[None]:
    """Let whoever passes a point of the program die there, once markers are lost."""

    class Arms(threading.Event):
        def set(self) -> None:
            crashpoints.arm(point)
            super().set()

    def die(*_: int) -> None:
        raise Died

    network.happened = Arms()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(crashpoints, "_armed", [])
        patch.setattr(crashpoints, "os", SimpleNamespace(kill=die, getpid=os.getpid))
        yield
