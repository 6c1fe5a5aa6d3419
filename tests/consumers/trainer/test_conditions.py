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
from streamsvm.coreset import MEANINGS
from streamsvm.coreset.outliers import Outlier, Tally
from streamsvm.coreset.reduce import Observed
from streamsvm.datasets import load_htru2
from streamsvm.ingest import encode
from streamsvm.kafka import Connection
from streamsvm.learning.learner import Learner
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


@pytest.mark.parametrize("memory", [{"memory": "window", "window": 16_000}, {"memory": "decay", "half_life": 16_000}])
@pytest.mark.parametrize("turns", [False, True])
def test_a_turn_inside_a_window_is_told_until_it_has_passed(memory: dict[str, object], turns: bool) -> None:
    """While both worlds are held, every leaf of the new one counts; what was forgotten is no reason any more."""
    X, n = np.random.default_rng(4).normal(size=(80_000, 4)).astype(np.float32), 80_000
    y = np.where(X[:, 0] + 0.3 * X[:, 1] > 0.0, 1, -1).astype(np.int8)
    if turns:
        y[40_000:] *= -1
    config = ModelConfig(
        points=PointsConfig(dimension=4),
        coreset=sized(leaf_rows=500, bucket_points=500, **memory),
    )
    learner, counts = Learner(config, {0: Position(0)}, 1 << 30), []
    rows = rows_of(Points(X, y, np.ones(n)))
    for end in (40_000, 48_000, 80_000):
        learner.learn(rows.slice(int(learner.positions[0].offset), end))
        counts.append(learner.observed().shifted)
    assert counts[0] == 0
    assert (counts[1] > 0) is turns
    if memory["memory"] == "window" and turns:
        learner.learn(rows_of(Points(X, y, np.ones(n)).take(slice(40_000, None)), first_offset=n))
        assert learner.observed().shifted == counts[2]
    told_of = Conditions(config.coreset.memory)
    with structlog.testing.capture_logs() as logs:
        told_of.report(learner.observed().counts())
    assert (
        any("coreset.memory = adaptive" in line["remedy"] and "chain" not in line["remedy"] for line in logs) is turns
    )


def test_a_condition_is_told_once_and_again_as_its_count_grows_tenfold() -> None:
    """However long it lasts, the log gets a line for each power of ten."""
    assert told({}, {"calibrated": 9}) == []
    assert told(*({"strained": count} for count in range(2, 2_000))) == [("strained", n) for n in (2, 20, 200)]
    assert told({"shifted": 1}, {"shifted": 1, "by_weight": 4}) == [("shifted", 1), ("by_weight", 4)]


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
@pytest.mark.parametrize("order", ["shuffled", "by-class", "drifting"])
def test_sorted_streams_are_noticed_and_shuffled_ones_are_not(structure: str, order: str) -> None:
    """Real points: sorted by label, or by a feature, at least one condition is met; shuffled none is."""
    points = survey()
    turn = {
        "shuffled": np.random.default_rng(3).permutation(len(points)),
        "by-class": np.argsort(points.y, kind="stable"),
        "drifting": np.argsort(points.X[:, 0], kind="stable"),
    }[order]
    counts = observed(points.take(turn), structure)
    met = {name for name, count in counts.items() if count} - {"calibrated"}
    expected = {"shuffled": set(), "by-class": {"by_weight"}, "drifting": {"shifted"}}[order]
    assert expected <= met
    assert order != "shuffled" or not met
    assert counts["calibrated"] > 0


def turning(n: int, degrees: int) -> Points:
    """Return normal features whose rule turns evenly over the stream, while they and the share of labels stay."""
    random = np.random.default_rng(5)
    X, angle = random.normal(size=(n, 8)).astype(np.float32), np.linspace(0.0, np.deg2rad(degrees), n)
    rule = X[:, 0] * np.cos(angle) + X[:, 1] * np.sin(angle) + 0.3 * random.normal(size=n)
    return Points(X, np.where(rule > 0.0, 1, -1).astype(np.int8), np.ones(n))


@pytest.mark.parametrize("structure", ["tree", "chain"])
@pytest.mark.parametrize(("degrees", "noticed"), [(0, False), (90, True), (180, True)])
def test_a_rule_that_turns_slowly_is_noticed_in_screened_leaves(structure: str, degrees: int, noticed: bool) -> None:
    """The rule alone: no feature, and no share of labels, says anything."""
    assert bool(observed(turning(60_000, degrees), structure)["shifted"]) == noticed


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
    return Outlier(
        partition=2, begin=Position(7, 1), end=Position(7, 2), feature=feature, value=1e9, bound=40.0, excess=excess
    )


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
