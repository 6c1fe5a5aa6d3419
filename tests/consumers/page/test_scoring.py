"""What a scorer's verdict says, and that its figures are those of the metrics."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import numpy as np
import pytest

from consumers.host import Health
from consumers.metrics import SCORER, Metrics
from consumers.page.board import ScorerBoard, ServingSnapshot
from consumers.page.collect import status_of
from consumers.page.page import page_of
from consumers.page.scoring import ScorerFacts, verdict_of
from consumers.page.status import DriftPart, ScorerStatus, ScoringMoment, Status, encode
from consumers.settings import Settings
from streamsvm.registry import Loaded
from tests.registry.test_subscriber import version_of

T0 = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
SERVING = ServingSnapshot(Loaded(version=version_of(3), sha256="ab" * 32, offset=7, loaded_at=T0.timestamp()))
NO_DRIFT = DriftPart(None, None, 0, "")


def history(lag: int | None, records_per_s: float, latency_s: float | None) -> tuple[ScoringMoment, ...]:
    return tuple(
        ScoringMoment(
            time=T0 + timedelta(seconds=n),
            records_per_s=records_per_s,
            points_per_s=records_per_s,
            lag=lag,
            latency_s=latency_s,
            positive=0.25,
            drift=None,
        )
        for n in range(10)
    )


@pytest.mark.parametrize(
    ("facts", "level", "headline"),
    [
        (ScorerFacts(False, 5, NO_DRIFT, ()), "good", "Scoring"),
        (ScorerFacts(True, 5, NO_DRIFT, ()), "bad", "Rejecting most records"),
        (ScorerFacts(False, 5, NO_DRIFT, history(100_000, 1_000.0, 1.0)), "bad", "Behind"),
        (ScorerFacts(False, 5, NO_DRIFT, history(100_000, 2_000.0, 1.0)), "good", "Scoring"),
        (ScorerFacts(False, 5, NO_DRIFT, history(100, 0.0, None)), "bad", "Behind"),
        (ScorerFacts(False, 5, NO_DRIFT, history(100, 2_000.0, 90.0)), "bad", "Behind"),
        (ScorerFacts(False, 5, NO_DRIFT, history(0, 2_000.0, 90.0)), "good", "Scoring"),
        (ScorerFacts(False, 5, DriftPart(0.5, 0.1, 900, ""), ()), "fair", "Scoring, but scores have drifted"),
        (ScorerFacts(False, 5, DriftPart(0.5, 0.6, 900, ""), ()), "good", "Scoring"),
        (ScorerFacts(False, 5, DriftPart(0.2, 0.1, 900, ""), ()), "good", "Scoring"),
    ],
)
def test_the_verdict(facts: ScorerFacts, level: str, headline: str) -> None:
    """Rejected records first, then lag, then drift."""
    found = verdict_of(facts, SERVING)
    assert (found.level, found.headline) == (level, headline)
    assert verdict_of(facts, ServingSnapshot()).level == "waiting"


def test_a_status_has_the_figures_of_the_metrics() -> None:
    """Through JSON and back, and on the page; a scorer that rejects is red although it is not ready."""
    settings, metrics, health, board = Settings(name="m"), Metrics(SCORER), Health(stuck_after_s=60.0), ScorerBoard()
    board.serving(SERVING.loaded)  # type: ignore[arg-type]
    metrics.observe_all("streamsvm_score_values", np.array([-0.7, -0.6, 0.05, 99.0]))
    metrics.increase("streamsvm_scores", 2, label="positive")
    metrics.put("streamsvm_input_lag_records", 4, partition="10")
    metrics.put("streamsvm_input_lag_records", 3, partition="2")
    metrics.put("streamsvm_input_mostly_rejected", 1)
    health.require("input", "1000 records in a row of points were rejected")
    for second in range(3):
        board.scored(10, 20, 5, 0.25)
        board.look(7, 0.01, T0 + timedelta(seconds=2 * second), 2.0 * second)
    status = status_of(settings, board, metrics, health, started=T0, now=T0)
    assert isinstance(status, ScorerStatus)
    assert msgspec.json.decode(encode(status), type=Status) == status
    assert status.verdict.headline == "Rejecting most records"
    scoring = status.scoring
    assert scoring is not None
    assert (scoring.positive, scoring.lag_total, list(scoring.lag)) == (2, 7, ["2", "10"])
    assert [(bound, count) for bound, count in scoring.values if count] == [(-0.5, 2), (0.1, 1), (None, 1)]
    assert [moment.points_per_s for moment in scoring.history] == [20.0, 10.0]
    assert scoring.history[-1].positive == 0.25
    page = page_of(status, None, None, T0).decode()
    for text in ("Share of the label", "Seconds from record to score", "Records behind the end of the input", "25.0%"):
        assert text in page


def test_a_series_that_is_anothers_now_goes() -> None:
    """A partition that went to another scorer is not shown twice."""
    metrics = Metrics(SCORER)
    metrics.put("streamsvm_input_lag_records", 4, partition="0")
    metrics.drop("streamsvm_input_lag_records", "0")
    assert metrics.values("streamsvm_input_lag_records") == {}


def test_a_histogram_filled_at_once_is_that_filled_one_by_one() -> None:
    """A bound belongs to its bucket, and the sums agree."""
    one, other = Metrics(SCORER), Metrics(SCORER)
    values = np.array([0.0, 0.03, 0.030001, 5.0, 1e9])
    one.observe_all("streamsvm_score_latency_seconds", values)
    for value in values:
        other.observe_all("streamsvm_score_latency_seconds", np.array([value]))
    name = "streamsvm_score_latency_seconds"
    expected = {"0.03": 2, "0.1": 3, "3.0": 3, "10.0": 4, "+Inf": 5}
    for metrics in (one, other):
        found = {bound: metrics.registry.get_sample_value(f"{name}_bucket", {"le": bound}) for bound in expected}
        assert found == expected
        assert metrics.registry.get_sample_value(f"{name}_count") == 5
        assert metrics.registry.get_sample_value(f"{name}_sum") == pytest.approx(values.sum())
