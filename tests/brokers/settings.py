"""Settings of a test broker of one node: nothing replicated, nothing slow, nothing created by accident."""

import os

KAFKA_VERSION = os.environ.get("STREAMSVM_TEST_KAFKA", "4.3.1")
"""Which release of Apache Kafka is started where one is."""

SETTINGS = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "auto.create.topics.enable": "false",
    "log.initial.task.delay.ms": "500",
    "log.cleaner.backoff.ms": "500",
    "log.retention.check.interval.ms": "1000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "num.io.threads": "2",
    "num.network.threads": "1",
}

COMPACT_AT_ONCE = {
    "cleanup.policy": "compact",
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "100",
    "delete.retention.ms": "100",
}
"""Settings of a topic that is compacted within seconds, as soon as its newest segment is closed."""
