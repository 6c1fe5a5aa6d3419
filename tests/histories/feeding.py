"""Whoever puts points in: at a steady rate, and every acknowledgement is kept."""

from __future__ import annotations

import json
import random
import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Final

from confluent_kafka import KafkaError, Producer
from confluent_kafka import Message as Record

from tests.histories.history import Recorder

DIMENSION: Final = 3
TURN_S: Final = 0.25
FLUSH_S: Final = 90.0
MOST_WAITING: Final = 400


class Feeder:
    """Feeds topics; records that were not acknowledged yet hold it up, so that an outage does not flood what follows.

    Parameters
    ----------
    servers : str
    rates : mapping of str to (int, float, bool)
        Of each topic its partitions, records a second, and whether its points are labeled.
    waiting : callable
        Returns how many records of a topic wait for those under test: a topic where many do gets no more.
    recorder : Recorder
    chance : random.Random
    """

    def __init__(
        self,
        servers: str,
        rates: dict[str, tuple[int, float, bool]],
        waiting: Callable[[str], int],
        recorder: Recorder,
        chance: random.Random,
    ) -> None:
        self._waiting = waiting
        self._rates, self._recorder, self._chance = rates, recorder, chance
        self._servers = servers
        self._producer = self._make()
        self._lock = threading.Lock()
        self._due = dict.fromkeys(rates, 0.0)
        self._sent: dict[str, int] = defaultdict(int)
        self._acknowledged: dict[tuple[str, int], list[int]] = defaultdict(list)
        self._generation: dict[str, int] = defaultdict(int)
        self.ends: dict[tuple[str, int], int] = defaultdict(int)
        self.failures: list[str] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def _make(self) -> Producer:
        return Producer(
            {
                "bootstrap.servers": self._servers,
                "enable.idempotence": True,
                "linger.ms": 5,
                "delivery.timeout.ms": 600_000,
                "log_level": 0,
            }
        )

    def _run(self) -> None:
        while not self._stopping.wait(TURN_S):
            with self._lock:
                self._turn()

    def _turn(self) -> None:
        if len(self._producer) < MOST_WAITING:
            for topic, (_, rate, _labeled) in self._rates.items():
                if self._waiting(topic) > MOST_WAITING:
                    continue
                self._due[topic] += rate * TURN_S
                self.send(topic, int(self._due[topic]))
                self._due[topic] %= 1.0
        self._producer.poll(0)
        self._tell()

    def send(self, topic: str, count: int) -> None:
        """Send so many records."""
        partitions, _, labeled = self._rates[topic]
        for _ in range(count):
            number = self._sent[topic]
            self._sent[topic] += 1
            x = [round(self._chance.gauss(0.0, 1.0), 4) for _ in range(DIMENSION)]
            point = {"x": x, "y": 1 if x[0] + 0.3 * x[1] > 0 else -1} if labeled else {"x": x, "id": number}
            self._producer.produce(
                topic, json.dumps(point).encode(), partition=number % partitions, on_delivery=self._delivered
            )

    def _delivered(self, error: KafkaError | None, record: Record) -> None:
        if error is not None:
            self.failures.append(f"{record.topic()}[{record.partition()}]: {error}")
        else:
            place = str(record.topic()), int(record.partition() or 0)
            self._acknowledged[place].append(int(record.offset() or 0))

    def _tell(self) -> None:
        for (topic, partition), offsets in self._acknowledged.items():
            for first, last in spans(offsets):
                told = {"topic": topic, "partition": partition, "first": first, "last": last}
                self._recorder.tell("feeder", "ok", "feed", **told, generation=self._generation[topic])
                self.ends[topic, partition] = max(self.ends[topic, partition], last + 1)
            offsets.clear()

    def flush(self) -> None:
        """Wait until everything is acknowledged."""
        with self._lock:
            self._producer.flush(FLUSH_S)
            self._tell()

    def renew(self, topic: str, again: object) -> None:
        """Flush, have a topic deleted and made anew, and begin at its new beginning."""
        with self._lock:
            self._producer.flush(FLUSH_S)
            self._tell()
            assert callable(again)
            again()
            self._producer = self._make()
            self._generation[topic] += 1
            for partition in range(self._rates[topic][0]):
                self.ends[topic, partition] = 0

    def stop(self) -> None:
        """Feed no more."""
        self._stopping.set()
        self._thread.join()


def spans(offsets: list[int]) -> list[tuple[int, int]]:
    """Return the runs of consecutive offsets, first and last of each."""
    found: list[tuple[int, int]] = []
    for offset in sorted(offsets):
        if found and offset == found[-1][1] + 1:
            found[-1] = found[-1][0], offset
        else:
            found.append((offset, offset))
    return found
