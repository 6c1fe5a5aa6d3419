"""Regression and one class beside scikit-learn's: a small set has a row for each setting."""

from __future__ import annotations

import json

import pytest

from tests.benchmarks import single


def test_every_setting_has_its_row_and_no_worse_objective(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows say times of both; our objective is not above theirs by more than the tolerance leaves open."""
    monkeypatch.setattr(single, "SIZES", (200, 201, 202))
    single.main(["--rounds", "1", "--most", "200", "--json"])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    settings = len(single.REGRESSIONS) + len(single.ONE_CLASSES)
    assert [row["data"] for row in rows] == ["friedman1"] * settings + ["htru2"] * settings + ["diabetes"] * settings
    assert min(min(row["ours_s"], row["theirs_s"]) for row in rows) > 0.0
    assert max(row["excess"] for row in rows) < 1e-6
