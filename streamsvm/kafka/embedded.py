"""The embedded broker: librdkafka's own, inside this process; nothing to install.

For demonstrations and fast tests. Its limits:

- It listens on the loopback interface only, and lives as long as this process.
- Topics appear at first use, each with four partitions: a topic of one partition uses partition 0.
- About 5 MB a partition are kept, then the oldest batches go.
- No fencing and no hiding of aborted or open transactions, hence `Connection.embedded`: groups of
  messages are published plainly, in order.
- No compaction, no deletion, no administration, no search by time, no security.
"""

from __future__ import annotations

from types import TracebackType

from confluent_kafka import Producer

from streamsvm.kafka.client import CLIENT_LOG
from streamsvm.kafka.connection import Connection

EMBEDDED_PARTITIONS = 4
"""How many partitions every topic of the embedded broker has."""

_STARTUP_TIMEOUT_S = 10.0


class EmbeddedBroker:
    """A broker that runs from construction until `close`; usable as a context manager.

    Attributes
    ----------
    bootstrap_servers : str
        Its address, for any client on this machine.
    connection : Connection
        How this package's clients reach it.
    """

    def __init__(self) -> None:
        self._host = Producer({"test.mock.num.brokers": 1}, logger=CLIENT_LOG)
        brokers = self._host.list_topics(timeout=_STARTUP_TIMEOUT_S).brokers.values()
        self.bootstrap_servers = ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
        self.connection = Connection(options={"bootstrap.servers": self.bootstrap_servers}, embedded=True)

    def __enter__(self) -> EmbeddedBroker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the broker; its records are gone."""
        self._host.close()
