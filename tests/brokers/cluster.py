"""Three Kafka nodes as child processes, each broker and controller: what a cluster does when one of them dies."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from confluent_kafka.admin import AdminClient, PartitionMetadata

from streamsvm.kafka import Connection
from tests.brokers.jvm import JvmBroker, Quorum, free_ports

NODES = (1, 2, 3)
HEAP_MB = 320
REPLICATED = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "4000",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1500",
}
"""Everything on every node, two of them enough to write; a dead node is noticed within seconds."""

LOOK_TIMEOUT_S = 10.0


class Cluster:
    """Three nodes; new topics have a replica on each, and take writes while two of them live."""

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        quorum = Quorum(dict(zip(NODES, free_ports(len(NODES)), strict=True)))
        self.nodes = {
            node: JvmBroker({**REPLICATED, **(settings or {})}, node=node, quorum=quorum, heap_mb=HEAP_MB)
            for node in NODES
        }

    @property
    def bootstrap_servers(self) -> str:
        """Where clients find any of them."""
        return ",".join(node.bootstrap_servers for node in self.nodes.values())

    def start(self) -> None:
        """Start all, and wait until each answers."""
        for node in self.nodes.values():
            node.launch()
        for node in self.nodes.values():
            node.wait_until_up()

    def leader(self, topic: str, partition: int = 0) -> JvmBroker:
        """Return the node that leads a partition now."""
        return self.nodes[self._partition(topic, partition).leader]

    def in_sync(self, topic: str, partition: int = 0) -> set[int]:
        """Return the nodes that have all of a partition now."""
        return set(self._partition(topic, partition).isrs)

    def _partition(self, topic: str, partition: int) -> PartitionMetadata:
        options = dict(Connection(options={"bootstrap.servers": self.bootstrap_servers}).options)
        return AdminClient(options).list_topics(topic, timeout=LOOK_TIMEOUT_S).topics[topic].partitions[partition]

    def stop(self) -> None:
        """Kill all and delete their data: nothing in them is worth the time of a good end."""
        for node in self.nodes.values():
            with contextlib.suppress(ProcessLookupError):
                node.discard()
