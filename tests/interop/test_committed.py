"""The client library in Node.js gives out what was aborted, where aborted transactions overlap; mended, it does not."""

from __future__ import annotations

import queue
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from streamsvm.kafka import Cluster
from tests.brokers.fixtures import TestBroker
from tests.brokers.jvm import CannotRun, die_with_parent
from tests.interop.programs import install_node_reader, node_packages
from tests.registry.test_subscriber import eventually

TIMEOUT_S = 60.0
READER = """
import { randomUUID } from "node:crypto";
import kafkajs from "%s";
const [bootstrap, topic] = process.argv.slice(2);
const kafka = new kafkajs.Kafka({ brokers: [bootstrap], logLevel: kafkajs.logLevel.NOTHING });
const consumer = kafka.consumer({ groupId: randomUUID(), maxWaitTimeInMs: 100 });
await consumer.connect();
await consumer.subscribe({ topics: [topic], fromBeginning: true });
await consumer.run({ autoCommit: false, eachMessage: async ({ message }) => console.log(message.value.toString()) });
"""


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """Return a directory with the packages and the mended library."""
    try:
        (tmp_path / "node_modules").symlink_to(node_packages(), target_is_directory=True)
    except CannotRun as missing:
        pytest.skip(f"no Node.js here: {missing}")
    install_node_reader(tmp_path)
    return tmp_path


def bootstrap(broker: TestBroker) -> str:
    """Return where a broker is."""
    return str(broker.connection.options["bootstrap.servers"])


def producer_of(broker: TestBroker, transactional_id: str) -> Producer:
    """Return a producer within a transaction."""
    producer = Producer({"bootstrap.servers": bootstrap(broker), "transactional.id": transactional_id, "log_level": 0})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    return producer


@contextmanager
def printed(directory: Path, library: str, *given: str) -> Iterator[queue.Queue[str]]:
    """Run a reader, and give what it prints."""
    program = directory / f"reader-{library.replace('/', '-')}.mjs"
    program.write_text(READER % library)
    command = ["node", str(program), *given]
    lines: queue.Queue[str] = queue.Queue()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent) as process:
        reader = threading.Thread(target=_read, args=(process, lines))
        reader.start()
        try:
            yield lines
        finally:
            process.kill()
            reader.join()


def _read(process: subprocess.Popen[str], lines: queue.Queue[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line.strip())


@pytest.mark.parametrize(
    ("library", "gives"),
    [("streamsvm-reader/kafkajs", ["last"]), ("kafkajs", ["of the first", "last"])],
    ids=["mended", "shipped"],
)
def test_of_overlapping_aborted_transactions_nothing_is_given_out(
    real_broker: TestBroker, packages: Path, library: str, gives: list[str]
) -> None:
    """The transaction that began first ends last, so that the broker names it second.

    The shipped library's answer is the reason for the mended one: should a later release give "last" alone, take that.
    """
    topic = real_broker.topic()
    first, second = producer_of(real_broker, f"{topic}-first"), producer_of(real_broker, f"{topic}-second")
    for producer, value in ((first, b"of the first"), (second, b"of the second")):
        producer.produce(topic, value, partition=0)
        assert producer.flush(TIMEOUT_S) == 0
    second.abort_transaction(TIMEOUT_S)
    # An abort is answered before its marker is written, and the order of the markers is what the broker tells.
    place, cluster = (topic, 0), Cluster(real_broker.connection)
    eventually(lambda: cluster.marks([place])[place].end == 3, "the marker of the first abort")
    first.abort_transaction(TIMEOUT_S)
    last = producer_of(real_broker, f"{topic}-last")
    last.produce(topic, b"last", partition=0)
    last.commit_transaction(TIMEOUT_S)
    with printed(packages, library, bootstrap(real_broker), topic) as lines:
        given = [lines.get(timeout=TIMEOUT_S)]
        while given[-1] != "last":
            given.append(lines.get(timeout=TIMEOUT_S))
    assert given == gives
