"""Publishing beside a trainer: versions that a person requests, under a name that no trainer has.

Invariant: only the trainer publishes under its name. A name's owner record and its newest version tell whose it is.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from consumers.metrics import TRAINER, Metrics
from consumers.settings import Settings
from consumers.streams.topics import READ_TIMEOUT_S, read_pointers
from consumers.trainer.publishing import topics_of
from consumers.trainer.session import InDoubt, Session
from streamsvm.branches.history.refined_part import Refined
from streamsvm.delivery import publication
from streamsvm.delivery.machine import Delivery
from streamsvm.delivery.publication import Publication
from streamsvm.errors import ConfigurationError
from streamsvm.kafka import Cluster, Connection
from streamsvm.learning.recipe import Made
from streamsvm.model import message as model_codec
from streamsvm.model.pointers import Head
from streamsvm.model.version import Version
from streamsvm.registry.loading import load_record
from streamsvm.registry.signing import Signer

PAUSE_S: Final = 0.2
SESSIONS: Final = ("refine-",)
"""What the names of processes that publish beside a trainer begin with; a trainer's are of hexadecimal digits."""
Make = Callable[[Delivery], tuple[Version, Made]]
"""Makes the version that has its place after what a delivery knows."""


def require_own_name(connection: Connection, target: Settings) -> None:
    """Refuse a name under which a trainer publishes, or has begun and published nothing.

    Raises
    ------
    ConfigurationError
    """
    found = read_pointers(Cluster(connection), target, READ_TIMEOUT_S)
    if found.owner is not None and not found.owner.session.startswith(SESSIONS):
        raise ConfigurationError(
            f"{target.name} is the model of a trainer, the process {found.owner.session} since {found.owner.since}",
            "Choose another name with --as.",
        )
    _require_beside(connection, target, found.head)


def _require_beside(connection: Connection, target: Settings, head: Head | None) -> None:
    """Refuse a name whose newest version is a trainer's."""
    if head is None:
        return
    newest, _ = load_record(connection, target.name, models_topic=target.output.models_topic, number=head.number)
    lineage = newest.version.lineage
    if lineage.fact(Refined) is None:
        raise ConfigurationError(
            f"{target.name} is the model of a trainer: its newest version, {head.number}, is not a refined one",
            "Choose another name with --as.",
        )


def publish(connection: Connection, target: Settings, kind: str, make: Make, by: str) -> Publication:
    """Publish as the next version of a model of its own: an incarnation for each, as each has a cut of its own.

    Parameters
    ----------
    connection : Connection
    target : Settings
        Under whose name and to whose topics.
    kind : str
        One of `SESSIONS`.
    make : callable
    by : str
        Who asks, for the audit trail.
    """
    delivery = Delivery(target.name, f"{kind}{secrets.token_hex(8)}")
    session = Session(target, Cluster(connection), delivery, Metrics(TRAINER), time.monotonic)
    signer, topics = Signer.of(target.output.signing_key_file), topics_of(target)
    try:
        found = session.take_over(datetime.now(UTC))
        _require_beside(connection, target, found.head)
        delivery.begins(found.owner, found.head.incarnation + 1 if found.head else 1, found.head, found.head)
        version, made = make(delivery)
        sent = publication.publication(version, made, None, delivery, datetime.now(UTC))
        model_codec.decode(sent.value)  # what readers would refuse never goes out
        while True:
            try:
                session.publish(
                    [publication.version_message(sent, topics, delivery, signer)],
                    lambda offsets: publication.pointers(sent, topics, offsets, by),
                    lambda offsets: sent.head_at(offsets[0]),
                )
            except InDoubt:
                while not session.renew():
                    time.sleep(PAUSE_S)
            if delivery.head is not None and delivery.head.sha256 == sent.digest:
                return sent
    finally:
        session.close()
