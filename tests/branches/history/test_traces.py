"""The search for what is left of a row finds what is planted, in each form and each store, and nothing else."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import Producer

from streamsvm.kafka import Cluster, TopicSpec
from tests.branches.history.traces import FORMS, Sought, forms_of, left, topics_of
from tests.brokers.fixtures import TestBroker
from tests.consumers.trainers import settings_for

RANDOM = np.random.default_rng(3)
ROW = Sought(RANDOM.standard_normal(8), "customer-17", b'{"id": "customer-17"}')


@pytest.mark.parametrize("form", FORMS)
def test_what_is_planted_is_found(broker: TestBroker, tmp_path: Path, form: str) -> None:
    """In checkpoints, other files, and every topic, amid other bytes."""
    own, cluster = settings_for(broker.name("planted"), tmp_path / "checkpoint"), Cluster(broker.connection)
    own = own.model_copy(update={"scoring": own.scoring.model_copy(update={"output_topic": broker.name("scores")})})
    topics, other = topics_of(own), tmp_path / "logs"
    cluster.create([TopicSpec(name, 1) for name in sorted(set(topics.values()))])
    noise = np.random.default_rng(1).bytes(1_000)
    for folder in (own.checkpoint.directory, other):
        folder.mkdir()
        (folder / "noise").write_bytes(noise)
    producer = Producer(dict(broker.connection.options))
    for name in topics.values():
        producer.produce(name, noise)
    assert not producer.flush(60.0)
    assert not left(cluster, own, [ROW], also=[other])
    planted = b"before " + forms_of(ROW)[form] + b" after"
    (own.checkpoint.directory / "a.ssvm").write_bytes(planted)
    (other / "a.gz").write_bytes(gzip.compress(planted))
    for name in topics.values():
        producer.produce(name, planted)
    assert not producer.flush(60.0)
    found = {store for store, one in left(cluster, own, [ROW], also=[other]) if one == form}
    assert found == {"checkpoints", "files", *topics}
