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
from consumers.models.show import describe
from consumers.settings import Settings
from consumers.verify.verify import verify
from streamsvm import CoresetSVC
from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig, SvmConfig
from streamsvm.errors import ConfigurationError
from streamsvm.ingest.scored import BatchScorer
from streamsvm.kafka import Cluster, Connection, Record, TopicSpec
from streamsvm.learning.learner import Learner
from streamsvm.learning.recipe import make
from streamsvm.model.threshold import Threshold, described
from streamsvm.model.version import Version
from streamsvm.points import Position
from streamsvm.quality.gate import balanced_accuracy
from streamsvm.quality.prequential import Prequential
from streamsvm.quality.skill import Answered, skill_of
from streamsvm.registry.loading import load_version
from tests.brokers.fixtures import TestBroker
from tests.consumers.command import run
from tests.consumers.forged import Forged
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
            "svm": SvmConfig(C=1.0, **goal),
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
    """To the last bit what the mathematics gives; a start between changes none, and the log says it once."""
    produce(connection, settings.input.topic, records(ROWS)[:100])
    with capture_logs() as logs:
        run_until(settings, connection, 100)
        produce(connection, settings.input.topic, records(ROWS)[100:])
        run_until(settings, connection, ROWS - 100)
    found = thresholds(versions(connection, settings))
    assert found == oracle(settings.models(), ROWS)
    chosen = [one is not None and one.chosen for one in found]
    assert {True, False} == set(chosen)
    warned = [entry for entry in logs if entry["event"] == "threshold_not_chosen"]
    assert 1 <= len(warned) <= 2  # at most once a start
    assert all("coreset.points" in entry["remedy"] for entry in warned)


def test_a_reader_answers_at_the_threshold(settings: Settings, connection: Connection) -> None:
    """A loaded version, `model show`, and every record of the scorer; verify finds the topic clean, and a change."""
    produce(connection, settings.input.topic, records(ROWS))
    run_until(settings, connection, ROWS)
    published = next(one for one in reversed(versions(connection, settings)) if _moved(one))
    loaded = load_version(connection, "m", models_topic=settings.output.models_topic, number=published.number)
    threshold = published.model.threshold
    assert threshold is not None
    X = gaussian(400, seed=3).X
    decision = loaded.decision_function(X)
    expected = [published.labels[1] if one > threshold.value else published.labels[0] for one in decision]
    assert loaded.predict(X).tolist() == expected
    assert ((decision > threshold.value) != (decision > 0.0)).any()  # a reader at 0 would be found
    assert described(threshold) in table_text(loaded)
    scorer = BatchScorer(published, loaded.sha256, max_record_bytes=1_000, max_message_bytes=100_000)
    values = [json.dumps({"x": x.tolist()}).encode() for x in X]
    sources = [Record("in", 0, at, None, value, (), -1, None) for at, value in enumerate(values)]
    scored = scorer.score(sources)
    assert [json.loads(one.value)["label"] for one in scored.records] == expected
    assert scored.border == threshold.value
    assert verify(Cluster(connection), settings).clean
    forged = Forged(settings, connection)
    forged.change(published.number, nudged)
    forged.rechain()
    report = verify(Cluster(connection), forged.store())
    assert not report.clean
    assert "threshold.value" in "; ".join(report.lines())


def _moved(version: Version) -> bool:
    threshold = version.model.threshold
    return threshold is not None and threshold.chosen and abs(threshold.value) > 0.01


def nudged(version: Version) -> Version:
    assert version.model.threshold is not None
    value = float(np.nextafter(version.model.threshold.value, np.inf))
    changed = msgspec.structs.replace(version.model.threshold, value=value)
    return replace(version, model=replace(version.model, threshold=changed))


def table_text(loaded: Any) -> str:
    columns = describe(loaded).columns
    return " ".join(str(cell) for column in columns for cell in column.cells)


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
