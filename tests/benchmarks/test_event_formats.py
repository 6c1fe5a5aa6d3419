"""The benchmark of the events' formats runs, and every contender sees every event; nothing here is about speed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.benchmarks.event_formats import main


@pytest.mark.long
def test_a_tiny_run_reports_every_contender(tmp_path: Path) -> None:
    """Each row is complete, and has the ratios that it is for."""
    main(["--events", "5000", "--runs", "1", "--json", str(tmp_path / "report.json")])
    rows = {row["contender"]: row for row in json.loads((tmp_path / "report.json").read_text())}
    assert len(rows) == 9
    assert all(row["events"] == 5_000 and row["cpu_us_per_event"] > 0 for row in rows.values())
    assert rows["arrow"]["to_x"] > 0
    assert rows["avro"]["to_by_hand"] > 0
