"""Whoever puts points in: at a steady rate, under clocks that may be wrong; every acknowledgement is kept."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from confluent_kafka import KafkaError, Message as Record, Producer

from tests.live.history import Recorder

DIMENSION: Final = 3
TURN_S: Final = 0.25
FLUSH_S: Final = 90.0
MOST_WAITING: Final = 400

HORIZON_MS: Final = 2_000
EARLY_MS: Final = 1_000
CLOSING_MS: Final = 4_000
"""How long after the last record those come that close both logs of a join: beyond each row's horizon."""
CLOSING: Final = 9
"""As many records tell a time that counts wherever the log was; see `streamsvm.joining.log_time`."""
WATERMARK: Final = "streamsvm-watermark"
LATER: Final[Mapping[int, tuple[int, ...]]] = MappingProxyType({0: (-5,), 3: (8, 12), 6: (), 8: (60,)})
"""By the last digit of a row's number, so many rows later its labels come; those of 3 differ, 6 has none, and that of 8
comes beyond the horizon where the rate is the usual one. All others: `USUAL`."""
USUAL: Final = (10,)

HOUR_MS: Final = 3_600_000
WRONG: Final[Mapping[str, Callable[[int], int]]] = MappingProxyType(
    {
        "an hour ahead": lambda now_ms: now_ms + HOUR_MS,
        "a day behind": lambda now_ms: now_ms - 24 * HOUR_MS,
        "in microseconds": lambda now_ms: now_ms * 1_000,
    }
)
JUMPS_MS: Final = (HOUR_MS, -10_000)
WRONG_EVERY: Final = 4
"""Of so many producers one has the wrong clock: three records of nine at most, where five move the time."""

MORE: Final = 60
"""Records by which a topic that is made again is at once longer than the old one was."""
NOBODY: Final = "nobody"
"""The row that labels are of which only make their log long."""

Told = tuple[int, Any, int | None]
"""Timestamp, id and label of a record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What is fed into a topic.

    `rate`: Records a second. `labeled`: Whether points have their labels with them. `labels`: Where their labels come
    later: the topic of these.
    """

    partitions: int
    rate: float
    labeled: bool = False
    labels: str = ""


class Clocks:
    """What producers take for the time: the machine's clock, and that of the one of them that is wrong."""

    def __init__(self) -> None:
        self.jumped_ms = 0
        self.wrong: dict[str, Callable[[int], int]] = {}
        """By topic, the clock of one of its producers."""
        self._told: Counter[tuple[str, int]] = Counter()
        self._latest_ms = 0

    def stamp(self, topic: str, partition: int) -> int:
        """Return the timestamp of the next record of a partition, in milliseconds since the epoch."""
        now_ms = time.time_ns() // 1_000_000 + self.jumped_ms
        self._latest_ms = max(self._latest_ms, now_ms)
        self._told[topic, partition] += 1
        if topic in self.wrong and self._told[topic, partition] % WRONG_EVERY == 0:
            return self.wrong[topic](now_ms)
        return now_ms

    def closing(self) -> int:
        """Return a time beyond the horizon of every row so far."""
        return self._latest_ms + CLOSING_MS


class Feeder:
    """Feeds topics; records that were not acknowledged yet hold it up, so that an outage does not flood what follows.

    `sources`: By topic. `waiting`: Returns how many records of a topic wait for those under test: a topic where many do
    gets no more.
    """

    def __init__(
        self,
        servers: str,
        sources: Mapping[str, Source],
        waiting: Callable[[str], int],
        recorder: Recorder,
        chance: random.Random,
    ) -> None:
        self._waiting = waiting
        self._sources, self._recorder, self._seed = sources, recorder, chance.random()
        self._servers = servers
        self._producer = self._make()
        self._lock = threading.Lock()
        self._due = dict.fromkeys(sources, 0.0)
        self._sent: Counter[str] = Counter()
        self._acknowledged: dict[tuple[str, int], dict[int, Told]] = defaultdict(dict)
        self.clocks = Clocks()
        self.first: Counter[str] = Counter()
        """The number of the first record of each topic that was made again."""
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
            for topic, source in self._sources.items():
                # A join waits for the time of its logs, which only what is fed moves on.
                if not source.labels and self._waiting(topic) > MOST_WAITING:
                    continue
                self._due[topic] += source.rate * TURN_S
                self._send(topic, int(self._due[topic]))
                self._due[topic] %= 1.0
        self._producer.poll(0)
        self._tell()

    def _send(self, topic: str, count: int) -> None:
        source = self._sources[topic]
        for _ in range(count):
            number = self._sent[topic]
            self._sent[topic] += 1
            x, y = self._point(topic, number)
            point = {"x": x, "y": y} if source.labeled else {"x": x, "id": number}
            self._put(topic, number % source.partitions, point, number, y if source.labeled else None)
            if source.labels:
                for row, label in self._labels_after(topic, number):
                    self._put(source.labels, row % source.partitions, {"id": row, "y": label}, row, label)

    def _point(self, topic: str, number: int) -> tuple[list[float], int]:
        """Return a point and its label; the same whenever it is asked for, for its label may come first."""
        chance = random.Random(f"{self._seed} {topic} {number}")
        x = [round(chance.gauss(0.0, 1.0), 4) for _ in range(DIMENSION)]
        return x, 1 if x[0] + 0.3 * x[1] > 0 else -1

    def _labels_after(self, topic: str, number: int) -> Iterator[tuple[int, int]]:
        """Return the labels that come after a row: of which rows, and what they say."""
        for row in range(max(number - 60, 0), number + 6):
            for at, later in enumerate(LATER.get(row % 10, USUAL)):
                if row + later == number:
                    yield row, self._point(topic, row)[1] * (-1 if at else 1)

    def _put(self, topic: str, partition: int, value: dict[str, Any] | None, id_: Any, y: int | None) -> None:
        time_ms = self.clocks.closing() if value is None else self.clocks.stamp(topic, partition)
        self._producer.produce(
            topic,
            json.dumps(value).encode(),
            partition=partition,
            timestamp=time_ms,
            headers=[(WATERMARK, b"")] if value is None else [],
            on_delivery=partial(self._delivered, (time_ms, id_, y)),
        )

    def close(self) -> None:
        """Have both logs of each join tell a time by which nothing in them waits any more."""
        with self._lock:
            for topic, source in self._sources.items():
                for partition in range(source.partitions if source.labels else 0):
                    for log in (topic, source.labels) * CLOSING:
                        self._put(log, partition, None, None, None)

    def _delivered(self, told: Told, error: KafkaError | None, record: Record) -> None:
        if error is not None:
            self.failures.append(f"{record.topic()}[{record.partition()}]: {error}")
        else:
            place = str(record.topic()), int(record.partition() or 0)
            self._acknowledged[place][int(record.offset() or 0)] = told

    def _tell(self) -> None:
        for (topic, partition), records in self._acknowledged.items():
            for first, last in spans(list(records)):
                told = {"topic": topic, "partition": partition, "first": first, "last": last}
                of_each = [records[offset] for offset in range(first, last + 1)]
                self._recorder.tell("feeder", "ok", "feed", **told, records=of_each)
                self.ends[topic, partition] = max(self.ends[topic, partition], last + 1)
            records.clear()

    def flush(self) -> None:
        """Wait until everything is acknowledged."""
        with self._lock:
            self._producer.flush(FLUSH_S)
            self._tell()

    def renew(self, topic: str, again: Callable[[], None]) -> None:
        """Flush, have a topic deleted and made anew, and fill it at once beyond where the old one was read."""
        with self._lock:
            self._producer.flush(FLUSH_S)
            self._tell()
            again()
            self._producer = self._make()
            self.first[topic] = self._sent[topic]
            places = [place for place in self.ends if place[0] == topic]
            beyond = MORE + max(self.ends[place] for place in places)
            for place in places:
                self.ends[place] = 0
            if topic in self._sources:
                self._send(topic, beyond * self._sources[topic].partitions)
            else:
                for _, partition in places * beyond:
                    self._put(topic, partition, {"id": NOBODY, "y": 1}, NOBODY, 1)
                for rows in (name for name, source in self._sources.items() if source.labels == topic):
                    self._send(rows, MORE)  # the labels of those before are gone
            self._producer.flush(FLUSH_S)
            self._tell()

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
