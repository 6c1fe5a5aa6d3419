"""The benchmark of the audit's interval runs, and its rows say what they promise."""

from __future__ import annotations

import json

import pytest

from tests.benchmarks.audit import main


def test_a_row_holds_coverage_and_width(capsys: pytest.CaptureFixture[str]) -> None:
    """One row for each stream and size; what is not covered lies above or below; the simpler intervals stand beside."""
    main(["--points", "40,80", "--seeds", "30", "--cases", "fraud", "--json"])
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["weights"], row["points"]) for row in rows] == [
        (weights, points) for weights in ("1", "log-uniform") for points in (40, 80)
    ]
    for row in rows:
        assert row["coverage"] + row["above"] + row["below"] == pytest.approx(100.0, abs=0.2)
        assert row["coverage"] >= row["normal"] > 0.0
        assert row["width"] > 0.0
