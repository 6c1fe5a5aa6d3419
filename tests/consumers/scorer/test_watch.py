"""The scorer as it is watched: limits of rejected records, what was scored before, names, lag, latency, drift."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import consumers.scorer.observing as watch_module
from consumers import constants
from consumers.settings import Settings
from streamsvm.errors import ConfigurationError
from streamsvm.ingest import scores_of
from streamsvm.ingest.decoder import encode
from streamsvm.kafka import Connection
from streamsvm.model import deciles_header as deciles_codec, deciles_of
from tests.consumers.scorer.running import Running, points, produce, stored
from tests.registry.test_subscriber import Trainer, eventually, version_of

pytestmark = pytest.mark.enough("embedded")


@pytest.fixture(autouse=True)
def limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty rejected records in a row are too many."""
    monkeypatch.setattr(constants, "MOST_REJECTED_IN_A_ROW", 30)


def committed_dead_letters(connection: Connection, settings: Settings) -> int:
    return len(stored(connection, settings.scoring.dead_letters))


def test_a_wrong_topic_stops_the_scorer(
    connection: Connection, served: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Points of another dimension end it, at every start, and its position does not move while nothing was scored."""
    produce(connection, served.scoring.topic, points(range(60), dimension=3))
    for _ in range(2):
        with (
            pytest.raises(ConfigurationError, match=r"30 records in a row .*wrong_dimension"),
            Running(served, connection) as running,
        ):
            eventually(running.ended, "the scorer ends")
    assert committed_dead_letters(connection, served) == 0
    produce(connection, served.scoring.topic, points(range(4)))
    monkeypatch.setattr(constants, "MOST_REJECTED_IN_A_ROW", 1_000)
    with Running(served, connection) as running:
        eventually(lambda: running.value("streamsvm_scored_points_total") == 4, "the good ones are scored")
        eventually(lambda: committed_dead_letters(connection, served) == 60, "each bad one has one letter")


def test_what_was_rejected_waits_for_the_first_that_is_scored(connection: Connection, served: Settings) -> None:
    """Then each has its letter, once; until then none is committed, and the scorer is not ready and says why."""
    produce(connection, served.scoring.topic, points(range(20), dimension=3))
    with Running(served, connection) as running:
        eventually(
            lambda: "could be scored yet" in str(running.health.ready()[1]["waiting_for"].get("input")), "it says why"
        )
        assert committed_dead_letters(connection, served) == 0
        produce(connection, served.scoring.topic, points(range(4)))
        eventually(lambda: running.value("streamsvm_scored_points_total") == 4, "the good ones are scored")
        assert "input" not in running.health.ready()[1]["waiting_for"]
    assert committed_dead_letters(connection, served) == 20


def test_bad_records_do_not_stop_a_scorer_whose_input_is_proven(connection: Connection, served: Settings) -> None:
    """It is not ready instead, after a restart, too, and ready again with the first record that it scores."""
    produce(connection, served.scoring.topic, points(range(8)))
    with Running(served, connection) as running:
        eventually(lambda: running.value("streamsvm_scored_points_total") == 8, "the good ones are scored")
    for _ in range(2):
        produce(connection, served.scoring.topic, points(range(40), dimension=3))
        with Running(served, connection) as running:
            eventually(lambda: running.value("streamsvm_input_mostly_rejected") == 1.0, "the limit is passed")
            assert "records in a row" in running.waiting_for()["input"]
            assert running.health.healthy()[0]
            eventually(lambda: running.value("streamsvm_input_rows_total", outcome="rejected") == 40, "all are read")
    produce(connection, served.scoring.topic, points(range(1)))
    with Running(served, connection) as running:
        eventually(lambda: running.value("streamsvm_scored_points_total") == 1, "the good one is scored")
        eventually(lambda: running.health.ready()[0], "it is ready")
        assert running.value("streamsvm_input_mostly_rejected") == 0.0


def test_scores_of_another_model_or_input_prove_nothing() -> None:
    """Only a score of this input by this model counts."""
    source = (("streamsvm.source", b"points/0/7"),)
    value = json.dumps([{"id": 1, "model": "m"}, {"id": 2, "model": "m"}]).encode()
    assert scores_of(value, source, "points", "m") == 2
    assert scores_of(value, source, "points", "n") == 0
    assert scores_of(value, source, "oints", "m") == 0
    assert scores_of(value, (), "points", "m") == 0
    assert scores_of(b"17", source, "points", "m") == 0
    assert scores_of(json.dumps({"model": "m"}).encode(), source, "points", "m") == 1


def test_what_was_committed_is_counted(connection: Connection, served: Settings) -> None:
    """Labels, values, latency, rows, and records by partition; nothing waits in the end, and no drift is known."""
    produce(connection, served.scoring.topic, [encode([x, 0.0]) for x in (-3.0, -2.0, 1.0, 2.0, 3.0)] + [b"bad"])
    with Running(served, connection) as running:
        eventually(lambda: running.value("streamsvm_input_rows_total", outcome="rejected") == 1, "all are read")
        eventually(lambda: running.value("streamsvm_score_latency_seconds_count") == 5, "all are counted")
        assert running.value("streamsvm_scores_total", label="positive") == 3
        assert running.value("streamsvm_scores_total", label="negative") == 2
        assert running.value("streamsvm_input_rows_total", outcome="accepted") == 5
        assert running.value("streamsvm_score_values_bucket", le="+Inf") == 5
        assert running.value("streamsvm_score_values_bucket", le="0.0") == 2
        assert running.value("streamsvm_score_latency_seconds_bucket", le="300.0") == 5
        read = sum(running.metrics.values("streamsvm_input_records").values())
        assert read == 6
        eventually(lambda: len(running.metrics.values("streamsvm_input_lag_records")) == 4, "four partitions are shown")
        assert set(running.metrics.values("streamsvm_input_lag_records").values()) == {0.0}
        assert math.isnan(running.value("streamsvm_score_drift")), "the version has no header of its audit's scores"
        assert running.value("streamsvm_score_drift_scores") == 0


def test_a_lag_is_shown_in_full(connection: Connection, served: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a batch is held back, what waits behind it shows, by partition, and in the moments that the page has."""
    monkeypatch.setattr(watch_module, "LOOK_EVERY_S", 0.0)
    monkeypatch.setattr(constants, "SCORED_AT_ONCE", 200)
    produce(connection, served.scoring.topic, points(range(4_000)))
    seen: list[float] = []
    with Running(served, connection) as running:

        def lag() -> bool:
            seen.append(sum(running.metrics.values("streamsvm_input_lag_records").values()))
            return running.value("streamsvm_scored_points_total") == 4_000 and seen[-1] == 0.0

        eventually(lag, "all are scored, and nothing waits")
    assert 0 < max(seen) <= 4_000


def test_a_misspelt_name_is_answered_with_the_names_there_are(
    connection: Connection, settings: Settings, trainer: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After some seconds readiness says which models there are, and which one may be meant."""
    monkeypatch.setattr(watch_module, "NAMES_AFTER_S", 0.0)
    published = version_of(1)
    trainer.publish(published)
    misspelt = settings.model_copy(update={"name": published.name + "x"})
    with Running(misspelt, connection) as running:
        eventually(lambda: "Choose one of its models" in running.waiting_for().get("model", ""), "the names are told")
        said = running.waiting_for()["model"]
    assert f"Choose one of its models with --name: {published.name}. Did you mean {published.name}?" in said


def with_scores(trainer: Trainer, scores: np.ndarray) -> None:
    """Publish a version whose header says how these scores lie."""
    reference = deciles_of(scores, np.ones(len(scores)))
    assert reference is not None
    trainer.publish(version_of(1), extra={deciles_codec.HEADER: deciles_codec.encode(reference)})


@pytest.mark.parametrize(("shift", "drifts"), [(0.0, False), (1.0, True)])
def test_drift_of_scores_is_told_from_chance(
    connection: Connection, settings: Settings, trainer: Trainer, shift: float, drifts: bool
) -> None:
    """Scores like those of the audit sample stay below the chance level; shifted by their own deviation, far above."""
    random = np.random.default_rng(7)
    with_scores(trainer, 2.0 * random.normal(size=2_000))
    x = random.normal(shift, 1.0, size=1_000)
    value = b"[" + b",".join(encode([2.0 * one - 1.0, 0.0]) for one in x) + b"]"  # score: x + 1
    produce(connection, settings.scoring.topic, [value])
    with Running(settings, connection) as running:
        eventually(lambda: running.value("streamsvm_score_drift_scores") == 1_000, "the window has them")
        index, chance = running.value("streamsvm_score_drift"), running.value("streamsvm_score_drift_chance")
    assert chance < 0.1
    assert (index > 0.25) if drifts else (index < chance)
