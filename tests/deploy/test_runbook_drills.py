"""Drills of the runbook: a state is brought about, what its section says is done, and the daemon is well again.

A trainer runs on the embedded broker, ends, and starts again with the changed options; an option that decides the
model is refused first, as the page says, and `--reset` begins anew.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from structlog.testing import capture_logs

from consumers import constants
from consumers.settings import Settings
from streamsvm.config import PointsConfig, SvmConfig
from streamsvm.errors import StateError
from streamsvm.ingest import encode
from streamsvm.kafka import Cluster, Connection, TopicSpec
from streamsvm.learning import train
from streamsvm.registry import load_version
from tests.brokers.fixtures import TestBroker
from tests.config.sizes import sized
from tests.consumers.command import run as command
from tests.consumers.scorer import running as scoring
from tests.consumers.scorer.test_watch import with_scores
from tests.consumers.trainer.test_gatekeeping import spoiling
from tests.consumers.trainers import DEADLINE_S, Running, changed, ends_by, learn, produce, records, settings_for
from tests.registry.test_subscriber import Trainer as Publisher, version_of
from tests.streams import DIMENSION

ROWS: Final = 4_000
Feed = Callable[[int], list[bytes]]
Holds = Callable[[Running], bool]


@pytest.fixture
def connection(embedded_broker: TestBroker) -> Connection:
    """Its reads answer soon: the embedded broker keeps an idle fetch for its whole wait."""
    return embedded_broker.connect(fetch_wait_max_ms=10)


@pytest.fixture
def settings(embedded_broker: TestBroker, tmp_path: Path) -> Settings:
    made = settings_for(embedded_broker.name("drill"), tmp_path / "checkpoint")
    return changed(made, "checkpoint", interval_s=1.0)


def with_options(settings: Settings, options: dict[str, Any]) -> Settings:
    """Return settings with options changed that are named as on the page."""
    for name, value in options.items():
        section, _, option = name.partition(".")
        settings = changed(settings, section, **{option: value})
    return settings


# ------------------------------------------------------------ what needs a reset


def points(n: int, *, positive: float = 0.5, apart: float = 1.0, labels: Sequence[Any] = (-1, 1)) -> Feed:
    """Return what makes n points of which some share is positive, and lies so far from the others."""

    def feed(seed: int) -> list[bytes]:
        random = np.random.default_rng(seed)
        y = (random.random(n) < positive).astype(int)
        X = random.normal(size=(n, DIMENSION)) + apart * y[:, None]
        return [encode(x, labels[which]) for x, which in zip(X, y, strict=True)]

    return feed


def wide(seed: int) -> list[bytes]:
    """Return points of which one feature is a million times another."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(ROWS, DIMENSION)) * (1e6, 1.0, 1e-3)
    y = np.where(X @ (1e-6, 1.0, 1e3) + random.normal(size=ROWS) > 0, 1, -1)
    return [encode(x, int(one)) for x, one in zip(X, y, strict=True)]


def reductions(running: Running, outcome: str) -> float:
    return running.value("streamsvm_coreset_reductions", outcome=outcome)


@dataclass(frozen=True)
class Reset:
    """A state that options which decide the model bring about, and the options that end it."""

    feed: Feed
    wrong: dict[str, Any]
    mended: dict[str, Any]
    ill: Holds
    sections: dict[str, Any] = field(default_factory=dict)


LARGE: Final = {"coreset": sized(points=16_000, audit_points=1_000), "svm": SvmConfig(alpha=1e-4)}
LABELS: Final = PointsConfig(dimension=DIMENSION, labels=("a", "b", "c"))
RESETS: Final = {
    "StreamsvmCoresetDegraded": Reset(
        points(1_000),
        {"coreset.points": 33},
        {"coreset.points": 2_200},
        lambda one: reductions(one, "uncalibrated") > 0,
    ),
    "StreamsvmLabelsMissing": Reset(
        points(ROWS, labels=("a", "b")),
        {},
        {"points.labels": ("a", "b")},
        lambda one: one.value("streamsvm_model_labels_missing") > 0,
        LARGE | {"points": LABELS},
    ),
    "StreamsvmNoSkill": Reset(
        points(3 * ROWS, positive=0.1, apart=0.4),
        {"svm.class_weight": "none"},
        {"svm.class_weight": "balanced"},
        lambda one: one.value("streamsvm_model_labels_never_answered") > 0,
        LARGE,
    ),
    "StreamsvmTrainingUnfinished": Reset(
        wide,
        {"svm.standardize": False},
        {"svm.standardize": True},
        lambda one: one.value("streamsvm_trainings_total", outcome="iteration_limit") > 0,
        LARGE | {"svm": SvmConfig(C=1e4)},
    ),
}


@pytest.mark.parametrize("alert", sorted(RESETS))
def test_a_reset_with_other_options_ends_it(alert: str, settings: Settings, connection: Connection) -> None:
    """The start without `--reset` names it, unless only options of training differ; versions follow, and it is over."""
    drill = RESETS[alert]
    settings = with_options(settings.model_copy(update=drill.sections), {"training.every_leaves": 1, **drill.wrong})
    feed = drill.feed(1)
    produce(connection, settings.input.topic, feed)
    with Running(settings, connection) as running:
        running.wait_for_rows(len(feed))
        running.wait_until(lambda: running.value("streamsvm_model_version") > 0)
        running.wait_until(lambda: drill.ill(running))
    other, begins = with_options(settings, drill.mended), not all(one.startswith("svm.") for one in drill.mended)
    if begins:
        ends_by(StateError, "--reset m/1", other, connection)
    with Running(other, connection, reset="m/1" if begins else "") as running:
        running.wait_for_rows(begins * len(feed))
        before = running.value("streamsvm_model_version")
        produce(connection, settings.input.topic, drill.feed(2))
        running.wait_until(lambda: running.value("streamsvm_model_version") > before)
        running.wait_for_rows((1 + begins) * len(feed))
        running.wait_until(lambda: not drill.ill(running) and running.health.ready()[0])


def test_a_stream_that_turned_is_begun_anew_at_the_change(
    settings: Settings, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model of both halves does worse than SGD, and than the more frequent label; that of the new half does not."""
    monkeypatch.setattr(constants, "QUALITY_WINDOW", ROWS // 2)
    settings = with_options(settings.model_copy(update=LARGE), {"output.gate_margin": None})
    old, turned = points(ROWS, positive=0.4), points(ROWS, positive=0.4, labels=(1, -1))

    def worse(running: Running) -> bool:
        figures = ("balanced_accuracy", "sgd", 0.02), ("accuracy", "majority", 0.01)
        return any(
            running.value(f"streamsvm_prequential_{name}", scorer="model") + by
            < running.value(f"streamsvm_prequential_{name}", scorer=scorer)
            for name, scorer, by in figures
        )

    produce(connection, settings.input.topic, [*old(1), *old(2), *turned(3)])
    with Running(settings, connection) as running:
        running.wait_for_rows(3 * ROWS)
        running.wait_until(lambda: worse(running))
    anew = with_options(settings, {"input.start": "latest"})
    with capture_logs() as logs, Running(anew, connection, reset="m/0") as running:
        running.wait_until_started()
    (ignored,) = (entry for entry in logs if entry["event"] == "reset_ignored")
    assert ignored["remedy"].endswith("--reset m/1")
    with Running(anew, connection, reset="m/1") as running:
        running.wait_until_started()
        before = running.value("streamsvm_model_version")
        produce(connection, settings.input.topic, turned(4))
        running.wait_for_rows(ROWS)
        running.wait_until(lambda: running.value("streamsvm_model_version") > before)
        produce(connection, settings.input.topic, turned(5))
        running.wait_for_rows(2 * ROWS)
        running.wait_until(lambda: running.value("streamsvm_prequential_accuracy", scorer="model") > 0.7)
        running.wait_until(lambda: not worse(running) and running.health.ready()[0])


# ------------------------------------------------------------ what needs none


def slowly(*arguments: Any) -> Any:
    """Train a model as on a machine that takes a fifth of a second for it."""
    threading.Event().wait(0.2)
    return train(*arguments)


SLOW: Final = {
    "StreamsvmLagGrowing-every_leaves": ("every", {"training.every_leaves": 50}),
    "StreamsvmLagGrowing-policy": ("every", {"training.policy": "latest"}),
    "StreamsvmModelStale-every_leaves": ("latest", {"training.every_leaves": 400}),
    "StreamsvmModelStale-policy": ("latest", {"training.policy": "every"}),
    "StreamsvmTrainingSaturated": ("every", {"training.every_leaves": 50}),
}
"""A section and its option, the policy under which trainings take too long, and what is changed."""
RATE: Final = 400
"""Rows a second that come, twice as many as trainings of every second leaf let through."""


def share(running: Running) -> float:
    """Return the share of its time that the trainer would spend in trainings if `RATE` rows came in each second."""
    trained_s = running.value("streamsvm_training_seconds_sum", step="train")
    return trained_s * RATE / max(running.value("streamsvm_input_rows_total", outcome="accepted"), 1.0)


def behind(running: Running) -> bool:
    """Whether three cuts and more have brought no version."""
    rows = running.value("streamsvm_model_rows_behind")
    return rows > 3 * running.value("streamsvm_model_rows_between_cuts") > 0


@pytest.mark.parametrize("drill", sorted(SLOW))
def test_long_trainings_need_no_reset(drill: str, settings: Settings, connection: Connection) -> None:
    """The same trainings with an option changed: three cuts bring a version, or a fifth of the time is left."""
    policy, options = SLOW[drill]
    slow = with_options(settings, {"training.policy": policy})
    stale, seen = "ModelStale" in drill, threading.Event()
    ill: Holds = behind if stale else lambda one: share(one) > 0.8

    def endless(*arguments: Any) -> Any:
        seen.wait(DEADLINE_S)
        return train(*arguments)

    produce(connection, settings.input.topic, records(2 * ROWS))
    with Running(slow, connection, train=endless if stale else slowly) as running:
        running.wait_until_started()
        running.wait_until(lambda: ill(running))
        seen.set()
    produce(connection, settings.input.topic, records(2 * ROWS, seed=1))
    ever = list[bool]()
    with Running(with_options(slow, options), connection, train=slowly) as running:
        running.wait_until_started()

        def versions_come() -> bool:
            ever.append(behind(running))
            return running.value("streamsvm_training_seconds_count", step="train") >= 1

        running.wait_until(versions_come)
        if stale:
            assert not any(ever)
        else:
            running.wait_until(lambda: running.value("streamsvm_input_lag_records", partition="0") == 0)
            assert not ill(running)
        running.wait_until(lambda: running.health.ready()[0])


def test_a_gate_that_holds_lets_the_changed_stream_pass(real_broker: TestBroker, tmp_path: Path) -> None:
    """The newest is pinned, so that readers have it; with a larger margin versions pass, and the pin goes."""
    connection, settings = real_broker.connection, settings_for(real_broker.name("gate"), tmp_path / "checkpoint")
    Cluster(connection).create([TopicSpec(settings.input.topic)])
    settings = settings.model_copy(update={"coreset": sized(leaf_rows=200, bucket_points=50, audit_points=400)})
    settings = with_options(settings, {"training.every_leaves": 1})
    servers, models = str(connection.options["bootstrap.servers"]), settings.output.models_topic
    common = ("--bootstrap-servers", servers, "--name", "m", "--output-models-topic", models)

    def served() -> int:
        return load_version(connection, "m", models_topic=models).version.number

    learn(settings, connection, 800, train=spoiling(3, 4))
    assert served() == 2
    assert command("model", "pin", "4", *common).returncode == 0
    assert served() == 4
    wider = with_options(settings, {"output.gate_margin": 1.0})
    learn(wider, connection, 200, seed=1, train=spoiling(1))
    assert command("model", "pin", "--remove", *common).returncode == 0
    assert served() == 5


# ------------------------------------------------------------ the scorer


def test_a_scorer_whose_model_got_another_dimension_is_pinned(
    real_broker: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its points are rejected, and it is not ready; pinned to the version before, it scores them."""
    monkeypatch.setattr(constants, "MOST_REJECTED_IN_A_ROW", 20)
    connection = real_broker.connection
    settings = scoring.settings_for(connection)
    models, topic = settings.output.models_topic, settings.scoring.topic
    Cluster(connection).create([TopicSpec(settings.output.audit_topic)])
    common = ("--name", settings.name, "--output-models-topic", models)
    with closing(Publisher(connection, models)) as trainer, scoring.Running(settings, connection) as running:
        trainer.publish(version_of(1))
        scoring.produce(connection, topic, scoring.points(range(8)))
        running.wait_until(lambda: running.value("streamsvm_scored_points_total") == 8)
        trainer.publish(version_of(2, dimension=3))
        running.wait_until(lambda: running.value("streamsvm_serving_version") == 2)
        scoring.produce(connection, topic, scoring.points(range(40)))
        running.wait_until(lambda: running.value("streamsvm_input_mostly_rejected") == 1.0)
        assert not running.health.ready()[0]
        servers = str(connection.options["bootstrap.servers"])
        assert command("model", "pin", "1", "--bootstrap-servers", servers, *common).returncode == 0
        running.wait_until(lambda: running.value("streamsvm_serving_version") == 1)
        scoring.produce(connection, topic, scoring.points(range(8)))
        running.wait_until(lambda: running.value("streamsvm_scored_points_total") == 16)
        running.wait_until(lambda: running.health.ready()[0])


def test_scores_that_drifted_come_back_with_the_producer(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shifted by their own deviation they are far above chance; once the newest are as before, no more."""
    monkeypatch.setattr(constants, "DRIFT_WINDOW", 1_000)
    settings, random = scoring.settings_for(connection), np.random.default_rng(7)

    def drift(running: Running) -> bool:
        index = running.value("streamsvm_score_drift")
        return index > 0.25 and index > running.value("streamsvm_score_drift_chance")

    def send(shift: float) -> None:
        x = random.normal(shift, 1.0, size=1_000)
        value = b"[" + b",".join(encode([2.0 * one - 1.0, 0.0]) for one in x) + b"]"  # score: x + 1
        scoring.produce(connection, settings.scoring.topic, [value])

    with closing(Publisher(connection, settings.output.models_topic)) as trainer:
        with_scores(trainer, 2.0 * random.normal(size=2_000))
        with scoring.Running(settings, connection) as running:
            send(1.0)
            running.wait_until(lambda: drift(running))
            send(0.0)
            running.wait_until(lambda: running.value("streamsvm_scored_points_total") == 2_000)
            running.wait_until(lambda: not drift(running) and running.health.ready()[0])
