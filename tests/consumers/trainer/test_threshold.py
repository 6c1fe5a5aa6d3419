"""Thresholds on their way: from the options through the topic to readers, and to `streamsvm verify`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from structlog.testing import capture_logs

from consumers.loader import load
from consumers.settings import Settings
from streamsvm import CoresetSVC
from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig, SvmConfig
from streamsvm.errors import ConfigurationError
from streamsvm.kafka import Cluster, Connection, TopicSpec
from streamsvm.learning.learner import Learner
from streamsvm.learning.recipe import make
from streamsvm.model.threshold import Threshold, described
from streamsvm.model.version import Version
from streamsvm.points import Position
from streamsvm.quality.gate import balanced_accuracy
from streamsvm.quality.prequential import Prequential
from streamsvm.quality.skill import Answered, skill_of
from tests.brokers.fixtures import TestBroker
from tests.consumers.command import run
from tests.consumers.trainers import produce, records, run_until, settings_for, versions
from tests.golden import model as golden
from tests.streams import gaussian, rows_of

pytestmark = pytest.mark.enough("real")

ROWS = 250


@pytest.fixture(params=["recall=0.9", "cost"])
def settings(
    broker: TestBroker, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Settings:
    """A trainer whose first versions are of fewer than ten points of the rarer label."""
    monkeypatch.setattr("streamsvm.config.sizes.AUDITED", 4)
    made = settings_for(broker.name("p"), tmp_path / "checkpoint", every_leaves=1)
    goal: dict[str, Any] = {"cost": (5, 1)} if request.param == "cost" else {"target": request.param}
    made = made.model_copy(
        update={
            "svm": SvmConfig(C=1.0, probability="sigmoid", **goal),
            "coreset": CoresetConfig(points=133, structure="tree", train_points=500),
        }
    )
    Cluster(broker.connection).create([TopicSpec(made.input.topic, 4)])
    return made


def oracle(config: ModelConfig, n: int) -> list[Threshold | None]:
    """Choose the same stream's thresholds without broker, batches or daemon."""
    learner, rows, found = Learner(config, {0: Position(0)}, 1), rows_of(gaussian(n)), []
    while len(rows):
        rows = rows.slice(learner.learn(rows), len(rows))
        if learner.cut_due:
            found.append(make(learner.cut(), config).trained.model.threshold)
    return found


def thresholds(found: list[Version]) -> list[Threshold | None]:
    return [version.model.threshold for version in found]


def test_versions_have_the_thresholds_of_the_stream(settings: Settings, connection: Connection) -> None:
    """To the last bit what the mathematics gives, over a restart; the log says once where there is no ground for it.

    Of probabilities it says so with each version that has none.
    """
    produce(connection, settings.input.topic, records(ROWS)[:100])
    with capture_logs() as logs:
        run_until(settings, connection, 100)
        produce(connection, settings.input.topic, records(ROWS)[100:])
        run_until(settings, connection, ROWS - 100)
    published = versions(connection, settings)
    found = thresholds(published)
    without = [version.key for version in published if version.model.probability is None]
    said = [entry for entry in logs if entry["event"] == "no_probability"]
    assert 0 < len(without) < len(published)
    assert [entry["version"] for entry in said] == without
    assert all("10 are needed" in entry["reason"] for entry in said)
    assert found == oracle(settings.models(), ROWS)
    chosen = [one is not None and one.chosen for one in found]
    assert {True, False} == set(chosen)
    warned = [entry for entry in logs if entry["event"] == "threshold_not_chosen"]
    assert 1 <= len(warned) <= 2  # at most once a start
    assert all("coreset.points" in entry["remedy"] for entry in warned)


# ---------------------------------------------------------------- options


def config_of(**svm: Any) -> ModelConfig:
    return ModelConfig(points=PointsConfig(dimension=2), svm=SvmConfig(**svm))


def test_each_goal_is_another_configuration() -> None:
    """By its hash, and the canonical value brings it back."""
    plain = config_of()
    assert plain.canonical()["svm"]["cost"] is plain.canonical()["svm"]["target"] is None
    hashes = {plain.sha256()}
    for svm in ({"cost": "50,1"}, {"target": "recall=0.9"}, {"target": {"recall": 0.8}}):
        made = config_of(**svm)
        assert ModelConfig.of_canonical(json.loads(json.dumps(made.canonical()))) == made
        hashes.add(made.sha256())
    assert len(hashes) == 4
    assert config_of(cost="50,1").svm.goal == ("cost", (50.0, 1.0))
    assert config_of(target="alarm_rate=0.01").svm.goal == ("alarm_rate", 0.01)
    assert config_of(cost="none", target="none") == plain


@pytest.mark.parametrize(
    ("svm", "said"),
    [
        ({"cost": "50,1", "target": "recall=0.9"}, "svm.cost = 50.0,1.0, and svm.target = recall=0.9"),
        ({"cost": "50"}, "not two costs"),
        ({"cost": "0,1"}, "0 is not a cost"),
        ({"cost": "a,b"}, "'a' is not a cost"),
        ({"target": "recall=1"}, "recall is 1: give a share above 0 and below 1"),
        ({"target": "recall=high"}, "recall is 'high'"),
        ({"target": "f1=0.5"}, "'f1' is unknown"),
        ({"target": {"recall": 0.5, "precision": 0.5}}, "give only one"),
        ({"target": "0.9"}, "0.9 is not a target"),
    ],
)
def test_what_makes_no_sense_is_refused(svm: dict[str, Any], said: str) -> None:
    """In words that say what to give."""
    with pytest.raises(ConfigurationError, match=said):
        load({"points": {"dimension": 2}, "svm": svm})


# ---------------------------------------------------------------- what follows by itself


def test_the_estimator_answers_at_the_threshold() -> None:
    """Predictions are those above it, also after a copy through plain values; several classes are refused."""
    points = gaussian(3_000)
    machine = CoresetSVC(points=2_000, target={"recall": 0.95}).fit(points.X, points.y)
    threshold = machine.threshold_
    assert threshold is not None
    assert threshold.chosen
    decision = machine.decision_function(points.X)
    expected = np.where(decision > threshold.value, 1, -1)
    assert (expected != np.where(decision > 0.0, 1, -1)).any()
    np.testing.assert_array_equal(machine.predict(points.X), expected)
    restored = CoresetSVC.__new__(CoresetSVC)
    restored.__setstate__(machine.__getstate__())
    np.testing.assert_array_equal(restored.predict(points.X), expected)
    assert CoresetSVC().fit(points.X, points.y).threshold_ is None
    with pytest.raises(ValueError, match=r"cost = 5\.0,1\.0, but y has 3 labels"):
        CoresetSVC(cost=(5.0, 1.0)).fit(points.X, np.arange(len(points.y)) % 3)


def test_gate_skill_and_stream_answer_at_the_threshold() -> None:
    """Each by the same points at 0 and at the threshold."""
    points = gaussian(2_000)
    model = CoresetSVC(points=2_000, target={"alarm_rate": 0.05}).fit(points.X, points.y).model_
    assert not isinstance(model, tuple)
    decision, border = model.decision_function(points.X), model.border
    told = decision > border
    parts = ((points.y > 0, told), (points.y < 0, ~told))
    shares = [points.weight[own & right].sum() / points.weight[own].sum() for own, right in parts]
    assert balanced_accuracy(model, points) == pytest.approx(np.mean(shares))
    skill = skill_of(None, Answered(y=points.y, weight=points.weight, values=decision, border=border), 1)
    assert skill.audit is not None
    assert skill.audit.said == pytest.approx(float(points.weight[told].sum() / points.weight.sum()))
    scorer = Prequential(points.dimension, window=4_000, baseline_every=0)
    scorer.serve(model)
    scorer.add(points)
    scorer.serve(replace(model, threshold=None))
    scorer.add(points)
    answered = scorer.answered()
    assert answered is not None
    assert answered.said[:2_000].mean() == pytest.approx(told.mean(), abs=1e-3)
    assert answered.said[2_000:].mean() == pytest.approx((decision > 0.0).mean(), abs=1e-3)


def test_the_page_has_a_line_for_it() -> None:
    """What was asked for, and what is expected of it; nothing without a threshold."""
    from consumers.page.status import Figures, QualityStatus
    from consumers.page.trainer_page import _answers

    quality = QualityStatus(None, Figures(), Figures(), Figures(), ())
    assert "Threshold" not in str(_answers(quality))
    quality = msgspec.structs.replace(quality, threshold=described(golden.THRESHOLDS["linear"]))
    assert (
        "Threshold -0.3333, chosen for recall 0.9: expected recall 0.91 (0.86 to 0.94), precision 0.81, alarms 25 %."
    ) in str(_answers(quality))


@pytest.mark.parametrize("goal", [["--cost", "10,1"], ["--target", "recall=0.9"]])
def test_evaluate_shows_it_on_held_out_rows(goal: list[str]) -> None:
    """A table of thresholds for people, the figures in the row for programs."""
    options = ["evaluate", "--dataset", "htru2", "--points", "4000", "--no-optimum", *goal]
    text = run(*options).stdout
    assert "chosen" in text
    assert "threshold" in text
    report = json.loads(run(*options, "--json").stdout)
    ours = next(row for row in report["rows"] if row["contender"] == "streamsvm")
    assert (ours["cost"] is None) == (goal[0] == "--target")
    assert any(one["threshold"] == ours["threshold"] for one in report["thresholds"])
    recalls = [one["recall"] for one in report["thresholds"]]
    assert recalls == sorted(recalls, reverse=True)
    assert "threshold" not in next(row for row in report["rows"] if row["contender"] == "SGD")
