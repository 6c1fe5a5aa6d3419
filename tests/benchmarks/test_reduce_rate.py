"""The benchmark of reducing runs, and says what it promises."""

from __future__ import annotations

import json

import pytest

from tests.benchmarks.reduce_rate import FLAT_STEPS, main


def test_every_contender_has_a_rate(capsys: pytest.CaptureFixture[str]) -> None:
    """One JSON object: a median with its interval for each contender, and ratios to the peers."""
    main(
        [
            "--dimensions",
            "3",
            "--memory",
            "200",
            "--points",
            "6000",
            "--rounds",
            "1",
            "--only",
            "chain,sgd,matvec",
            "--json",
        ]
    )
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert {"chain first", "chain whole", "chain late", "sgd", "matvec"} == row["rates"].keys()
    assert all(0 < least <= median <= most for median, least, most in row["rates"].values())
    assert row["chain late / sgd"] == pytest.approx(row["rates"]["chain late"][0] / row["rates"]["sgd"][0])


def test_the_flat_run_tells_the_resident_set_as_it_goes(capsys: pytest.CaptureFixture[str]) -> None:
    """A figure a step; what is held stays within the budget."""
    main(["--dimensions", "3", "--memory", "200", "--flat", "20000", "--json"])
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert len(row["resident_mib"]) == FLAT_STEPS
    assert row["points_held"] <= 200
