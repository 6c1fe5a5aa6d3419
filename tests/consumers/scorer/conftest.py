"""What each scorer under test has: topics of its own, and who publishes versions there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from consumers.settings import Settings
from streamsvm.kafka import Connection
from tests.consumers.scorer.running import settings_for
from tests.registry.test_subscriber import Trainer, version_of


@pytest.fixture
def settings(connection: Connection) -> Settings:
    return settings_for(connection)


@pytest.fixture
def trainer(connection: Connection, settings: Settings) -> Iterator[Trainer]:
    with closing(Trainer(connection, settings.output.models_topic)) as made:
        yield made


@pytest.fixture
def served(settings: Settings, trainer: Trainer) -> Settings:
    """The settings once a first version is there to score by."""
    trainer.publish(version_of(1))
    return settings
