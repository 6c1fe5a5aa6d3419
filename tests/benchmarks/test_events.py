"""The benchmark of raw events runs, and every contender sees every event; nothing here is about speed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.benchmarks.events import main


def test_a_tiny_run_reports_every_contender(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each row is complete."""
    main(["--events", "5000", "--runs", "1", "--json", str(tmp_path / "report.json")])
    rows = json.loads((tmp_path / "report.json").read_text())
    assert {row["contender"] for row in rows} - {"River"} == {
        "streamsvm",
        "streamsvm, decoding only",
        "FeatureHasher + SGD",
        "DictVectorizer + SGD",
    }
    assert all(row["events"] == 5_000 and row["cpu_us_per_event"] > 0 for row in rows)
    assert "5,000 events of 12 fields" in capsys.readouterr().out
