"""How to reach the broker: the options a person may set, those that belong to us, and secrets masked.

Invariant: no option that the delivery guarantees rest on can be changed from outside.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from streamsvm.errors import ConfigurationError

Option = str | int | bool

RESERVED: Mapping[str, str] = MappingProxyType(
    {
        "auto.offset.reset": "a position outside the log must stop the reader, never move it",
        "client.id": "it has an option of its own",
        "enable.auto.commit": "positions are committed after the work they stand for",
        "enable.auto.offset.store": "positions are committed after the work they stand for",
        "enable.idempotence": "without it a retried send is stored twice",
        "acks": "an acknowledgement must mean stored by all in-sync replicas",
        "request.required.acks": "an acknowledgement must mean stored by all in-sync replicas",
        "enable.partition.eof": "readers that need it turn it on",
        "isolation.level": "aborted records must stay invisible",
        "check.crcs": "damaged records must be noticed",
        "group.id": "it has an option of its own",
        "group.instance.id": "members are dynamic",
        "group.protocol": "members use the classic protocol",
        "partition.assignment.strategy": "members use the cooperative assignor",
        "transactional.id": "it is derived from the model's name and topic",
        "transaction.timeout.ms": "it is bounded by the publisher",
        "statistics.interval.ms": "readiness is computed from the statistics",
        "test.mock.num.brokers": "use the embedded broker instead",
    }
)
"""Options of librdkafka that may not be set, and why."""

DEFAULT_MAX_MESSAGE_BYTES = 1_000_000
"""librdkafka's default of ``message.max.bytes``."""

_SECRET = re.compile(r"password|secret|passphrase|key\.pem|private\.key|oauthbearer\.config|assertion\.claim")
MASK = "****"


@dataclass(frozen=True, slots=True, repr=False)
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

    Raises
    ------
    ConfigurationError
        If ``bootstrap.servers`` is missing, or an option is reserved (`RESERVED`) or of a wrong type.
    """

    options: Mapping[str, Option]
    client_id: str = "streamsvm"
    embedded: bool = False
    request_timeout_s: float = field(default=10.0)

    def __post_init__(self) -> None:
        for name, value in self.options.items():
            _check_option(name, value)
        if not self.options.get("bootstrap.servers"):
            raise ConfigurationError("no bootstrap.servers given", "Name at least one broker as host:port.")
        if not self.request_timeout_s > 0:
            raise ConfigurationError(f"request_timeout_s is {self.request_timeout_s}", "Give a positive number.")
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
        return {name: MASK if _SECRET.search(name) else value for name, value in self.options.items()}


def _check_option(name: str, value: object) -> None:
    if name in RESERVED:
        raise ConfigurationError(f"the broker option {name} may not be set: {RESERVED[name]}", "Remove it.")
    if name.endswith("_cb") or name in {"on_commit", "on_delivery", "logger"}:
        raise ConfigurationError(f"the broker option {name} is a callback", "Remove it.")
    if not isinstance(value, str | int):
        shown = MASK if _SECRET.search(name) else repr(value)
        raise ConfigurationError(f"the broker option {name} is {shown}", "Give a string, a whole number or a boolean.")
