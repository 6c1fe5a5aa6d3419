"""The brokers of a run, one or three, each behind a network of its own that can be ill-treated."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.brokers.cluster import HEAP_MB, NODES, REPLICATED
from tests.brokers.jvm import JvmBroker, Quorum, free_ports
from tests.live.proxy import Proxy

DEFAULTS: Final = {
    "transaction.state.log.num.partitions": "50",
    "offsets.topic.num.partitions": "50",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "10000",
    "log.initial.task.delay.ms": "30000",
    "num.io.threads": "8",
    "num.network.threads": "3",
}
"""Kafka's own, where the settings of the test brokers differ in what they do to transactions. With those of the test
brokers, one that comes back after a transaction's timeout far more often ends it without its markers."""

WATCHFUL: Final = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
"""A node that was killed and started again is soon past the session of its former life."""

FORGETFUL: Final = {
    "transactional.id.expiration.ms": "2000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "500",
    "producer.id.expiration.ms": "2000",
    "producer.id.expiration.check.interval.ms": "500",
}
"""A broker that forgets a transactional id after two seconds without use."""

ANSWER_S: Final = 10.0
TOPIC_PATIENCE_S: Final = 60.0


class Brokers:
    """One or three nodes, to be killed, frozen, or cut off.

    `settings`: Server settings on top of those of the test brokers, such as `DEFAULTS` or `WATCHFUL`.
    """

    def __init__(self, count: int, settings: Mapping[str, str] | None = None) -> None:
        settings = settings or {}
        self.networks = [Proxy() for _ in range(count)]
        if count == 1:
            self.nodes = [JvmBroker(settings, advertised=self.networks[0].address)]
        else:
            quorum = Quorum(dict(zip(NODES, free_ports(len(NODES)), strict=True)))
            self.nodes = [
                JvmBroker(
                    {**REPLICATED, **settings}, node=node, quorum=quorum, heap_mb=HEAP_MB, advertised=network.address
                )
                for node, network in zip(NODES, self.networks, strict=True)
            ]

    def start(self) -> None:
        """Start all, and wait until each answers."""
        for node in self.nodes:
            node.launch()
        for node, network in zip(self.nodes, self.networks, strict=True):
            node.wait_until_up()
            network.forward_to(node.behind_proxy)
        self.admin = AdminClient({"bootstrap.servers": self.direct, "log_level": 0})

    @property
    def direct(self) -> str:
        """Where the run's own readers find them."""
        return ",".join(node.bootstrap_servers for node in self.nodes)

    @property
    def through(self) -> str:
        """Where the clients under test find them."""
        return ",".join(network.address for network in self.networks)

    def create(
        self, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None, replicas: Sequence[int] = ()
    ) -> None:
        """Make a topic, of which these nodes have every partition if they are given.

        Waits until an old one of that name is gone.
        """
        pause, waited_s = threading.Event(), 0.0
        placed = {"replica_assignment": [[*replicas]] * partitions} if replicas else {}
        new = NewTopic(topic, partitions, config=dict(config or {}), **placed)
        while True:
            try:
                self.admin.create_topics([new], request_timeout=ANSWER_S)[topic].result()
            except KafkaException:
                if waited_s > TOPIC_PATIENCE_S:
                    raise
                pause.wait(0.5)
                waited_s += 0.5
            else:
                return

    def topic_id(self, topic: str, former: str = "") -> str:
        """Return the id of a topic that was just made; waits until the answer is not that of a former one."""
        pause, waited_s = threading.Event(), 0.0
        while waited_s < TOPIC_PATIENCE_S:
            asked = self.admin.describe_topics(TopicCollection([topic]), request_timeout=ANSWER_S)
            with contextlib.suppress(KafkaException):
                if (found := str(asked[topic].result().topic_id)) != former:
                    return found
            pause.wait(0.1)
            waited_s += 0.1
        raise TimeoutError(f"the brokers do not know the new {topic}")

    def leader(self, topic: str, partition: int = 0) -> JvmBroker:
        """Return the node that leads a partition now."""
        found = self.admin.list_topics(topic, timeout=ANSWER_S).topics[topic].partitions[partition].leader
        return next(node for node in self.nodes if node.node == found)

    def in_sync(self, topic: str, partition: int = 0) -> set[int]:
        """Return the nodes that have all of a partition now."""
        return {*self.admin.list_topics(topic, timeout=ANSWER_S).topics[topic].partitions[partition].isrs}

    def delete(self, topic: str) -> None:
        """Delete a topic."""
        self.admin.delete_topics([topic], request_timeout=ANSWER_S)[topic].result()

    def each_network(self, treat: Callable[[Proxy], None]) -> None:
        """Do the same to all networks."""
        for network in self.networks:
            treat(network)

    def revive(self) -> None:
        """See that all run and can be reached, whatever was done to them."""
        self.each_network(Proxy.recover)
        for node in self.nodes:
            node.resume()
            if node._process is None or node._process.poll() is not None:
                node.kill()
                node.launch()
        for node in self.nodes:
            node.wait_until_up()

    def stop(self) -> None:
        """Kill all and delete their data."""
        for node in self.nodes:
            with contextlib.suppress(ProcessLookupError):
                node.discard()
        for network in self.networks:
            network.__exit__()
