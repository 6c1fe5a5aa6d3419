"""Every error the client can raise, classified once: who is at fault, what the daemon does, what a person can do.

Invariant: `FAULTS` holds every code that the installed client knows, each under exactly one fault, and nothing in this
package decides by a code what `FAULTS` could say. Every message is one line.

==============  ============================================  ===============================================  ======
fault           what is at fault                              what the daemon does                             status
==============  ============================================  ===============================================  ======
`UNREACHABLE`   the network, or no broker runs                not ready; tries again with backoff              75
`UNTRUSTED`     password, certificate or mechanism            stops; tries again if they were right before     78
`FORBIDDEN`     a permission is missing                       stops                                            78
`MISSING`       a topic or partition is missing               stops                                            78
`MISNAMED`      the topic name is not valid                   stops                                            78
`FENCED`        another instance took over                    stops, writes nothing more                       70
`REFUSED`       one message, by size or content               drops it, says so, goes on                       70
`ABORTED`       a transaction of ours                         aborts it; renews the producer where it must     75
`UNSETTLED`     the cluster is between two states             tries again with backoff                         75
`MEMBERSHIP`    partitions went to another member             goes on polling                                  75
`MISPLACED`     a position is not in the log                  stops                                            78
`DAMAGED`       bytes of the log, or on the way               stops                                            70
`UNUSABLE`      an option, or a version of the broker         stops                                            78
`BROKEN`        the client itself                             stops                                            70
`UNASKED`       an answer to what we never ask                stops                                            70
`EVENT`         nothing: the client tells of its progress     goes on                                          75
==============  ============================================  ===============================================  ======

*Stops* and *tries again* are what the daemon does when the error reaches it; the client has retried by itself before.
The status is the process's exit status if the error ends it: at a start, or when trying again has come to its end. An
error that the client calls fatal is never tried again, one that it calls abortable never ends the client.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import Enum
from types import MappingProxyType

from confluent_kafka import KafkaError, KafkaException

from streamsvm.errors import (
    BrokerUnavailable,
    ConfigurationError,
    FatalError,
    Fenced,
    LogGap,
    StateError,
    StreamsvmError,
    TopicMissing,
    TransientError,
)
from streamsvm.kafka.connection import Connection


class PublishRefused(FatalError):
    """The broker or the client refused a message for good: sending it again cannot help.

    A publisher has aborted the transaction and can publish the next; whoever can leave the message
    out catches this, for everyone else it is fatal.
    """


class OutcomeUnknown(TransientError):
    """A commit was not answered: its transaction may stand or not, and only the log can say.

    Make a new publisher, `start` it, and read the topic to its end before publishing again.
    """


class DamagedBatch(FatalError):
    """Bytes of the log that cannot be read, or that would decompress to more than the client takes.

    A reader never gets past them by itself; a caller that wanted a single record can do without it.
    """


class OffsetOutOfRange(StateError):
    """A position that the log does not hold: deleted by retention, or beyond its end.

    Attributes
    ----------
    topic, partition, offset
        The position that was asked for.
    low, high
        The log's first offset and the one after its last; None where the broker could not say.
    """

    def __init__(
        self, topic: str, partition: int, offset: int, low: int | None = None, high: int | None = None
    ) -> None:
        self.topic, self.partition, self.offset, self.low, self.high = topic, partition, offset, low, high
        holds = "" if low is None else f": the log starts at {low} and ends at {high}"
        if low is not None and high is not None and low <= offset <= high:
            holds += "; it was cut below that meanwhile, by an unclean leader election or a broker that lost its disk"
        super().__init__(
            f"offset {offset} of {topic}[{partition}] is out of range{holds}",
            "Records were deleted, or the topic was recreated: choose a start inside the range, or reset the state "
            "that holds this position.",
        )


class Recreated(LogGap):
    """The topic of a name is another one than that whose records or positions are at hand.

    Attributes
    ----------
    topic_id : str
        Of the topic that has the name now; empty where the broker gives no ids.
    """

    def __init__(self, what: str, remedy: str = "", *, topic_id: str = "") -> None:
        self.topic_id = topic_id
        super().__init__(what, remedy)


class Fault(Enum):
    """What is at fault; the value is our error for it and its remedy, in which `{servers}` names the broker."""

    def __init__(self, error: type[StreamsvmError], remedy: str) -> None:
        self.error = error
        self.remedy = remedy

    UNREACHABLE = BrokerUnavailable, "Check that the broker at {servers} runs."
    UNTRUSTED = (
        ConfigurationError,
        "Check the security options: protocol, mechanism, user name, password, certificates and their dates.",
    )
    FORBIDDEN = (
        ConfigurationError,
        "Ask for the permission, or use another topic, group or user. SECURITY.md lists the permissions.",
    )
    MISSING = TopicMissing, "Create the topic, or correct its name."
    MISNAMED = ConfigurationError, "A topic name has at most 249 letters, digits, dots, dashes and underscores."
    FENCED = Fenced, "Leave the other instance running, or stop it and start this one again."
    REFUSED = (
        PublishRefused,
        "Send less in one message, or raise message.max.bytes and the topic's max.message.bytes.",
    )
    ABORTED = TransientError, "Abort the transaction, replace the producer if that fails, and publish again."
    UNSETTLED = TransientError, "Try again. If the error persists, check the broker's log."
    MEMBERSHIP = TransientError, "Continue polling."
    MISPLACED = StateError, "Choose a start offset that the log holds, or reset the state that holds this position."
    DAMAGED = (
        DamagedBatch,
        "Start again. If the process stops at the same offset, repair the broker's log there or skip the record.",
    )
    UNUSABLE = ConfigurationError, "Correct the broker options, or check that the broker supports this feature."
    BROKEN = FatalError, "Start the process again."
    UNASKED = (
        FatalError,
        (
            "Start the process again. If the error recurs, something between this process and the broker does not "
            "speak the Kafka protocol."
        ),
    )
    EVENT = TransientError, "Nothing needs to be done; continue polling."


_NAMES: Mapping[Fault, str] = {
    Fault.UNREACHABLE: """
        _ALL_BROKERS_DOWN _TRANSPORT _RESOLVE _FAIL _TIMED_OUT _TIMED_OUT_QUEUE _MSG_TIMED_OUT _WAIT_COORD
        _UNKNOWN_BROKER _DESTROY_BROKER REQUEST_TIMED_OUT NETWORK_EXCEPTION BROKER_NOT_AVAILABLE
        COORDINATOR_NOT_AVAILABLE COORDINATOR_LOAD_IN_PROGRESS LEADER_NOT_AVAILABLE REBOOTSTRAP_REQUIRED""",
    Fault.UNTRUSTED: """
        _SSL _AUTHENTICATION SASL_AUTHENTICATION_FAILED UNSUPPORTED_SASL_MECHANISM ILLEGAL_SASL_STATE
        DELEGATION_TOKEN_EXPIRED DELEGATION_TOKEN_NOT_FOUND UNACCEPTABLE_CREDENTIAL""",
    Fault.FORBIDDEN: """
        TOPIC_AUTHORIZATION_FAILED GROUP_AUTHORIZATION_FAILED CLUSTER_AUTHORIZATION_FAILED
        TRANSACTIONAL_ID_AUTHORIZATION_FAILED DELEGATION_TOKEN_AUTHORIZATION_FAILED""",
    Fault.MISSING: "UNKNOWN_TOPIC_OR_PART _UNKNOWN_TOPIC _UNKNOWN_PARTITION UNKNOWN_TOPIC_ID INCONSISTENT_TOPIC_ID",
    Fault.MISNAMED: "TOPIC_EXCEPTION",
    Fault.FENCED: "_FENCED PRODUCER_FENCED INVALID_PRODUCER_EPOCH FENCED_INSTANCE_ID",
    Fault.REFUSED: """
        MSG_SIZE_TOO_LARGE RECORD_LIST_TOO_LARGE INVALID_MSG INVALID_MSG_SIZE INVALID_RECORD _INVALID_DIFFERENT_RECORD
        INVALID_TIMESTAMP POLICY_VIOLATION""",
    Fault.ABORTED: """
        _PURGE_QUEUE _PURGE_INFLIGHT TRANSACTION_ABORTABLE INVALID_TXN_STATE INVALID_PRODUCER_ID_MAPPING
        UNKNOWN_PRODUCER_ID OUT_OF_ORDER_SEQUENCE_NUMBER DUPLICATE_SEQUENCE_NUMBER TRANSACTION_COORDINATOR_FENCED""",
    Fault.UNSETTLED: """
        _QUEUE_FULL _ISR_INSUFF _IN_PROGRESS _PREV_IN_PROGRESS _OUTDATED _WAIT_CACHE _INTR _PARTIAL _RETRY UNKNOWN
        NOT_LEADER_FOR_PARTITION REPLICA_NOT_AVAILABLE STALE_CTRL_EPOCH NOT_COORDINATOR NOT_ENOUGH_REPLICAS
        NOT_ENOUGH_REPLICAS_AFTER_APPEND NOT_CONTROLLER CONCURRENT_TRANSACTIONS OPERATION_NOT_ATTEMPTED
        KAFKA_STORAGE_ERROR LOG_DIR_NOT_FOUND REASSIGNMENT_IN_PROGRESS FETCH_SESSION_ID_NOT_FOUND
        INVALID_FETCH_SESSION_EPOCH FENCED_LEADER_EPOCH UNKNOWN_LEADER_EPOCH STALE_BROKER_EPOCH OFFSET_NOT_AVAILABLE
        PREFERRED_LEADER_NOT_AVAILABLE ELIGIBLE_LEADERS_NOT_AVAILABLE UNSTABLE_OFFSET_COMMIT THROTTLING_QUOTA_EXCEEDED
        LISTENER_NOT_FOUND""",
    Fault.MEMBERSHIP: """
        ILLEGAL_GENERATION UNKNOWN_MEMBER_ID REBALANCE_IN_PROGRESS MEMBER_ID_REQUIRED _ASSIGNMENT_LOST
        _MAX_POLL_EXCEEDED FENCED_MEMBER_EPOCH STALE_MEMBER_EPOCH""",
    Fault.MISPLACED: "OFFSET_OUT_OF_RANGE _AUTO_OFFSET_RESET _NO_OFFSET _LOG_TRUNCATION",
    Fault.DAMAGED: "_BAD_MSG _BAD_COMPRESSION _UNDERFLOW",
    Fault.UNUSABLE: """
        _INVALID_ARG _NOT_IMPLEMENTED _CONFLICT _NOT_CONFIGURED _UNSUPPORTED_FEATURE _UNKNOWN_PROTOCOL _FS
        INVALID_REQUIRED_ACKS INCONSISTENT_GROUP_PROTOCOL INVALID_GROUP_ID INVALID_SESSION_TIMEOUT
        OFFSET_METADATA_TOO_LARGE INVALID_COMMIT_OFFSET_SIZE UNSUPPORTED_VERSION TOPIC_ALREADY_EXISTS
        INVALID_PARTITIONS INVALID_REPLICATION_FACTOR INVALID_REPLICA_ASSIGNMENT INVALID_CONFIG INVALID_REQUEST
        UNSUPPORTED_FOR_MESSAGE_FORMAT INVALID_TRANSACTION_TIMEOUT SECURITY_DISABLED UNSUPPORTED_COMPRESSION_TYPE
        GROUP_MAX_SIZE_REACHED UNRELEASED_INSTANCE_ID UNSUPPORTED_ASSIGNOR MISMATCHED_ENDPOINT_TYPE
        UNSUPPORTED_ENDPOINT_TYPE RESOURCE_NOT_FOUND DUPLICATE_RESOURCE""",
    Fault.BROKEN: """
        _FATAL _CRIT_SYS_RESOURCE _DESTROY _STATE _INCONSISTENT _GAPLESS_GUARANTEE _READ_ONLY _NOENT _INVALID_TYPE
        _APPLICATION""",
    Fault.UNASKED: """
        _UNKNOWN_GROUP _EXISTING_SUBSCRIPTION _KEY_SERIALIZATION _VALUE_SERIALIZATION _KEY_DESERIALIZATION
        _VALUE_DESERIALIZATION DELEGATION_TOKEN_AUTH_DISABLED DELEGATION_TOKEN_OWNER_MISMATCH
        DELEGATION_TOKEN_REQUEST_NOT_ALLOWED INVALID_PRINCIPAL_TYPE NON_EMPTY_GROUP GROUP_ID_NOT_FOUND
        TOPIC_DELETION_DISABLED ELECTION_NOT_NEEDED NO_REASSIGNMENT_IN_PROGRESS GROUP_SUBSCRIBED_TO_TOPIC
        INCONSISTENT_VOTER_SET INVALID_UPDATE_VERSION FEATURE_UPDATE_FAILED PRINCIPAL_DESERIALIZATION_FAILURE
        UNKNOWN_CONTROLLER_ID UNKNOWN_SUBSCRIPTION_ID TELEMETRY_TOO_LARGE INVALID_REGISTRATION INVALID_RECORD_STATE
        SHARE_SESSION_NOT_FOUND INVALID_SHARE_SESSION_EPOCH FENCED_STATE_EPOCH INVALID_VOTER_KEY DUPLICATE_VOTER
        VOTER_NOT_FOUND INVALID_REGULAR_EXPRESSION STREAMS_INVALID_TOPOLOGY STREAMS_INVALID_TOPOLOGY_EPOCH
        STREAMS_TOPOLOGY_FENCED SHARE_SESSION_LIMIT_REACHED""",
    Fault.EVENT: "NO_ERROR _PARTITION_EOF _ASSIGN_PARTITIONS _REVOKE_PARTITIONS _NODE_UPDATE _NOOP",
}
"""The client's names of its codes. By name, so that a client which lacks one of them still loads."""

FAULTS: Mapping[int, Fault] = MappingProxyType(
    {
        code: fault
        for fault, names in _NAMES.items()
        for name in names.split()
        if (code := getattr(KafkaError, name, None)) is not None
    }
)
"""The fault behind each code of the client."""


_FORBIDDEN: Mapping[int, str] = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "group",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "transactional_id",
}
"""The kind of resource that each code forbids."""
_ATTEMPTS: Mapping[str, re.Pattern[str]] = {
    operation: re.compile(attempts)
    for operation, attempts in {
        "read": r"(?:read|commit positions of) (?P<topic>\S+)(?: as (?:group )?(?P<group>\S+))?$",
        "write": r"(?:publish to|deliver a message to) topic (?P<topic>.+)$|"
        r"(?:take over transactional id|(?:abort|commit) a transaction of) (?P<transactional_id>\S+)$",
        "create": r"create topic (?P<topic>\S+)$",
        "describe": r"ask who is in group (?P<group>\S+)$|(?:look up topic|ask for the (?:end|range) of|look up the "
        r"offset of time \d+ ms in) (?P<topic>[\w.-]+)",
    }.items()
}
"""The operation that the broker demands for each attempt, and in it the names of the resources."""
_ON_CLUSTER: Mapping[str, str] = {"create": "create", "write": "idempotent_write"}
"""The operation on the cluster that includes one on a topic."""
_IMPLIED: Mapping[tuple[str, str], str] = {
    ("describe", "topic"): " (read or write includes it)",
    ("describe", "group"): " (read includes it)",
}


def permission_missing(code: int, doing: str) -> str:
    """Return the permission without which the broker forbids an attempt, "write on topic x"; empty where unknown."""
    kind = _FORBIDDEN.get(code, "")
    if code == KafkaError.CLUSTER_AUTHORIZATION_FAILED:
        for operation, of_cluster in _ON_CLUSTER.items():
            if (found := _ATTEMPTS[operation].match(doing)) and found["topic"]:
                return f"{operation} on topic {found['topic']}, or {of_cluster} on the cluster"
    for operation, attempts in _ATTEMPTS.items():
        if kind in attempts.groupindex and (found := attempts.match(doing)) and found[kind]:
            return f"{operation} on {kind.replace('_', ' ')} {found[kind]}{_IMPLIED.get((operation, kind), '')}"
    return ""


_MEMBER_FENCED = str(KafkaError(KafkaError.FENCED_INSTANCE_ID).str())
"""The client's words for a static member whose place another has taken: that ends the client by ``_FATAL``, and only
these words say why."""


def fault_of(error: KafkaError) -> Fault:
    """Return what is at fault; a code of a newer broker that the client cannot name is `Fault.UNSETTLED`."""
    if error.code() == KafkaError._FATAL and _MEMBER_FENCED in str(error.str()):
        return Fault.FENCED
    return FAULTS.get(error.code(), Fault.UNSETTLED)


def error_of(exception: KafkaException) -> KafkaError:
    """Return the client's error inside its exception."""
    error: KafkaError = exception.args[0]
    return error


def text_of(error: KafkaError) -> str:
    """Return what the client says, in one line."""
    said = " ".join(str(error.str()).split()).rstrip(".")
    return f"{said} {error.name()}" if said.endswith(":") else said or str(error.name())


def unavailable(connection: Connection, detail: str = "") -> BrokerUnavailable:
    """Return the error for a broker that did not answer, with the client's last reason if there is one."""
    reason = f" ({detail.partition(' (after ')[0]})" if detail else ""  # then follows what only the client understands
    return BrokerUnavailable(
        f"no broker answered at {connection.servers} within {connection.request_timeout_s:g} s{reason}",
        "Check bootstrap.servers, the network, and that the broker runs.",
    )


def partitions_missing(topic: str, partitions: Iterable[int]) -> TopicMissing:
    """Return the error for partitions that a topic does not have."""
    return TopicMissing(
        f"topic {topic} has no partition {', '.join(map(str, sorted(partitions)))}",
        "Check whether the topic was recreated with fewer partitions.",
    )


def topic_missing(topic: str) -> TopicMissing:
    """Return the error for a topic that does not exist."""
    return TopicMissing(f"topic {topic} does not exist", Fault.MISSING.remedy)


def translate(error: KafkaError, connection: Connection, doing: str) -> StreamsvmError:
    """Return our error for the client's, as `FAULTS` says.

    Parameters
    ----------
    error : KafkaError
        What the client reported.
    connection : Connection
        Names the broker in the message.
    doing : str
        What was attempted and on what, as the object of "failed to": "produce to topic x".
    """
    fault, text = fault_of(error), text_of(error)
    if error.fatal() and issubclass(fault.error, TransientError):
        fault = Fault.BROKEN
    elif error.txn_requires_abort() and fault in (Fault.BROKEN, Fault.UNASKED):
        fault = Fault.ABORTED
    what = f"failed to {doing}: {text}"
    if fault is Fault.FENCED:
        what = f"{what}: another instance took over"
    if missing := permission_missing(error.code(), doing):
        what = f"{what}; missing is {missing}"
    if fault is Fault.UNTRUSTED:
        what = (
            f"the broker at {connection.servers} rejects this client, or the client does not trust the broker: {text}"
        )
    return fault.error(what, fault.remedy.format(servers=connection.servers))
