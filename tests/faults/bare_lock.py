"""A lock and nothing else: two members of a consumer group on a topic of one partition, with our timeouts.

What a takeover takes beyond the broker's share of it is seen beside this one, killed in the same moment.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Consumer, TopicPartition

from streamsvm.kafka import Cluster, Connection, TopicSpec
from tests.live.process import Daemon

MODULE: Final = "tests.faults.bare_lock"
SETTINGS: Final = {
    "partition.assignment.strategy": "cooperative-sticky",
    "heartbeat.interval.ms": 1_000,
    "session.timeout.ms": 6_000,
}
"""The session of a worker, which beats more often."""
POLL_S: Final = 0.05
LONGEST_S: Final = 120.0
JOINED_S: Final = 3.0
"""After which one that was started is a member: the holder hears of it at its next heartbeat."""


@dataclass
class Taking:
    """A lock whose holder was killed."""

    lock: BareLock
    killed: float

    def taken_after(self) -> float:
        """Wait until the other one holds it; return the seconds since the kill."""
        at = 0.0
        while at < self.killed:  # it may have held the lock before, while a broker was away
            at = float(self.lock.holder.wait_for("locked")["at"])
        self.lock.begin_spare()
        return at - self.killed


class BareLock:
    """One process that holds the lock and one that waits for it.

    Parameters
    ----------
    connection : Connection
    """

    def __init__(self, connection: Connection) -> None:
        name = f"lock-{uuid.uuid4().hex[:8]}"
        Cluster(connection).create([TopicSpec(name, 1)])
        self._command = [connection.servers, name]
        self._started: list[Daemon] = []
        self.holder = self._begin()
        self.holder.wait_for("locked")
        self.begin_spare()

    def __enter__(self) -> BareLock:
        return self

    def __exit__(self, *exception: object) -> None:
        for one in self._started:
            if one.ended() is None:
                one.kill()

    def begin_spare(self) -> None:
        """Start one that waits."""
        self._spare, self._since = self._begin(), time.monotonic()

    def await_spare(self) -> None:
        """Wait until the other one waits; while a broker was away, the lock may have gone from one to the other."""
        deadline = time.monotonic() + LONGEST_S
        while time.monotonic() < self._since + JOINED_S or holds(self.holder) == holds(self._spare):
            assert time.monotonic() < deadline, "nobody, or everybody, holds the lock"
            time.sleep(POLL_S)
        if holds(self._spare):
            self.holder, self._spare = self._spare, self.holder

    def kill_holder(self) -> Taking:
        """Kill the holder, once the other one waits."""
        self.await_spare()
        self.holder.strike()
        taking = Taking(self, time.monotonic())
        self.holder = self._spare
        return taking

    def _begin(self) -> Daemon:
        daemon = Daemon(self._command, module=MODULE)
        self._started.append(daemon)
        return daemon


def holds(member: Daemon) -> bool:
    """Return whether the last that a process said is that it holds the lock."""
    member.catch_up()
    said = [entry["event"] for entry in map(json.loads, filter(lambda line: line.startswith("{"), member.log))]
    return bool(said) and said[-1] == "locked"


def spread(seconds: Sequence[float]) -> dict[str, float]:
    """Return how many there are, their median and their ends."""
    if not seconds:
        return {"count": 0}
    return {
        "count": len(seconds),
        "median": round(statistics.median(seconds), 2),
        "least": round(min(seconds), 2),
        "greatest": round(max(seconds), 2),
    }


def say(event: str) -> None:
    """Write a line of a log."""
    print(json.dumps({"event": event, "at": time.monotonic()}), file=sys.stderr, flush=True)


def main() -> None:
    """Wait for the lock, say when it came, and hold it until killed."""
    servers, name = sys.argv[1:]
    consumer = Consumer({"bootstrap.servers": servers, "group.id": name, **SETTINGS})

    def given(consumer: Any, partitions: list[TopicPartition]) -> None:
        consumer.incremental_assign([])
        if partitions:
            say("locked")

    def taken(consumer: Any, partitions: list[TopicPartition]) -> None:
        consumer.incremental_unassign([])
        if partitions:
            say("unlocked")

    consumer.subscribe([name], on_assign=given, on_revoke=taken, on_lost=taken)
    with suppress(KeyboardInterrupt):
        while True:
            consumer.poll(POLL_S)
