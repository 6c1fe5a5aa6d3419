"""Conditions of the coreset, and outliers: said at first, then seldom, and never on a stream that it is made for."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import structlog

from consumers.settings import Settings
from consumers.trainer.coreset_conditions import REMEDIES, Conditions
from consumers.trainer.outliers import OutlierLog
from consumers.trainer.startup import few_points
from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig, SvmConfig
from streamsvm.coreset import Drift, Observed, Outlier, Tally
from streamsvm.datasets import load_htru2
from streamsvm.ingest import encode
from streamsvm.kafka import Connection
from streamsvm.learning import MEANINGS, Learner
from streamsvm.points import Points, Position
from tests.config.sizes import sized
from tests.consumers.trainers import produce, records, run_until, versions
from tests.streams import DIMENSION, rows_of

pytestmark = pytest.mark.enough("real")

NONE = Observed().counts()


def told(*counts: dict[str, int]) -> list[tuple[str, int]]:
    """Tell counts one after another; return the warnings' condition and count."""
    conditions = Conditions()
    with structlog.testing.capture_logs() as logs:
        for each in counts:
            conditions.report(NONE | each)
    assert all(line["log_level"] == "warning" and line["what"] and line["remedy"] for line in logs)
    return [(line["condition"], line["count"]) for line in logs]


def test_every_condition_that_is_counted_has_words() -> None:
    """A new outcome that nobody explains would be exported and never said."""
    assert MEANINGS.keys() == REMEDIES.keys() == NONE.keys() - {"calibrated"}


def drifting(n: int, feature: int | None) -> Points:
    """Return normal features, of which one, or the share of labels, moves after half of the rows."""
    random = np.random.default_rng(4)
    X, y = random.normal(size=(n, 4)).astype(np.float32), np.where(random.random(n) < 0.3, 1, -1).astype(np.int8)
    if feature is None:
        y[n // 2 :] = np.where(random.random(n - n // 2) < 0.6, 1, -1)
    elif feature >= 0:
        X[n // 2 :, feature] += 1.0
    return Points(X, y, np.ones(n))


@pytest.mark.parametrize("memory", [{}, {"memory": "window", "window": 16_000}, {"memory": "adaptive"}])
@pytest.mark.parametrize(("feature", "moved"), [(2, "the feature c"), (None, "the share of the label 'yes'")])
def test_a_partition_that_drifts_is_told_once(memory: dict[str, object], feature: int | None, moved: str) -> None:
    """With its name, what moved, from where to where, and what can be done; one that goes on as it was is not."""
    config = ModelConfig(
        points=PointsConfig(dimension=4, labels=("no", "yes"), feature_names=("a", "b", "c", "d")),
        coreset=sized(leaf_rows=500, bucket_points=500, **memory),
    )
    learner, told_of = Learner(config, {0: Position(0), 3: Position(0)}, 1 << 30), Conditions(config.coreset.memory)
    streams = [rows_of(drifting(90_000, -1), 0), rows_of(drifting(90_000, feature), 3)]
    with structlog.testing.capture_logs() as logs:
        for start in range(0, 90_000, 5_000):
            for rows in streams:
                learner.learn(rows.slice(start, start + 5_000))
            told_of.warn_of_drift(learner.drift(), config.points)
    assert [(line["event"], line["log_level"], line["partition"], line["moved"]) for line in logs] == [
        ("stream_drifts", "warning", 3, moved)
    ]
    before, now = (0.0, 1.0) if feature is not None else (0.3, 0.6)
    assert (logs[0]["mean_before"], logs[0]["mean_now"]) == pytest.approx((before, now), abs=0.05)
    assert 0.4 < logs[0]["standard_deviations"] < 1.1
    assert ("coreset.memory = adaptive" in logs[0]["remedy"]) is (config.coreset.memory != "adaptive")


def test_drift_is_told_again_after_it_was_silent() -> None:
    """Not while it lasts, whatever moves most; each partition for itself."""
    one, other = Drift(0, None, 0.0, 1.0, 2.0), Drift(None, 1, 0.1, 0.2, 3.0)
    told_of = Conditions()
    with structlog.testing.capture_logs() as logs:
        for drifts in ({0: one}, {0: other, 2: one}, {2: one}, {}, {0: other}):
            told_of.warn_of_drift(drifts, PointsConfig(dimension=4))
    assert [(line["partition"], line["moved"]) for line in logs] == [
        (0, "the feature x[0]"), (2, "the feature x[0]"), (0, "the share of the label 1")
    ]  # fmt: skip


def test_a_trainer_tells_of_drift(
    settings: Settings, connection: Connection, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It asks whenever it takes a cut."""
    monkeypatch.setattr(Learner, "drift", lambda _: {0: Drift(1, None, 0.0, 1.0, 2.0)})
    produce(connection, settings.input.topic, records(160))
    run_until(settings, connection, 160)
    assert sum("stream_drifts" in line for line in capsys.readouterr().out.splitlines()) == 1


def test_a_condition_is_told_once_and_again_as_its_count_grows_tenfold() -> None:
    """However long it lasts, the log gets a line for each power of ten."""
    assert told({}, {"calibrated": 9}) == []
    assert told(*({"strained": count} for count in range(2, 2_000))) == [("strained", n) for n in (2, 20, 200)]
    assert told({"crowded": 1}, {"crowded": 1, "by_weight": 4}) == [("crowded", 1), ("by_weight", 4)]


def test_few_points_for_the_features_are_told() -> None:
    """With what would do."""
    points = PointsConfig(dimension=22)
    told = few_points(ModelConfig(points=points, coreset=CoresetConfig(points=156)))
    assert told is not None
    assert told[0].startswith("each partition has 156 points")
    enough = int(re.findall(r"points to (\d+)", told[1])[0])
    assert few_points(ModelConfig(points=points, coreset=CoresetConfig(points=enough))) is None


def observed(points: Points, structure: str) -> dict[str, int]:
    """Return what a learner with memory for 2,000 points meets on a stream."""
    coreset = CoresetConfig(structure=structure, points=2_000)
    config = ModelConfig(points=PointsConfig(dimension=points.dimension), coreset=coreset, svm=SvmConfig(C=1.0))
    learner = Learner(config, {0: Position(0)}, every_leaves=1 << 40)
    learner.learn(rows_of(points))
    return learner.observed().counts()


def survey() -> Points:
    X, y, _ = load_htru2()
    return Points(X, y, np.ones(len(y)))


@pytest.mark.parametrize("structure", ["tree", "chain"])
@pytest.mark.parametrize("order", ["shuffled", "by-class"])
def test_sorted_streams_are_noticed_and_shuffled_ones_are_not(structure: str, order: str) -> None:
    """Real points: sorted by label, a condition is met; shuffled none is."""
    points = survey()
    turn = {
        "shuffled": np.random.default_rng(3).permutation(len(points)),
        "by-class": np.argsort(points.y, kind="stable"),
    }[order]
    counts = observed(points.take(turn), structure)
    met = {name for name, count in counts.items() if count} - {"calibrated"}
    assert "by_weight" in met if order == "by-class" else not met
    assert counts["calibrated"] > 0


# ---------------------------------------------------------------- outliers


FAR = encode([1e30] * DIMENSION, 1, 1.0)


def test_the_record_is_named(settings: Settings, connection: Connection, capsys: pytest.CaptureFixture[str]) -> None:
    """Topic, partition, offset, feature and value, in one line; the metric counts it; the models stay sane."""
    produce(connection, settings.input.topic, [*records(90), FAR, *records(69, seed=1)])
    running = run_until(settings, connection, 160)
    said = [line for line in capsys.readouterr().out.splitlines() if "outlier_drawn_in" in line]
    assert len(said) == 1
    assert f"{settings.input.topic}[0]@90 row 0" in said[0]
    assert "value=1.00000001" in said[0]
    assert running.value("streamsvm_coreset_clipped_rows", what="features") == 1
    newest = versions(connection, settings)[-1]
    assert newest.model.scaler.scale.max() < 10.0


def outlier(excess: float, feature: int | None = 3) -> Outlier:
    return Outlier(partition=2, place=Position(7, 1), feature=feature, value=1e9, bound=40.0, excess=excess)


def test_the_log_stays_short(capsys: pytest.CaptureFixture[str]) -> None:
    """A line for the first telling value, for one ten times as far, and for ten times as many; none for near ones."""
    log = OutlierLog("in")

    def tell(count: int, excess: float) -> int:
        log.report(Tally(count, 0, outlier(excess)))
        return len(capsys.readouterr().out.splitlines())

    assert [tell(1, 5.0), tell(1, 20.0), tell(2, 20.0), tell(9, 150.0), tell(10, 250.0)] == [0, 1, 0, 0, 1]
    assert tell(99, 250.0) == 0
    assert tell(100, 250.0) == 1
    log.report(Tally(0, 0, None))
    assert json.dumps(capsys.readouterr().out) == '""'
