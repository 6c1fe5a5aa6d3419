"""`streamsvm evaluate --prequential`: rows in their own order, each predicted before it is learned."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from pyarrow import parquet
from sklearn.metrics import accuracy_score, average_precision_score, balanced_accuracy_score, log_loss, roc_auc_score
from typer.testing import CliRunner

from consumers.cli.app import app
from consumers.evaluate import PrequentialPlan, evaluate_prequentially
from consumers.evaluate.predict_then_train import Stream, contenders
from consumers.evaluate.prequential_contenders import Due, shares_before
from streamsvm.config import SvmConfig
from streamsvm.ingest import open_source
from streamsvm.points import Points

OURS = ["all", "window", "decay", "adaptive"]


def turning_rows() -> tuple[np.ndarray, np.ndarray]:
    """Return 2,400 rows whose rule turns in the middle."""
    random = np.random.default_rng(0)
    X = random.normal(size=(2_400, 2))
    y = np.where(X[:, 0] + 0.1 * random.normal(size=2_400) > 0.0, 1, -1)
    y[1_200:] *= -1
    return X, y


@pytest.fixture
def turning(tmp_path: Path) -> Path:
    """A file of the rows whose rule turns."""
    X, y = turning_rows()
    path = tmp_path / "turning.parquet"
    parquet.write_table(pa.table({"a": X[:, 0], "b": X[:, 1], "y": y}), path)
    return path


def of_three(rows: int = 900) -> Points:
    """Return rows of three labels that planes tell apart, but for some."""
    random = np.random.default_rng(2)
    y = random.choice(3, rows, p=[0.5, 0.3, 0.2])
    X = np.array([[0.0, 2.0], [2.0, -1.0], [-2.0, -1.0]])[y] + random.normal(size=(rows, 2))
    return Points(X, y.astype(np.int8), np.ones(rows))


def test_every_contender_is_judged_on_the_same_rows(turning: Path) -> None:
    """Who forgets beats who does not, and SGD stands beside."""
    report = evaluate_prequentially(open_source(turning), PrequentialPlan(leaf_rows=48))
    rows = {row.contender: row for row in report.rows}
    accuracy = {name: row.accuracy for name, row in rows.items()}
    assert report.rows_judged == 2_352
    assert [*rows] == [*OURS, "SGD"]
    assert accuracy["adaptive"] > 0.9 > 0.85 > accuracy["all"]
    assert accuracy["window"] > accuracy["all"]
    assert rows["adaptive"].log_loss < 0.5 < np.log(2.0) < rows["all"].log_loss
    assert accuracy["SGD"] > 0.5
    assert rows["SGD"].log_loss is not None


def test_figures_are_scikit_learns() -> None:
    """Over all judged rows at once, by the decision value and the probability that each was answered with."""
    X, y = turning_rows()
    stream, plan = Stream(Points(X, y.astype(np.int8), np.ones(2_400)), 2), PrequentialPlan(leaf_rows=100)
    row, answers = next(contenders(stream, plan))
    decision, positive, truth = answers.decision[100:], answers.probability[100:], y[100:]
    assert np.isfinite(positive).all()
    assert row.accuracy == pytest.approx(accuracy_score(truth, np.where(decision > 0.0, 1, -1)))
    assert row.balanced_accuracy == pytest.approx(balanced_accuracy_score(truth, np.where(decision > 0.0, 1, -1)))
    assert row.auc == pytest.approx(roc_auc_score(truth, decision))
    assert row.average_precision == pytest.approx(average_precision_score(truth, decision))
    assert row.log_loss == pytest.approx(log_loss(truth, positive, labels=[-1, 1]))


def test_several_labels() -> None:
    """The log loss is that of the shares of all labels; average precision is one of two labels."""
    points, plan = of_three(), PrequentialPlan(leaf_rows=100)
    found = {row.contender: (row, answers) for row, answers in contenders(Stream(points, 3), plan)}
    row, answers = found["adaptive"]
    truth = points.y[100:]
    assert row.accuracy == pytest.approx(accuracy_score(truth, answers.decision[100:].argmax(axis=1)))
    assert row.accuracy > 0.85
    shares = answers.filled(shares_before(points, 3, 100))[100:]
    assert row.log_loss == pytest.approx(log_loss(truth, shares, labels=[0, 1, 2]))
    assert row.log_loss < 0.5
    assert row.auc > 0.95
    assert row.average_precision is None
    assert found["SGD"][0].accuracy > 0.8


def test_kernel_machines_follow_what_no_plane_does() -> None:
    """A ring turns inside out."""
    random = np.random.default_rng(1)
    X = random.normal(size=(2_400, 2))
    y = np.where((X**2).sum(axis=1) > 1.4, 1, -1).astype(np.int8)
    y[1_200:] *= -1
    stream = Stream(Points(X, y, np.ones(2_400)), 2)
    plan = PrequentialPlan(leaf_rows=100, svm=SvmConfig(kernel="rbf"))
    rows = {row.contender: row for row, _ in contenders(stream, plan)}
    assert rows["adaptive"].kernel == "rbf"
    assert rows["adaptive"].accuracy > 0.8


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 2), min_size=1, max_size=40), st.integers(1, 7))
def test_shares_are_of_the_labels_that_are_known(labels: list[int], lag: int) -> None:
    """Before each row those of the portions before its own, one row of each label added."""
    points = Points(np.zeros((len(labels), 1)), np.array(labels, np.int8), np.ones(len(labels)))
    shares = shares_before(points, 3, lag)
    for row in range(len(labels)):
        known = [*labels[: row // lag * lag], 0, 1, 2]
        assert shares[row] == pytest.approx([known.count(label) / len(known) for label in range(3)])


def test_a_model_is_made_after_the_first_leaf_and_then_after_each_so_many() -> None:
    """So that every judged row is answered by a model, however seldom they are made."""
    due = Due(100, 300)
    made = [due.rows for _ in range(20) if due.after(50)]
    assert made == [100, 300, 600, 900]


def test_the_command_prints_json(turning: Path) -> None:
    """With the fields that a program reads."""
    done = CliRunner().invoke(
        app, ["evaluate", str(turning), "--prequential", "--leaf-rows", "100", "--lag", "50", "--json"]
    )
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    figures = {"accuracy", "balanced_accuracy", "auc", "average_precision", "log_loss", "seconds", "cpu_seconds"}
    row = found["rows"][0]
    assert row.keys() == {"contender", "kernel", "note"} | figures
    assert (row["contender"], row["kernel"], found["lag"]) == ("all", "linear", 50)
    assert all(row[name] > 0.0 for name in figures)


def test_the_command_prints_a_table(turning: Path) -> None:
    """Every figure, as wide as a terminal; what a contender is made of stands below."""
    done = CliRunner().invoke(app, ["evaluate", str(turning), "--prequential", "--leaf-rows", "100"])
    assert done.exit_code == 0, done.output
    assert all(heading in done.stdout for heading in ("accuracy", "balanced", "AUC", "AP", "log loss", "seconds"))
    assert "window: the last 1,600 rows" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "adaptive: accuracy 0." in done.stderr
