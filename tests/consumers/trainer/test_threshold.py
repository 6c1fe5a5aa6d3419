"""Thresholds on their way: from the options through the topic to readers, and to `streamsvm verify`."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from streamsvm import CoresetSVC
from streamsvm.config import SvmConfig
from streamsvm.model import Skill, answers, balanced_accuracy
from streamsvm.quality import Answered, Prequential, skill_of
from tests.consumers.command import run
from tests.streams import gaussian


def test_a_goal_may_be_text() -> None:
    """As options of the command line are, also to take it back."""
    assert SvmConfig(cost="50,1").goal == ("cost", (50.0, 1.0))
    assert SvmConfig(target="alarm_rate=0.01").goal == ("alarm_rate", 0.01)
    assert SvmConfig(cost="none", target="none") == SvmConfig()


def test_the_estimator_answers_at_the_threshold() -> None:
    """Predictions are those above it, also after a copy through plain values; without a goal there is none."""
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


def test_gate_skill_and_stream_answer_at_the_threshold() -> None:
    """Each by the same points at 0 and at the threshold."""
    points = gaussian(2_000)
    model = CoresetSVC(points=2_000, target={"alarm_rate": 0.05}).fit(points.X, points.y).model_
    assert not isinstance(model, tuple)
    decision, border = model.decision_function(points.X), model.border
    told = decision > border
    parts = ((points.y > 0, told), (points.y < 0, ~told))
    shares = [points.weight[own & right].sum() / points.weight[own].sum() for own, right in parts]
    said = answers(decision, border)
    assert balanced_accuracy(said, points.y, points.weight) == pytest.approx(np.mean(shares))
    skill = skill_of(None, Answered(y=points.y, said=said, weight=points.weight, values=decision), 1)
    assert isinstance(skill, Skill)
    assert skill.audit is not None
    assert skill.audit.said == pytest.approx(float(points.weight[told].sum() / points.weight.sum()))
    scorer = Prequential(points.dimension, window=4_000, baseline_every=0)
    scorer.serve(model)
    scorer.add(points)
    scorer.serve(replace(model, threshold=None))
    scorer.add(points)
    answered = scorer.answered()
    assert answered is not None
    assert (answered.said[:2_000] > 0).mean() == pytest.approx(told.mean(), abs=1e-3)
    assert (answered.said[2_000:] > 0).mean() == pytest.approx((decision > 0.0).mean(), abs=1e-3)


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
