"""The benchmark of sealing runs, and says what it promises."""

from __future__ import annotations

import json

import pytest

from tests.benchmarks import seal


@pytest.mark.long
def test_every_case_has_its_figures_beside_another_checkout(capsys: pytest.CaptureFixture[str]) -> None:
    """A row a number of partitions; beside itself as the other checkout, seals and calls are the same."""
    main_options = ["--dimension", "3", "--partitions", "1,2", "--points", "20000", "--rounds", "1"]
    seal.main([*main_options, "--against", str(seal.ROOT), "--json"])
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["partitions"] for row in rows] == [1, 2]
    for row in rows:
        assert row["dimension"] == 3
        assert row["us_a_row"] > 0
        assert row["sgd_us_a_row"] > 0
        assert row["calls_a_seal"] > 0
        assert row["seals"] == row["against_seals"] > 0
        assert row["calls_a_seal"] == row["against_calls_a_seal"]
        assert row["times_its_rate"] == pytest.approx(row["against_us_a_row"] / row["us_a_row"])


def test_a_seal_costs_what_its_calls_took_above_others() -> None:
    """Of eight calls without and two with a seal of their rows; without a call of either kind nothing is known."""
    assert seal.Sealing(spent=(8.0, 12.0), calls=(8, 2), seals=2).a_seal == 5.0
    assert seal.Sealing(spent=(0.0, 12.0), calls=(0, 2), seals=2).a_seal is None
