"""`model export --format onnx`: a published version answers alike in another runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from streamsvm.kafka import Cluster, TopicSpec
from streamsvm.registry import export, load_version
from tests.brokers.fixtures import TestBroker
from tests.consumers.trainer.test_classes import LABELS as LABELS_OF_SEVEN, records_of, seven, several
from tests.consumers.trainers import produce, run_until, settings_for, versions


@pytest.mark.long(keep=("real-one_vs_one-linear",))
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("multiclass", ["one_vs_one", "one_vs_rest"])
def test_a_version_of_seven_labels_answers_alike(
    kernel: str, multiclass: str, broker: TestBroker, tmp_path: Path
) -> None:
    """The graph gives the labels and decision values of the version that readers load."""
    settings = seven(settings_for(broker.name("onnx"), tmp_path / "checkpoint"), kernel=kernel, multiclass=multiclass)
    Cluster(broker.connection).create([TopicSpec(settings.input.topic, 4)])
    produce(broker.connection, settings.input.topic, records_of(several(300)))
    run_until(settings, broker.connection, 300)
    published = versions(broker.connection, settings)
    loaded = load_version(broker.connection, "m", models_topic=settings.output.models_topic)
    assert loaded.version.number == published[-1].number
    X = np.asarray(several(500, seed=5).X, np.float64)
    graph = export(loaded.version, loaded.sha256)
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    answers, decision = session.run(["label", "decision_function"], {"X": X})
    np.testing.assert_allclose(decision, loaded.decision_function(X), rtol=1e-9, atol=1e-9)
    assert answers.tolist() == loaded.predict(X).tolist()
    assert set(answers) == set(LABELS_OF_SEVEN)
