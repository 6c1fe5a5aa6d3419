"""Features of which float32 makes different values the same are told among the first rows, and nothing else is."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
import structlog

from consumers.metrics import TRAINER, Metrics
from consumers.streams import RoundedWatch
from streamsvm.config import PointsConfig
from streamsvm.ingest import PointDecoder, arrow
from streamsvm.kafka import Record

SECONDS = 1_764_000_000 + np.arange(600.0)
"""Instants of ten minutes: float32 has one value in 128 of these."""
COLUMNS = {
    "instants": (SECONDS, True),
    "microseconds": (SECONDS * 1e6, True),
    "around a large number": (1e9 + np.linspace(-1.0, 1.0, 600), True),
    "instants since the first": (SECONDS - SECONDS[0], False),
    "integers that float32 has": (np.arange(600.0) + 2**23, False),
    "digits that make no difference": (np.linspace(0.0, 1.0, 600) + 1e-12, False),
    "a constant beyond float32": (np.full(600, 2.0**24 + 1), False),
    "far apart": (np.linspace(-1e30, 1e30, 600), False),
}
"""Each beside a harmless column; whether it is told."""


def as_json(X: np.ndarray) -> list[bytes]:
    return [json.dumps({"x": row, "y": 1}).encode() for row in X.tolist()]


def as_arrays(X: np.ndarray) -> list[bytes]:
    return [json.dumps([{"x": row, "y": 1} for row in part.tolist()]).encode() for part in np.array_split(X, 9)]


def as_arrow(X: np.ndarray) -> list[bytes]:
    columns = [pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1]), pa.array([1] * len(X))]
    batch = pa.record_batch(columns, names=["x", "y"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return [sink.getvalue().to_pybytes()]


def told(config: PointsConfig, values: list[bytes], batch: int = 100) -> tuple[list[str], float | None]:
    """Return what the warnings name, and the metric, after so many records at once."""
    headers = (("content-type", arrow.CONTENT_TYPE.encode()),) if not values[0].startswith((b"{", b"[")) else ()
    records = [Record("t", 0, offset, None, value, headers, 0, 0) for offset, value in enumerate(values)]
    metrics = Metrics(TRAINER)
    watch = RoundedWatch(config, PointDecoder(config), metrics)
    with structlog.testing.capture_logs() as said:
        for start in range(0, len(records), batch):
            watch.note(records[start : start + batch])
    return [line["features"] for line in said], metrics.registry.get_sample_value("streamsvm_input_rounded_features")


@pytest.mark.parametrize("written", [as_json, as_arrays, as_arrow])
@pytest.mark.parametrize(("column", "is_told"), COLUMNS.values(), ids=COLUMNS)
def test_a_column(written: Callable[[np.ndarray], list[bytes]], column: np.ndarray, is_told: bool) -> None:
    X = np.column_stack([np.linspace(0.0, 1.0, len(column)), column])
    assert told(PointsConfig(dimension=2), written(X)) == (["x[1]"] * is_told, is_told)
    assert told(PointsConfig(dimension=2, feature_names=("a", "t")), written(X)) == (["t"] * is_told, is_told)
    assert told(PointsConfig(dimension=2, dtype="float64"), written(X)) == ([], 0.0)


@pytest.mark.parametrize("batch", [1, 7, 5_000])
def test_only_the_first_rows_are_looked_at(batch: int) -> None:
    """However they come, and each feature is told once."""
    small, instants = np.linspace(0.0, 1.0, 4_096), np.resize(SECONDS, 4_096)
    config = PointsConfig(dimension=2)
    late = np.column_stack([np.append(small, instants), np.append(small, instants)])
    assert told(config, as_json(late), batch) == ([], 0.0)
    stands_first = np.append(np.full(2_000, SECONDS[0]), instants[:2_096])
    features, count = told(config, as_json(np.column_stack([instants, stands_first])), batch)
    assert (", ".join(features), count) == ("x[0], x[1]", 2.0)


def test_rejected_rows_are_passed_over() -> None:
    """Also where there is no other."""
    assert told(PointsConfig(dimension=2), [b"{}", *as_json(np.array([[1.0, 2.0]])), b"[]"], 1) == ([], 0.0)


def test_of_many_features_a_few_are_named() -> None:
    X = np.repeat(SECONDS[:, None], 9, axis=1)
    assert told(PointsConfig(dimension=9), as_json(X)) == (["x[0], x[1], x[2], x[3], x[4], ..."], 9.0)
