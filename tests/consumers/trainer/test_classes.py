"""More than two labels on their way: from the options through the topic to readers, scorers and `streamsvm verify`."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from html import unescape
from typing import Any, Final

import numpy as np
import onnxruntime
import pytest
from structlog.testing import capture_logs

from consumers.models import describe
from consumers.page import ScorerStatus, Site, TrainerStatus, page_of
from consumers.settings import ScoringConfig, Settings
from streamsvm.config import ModelConfig, PointsConfig, SvmConfig
from streamsvm.errors import ConfigurationError
from streamsvm.ingest.decoder import encode
from streamsvm.kafka import Cluster, Connection, TopicSpec
from streamsvm.learning import Learner, make
from streamsvm.model import ClassModel, ClassSkill, message as model_codec, spelt
from streamsvm.points import Points, Position
from streamsvm.registry import export, load_version
from tests.config.sizes import sized
from tests.consumers.scorer import running as scorers
from tests.consumers.trainers import Running, produce, run_until, versions
from tests.golden import model as golden
from tests.registry.test_subscriber import eventually
from tests.streams import DIMENSION, rows_of

LABELS: Final = ("a", "b", "c", "d", "e", "f", "g")


def several(n: int, seed: int = 0, absent: int | None = None) -> Points:
    """Return points of seven labels around as many centres, weights from 0.5 to 2; none of one label, if asked."""
    random = np.random.default_rng(seed)
    centres = 2.5 * np.random.default_rng(7).normal(size=(len(LABELS), DIMENSION))
    y = random.integers(0, len(LABELS), n).astype(np.int8)
    if absent is not None:
        y = np.where(y == absent, (y + 1) % len(LABELS), y).astype(np.int8)
    X = (centres[y] + random.normal(size=(n, DIMENSION))).astype(np.float32)
    return Points(X, y, random.uniform(0.5, 2.0, n))


def records_of(points: Points) -> list[bytes]:
    """Return the points as JSON, one a record."""
    return [
        encode(x, LABELS[int(code)], float(weight))
        for x, code, weight in zip(points.X, points.y, points.weight, strict=True)
    ]


def seven(settings: Settings, **svm: Any) -> Settings:
    """Return settings of seven labels, of leaves and buckets of 60 points, and an audit sample with points of each."""
    return settings.model_copy(
        update={
            "points": PointsConfig(dimension=DIMENSION, labels=LABELS),
            "coreset": sized(leaf_rows=60, bucket_points=60, audit_points=150, structure="tree", train_points=500),
            "svm": SvmConfig(**svm),
        }
    )


def _page(running: Running, settings: Settings) -> str:
    now = datetime.now(UTC)
    status = Site(settings, running.board, running.metrics, running.health).status()
    assert isinstance(status, TrainerStatus)
    return page_of(status, None, None, now).decode()


def test_a_label_that_comes_late_is_told_and_then_answered(settings: Settings, connection: Connection) -> None:
    """Before its first point log, page and metric name it, and no version answers it; afterwards they do."""
    settings = seven(settings)
    before, after = several(400, absent=2), several(1_200, seed=3)
    produce(connection, settings.input.topic, records_of(before))
    with capture_logs() as logs, Running(settings, connection) as running:
        running.wait_for_rows(400)
        eventually(lambda: f"o point of {spelt('c')} has come yet" in unescape(_page(running, settings)), "it is said")
        assert running.value("streamsvm_model_labels_missing") == 1.0
        produce(connection, settings.input.topic, records_of(after))
        running.wait_for_rows(1_600)
        eventually(lambda: running.value("streamsvm_model_labels_missing") == 0.0, "a version has learned it")
        eventually(lambda: "has come yet" not in _page(running, settings), "the page says nothing any more")
    missing = [entry for entry in logs if entry["event"] == "labels_missing"]
    assert [entry["missing"] for entry in missing] == [["c"]]
    assert [entry["event"] for entry in logs].count("labels_complete") == 1
    published = versions(connection, settings)
    test = several(400, seed=9)
    own = test.y == 2
    first, last = published[0].model, published[-1].model
    assert not (first.predict_codes(test.X) == 2).any()
    assert (last.predict_codes(test.X)[own] == 2).mean() > 0.8
    loaded = load_version(connection, "m", models_topic=settings.output.models_topic)
    assert isinstance(loaded.skill, ClassSkill)
    assert loaded.skill.state == "some"
    assert "7: 'a', 'b'" in " ".join(str(cell) for column in describe(loaded).columns for cell in column.cells)


def test_a_scorer_of_seven_labels_counts_each(settings: Settings, connection: Connection) -> None:
    """Scores on their topic, counted by label, and the scorer's page; the drift of the answers' values is known."""
    topics = {name: f"{settings.input.topic}-{name}" for name in ("topic", "output_topic", "group")}
    settings = seven(settings).model_copy(update={"scoring": ScoringConfig(**topics)})
    Cluster(connection).create([TopicSpec(topics["topic"], 4)])
    produce(connection, settings.input.topic, records_of(several(480)))
    run_until(settings, connection, 480)
    loaded = load_version(connection, "m", models_topic=settings.output.models_topic)
    test = several(200, seed=5)
    answers = loaded.predict(test.X).tolist()
    produce(connection, topics["topic"], [encode(x, id=at) for at, x in enumerate(test.X)])
    with scorers.Running(settings, connection) as running:
        eventually(lambda: sum(_counted(running).values()) == 200, "every score is counted")
        status = Site(settings, running.board, running.metrics, running.health).status()
    assert _counted(running) == {f'"{label}"': answers.count(label) for label in LABELS}
    found = {one["id"]: one["label"] for one in scorers.scores(connection, settings)}
    assert [found[at] for at in range(200)] == answers
    assert isinstance(status, ScorerStatus)
    assert status.scoring is not None
    assert status.scoring.by_label == {label: count for label, count in _counted(running).items() if count}
    assert '"g"' in str(page_of(status, None, None, datetime.now(UTC)).decode()).replace("&quot;", '"')
    assert loaded.audit_scores is not None


def _counted(running: scorers.Running) -> dict[str, int]:
    return {f'"{label}"': int(running.value("streamsvm_scores_total", label=f'"{label}"')) for label in LABELS}


@pytest.mark.long(keep=("real-one_vs_one-linear",))
@pytest.mark.parametrize("kernel", ["linear", "rbf", "additive"])
@pytest.mark.parametrize("multiclass", ["one_vs_one", "one_vs_rest"])
def test_a_version_of_seven_labels_answers_alike_in_another_runtime(
    kernel: str, multiclass: str, settings: Settings, connection: Connection
) -> None:
    """What `model export --format onnx` writes gives the labels and decision values of the version as loaded."""
    settings = seven(settings, kernel=kernel, multiclass=multiclass)
    produce(connection, settings.input.topic, records_of(several(300)))
    run_until(settings, connection, 300)
    published = versions(connection, settings)
    loaded = load_version(connection, "m", models_topic=settings.output.models_topic)
    assert loaded.version.number == published[-1].number
    X = np.asarray(several(500, seed=5).X, np.float64)
    graph = export(loaded.version, loaded.sha256)
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    answers, decision = session.run(["label", "decision_function"], {"X": X})
    np.testing.assert_allclose(decision, loaded.decision_function(X), rtol=1e-9, atol=1e-9)
    assert answers.tolist() == loaded.predict(X).tolist()
    assert set(answers) == set(LABELS)


# ---------------------------------------------------------------- options


def test_128_labels_of_two_points_each_make_a_version() -> None:
    """Their machines, and a message that every reader takes."""
    labels = tuple(f"label-{index}" for index in range(128))
    random = np.random.default_rng(0)
    y = np.repeat(np.arange(128), 2).astype(np.int8)
    points = Points(random.normal(size=(256, 3)).astype(np.float32), y, np.ones(256))
    config = ModelConfig(points=PointsConfig(dimension=3, labels=labels))
    learner = Learner(config, {0: Position(0)}, 1)
    learner.learn(rows_of(points))
    made = make(learner.cut(), config)
    model = made.model
    assert isinstance(model, ClassModel)
    assert model.classes == len(made.machines) == 128
    assert model.decision_function(points.X).shape == (256, 128)


@pytest.mark.parametrize(
    "change",
    [
        {"labels": ["a", "b", "c"]},
        {"labels": ["a", "b", "c", "a"]},
        {"labels": ["a", "b", "c", 4]},
        {"training": {"class_weight": [1.0, 2.0]}},
        {"stream": {"class_weight": [1.0, 2.0]}},
    ],
)
def test_a_message_of_other_labels_is_refused(change: dict[str, Any]) -> None:
    """Of another number of labels, of one twice, of two types, or of another number of weights."""
    value = json.loads(golden.path_of("linear-classes").read_bytes())
    assert len(value["labels"]) == 4
    sections = {name: {**value[name], **part} if isinstance(part, dict) else part for name, part in change.items()}
    with pytest.raises(model_codec.InvalidMessage):
        model_codec.decode(json.dumps({**value, **sections}).encode())


@pytest.mark.parametrize(
    ("multiclass", "limit", "helps"),
    [("one_vs_one", "100000", True), ("one_vs_one", "30000", False), ("one_vs_rest", "30000", False)],
)
def test_a_message_that_may_be_too_large_is_refused_at_the_start(
    multiclass: str, limit: str, helps: bool, connection: Connection, settings: Settings
) -> None:
    """With what makes it small enough: a machine a label where there is one a pair, or fewer points."""
    settings = seven(settings, kernel="rbf", multiclass=multiclass)
    small = TopicSpec(settings.output.models_topic, 1, config={"max.message.bytes": limit, "cleanup.policy": "compact"})
    Cluster(connection).create([small])
    if Cluster(connection).describe(small.name).config.get("max.message.bytes") != limit:
        pytest.skip("this broker has no such limit")
    with pytest.raises(ConfigurationError) as error:
        run_until(settings, connection, 1)
    assert ("svm.multiclass = one_vs_rest" in str(error.value)) == helps
