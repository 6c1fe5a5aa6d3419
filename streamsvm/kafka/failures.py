"""Translation of the client's errors into ours, by who is at fault; every message is one line."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException

from streamsvm.errors import (
    BrokerUnavailable,
    ConfigurationError,
    FatalError,
    Fenced,
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
        super().__init__(
            f"offset {offset} of {topic}[{partition}] is out of range{holds}",
            "Records were deleted, or the topic was made anew: choose a start inside the range, "
            "or reset the state that holds this position.",
        )


UNREACHABLE = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TRANSPORT,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._MSG_TIMED_OUT,
        KafkaError._WAIT_COORD,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.LEADER_NOT_AVAILABLE,
    }
)
UNTRUSTED = frozenset({KafkaError._SSL, KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED})
GROUP_FORBIDDEN = KafkaError.GROUP_AUTHORIZATION_FAILED
FORBIDDEN = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
MISSING = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})
FENCED = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})
REFUSED = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_MSG,
        KafkaError.INVALID_MSG_SIZE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.POLICY_VIOLATION,
    }
)
DAMAGED = frozenset(
    {
        KafkaError._BAD_MSG,
        KafkaError._BAD_COMPRESSION,
        KafkaError.INVALID_MSG,
        KafkaError._LOG_TRUNCATION,
    }
)
UNUSABLE = frozenset({KafkaError._INVALID_ARG, KafkaError._NOT_IMPLEMENTED, KafkaError._CONFLICT})


def error_of(exception: KafkaException) -> KafkaError:
    """Return the client's error inside its exception."""
    error: KafkaError = exception.args[0]
    return error


def text_of(error: KafkaError) -> str:
    """Return what the client says, in one line."""
    return " ".join(str(error.str()).split()).rstrip(".") or str(error.name())


def unavailable(connection: Connection, detail: str = "") -> BrokerUnavailable:
    """Return the error for a broker that did not answer, with the client's last reason if there is one."""
    reason = f" ({detail})" if detail else ""
    return BrokerUnavailable(
        f"no broker answered at {connection.servers} within {connection.request_timeout_s:g} s{reason}",
        "Check bootstrap.servers, the network, and that the broker runs.",
    )


def topic_missing(topic: str) -> TopicMissing:
    """Return the error for a topic that does not exist."""
    return TopicMissing(f"topic {topic} does not exist", "Create it, or correct its name.")


def translate(error: KafkaError, connection: Connection, doing: str) -> StreamsvmError:
    """Return our error for the client's.

    Parameters
    ----------
    error : KafkaError
        What the client reported.
    connection : Connection
        Names the broker in the message.
    doing : str
        What was attempted and on what, as the object of "failed to": "produce to topic x".
    """
    code, text = error.code(), text_of(error)
    what = f"failed to {doing}: {text}"
    if code in FENCED:
        return Fenced(f"{what}: another instance took over", "Leave the other running, or stop it and start again.")
    if code in UNTRUSTED:
        return ConfigurationError(
            f"the broker at {connection.servers} does not accept this client, or is not trusted by it: {text}",
            "Check the security options: protocol, mechanism, user name, password, certificates.",
        )
    if code in FORBIDDEN:
        return ConfigurationError(what, "Ask for the permission, or use another name or user.")
    if code == KafkaError.TOPIC_EXCEPTION:
        return ConfigurationError(what, "A topic's name has at most 249 letters, digits, dots, dashes and underscores.")
    if code in MISSING:
        return TopicMissing(what, "Create the topic, or correct its name.")
    if code in REFUSED:
        return PublishRefused(
            what, "Send less in one message, or raise message.max.bytes and the topic's max.message.bytes."
        )
    if error.fatal() or code == KafkaError._FATAL:
        return FatalError(what, "Start the process again.")
    if code in UNUSABLE:
        return ConfigurationError(what, "Correct the broker options.")
    if code in UNREACHABLE:
        return BrokerUnavailable(what, f"Check that the broker at {connection.servers} runs.")
    return TransientError(what, "Try again; if it persists, see the broker's log.")
