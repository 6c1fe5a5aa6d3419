"""`streamsvm evaluate --prequential`: rows in their own order, each predicted before it is learned."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from consumers.cli.app import app
from consumers.evaluate import PrequentialPlan, evaluate_prequentially
from streamsvm.errors import ConfigurationError
from streamsvm.ingest.files.opening import open_source


@pytest.fixture
def turning(tmp_path: Path) -> Path:
    """A file of 1,200 rows whose rule turns in the middle; the label of every second row repeats the one before."""
    random = np.random.default_rng(0)
    X = random.normal(size=(1_200, 2))
    y = np.where(X[:, 0] + 0.1 * random.normal(size=1_200) > 0.0, 1, -1)
    y[600:] *= -1
    path = tmp_path / "turning.npz"
    np.savez(path, X=X, y=y)
    return path


def test_every_contender_is_judged_on_the_same_rows(turning: Path) -> None:
    """Who forgets beats who does not; the baselines stand beside."""
    report = evaluate_prequentially(open_source(turning), PrequentialPlan(leaf_rows=40))
    rows = {(row.contender, row.lag): row for row in report.rows}
    accuracy = {name: row.accuracy for (name, lag), row in rows.items() if lag == 40}
    assert report.rows_judged == 1_160
    assert {"all", "window", "decay", "adaptive", "SGD", "majority", "no-change"} <= accuracy.keys()
    assert accuracy["adaptive"] > 0.9 > 0.85 > accuracy["all"]
    assert accuracy["window"] > accuracy["all"]
    assert rows["SGD", 1].accuracy > 0.5
    assert len(report.over_time["adaptive"]) == -(-1_160 // report.every)
    assert any(600 < row <= 900 for row in report.takeovers)


def test_no_label_is_known_before_its_portion_ends(tmp_path: Path) -> None:
    """The newest label known is of the portion before: with labels that alternate a lag of one row is always wrong."""
    path = tmp_path / "alternating.npz"
    np.savez(path, X=np.random.default_rng(1).normal(size=(200, 1)), y=np.tile([-1, 1], 100))
    report = evaluate_prequentially(open_source(path), PrequentialPlan(leaf_rows=10, lag=10))
    found = {(row.contender, row.lag): row.accuracy for row in report.rows}
    assert found["no-change", 1] == 0.0
    assert found["no-change", 10] == 0.5


def test_the_command_prints_json(turning: Path) -> None:
    """With the fields that a program reads."""
    done = CliRunner().invoke(
        app, ["evaluate", str(turning), "--prequential", "--leaf-rows", "100", "--lag", "50", "--json"]
    )
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert {"contender", "kernel", "lag", "accuracy", "seconds", "note"} == found["rows"][0].keys()
    assert found["rows"][0] | {"seconds": 0, "accuracy": 0, "note": ""} == {
        "contender": "all",
        "kernel": "linear",
        "lag": 50,
        "accuracy": 0,
        "seconds": 0,
        "note": "",
    }


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (PrequentialPlan(leaf_rows=0), "--leaf-rows is 0"),
        (PrequentialPlan(leaf_rows=100, lag=0), "--lag is 0"),
        (PrequentialPlan(leaf_rows=1_000), "1,200 rows are less than twice the 1,000"),
        (PrequentialPlan(leaf_rows=100, lag=30), "--lag is 30, but --leaf-rows is 100"),
    ],
)
def test_plans_without_meaning_are_refused(turning: Path, plan: PrequentialPlan, said: str) -> None:
    """With the option and what to do."""
    with pytest.raises(ConfigurationError, match=said):
        evaluate_prequentially(open_source(turning), plan)
