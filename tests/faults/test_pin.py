"""A person pins an alias while versions are published: the pin holds."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from streamsvm.kafka import Message, Outbox
from streamsvm.model import message as model_codec
from streamsvm.model.pointers import Alias, encode_alias, pin_key
from streamsvm.model.version import version_key
from streamsvm.registry.loading import load_version
from streamsvm.registry.subscriber import ModelSubscriber
from tests.consumers.trainers import records, topic
from tests.live.stage import Stage
from tests.promise.topics import check_promise

VERSIONS = 30
PINNED = 2
PATIENCE_S = 30.0


def write_alias(stage: Stage, key: str, alias: Alias | None) -> None:
    """Write to the aliases topic as a person's tool does: no transaction, no question."""
    value = None if alias is None else encode_alias(alias)
    outbox = Outbox(stage.connection)
    outbox.send(Message(stage.settings.output.aliases_topic, value, key.encode(), partition=0))
    outbox.flush(PATIENCE_S)
    outbox.close()


def alias_to(stage: Stage, number: int) -> Alias:
    """Return the alias of a published version."""
    key = version_key(stage.settings.name, number).encode()
    (record,) = (found for found in topic(stage.connection, stage.settings.output.models_topic) if found.key == key)
    return Alias(number, model_codec.sha256(record.value or b""), record.offset)


def pin_while_publishing(stage: Stage, planted: str = "") -> list[int]:
    """Pin a version in the middle of a run, restart the trainer, take the pin back; return what a subscriber saw."""
    seen: list[int] = []
    name, models = stage.settings.name, stage.settings.output.models_topic
    stage.create()
    stage.feed(records(40 * PINNED))
    daemon = stage.start(planted)
    assert daemon.reaches_version(PINNED)
    with ModelSubscriber(
        stage.connection, name, models_topic=models, callback=lambda loaded: seen.append(loaded.version.number)
    ) as subscriber:
        subscriber.wait_for(PINNED, PATIENCE_S)
        stage.feed(records(40 * VERSIONS, seed=1))
        assert daemon.reaches_version(PINNED + 5)
        write_alias(stage, pin_key(name), alias_to(stage, PINNED))
        assert daemon.reaches_version(PINNED + VERSIONS)
        assert daemon.stop() == 0
        stage.feed(records(40, seed=2))
        stage.run_through(PINNED + VERSIONS + 1, planted)
        pinned = load_version(stage.connection, name, models_topic=models).version.number
        assert pinned == PINNED, f"the pin does not hold: {pinned}"
        write_alias(stage, pin_key(name), None)
        subscriber.wait_for(PINNED + VERSIONS + 1, PATIENCE_S)
    return seen


@pytest.mark.long
def test_a_pin_holds_while_versions_are_published(stage: Stage, record_property: Callable[[str, object], None]) -> None:
    """Set in the middle of a burst: the subscriber goes back to it, stays, and follows again when it is taken back."""
    seen = pin_while_publishing(stage)
    assert seen[-2:] == [PINNED, PINNED + VERSIONS + 1], "something else was served between pin and unpin"
    found = check_promise(stage.connection, stage.settings)
    record_property("versions", len(found))


@pytest.mark.faults_long
def test_a_trainer_that_takes_pins_back_is_found(stage: Stage) -> None:
    """The row can fail: a trainer that writes the pin's key takes it away."""
    with pytest.raises(AssertionError, match="the pin does not hold"):
        pin_while_publishing(stage, "takes-pins-back")
