"""A topic that is deleted and made again under its name, just when somebody asks whether it is still the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from consumers.settings import Settings
from streamsvm.errors import TransientError
from streamsvm.kafka import Cluster, Connection, TopicSpec
from tests.brokers.fixtures import TestBroker
from tests.consumers.trainers import produce, settings_for
from tests.kafka import foreign

WAY_OUT = r"was recreated: its id was \S{22} and is now \S{22}"


def recreate(connection: Connection, topic: str, values: list[bytes] | None = None, partitions: int = 1) -> None:
    """Put another topic in the place of one, longer than the old one if values are given."""
    foreign.delete_topic(connection, topic)
    Cluster(connection).create([TopicSpec(topic, partitions)])
    if values:
        produce(connection, topic, values)


class AtTheQuestion:
    """Does something the moment that a broker is asked, once armed, which id a topic has; after so many other times."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, topic: str, happens: Callable[[], None], after: int = 0
    ) -> None:
        self.armed, self.left = False, after
        topic_id = Cluster.topic_id

        def asked(cluster: Cluster, name: str) -> str | None:
            if self.armed and name == topic:
                self.armed, self.left = self.left > 0, self.left - 1
                if not self.armed:
                    happens()
            return topic_id(cluster, name)

        monkeypatch.setattr(Cluster, "topic_id", asked)


def never_looking(broker: TestBroker, directory: Path) -> Settings:
    """Return a trainer's settings, with its input topic made, that ask the question only where they must."""
    made = settings_for(broker.name("again"), directory)
    Cluster(broker.connection).create([TopicSpec(made.input.topic)])
    return made


def refuse_to_say() -> None:
    raise TransientError("the broker does not say")
