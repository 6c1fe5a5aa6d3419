"""`output.model_format = "onnx"`: every version has its copy, made of the same transaction, and retired with it."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from consumers.settings import Settings
from consumers.streams.topics import check_names, output_topics
from streamsvm.errors import ConfigurationError
from streamsvm.kafka import Cluster, TopicSpec
from streamsvm.model import message as model_codec
from streamsvm.registry.loading import load_version
from streamsvm.registry.onnx_copy import CONTENT_TYPE, MODEL_SHA256_HEADER
from tests.brokers.fixtures import TestBroker
from tests.consumers.test_classes import LABELS as LABELS_OF_SEVEN
from tests.consumers.test_classes import records_of, seven, several
from tests.consumers.trainers import produce, records, run_until, settings_for, topic, versions
from tests.streams import gaussian


@pytest.fixture
def settings(broker: TestBroker, tmp_path: Path) -> Settings:
    made = asking_for_onnx(settings_for(broker.name("onnx"), tmp_path / "checkpoint"))
    Cluster(broker.connection).create([TopicSpec(made.input.topic, 4)])
    return made


def asking_for_onnx(settings: Settings, **more: object) -> Settings:
    output = settings.output.model_copy(update={"model_format": "onnx", **more})
    return settings.model_copy(update={"output": output})


def test_every_version_has_a_copy_that_decides_alike(settings: Settings, broker: TestBroker) -> None:
    """Same keys in the same order; each names the JSON that it copies, and onnxruntime agrees with our decisions."""
    produce(broker.connection, settings.input.topic, records(130))
    run_until(settings, broker.connection, 130)
    published = topic(broker.connection, settings.output.models_topic)
    copies = topic(broker.connection, settings.output.onnx_topic)
    assert [copy.key for copy in copies] == [record.key for record in published] == [b"m@1", b"m@2", b"m@3"]
    X = np.asarray(gaussian(40, seed=5).X, np.float64)
    for record, copy, version in zip(published, copies, versions(broker.connection, settings), strict=True):
        headers, digest = dict(copy.headers), model_codec.sha256(record.value).encode()
        assert headers["content-type"] == CONTENT_TYPE.encode()
        assert headers[MODEL_SHA256_HEADER] == digest
        assert headers[model_codec.SHA256_HEADER] == model_codec.sha256(copy.value).encode()
        said = {entry.key: entry.value for entry in onnx.load_from_string(copy.value).metadata_props}
        assert said["streamsvm.sha256"].encode() == digest
        session = onnxruntime.InferenceSession(copy.value, providers=["CPUExecutionProvider"])
        (decision,) = session.run(["decision_function"], {"X": X})
        np.testing.assert_allclose(decision, version.model.decision_function(X), rtol=1e-9, atol=1e-9)


@pytest.mark.long(keep=("real-one_vs_one-linear",))
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("multiclass", ["one_vs_one", "one_vs_rest"])
def test_copies_of_seven_labels_answer_alike(kernel: str, multiclass: str, broker: TestBroker, tmp_path: Path) -> None:
    """The topic's copies give the labels, decision values and probabilities of the version that readers load."""
    made = seven(settings_for(broker.name("onnx"), tmp_path / "checkpoint"), kernel=kernel, multiclass=multiclass)
    settings = asking_for_onnx(made)
    Cluster(broker.connection).create([TopicSpec(settings.input.topic, 4)])
    produce(broker.connection, settings.input.topic, records_of(several(300)))
    run_until(settings, broker.connection, 300)
    published = versions(broker.connection, settings)
    copies = topic(broker.connection, settings.output.onnx_topic)
    assert len(copies) == len(published) > 0
    loaded = load_version(broker.connection, "m", models_topic=settings.output.models_topic)
    assert loaded.version.number == published[-1].number
    X = np.asarray(several(500, seed=5).X, np.float64)
    session = onnxruntime.InferenceSession(copies[-1].value, providers=["CPUExecutionProvider"])
    answers, decision = session.run(["label", "decision_function"], {"X": X})
    np.testing.assert_allclose(decision, loaded.decision_function(X), rtol=1e-9, atol=1e-9)
    assert answers.tolist() == loaded.predict(X).tolist()
    assert set(answers) == set(LABELS_OF_SEVEN)


def test_json_alone_makes_no_such_topic(tmp_path: Path) -> None:
    """The default."""
    settings = settings_for("t", tmp_path)
    assert settings.output.onnx_topic not in [spec.name for spec in output_topics(settings)]


def test_the_topic_of_copies_is_kept_as_the_versions_are(real_broker: TestBroker, tmp_path: Path) -> None:
    """One partition, nothing deleted in time, compressed by zstd whatever a writer sent."""
    made = asking_for_onnx(settings_for(real_broker.name("kept"), tmp_path))
    Cluster(real_broker.connection).create(output_topics(made))
    models, copies = (Cluster(real_broker.connection).describe(name) for name in made.output.version_topics)
    assert len(copies.partitions) == 1
    assert copies.config == models.config
    assert copies.config["compression.type"] == "zstd"


def test_retired_versions_leave_no_copy(real_broker: TestBroker, tmp_path: Path) -> None:
    """With `keep_versions`, a tombstone in each topic for each of the same keys."""
    settings = asking_for_onnx(settings_for(real_broker.name("few"), tmp_path / "checkpoint"), keep_versions=2)
    Cluster(real_broker.connection).create([TopicSpec(settings.input.topic, 1)])
    produce(real_broker.connection, settings.input.topic, records(600))
    run_until(settings, real_broker.connection, 600)
    found = {name: topic(real_broker.connection, name) for name in settings.output.version_topics}
    gone = [[record.key for record in of if record.value is None] for of in found.values()]
    assert gone[0]
    assert gone[0] == gone[1]


def test_two_uses_of_one_topic_are_refused(tmp_path: Path) -> None:
    """An input that is named as the copies would be."""
    settings = asking_for_onnx(settings_for("t", tmp_path))
    clash = settings.model_copy(
        update={"input": settings.input.model_copy(update={"topic": settings.output.onnx_topic})}
    )
    with pytest.raises(ConfigurationError, match="the ONNX models"):
        check_names(clash)


def test_a_missing_extra_is_told_before_anything_is_written(
    settings: Settings, broker: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trainer does not start."""
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ConfigurationError, match=r"\.\[onnx\]"):
        run_until(settings, broker.connection, 1)
    assert Cluster(broker.connection).log_range(settings.input.topic, 0) == (0, 0)
