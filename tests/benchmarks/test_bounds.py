"""The benchmark of bounds runs; nothing here is about speed."""

from __future__ import annotations

import json

import pytest

from tests.benchmarks import bounds


def test_rows_say_what_bounds_cost(capsys: pytest.CaptureFixture[str]) -> None:
    """One version of a small stream, over two partitions."""
    bounds.main(["--dimension", "3", "--partitions", "2", "--points", "3000", "--rounds", "1", "--json"])
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["kind"] in ("proven", "estimated")
    assert row["training_ms"] > row["solver_ms"] > 0.0
    assert row["bounds_ms"] > 0.0
    assert row["lower"] > 0.0
