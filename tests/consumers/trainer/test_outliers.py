"""A trainer that meets an outlier says where."""

from __future__ import annotations

import json

import pytest

from consumers.settings import Settings
from consumers.trainer.outliers import OutlierLog
from streamsvm.coreset import Outlier, Tally
from streamsvm.ingest import encode
from streamsvm.kafka import Connection
from streamsvm.points import Position
from tests.consumers.trainers import produce, records, run_until, versions
from tests.streams import DIMENSION

pytestmark = pytest.mark.enough("real")

FAR = encode([1e30] * DIMENSION, 1, 1.0)


def test_the_record_is_named(settings: Settings, connection: Connection, capsys: pytest.CaptureFixture[str]) -> None:
    """Topic, partition, offset, feature and value, in one line; the metric counts it; the models stay sane."""
    produce(connection, settings.input.topic, [*records(90), FAR, *records(69, seed=1)])
    running = run_until(settings, connection, 160)
    said = [line for line in capsys.readouterr().out.splitlines() if "outlier_drawn_in" in line]
    assert len(said) == 1
    assert f"{settings.input.topic}[0]@90 row 0" in said[0]
    assert "value=1.00000001" in said[0]
    assert running.value("streamsvm_coreset_clipped_rows", what="features") == 1
    newest = versions(connection, settings)[-1]
    assert newest.model.scaler.scale.max() < 10.0


def outlier(excess: float, feature: int | None = 3) -> Outlier:
    return Outlier(
        partition=2, begin=Position(7, 1), end=Position(7, 2), feature=feature, value=1e9, bound=40.0, excess=excess
    )


def test_the_log_stays_short(capsys: pytest.CaptureFixture[str]) -> None:
    """A line for the first telling value, for one ten times as far, and for ten times as many; none for near ones."""
    log = OutlierLog("in")

    def tell(count: int, excess: float) -> int:
        log.report(Tally(count, 0, outlier(excess)))
        return len(capsys.readouterr().out.splitlines())

    assert [tell(1, 5.0), tell(1, 20.0), tell(2, 20.0), tell(9, 150.0), tell(10, 250.0)] == [0, 1, 0, 0, 1]
    assert tell(99, 250.0) == 0
    assert tell(100, 250.0) == 1
    log.report(Tally(0, 0, None))
    assert json.dumps(capsys.readouterr().out) == '""'
