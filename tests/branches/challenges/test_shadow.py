"""A version in the shadow: scored on the same records, said in the same score, and waited for by nobody."""

from __future__ import annotations

import json
import re
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from streamsvm.branches.challenges.shadow import InShadow, shadow_fault
from streamsvm.ingest import BatchScorer, encode
from streamsvm.kafka import Cluster, Connection, TopicSpec
from tests.brokers.fixtures import TestBroker
from tests.consumers.scorer.running import Running, points, produce, scores, settings_for
from tests.ingest.test_scored import record_of
from tests.registry.test_subscriber import NAME, Trainer, eventually, version_of


@pytest.fixture
def connection(broker: TestBroker) -> Connection:
    return broker.connect(fetch_wait_max_ms=10)


def scorer_of(number: int = 2, **options: Any) -> BatchScorer:
    limits = {"max_record_bytes": 10_000, "max_message_bytes": 1_000_000}
    return BatchScorer(version_of(number), "ab" * 32, **{**limits, **options})


def test_a_score_says_what_the_shadow_would_have_answered() -> None:
    """Every row of a record has both; without its field the score has the bytes of a scorer without a shadow."""
    values = [encode([1.0, 2.5], id="a"), b"[" + encode([-1, -2]) + b"," + encode([1]) + b"," + encode([0, 1]) + b"]"]
    records = [record_of(value, at) for at, value in enumerate(values)]
    plain = scorer_of().score(records)
    beside = scorer_of(beside=InShadow(version_of(3))).score(records)
    assert beside.rejected == plain.rejected
    assert beside.values == plain.values
    shadows: list[dict[str, Any]] = []
    for one, other in zip(plain.records, beside.records, strict=True):
        assert re.sub(rb',"shadow":\{[^}]*\}', b"", other.value) == one.value
        assert other.headers == one.headers
        found = json.loads(other.value)
        shadows.extend(score["shadow"] for score in (found if isinstance(found, list) else [found]))
    assert [one["score"] for one in shadows] == [13.5, -6.0, 6.0]  # 3 x1 + 3 x2 + 3
    assert [one["label"] for one in shadows] == [1, -1, 1]
    assert {(one["model"], one["version"]) for one in shadows} == {(NAME, 3)}


def test_a_shadow_that_overflows_says_nothing_and_costs_no_score() -> None:
    """JSON knows no infinity: such a row has its score, and no shadow."""
    value = b"[" + encode([1e99, 1e99]) + b"," + encode([1.0, 0.0]) + b"]"
    scored = scorer_of(1, beside=InShadow(version_of(2, weight=1e300))).score([record_of(value)])
    assert scored.rejected == []
    found = json.loads(scored.records[0].value)
    assert ["shadow" in one for one in found] == [False, True]


def test_a_version_that_reads_other_rows_is_no_shadow() -> None:
    """Other features, other labels and another recipe are named."""
    serving = version_of(2)
    assert shadow_fault(serving, version_of(3)) == ""
    assert "has 3 features" in shadow_fault(serving, version_of(3, dimension=3))
    assert "different labels" in shadow_fault(serving, version_of(3, labels=("no", "yes")))


def test_the_scorer_follows_the_alias_of_the_challenger(connection: Connection) -> None:
    """No alias, an alias, the alias of what serves, an alias of another kind: scores go on all the while."""
    settings = settings_for(connection)
    settings = settings.model_copy(update={"scoring": settings.scoring.model_copy(update={"shadow": "@challenger"})})
    topic = settings.scoring.topic
    with closing(Trainer(connection, settings.output.models_topic)) as trainer:
        first = trainer.publish(version_of(1))
        with Running(settings, connection) as running:
            produce(connection, topic, points(range(10)))
            eventually(lambda: running.value("streamsvm_scored_points_total") == 10, "10 are scored")
            trainer.point(f"{NAME}@challenger", trainer.publish(version_of(2), named=False))
            eventually(lambda: running.value("streamsvm_shadow_version") == 2, "version 2 is in the shadow")
            produce(connection, topic, points(range(10, 20)))
            eventually(lambda: running.value("streamsvm_scored_points_total") == 20, "20 are scored")
            trainer.point(f"{NAME}@challenger", first)
            eventually(lambda: running.value("streamsvm_shadow_version") == 0, "what serves is no shadow of itself")
            trainer.point(f"{NAME}@challenger", trainer.publish(version_of(3, dimension=3), named=False))
            produce(connection, topic, points(range(20, 30)))
            eventually(lambda: running.value("streamsvm_scored_points_total") == 30, "30 are scored")
            assert running.health.ready()[0], running.health.ready()
            assert running.value("streamsvm_shadow_version") == 0
    found = {score["id"]: score for score in scores(connection, settings)}
    assert len(found) == 30
    assert {score["version"] for score in found.values()} == {1}
    assert all(("shadow" in found[number]) == (10 <= number < 20) for number in range(30))
    assert all(found[number]["shadow"]["score"] == 4.0 * number + 2.0 for number in range(10, 20))


def test_the_scorer_follows_the_models_of_another_trainer(connection: Connection) -> None:
    """Its current version, under its own name."""
    settings = settings_for(connection)
    others = f"{settings.output.models_topic}-others"
    Cluster(connection).create([TopicSpec(others), TopicSpec(f"{others}.aliases")])
    scoring = settings.scoring.model_copy(update={"shadow": f"{others}/{NAME}"})
    settings = settings.model_copy(update={"scoring": scoring})
    with (
        closing(Trainer(connection, settings.output.models_topic)) as trainer,
        closing(Trainer(connection, others)) as other,
    ):
        trainer.publish(version_of(1))
        other.publish(replace(version_of(1), model=version_of(2).model))
        with Running(settings, connection) as running:
            eventually(lambda: running.value("streamsvm_shadow_version") == 1, "it is in the shadow")
            produce(connection, settings.scoring.topic, points(range(5)))
            eventually(lambda: running.value("streamsvm_scored_points_total") == 5, "5 are scored")
    for score in scores(connection, settings):
        x = np.full(2, float(score["id"]))
        assert score["score"] == x.sum() + 1.0
        assert score["shadow"]["score"] == 2.0 * (x.sum() + 1.0)
