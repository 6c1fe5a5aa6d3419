"""No score of two halves, in the short form of the benchmark; and the benchmark would see one."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from streamsvm.kafka import EmbeddedBroker
from streamsvm.model.machine import Model
from streamsvm.registry.subscriber import ModelSubscriber
from tests.benchmarks.swaps import main, measure


@pytest.mark.long
def test_every_score_belongs_wholly_to_one_version(tmp_path: Path) -> None:
    """Four threads score during 30 swaps: no batch is torn, and many versions served."""
    file = tmp_path / "figures.json"
    main(["--scores", "50000", "--swaps", "30", "--json", str(file)])
    counts = json.loads(file.read_text())
    assert counts["torn"] == 0
    assert counts["scores"] >= 50_000
    assert counts["swaps"] == 30
    assert counts["versions"] > 10


def test_a_model_in_two_halves_is_seen() -> None:
    """A service that looks twice, once for the scaler and once for the machine, is caught."""

    def twice(subscriber: ModelSubscriber) -> Callable[[], Model]:
        def take() -> Model:
            scaler = subscriber.model.scaler
            threading.Event().wait(0.002)
            return Model(scaler, subscriber.model.machine)

        return take

    with EmbeddedBroker() as broker:
        assert measure(broker.connection, 2, 100, 10, twice).torn > 0
