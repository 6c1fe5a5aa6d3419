"""The way to Kafka: bytes and positions, no points; the only package that knows the client library.

Every verb says what may block. Readers never move a position by themselves, never return a record of
an aborted or open transaction, and never skip one that is committed. Writers are idempotent and drop
nothing unsaid. Errors are those of `streamsvm.errors`, one line each.
"""

from streamsvm.kafka.backoff import Backoff
from streamsvm.kafka.cluster import Cluster
from streamsvm.kafka.connection import RESERVED, Connection, Option, connection_of
from streamsvm.kafka.consuming import Input
from streamsvm.kafka.embedded import EmbeddedBroker
from streamsvm.kafka.failures import DamagedBatch, OffsetOutOfRange, OutcomeUnknown, PublishRefused
from streamsvm.kafka.log import log_range, start_positions
from streamsvm.kafka.membership import Progress, Subscription
from streamsvm.kafka.producing import Outbox, Publisher
from streamsvm.kafka.reading import Reader, Tail, fetch_one, read_to_end
from streamsvm.kafka.records import Batch, Message, Record
from streamsvm.kafka.registry import RegistryUnavailable, SchemaRegistry
from streamsvm.kafka.topics import TopicInfo, TopicSpec, create_topics, describe_topic

__all__ = [
    "RESERVED",
    "Backoff",
    "Batch",
    "Cluster",
    "Connection",
    "DamagedBatch",
    "EmbeddedBroker",
    "Input",
    "Message",
    "OffsetOutOfRange",
    "Option",
    "Outbox",
    "OutcomeUnknown",
    "Progress",
    "PublishRefused",
    "Publisher",
    "Reader",
    "Record",
    "RegistryUnavailable",
    "SchemaRegistry",
    "Subscription",
    "Tail",
    "TopicInfo",
    "TopicSpec",
    "connection_of",
    "create_topics",
    "describe_topic",
    "fetch_one",
    "log_range",
    "read_to_end",
    "start_positions",
]
