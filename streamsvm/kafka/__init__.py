"""The way to Kafka: bytes and positions, no points; the only package that knows the client library.

Every verb says what may block. Readers never move a position by themselves, never return a record of
an aborted or open transaction, and never skip one that is committed. Writers are idempotent and drop
nothing unsaid. Errors are those of `streamsvm.errors`, one line each.
"""

from streamsvm.kafka.attempts import HEADER, Stamp, stamped
from streamsvm.kafka.backoff import Backoff
from streamsvm.kafka.client import ClientLog
from streamsvm.kafka.cluster import TRANSACTION_TIMEOUT_S, Cluster
from streamsvm.kafka.connection import RESERVED, Connection, Option
from streamsvm.kafka.consuming import Input
from streamsvm.kafka.embedded import EmbeddedBroker
from streamsvm.kafka.failures import DamagedBatch, OffsetOutOfRange, OutcomeUnknown, PublishRefused, Recreated
from streamsvm.kafka.group_member import GroupMember
from streamsvm.kafka.group_slots import GroupSlots, Process, Slot, members_of
from streamsvm.kafka.log import Marks, Place, Watermarks
from streamsvm.kafka.membership import FROM_THE_FIRST, GroupPosition, MemberProgress, Subscription
from streamsvm.kafka.outbox import Outbox
from streamsvm.kafka.producing import Publisher
from streamsvm.kafka.reading import RecordFetcher, Stored, Tail
from streamsvm.kafka.records import Batch, Message, Record
from streamsvm.kafka.schema_registry import RegistryUnavailable, SchemaRegistry
from streamsvm.kafka.topics import GONE_AFTER_S, TopicInfo, TopicSpec

__all__ = [
    "FROM_THE_FIRST",
    "GONE_AFTER_S",
    "HEADER",
    "RESERVED",
    "TRANSACTION_TIMEOUT_S",
    "Backoff",
    "Batch",
    "ClientLog",
    "Cluster",
    "Connection",
    "DamagedBatch",
    "EmbeddedBroker",
    "GroupMember",
    "GroupPosition",
    "GroupSlots",
    "Input",
    "Marks",
    "MemberProgress",
    "Message",
    "OffsetOutOfRange",
    "Option",
    "Outbox",
    "OutcomeUnknown",
    "Place",
    "Process",
    "PublishRefused",
    "Publisher",
    "Record",
    "RecordFetcher",
    "Recreated",
    "RegistryUnavailable",
    "SchemaRegistry",
    "Slot",
    "Stamp",
    "Stored",
    "Subscription",
    "Tail",
    "TopicInfo",
    "TopicSpec",
    "Watermarks",
    "members_of",
    "stamped",
]
