"""The benchmark of skill runs, and counts what it says it counts."""

from __future__ import annotations

import json

import pytest

from tests.benchmarks.skill import main


def test_every_kind_of_stream_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    """A clear signal is always found, noise never; with hardly a positive nothing is said."""
    options = ["--streams", "12", "--versions", "3", "--points", "2000", "--balanced", "0.5,0.8", "--processes", "1"]
    main([*options, "--positives", "0.24,0.001", "--json"])
    rows = {(row["balanced"], row["positives"]): row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert rows[0.8, 0.24]["some"] == 12
    assert rows[0.8, 0.24]["unknown"] == rows[0.5, 0.24]["some"] == 0
    assert rows[0.5, 0.001]["unknown"] == rows[0.8, 0.001]["unknown"] == 1.0
