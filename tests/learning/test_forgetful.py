"""Partitions that forget: the same bytes whatever the batches and restarts, exact totals, versions and their proof."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig, SvmConfig
from streamsvm.coreset import Moments
from streamsvm.learning import Learner, Origin, make, train, version_of
from streamsvm.model import Memory, Version, message
from streamsvm.points import LookedUp, Points, Position, Rows
from streamsvm.svm import primal_objective
from streamsvm.verification import Recomputation, missing_input
from tests.config.sizes import sized
from tests.learning.test_learner import check_batches, check_restart
from tests.schemas import model_schema
from tests.streams import DIMENSION, gaussian, rows_of

MEMORIES: list[dict[str, Any]] = [
    {"memory": "window", "window": 512},
    {"memory": "window", "window": "1.3s"},
    {"memory": "decay", "half_life": 256},
    {"memory": "decay", "half_life": "0.7s"},
    {"memory": "adaptive", "span_rows": 32},
    {"memory": "adaptive"},
]
NEVER = 1 << 30


def config_of(memory: dict[str, Any], svm: SvmConfig | None = None, **coreset: Any) -> ModelConfig:
    sizes = {"leaf_rows": 16, "bucket_points": 12, "audit_points": 20, "train_points": 400, **coreset}
    return ModelConfig(
        points=PointsConfig(dimension=DIMENSION),
        coreset=sized(**memory, **sizes),
        svm=svm or SvmConfig(),
        seed=5,
    )


def drifting(n: int, seed: int = 0) -> Points:
    """Return points whose rule turns in the middle."""
    points = gaussian(n, seed)
    y = points.y.copy()
    y[n // 2 :] *= -1
    return Points(points.X, y, points.weight)


def learned(config: ModelConfig, rows: Rows) -> Learner:
    """Return what has learned rows of one partition."""
    learner = Learner(config, {0: Position(0)}, NEVER)
    learner.learn(rows)
    return learner


@pytest.mark.parametrize("memory", MEMORIES)
@settings(max_examples=8, deadline=None)
@given(n=st.integers(40, 900), data=st.data())
def test_batches_and_restarts_do_not_matter(memory: dict[str, Any], n: int, data: st.DataObject) -> None:
    """Any batches, and a restart from a checkpoint anywhere, give the bytes of one go; so do bad rows."""
    accepted = np.random.default_rng(n).random(n) > 0.1
    config, rows = config_of(memory), rows_of(drifting(n), accepted=accepted)
    borders = sorted(data.draw(st.lists(st.integers(0, n), max_size=4)))
    whole = check_batches(lambda: Learner(config, {0: Position(0)}, NEVER), rows, borders)
    check_restart(lambda: Learner(config, {0: Position(0)}, NEVER), rows, data.draw(st.integers(0, n)))
    assert whole.rows == n
    assert whole.points_accepted == accepted.sum()
    assert whole.points_held <= config.coreset.sizes.leaf + 10**9


def test_the_moments_of_a_window_are_those_of_its_rows() -> None:
    """Exactly where no bucket is half inside; what was learned counts everything."""
    config = config_of({"memory": "window", "window": 512})
    points = drifting(512 * 3).reweighted(np.ones(512 * 3))
    cut = learned(config, rows_of(points)).cut()
    newest = Moments.zero(DIMENSION).add(points.take(slice(-512, None)))
    assert cut.moments.weight == pytest.approx(512.0)
    np.testing.assert_allclose(cut.moments.mean, newest.mean, rtol=1e-5, atol=1e-6)
    assert cut.points.weight.sum() == pytest.approx(512.0, rel=1e-6)
    assert sum(float(part.class_weight.sum()) for part in cut.audit) == pytest.approx(512.0)
    assert cut.learned.count == 512 * 3


def test_shares_follow_a_change() -> None:
    """After the rule has turned the model is of what came since, and its weight is still that of everything."""
    n = 3_200
    points = drifting(n)
    config = config_of({"memory": "adaptive", "span_rows": 32}, leaf_rows=32, bucket_points=60)
    learner = learned(config, rows_of(points))
    cut = learner.cut()
    horizons = learner.horizons()[0]
    assert sum(one.share for one in horizons) == pytest.approx(1.0)
    assert sum(one.share for one in horizons if one.rows <= n // 2) > 0.8
    assert cut.moments.weight == pytest.approx(float(points.weight.sum()), rel=1e-6)
    fresh = gaussian(1_000, seed=9)
    model = make(cut, config).trained.model
    assert (np.sign(model.decision_function(fresh.X)) == -fresh.y).mean() > 0.75


def test_a_window_is_near_its_exact_optimum() -> None:
    """Nearer than a fresh sample of as many points is, by far."""
    n, window = 24_000, 8_000
    points = gaussian(n, seed=3, dimension=DIMENSION)
    config = config_of({"memory": "window", "window": window}, leaf_rows=250, bucket_points=250)
    cut = learned(config, rows_of(points)).cut()
    newest = points.take(slice(-window, None))
    seen = Moments.zero(DIMENSION).add(newest)
    best = train(newest, seen, config.svm)

    def objective(few: Points, moments: Moments) -> float:
        model = train(few, moments, config.svm).model
        w = model.machine.coefficients / model.scaler.scale * best.model.scaler.scale  # type: ignore[union-attr]
        return primal_objective(
            model.decision_function(newest.X), newest.y, config.svm.penalty(seen.weight) * newest.weight, float(w @ w)
        )

    drawn = newest.take(np.random.default_rng(0).choice(window, len(cut.points), replace=False))
    gap, sampled = (
        objective(few, moments) / best.fit.objective - 1.0
        for few, moments in ((cut.points, cut.moments), (drawn, Moments.zero(DIMENSION).add(drawn)))
    )
    assert gap < 1e-3
    assert gap < sampled / 3.0


def version_at(config: ModelConfig, rows: Rows, number: int = 1) -> Version:
    learner = learned(config, rows)
    origin = Origin(
        name="m",
        number=number,
        parent=None,
        links=(),
        topic="in",
        topic_id="id",
        base={0: Position(0)},
        build={},
    )
    return version_of(make(learner.cut(), config), config, origin)


@pytest.mark.parametrize("memory", [MEMORIES[0], MEMORIES[1], MEMORIES[4]])
def test_a_version_is_made_again_without_the_rows_it_forgot(memory: dict[str, Any]) -> None:
    """From the oldest row that it names, to the byte; a later one from there, too. Shares need the whole log."""
    own = {option: value for option, value in memory.items() if option != "span_rows"}
    coreset = CoresetConfig(points=1_000, train_points=400, **own)
    config, rows = config_of(memory).model_copy(update={"coreset": coreset}), rows_of(drifting(2_000))
    config = ModelConfig.of_canonical(ModelConfig.model_validate(dict(config)).canonical())
    version, later = version_at(config, rows.slice(0, 1_700)), version_at(config, rows)
    value = message.encode(version)
    assert message.encode(message.decode(value)) == value
    jsonschema.Draft202012Validator(model_schema()).validate(json.loads(value))
    assert isinstance(version.lineage.memory, Memory)
    (held,) = version.lineage.memory.partitions
    assert version.stream.rows == 1_700
    first = Position(*held.oldest).offset
    log = {0: (first, 2_000)}
    if memory["memory"] == "adaptive":
        assert first == 0
        assert "were removed" in missing_input(version, "id", {0: (1, 2_000)})
        return
    assert first > 0
    assert missing_input(version, "id", log) == ""
    assert "were removed" in missing_input(version, "id", {0: (first + 1, 2_000)})
    again = Recomputation(version, "id", log)
    assert again.positions == {0: Position(*held.oldest)}
    for one in (version, later):
        assert again.admits(one)
        again.learn(rows.slice(again.positions[0].offset, 2_000), again.aim(one)[0])
        assert again.encoded(again.made(one), one, one.lineage) == message.encode(one)


def test_times_come_from_the_middle_row() -> None:
    """Some records of the year 2099, or of no time, expire nothing; a stream without times has none that does."""
    config = config_of({"memory": "window", "window": "1.3s"})
    rows = rows_of(drifting(900))
    strange = rows.time_ms.copy()
    strange[::17], strange[1::17] = 4_070_908_800_000, -1
    plain, odd = (learned(config, one).cut() for one in (rows, timed(rows, strange)))
    assert plain.coverage
    assert odd.coverage
    assert plain.moments.weight == pytest.approx(odd.moments.weight, rel=0.2)
    silent = learned(config, timed(rows, np.full(900, -1))).cut()
    assert silent.moments.count == 900


def timed(rows: Rows, time_ms: Any) -> Rows:
    return replace(rows, times=LookedUp.of(np.asarray(time_ms, np.int64)))


@pytest.mark.parametrize("memory", MEMORIES)
def test_one_label_no_valid_row_and_idle_partitions(memory: dict[str, Any]) -> None:
    """One label for a whole window is a constant model; leaves without a valid row and idle partitions are no fault."""
    config = config_of(memory)
    points = drifting(900)
    one_label = Points(points.X, np.ones(900, np.int8), points.weight)
    accepted = np.ones(900, np.bool_)
    accepted[200:300] = False
    learner = Learner(config, {0: Position(0), 1: Position(0)}, NEVER)
    learner.learn(rows_of(one_label, accepted=accepted))
    learner.extend({2: Position(0)})
    learner.learn(rows_of(one_label, partition=2))
    model = make(learner.cut(), config).trained.model
    assert (model.decision_function(points.X) > 0.0).all()
    nothing = learned(config, rows_of(points, accepted=np.zeros(900, np.bool_)))
    assert not nothing.points_accepted
    assert nothing.rows == 900
