"""How to reach the broker: the options a person may set, those that belong to us, and secrets masked.

Invariant: no option that the delivery guarantees rest on can be changed from outside.
"""

from __future__ import annotations

import ipaddress
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from confluent_kafka import ThrottleEvent

from streamsvm.errors import ConfigurationError
from streamsvm.kafka.kept import Kept
from streamsvm.secrecy import MASK, is_secret

Option = str | int | bool

RECENT_S: Final = 30.0
"""How long a delay by a quota is shown."""

HICCUP_S: Final = 10.0
"""How long no broker is met before clients that failed are kept rather than replaced."""

RESERVED: Mapping[str, str] = MappingProxyType(
    {
        "auto.offset.reset": "a position outside the log must stop the reader, never move it",
        "client.id": "a streamsvm option sets it",
        "enable.auto.commit": "positions are committed after the work they stand for",
        "enable.auto.offset.store": "positions are committed after the work they stand for",
        "enable.idempotence": "without it a retried send would be stored twice",
        "acks": "an acknowledgement must mean stored by all in-sync replicas",
        "request.required.acks": "an acknowledgement must mean stored by all in-sync replicas",
        "enable.partition.eof": "the readers that need it turn it on",
        "isolation.level": "aborted records must stay invisible",
        "check.crcs": "damaged records must be noticed",
        "group.id": "a streamsvm option sets it",
        "group.instance.id": "it is derived from the scorer's slot",
        "group.protocol": "scorers use the classic group protocol",
        "partition.assignment.strategy": "scorers use the cooperative assignor",
        "transactional.id": "it is derived from the model's name and topic, or from the scorer's group and slot",
        "transaction.timeout.ms": "the publisher bounds it",
        "statistics.interval.ms": "readiness is computed from the statistics",
        "test.mock.num.brokers": "use the embedded broker instead",
    }
)
"""Options of librdkafka that may not be set, and why."""

DEFAULT_MAX_MESSAGE_BYTES = 1_000_000
"""librdkafka's default of ``message.max.bytes``."""

INSECURE: Mapping[str, tuple[frozenset[str], str]] = MappingProxyType(
    {
        "enable.ssl.certificate.verification": (
            frozenset({"false", "f", "0"}),
            "anyone on the network path could pose as the broker",
        ),
        "ssl.endpoint.identification.algorithm": (
            frozenset({"none"}),
            "any host with a certificate from the same authority could pose as the broker",
        ),
    }
)
"""Options of librdkafka with the values that switch a protection off, and what follows."""


_UNENCRYPTED: Mapping[str, str] = MappingProxyType(
    {
        "sasl_plaintext": "Credentials and records go to {} unencrypted.",
        "plaintext": "Records go to {} unencrypted and without a login: anyone on the network path can read and "
        "change them.",
    }
)


class Throttling:
    """The newest delay with which a broker's quota slowed down a client of a connection. Safe from any thread."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._newest = (-math.inf, 0.0, "")

    def note(self, event: ThrottleEvent) -> None:
        """Note what the client library says; an answer without a delay ends it."""
        self._newest = (self._monotonic(), event.throttle_time, event.broker_name)

    def recent_s(self) -> float:
        """Return the delay in seconds; 0 if none came for `RECENT_S`."""
        noted_at, delay_s, _ = self._newest
        return delay_s if self._monotonic() - noted_at < RECENT_S else 0.0

    def said(self) -> str:
        """Return who slows us down, for people; empty if nobody does."""
        delay_s = self.recent_s()
        return f"the quota of broker {self._newest[2]} delayed an answer by {delay_s:.2g} s" if delay_s else ""


class Outage:
    """Since when clients of a connection have met no broker. Safe from any thread."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._since = math.inf

    def met(self) -> None:
        """Note that a client found all brokers down."""
        self._since = min(self._since, self._monotonic())

    def over(self) -> None:
        """Note that a broker answered."""
        self._since = math.inf

    def lasts(self) -> bool:
        """Return whether it is no hiccup: then a new client would only try once more what the others try."""
        return self._monotonic() - self._since > HICCUP_S


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class Connection:
    """How to reach the broker; made once from configuration, passed to everything.

    Parameters
    ----------
    options : mapping of str to str, int or bool
        Options of librdkafka, passed through: ``bootstrap.servers`` (required), security, sizes. They
        win over this package's defaults. Copied; later changes of the argument have no effect.
    client_id : str
        How the broker's logs and quotas name us.
    embedded : bool
        Whether this is the embedded broker: no transactions, admin calls or search by time.
    request_timeout_s : float
        How long, in seconds, one question to the broker may take before it counts as unavailable.

    Attributes
    ----------
    accepted : threading.Event
        Set by the first client of this connection that a broker answered. From then on its credentials and its trust
        in the broker are known to be right, and a refusal is something that may pass.
    throttling : Throttling
        What quotas do to its clients.
    outage : Outage
        Whether its clients meet a broker.
    kept : Kept
        Clients that wait for another question.

    Raises
    ------
    ConfigurationError
        If ``bootstrap.servers`` is missing, or an option is reserved (`RESERVED`), insecure or of a wrong type.
    """

    options: Mapping[str, Option]
    client_id: str = "streamsvm"
    embedded: bool = False
    request_timeout_s: float = field(default=10.0)
    accepted: threading.Event = field(default_factory=threading.Event, init=False, compare=False)
    throttling: Throttling = field(default_factory=Throttling, init=False, compare=False)
    outage: Outage = field(default_factory=Outage, init=False, compare=False)
    kept: Kept[Any] = field(default_factory=Kept, init=False, compare=False)

    def __post_init__(self) -> None:
        for name, value in self.options.items():
            _check_option(name, value)
            _check_secure(name, value)
        if not self.options.get("bootstrap.servers"):
            raise ConfigurationError("bootstrap.servers is not given", "Give at least one broker as host:port.")
        if not self.request_timeout_s > 0:
            raise ConfigurationError(
                f"request_timeout_s is {self.request_timeout_s}", "request_timeout_s must be positive."
            )
        object.__setattr__(self, "options", MappingProxyType(dict(self.options)))

    def __repr__(self) -> str:
        return (
            f"Connection(options={self.masked_options()!r}, client_id={self.client_id!r}, "
            f"embedded={self.embedded!r}, request_timeout_s={self.request_timeout_s!r})"
        )

    @property
    def servers(self) -> str:
        """The bootstrap servers, for messages to people."""
        return str(self.options["bootstrap.servers"])

    @property
    def max_message_bytes(self) -> int:
        """The largest message this client sends, in bytes before compression (``message.max.bytes``)."""
        return int(self.options.get("message.max.bytes", DEFAULT_MAX_MESSAGE_BYTES))

    def masked_options(self) -> dict[str, Option]:
        """Return the options as they may be shown: values that are secrets replaced by a mask."""
        return {name: MASK if is_secret(name) else value for name, value in self.options.items()}

    def risks(self) -> list[str]:
        """Return what a person ought to know about the way to the broker, a sentence each; none on the loopback."""
        remote = [server for server in self.servers.split(",") if not _is_loopback(server)]
        protocol = str(self.options.get("security.protocol", "plaintext")).lower()
        found = []
        if remote and protocol in _UNENCRYPTED:
            found.append(f"{_UNENCRYPTED[protocol].format(remote[0].strip())} Take security.protocol=SASL_SSL.")
        return found


def connection_of(given: Connection | Mapping[str, Option]) -> Connection:
    """Return what reaches the broker; options alone stand for a connection with nothing else set.

    Raises
    ------
    ConfigurationError
        If it is neither, or as `Connection` does.
    """
    if isinstance(given, Connection):
        return given
    if isinstance(given, Mapping):
        return Connection(options=given)
    raise ConfigurationError(
        f"connection is of type {type(given).__name__}",
        'Pass a Connection, or librdkafka options such as {"bootstrap.servers": "localhost:9092"}.',
    )


def _check_option(name: str, value: object) -> None:
    if name in RESERVED:
        raise ConfigurationError(f"the broker option {name} may not be set: {RESERVED[name]}", "Remove it.")
    if name.endswith("_cb") or name in {"on_commit", "on_delivery", "logger"}:
        raise ConfigurationError(f"the broker option {name} is a callback, which is not supported", "Remove it.")
    if not isinstance(value, str | int):
        shown = MASK if is_secret(name) else repr(value)
        raise ConfigurationError(
            f"the broker option {name} is {shown}, which is not a supported type",
            "Give a string, a whole number or a boolean.",
        )


def _check_secure(name: str, value: Option) -> None:
    if name in INSECURE and str(value).strip().lower() in INSECURE[name][0]:
        raise ConfigurationError(
            f"the broker option {name}={value} disables a security check: {INSECURE[name][1]}",
            "Remove it, and set ssl.ca.location to the certificate authority.",
        )


def _is_loopback(server: str) -> bool:
    """Return whether ``[protocol://]host[:port]`` is this machine by its very name."""
    address = server.strip().rpartition("://")[2]
    host = address[1:].partition("]")[0] if address.startswith("[") else address.partition(":")[0]
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
