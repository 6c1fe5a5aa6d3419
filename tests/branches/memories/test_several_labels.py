"""Several labels under memories that forget."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from consumers.verify.verify import verify
from streamsvm.config import CoresetConfig
from streamsvm.kafka import Cluster, TopicSpec
from streamsvm.model.classes import ClassModel
from streamsvm.points import Points
from tests.brokers.fixtures import TestBroker
from tests.consumers.trainer.test_classes import LABELS, records_of, seven, several
from tests.consumers.trainers import produce, run_until, settings_for, versions


@pytest.mark.long(keep=("embedded-window",))  # the window goes through the code of all
@pytest.mark.parametrize(
    "memory",
    [
        {"memory": "window", "window": 1_000, "points": 960},
        {"memory": "decay", "half_life": 480, "points": 1_500},
        {"memory": "adaptive", "points": 3_600},
    ],
    ids=["window", "decay", "adaptive"],
)
def test_memories_that_forget_know_seven_labels(memory: dict[str, Any], broker: TestBroker, tmp_path: Path) -> None:
    """After labels have changed places the newest version answers by the new ones, and verify finds all versions."""
    settings = seven(settings_for(broker.name("k"), tmp_path / "checkpoint"), class_weight="balanced")
    coreset = CoresetConfig(train_points=1_000, **memory)
    settings = settings.model_copy(update={"coreset": coreset})
    Cluster(broker.connection).create([TopicSpec(settings.input.topic, 4)])
    before, after = several(1_200), several(1_800, seed=3)
    turned = Points(after.X, ((after.y + 3) % len(LABELS)).astype(np.int8), after.weight)
    produce(broker.connection, settings.input.topic, records_of(before)[:700])
    run_until(settings, broker.connection, 700)
    produce(broker.connection, settings.input.topic, [*records_of(before)[700:], *records_of(turned)])
    run_until(settings, broker.connection, 2_300)
    newest = versions(broker.connection, settings)[-1]
    assert newest.lineage.memory is not None
    assert isinstance(newest.model, ClassModel)
    test = several(500, seed=5)
    assert np.mean(newest.model.predict_codes(test.X) == (test.y + 3) % len(LABELS)) > 0.7
    report = verify(Cluster(broker.connection), settings)
    assert report.clean, list(report.lines())
