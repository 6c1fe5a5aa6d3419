"""Thousands of bad model messages: none passes the checks, none replaces a good model, each is named in the log.

A live subscriber meets a few hundred of them on each kind of broker; all, and as many as wanted, with
``STREAMSVM_TEST_BAD_MODELS=2000``.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from streamsvm.kafka import Cluster, Message, Publisher, Record, TopicSpec
from streamsvm.model import (
    SHA256_HEADER,
    Alias,
    KernelMachine,
    Model,
    RbfKernel,
    Scaler,
    Version,
    current_key,
    encode_alias,
)
from streamsvm.registry.loading import REASONS, RefusedMessage, check
from streamsvm.registry.subscriber import ModelSubscriber
from tests.brokers.fixtures import TestBroker
from tests.registry.bad_models import KINDS, BadMessage, bad_messages, linear
from tests.registry.test_subscriber import NAME, Trainer, eventually, version_of

pytestmark = pytest.mark.enough("real")

Note = Callable[[str, object], None]
CHECKED = 2_000
PUBLISHED = int(os.environ.get("STREAMSVM_TEST_BAD_MODELS", "200"))
SEED = 20
DEADLINE_S = 30.0


def good_versions() -> list[Version]:
    """Return a linear and an RBF version of two features."""
    random = np.random.default_rng(1)
    machine = KernelMachine(RbfKernel(0.5), random.normal(size=(6, 2)), random.normal(size=6), 0.3)
    rbf = Model(Scaler(random.normal(size=2), np.array([0.5, 2.0])), machine)
    return [replace(version_of(1), model=linear(2, random)), replace(version_of(1), model=rbf)]


def put(publisher: Publisher, topic: str, version: Version, bad: BadMessage) -> int:
    """Publish a bad message, and `current` to name it; return the offset."""
    message = Message(topic, bad.value, bad.key.encode(), ((SHA256_HEADER, bad.header.encode()),), partition=0)

    def pointer(offsets: list[int]) -> list[Message]:
        alias = encode_alias(Alias(version.number, bad.alias, offsets[0]))
        return [Message(f"{topic}.aliases", alias, current_key(NAME).encode(), partition=0)]

    return publisher.publish([message], pointer)[0]  # type: ignore[arg-type]


def refusals(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what the subscriber has said."""
    return [record.getMessage() for record in caplog.records if record.name == "streamsvm.registry.subscriber"]


def test_no_bad_message_passes_the_checks(record_property: Note) -> None:
    """Two thousand of all kinds: each is refused, for one of the documented reasons."""
    reasons: Counter[str] = Counter()
    for version, bad in bad_messages(good_versions(), CHECKED, SEED + 1):
        headers = ((SHA256_HEADER, bad.header.encode()),)
        record = Record("models", 0, version.number, bad.key.encode(), bad.value, headers, 0, None)
        with pytest.raises(RefusedMessage, match=r"models\[0\]@") as refusal:
            check(record, NAME, version.number, bad.alias, 2)
        reasons[refusal.value.reason] += 1
    assert reasons.keys() == REASONS.keys() - {"alias_unreadable", "record_missing", "not_signed"}
    record_property("reasons", dict(reasons))


def test_no_bad_message_replaces_a_good_model_and_each_is_named(
    broker: TestBroker, caplog: pytest.LogCaptureFixture, record_property: Note
) -> None:
    """All kinds, one after the other: the good version serves on, each is counted and logged with its place."""
    connection = broker.connect(fetch_wait_max_ms=5)
    topic = broker.name("models")
    Cluster(connection).create([TopicSpec(topic), TopicSpec(f"{topic}.aliases")])
    good = good_versions()
    kinds: Counter[str] = Counter()
    with (
        caplog.at_level(logging.WARNING, "streamsvm.registry.subscriber"),
        closing(Trainer(connection, topic)) as trainer,
        closing(Publisher(connection, broker.name("bad"))) as publisher,
        ModelSubscriber(connection, NAME, models_topic=topic, dimension=2, patience_s=0.0) as subscriber,
    ):
        publisher.start()
        trainer.publish(good[0])
        served = subscriber.wait_ready(DEADLINE_S)
        for number, (version, bad) in enumerate(bad_messages(good, PUBLISHED, SEED), 1):
            place = f"{topic}[0]@{put(publisher, topic, version, bad)}, named as {version.key}"
            eventually(lambda: bool(refusals(caplog)), f"a word about {bad.kind}: {bad.value[:200]!r}", DEADLINE_S)
            assert subscriber.loaded is served, f"{bad.kind}: {bad.value[:200]!r}"
            assert subscriber.refused == number
            (said,) = refusals(caplog)
            assert said.startswith(f"refused the message at {place} ("), said
            assert said.endswith(f"{served.version.key} stays in use")
            kinds[bad.kind] += 1
            caplog.clear()
        assert subscriber.refused == PUBLISHED
        trainer.publish(replace(good[1], number=2))
        assert subscriber.wait_for(2, DEADLINE_S).version.number == 2
    assert len(kinds) == len(KINDS)
    record_property("bad_messages", dict(kinds))
    record_property("reasons", subscriber.refusals)
