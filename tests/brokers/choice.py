"""Which real broker the tests use, and why not another."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass

from tests.brokers.jvm import CannotRun, JvmBroker
from tests.brokers.settings import KAFKA_VERSION

FORCE = "STREAMSVM_TEST_BROKER"
SERVERS = "KAFKA_BOOTSTRAP_SERVERS"


class NoBroker(Exception):
    """No real broker can be had, and why; `forced` if a particular one was asked for: then it is no reason to skip."""

    def __init__(self, reason: str, *, forced: bool) -> None:
        self.forced = forced
        super().__init__(reason)


@dataclass(frozen=True)
class RealBroker:
    """A running broker; `stop` ends it, if it was started here."""

    bootstrap_servers: str
    description: str
    stop: Callable[[], None]


def may_be_had() -> bool:
    """Tell whether a real broker was named, or what starts one is installed; whether it starts is not known yet."""
    if forced := os.environ.get(FORCE, ""):
        return forced != "none"
    return bool(os.environ.get(SERVERS) or (shutil.which("java") and shutil.which("mvn")))


def start_real_broker() -> RealBroker:
    """Start, or find, the broker for this test run; raise `NoBroker` if none can be had, or not the forced one."""
    forced = os.environ.get(FORCE, "")
    if forced == "none":
        raise NoBroker(f"no real broker wanted: {FORCE}=none", forced=False)
    if forced and forced not in BRANCHES:
        raise NoBroker(f"{FORCE}={forced}, but it must be one of {', '.join(BRANCHES)}, none", forced=True)
    reasons = []
    for name in [forced] if forced else BRANCHES:
        try:
            return BRANCHES[name]()
        except CannotRun as error:
            reasons.append(f"{name}: {error}")
    raise NoBroker("no real broker: " + "; ".join(reasons), forced=bool(forced))


def _from_environment() -> RealBroker:
    servers = os.environ.get(SERVERS)
    if not servers:
        raise CannotRun(f"{SERVERS} is not set")
    return RealBroker(servers, f"{servers}, from {SERVERS}", lambda: None)


SHARED = {"broker.session.timeout.ms": "60000"}
"""A busy machine makes a node that is its own controller miss heartbeats to itself, and it would refuse topics.

Only for one that nobody kills: started again it would wait this long for the end of its own earlier session.
"""


def _from_maven() -> RealBroker:
    broker = JvmBroker(SHARED)
    try:
        broker.start()
    except BaseException:
        broker.stop()
        raise
    description = f"Apache Kafka {KAFKA_VERSION} as a process at {broker.bootstrap_servers}"
    return RealBroker(broker.bootstrap_servers, description, broker.stop)


BRANCHES: dict[str, Callable[[], RealBroker]] = {
    "env": _from_environment,
    "jvm": _from_maven,
}
