"""The embedded broker in a process of its own, so that its work is not counted as a contender's.

It keeps 5 MB of stored bytes a partition and drops the oldest beyond: `fill` compresses, and checks what is kept.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from streamsvm.kafka import Connection, EmbeddedBroker
from streamsvm.kafka.embedded import EMBEDDED_PARTITIONS

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 30.0


@contextmanager
def broker_process() -> Iterator[Connection]:
    """Run an embedded broker in a child process; it ends with the block, or with this process."""
    command = [sys.executable, "-m", "tests.benchmarks.broker"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        servers = child.stdout.readline().strip()
        assert servers, "the broker's process did not start"
        try:
            yield Connection(options={"bootstrap.servers": servers}, embedded=True)
        finally:
            child.stdin.close()
            child.wait(TIMEOUT_S)


def fill(connection: Connection, topic: str, values: Sequence[bytes]) -> None:
    """Store values in turn in the topic's partitions, zstd-compressed, and check that the broker kept every one.

    Raises
    ------
    SystemExit
        If they are more than the broker keeps.
    """
    producer = Producer(
        {
            **connection.options,
            "compression.type": "zstd",
            "linger.ms": 20,
            "queue.buffering.max.messages": 2 * len(values) + 1,
        }
    )
    for index, value in enumerate(values):
        producer.produce(topic, value, partition=index % EMBEDDED_PARTITIONS)
    assert producer.flush(TIMEOUT_S) == 0
    producer.close()
    if kept(connection, topic) < len(values):
        raise SystemExit(f"{topic}: the embedded broker keeps fewer than {len(values)} such points; lower --points")


def kept(connection: Connection, topic: str) -> int:
    """Return how many records of the topic can still be read."""
    consumer = Consumer({**connection.options, "group.id": "benchmark-check"})
    ranges = [
        consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=TIMEOUT_S)
        for partition in range(EMBEDDED_PARTITIONS)
    ]
    consumer.close()
    return sum(high - low for low, high in ranges)


def main() -> None:
    """Serve until standard input ends; the first line of output is the address."""
    with EmbeddedBroker() as broker:
        print(broker.bootstrap_servers, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
