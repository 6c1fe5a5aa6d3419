"""`streamsvm evaluate`: every format, the figures against ones computed here, refusals and JSON."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from rich.console import Console
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import balanced_accuracy_score, brier_score_loss, log_loss, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from consumers.evaluate import (
    EvaluationReport,
    EvaluationRow,
    Plan,
    describe,
    evaluate,
    headline,
    load,
    notes,
    run as passes,
)
from streamsvm import CoresetSVC
from streamsvm.datasets import load_htru2
from streamsvm.errors import ConfigurationError
from streamsvm.ingest import PointSource, from_arrays, open_source
from tests.consumers.command import error_of, run

Arrays = tuple[np.ndarray, np.ndarray]
PLAN = Plan(points=200, C=1.0)
UNTIMED: dict[str, Any] = {"points_per_s": None, "seconds": None}


@pytest.fixture(scope="module")
def arrays() -> Arrays:
    X, y, _ = load_htru2()
    rows = np.random.default_rng(1).permutation(len(y))[:3_000]
    return np.round(X[rows].astype(np.float64), 4), y[rows].astype(int)


@pytest.fixture(scope="module")
def source(arrays: Arrays) -> PointSource:
    return from_arrays("pulsars", *arrays)


@pytest.fixture(scope="module")
def report(source: PointSource) -> EvaluationReport:
    return evaluate(source, PLAN)


def named(report: EvaluationReport, name: str) -> EvaluationRow:
    (row,) = (row for row in report.rows if row.name == name)
    return row


def write(path: Path, X: np.ndarray, y: np.ndarray) -> Path:
    table = pa.table({f"f{index}": column for index, column in enumerate(X.T)} | {"label": y})
    if path.suffix == ".csv":
        pyarrow.csv.write_csv(table, path)
    else:
        pyarrow.parquet.write_table(table, path)
    return path


@pytest.fixture(scope="module")
def three() -> Arrays:
    """Three labels, named, of which the rarest has a tenth."""
    random = np.random.default_rng(0)
    y = random.choice(3, 2_500, p=[0.5, 0.4, 0.1])
    X = random.normal(size=(3, 5))[y] * 1.5 + random.normal(size=(2_500, 5))
    return X, np.array(["bird", "cat", "dog"])[y]


def parts_of(arrays: Arrays) -> tuple[Arrays, Arrays]:
    """Return the rows that `PLAN` trains on, and those that it holds out."""
    X, y = arrays
    order = np.random.Generator(np.random.PCG64(PLAN.seed)).permutation(len(y))
    held_out = len(y) // 5
    train, test = order[held_out:], order[:held_out]
    return (X[train], y[train]), (X[test], y[test])


@pytest.mark.filterwarnings("ignore::streamsvm.estimators.stream.CoresetWarning")  # 200 points are few
@pytest.mark.parametrize("labels", ["two", "three"])
def test_the_figures_are_those_computed_by_hand(arrays: Arrays, three: Arrays, labels: str) -> None:
    """The gap is that of the sum over the pairs, by LIBSVM's optima; the scores are scikit-learn's.

    Both are of a CoresetSVC that is fitted here on the same rows.
    """
    given = arrays if labels == "two" else three
    found = evaluate(from_arrays("points", *given), PLAN)
    (X, y), (held_out, truth) = parts_of(given)
    scaler = StandardScaler().fit(X)
    Z = scaler.transform(X)
    ours = CoresetSVC(points=200, C=1.0).fit(X, y)

    def objective(pair: tuple[Any, Any], w: np.ndarray, b: float) -> float:
        own = np.isin(y, pair)
        signs = np.where(y[own] == pair[1], 1, -1)
        return 0.5 * float(w @ w) + float(np.maximum(0.0, 1.0 - signs * (Z[own] @ w + b)).sum())

    reached, least = 0.0, 0.0
    pairs = list(combinations(ours.classes_, 2))
    for pair, coef, intercept in zip(pairs, ours.coef_, ours.intercept_, strict=True):
        own = np.isin(y, pair)
        exact = SVC(kernel="linear", C=1.0, tol=1e-6).fit(Z[own], y[own] == pair[1])
        reached += objective(pair, coef * scaler.scale_, float(intercept + coef @ scaler.mean_))
        least += objective(pair, exact.coef_[0], float(exact.intercept_[0]))
    row = named(found, "streamsvm")
    assert found.labels == tuple(ours.classes_)
    assert row.objective == pytest.approx(reached, rel=1e-9)
    assert row.gap == pytest.approx(reached / least - 1.0, abs=1e-6)
    assert row.gap > 1e-5
    assert row.scores is not None
    assert row.scores.accuracy == ours.score(held_out, truth)
    assert row.scores.balanced_accuracy == balanced_accuracy_score(truth, ours.predict(held_out))
    decision = ours.decision_function(held_out)
    if labels == "two":
        assert row.scores.auc == roc_auc_score(truth, decision)
    else:
        areas = [roc_auc_score(truth == label, decision[:, place]) for place, label in enumerate(ours.classes_)]
        assert row.scores.auc == pytest.approx(np.mean(areas))
        assert_in_order(found)
        assert named(found, "SGD").gap is None
    assert all(row.scores is not None and row.scores.accuracy > 0.75 for row in found.rows)


def assert_in_order(report: EvaluationReport) -> None:
    """See that the optimum has no gap, and that ours is nearer to it than a reservoir."""
    gaps = {row.name: row.gap for row in report.rows}
    assert 0.0 == gaps["optimum"] < gaps["streamsvm"] < gaps["reservoir"]


def test_rows_keep_to_their_memory(report: EvaluationReport) -> None:
    """Ours and the reservoir hold what was chosen, SGD nothing, the optimum everything; ours is nearer."""
    held = {row.name: row.points_held for row in report.rows[:5]}
    assert held == {"streamsvm": 200, "balanced": 200, "reservoir": 200, "SGD": 0, "optimum": 2_400}
    assert_in_order(report)
    assert report.uncertainty is not None
    assert report.uncertainty < 1e-6


def test_rbf_has_gaps_where_they_have_a_meaning(source: PointSource) -> None:
    """Ours and the reservoir's of the same width; SGD's machine lives elsewhere."""
    found = evaluate(source, replace(PLAN, kernel="rbf"))
    assert found.gamma is not None
    assert_in_order(found)
    assert named(found, "SGD").gap is None
    assert all(row.scores is not None for row in found.rows)


def test_without_an_optimum_there_are_no_gaps(source: PointSource, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not asked for, or too large to be had: the row says so, the objectives stay."""
    unwanted = evaluate(source, replace(PLAN, find_optimum=False))
    monkeypatch.setattr(passes, "MOST_CELLS", 10_000)
    too_large = evaluate(source, PLAN)
    for found, note in (
        (unwanted, "not computed"),
        (too_large, "skipped: 19,200 values, more than 10,000; --optimum computes it all the same"),
    ):
        assert named(found, "optimum") == EvaluationRow(name="optimum", note=note)
        assert all(row.gap is None for row in found.rows)
        assert named(found, "streamsvm").objective is not None
    assert named(evaluate(source, replace(PLAN, find_optimum=True)), "optimum").gap == 0.0


def test_the_seed_decides_everything(source: PointSource) -> None:
    """The same seed gives the same figures, but for the times; another seed gives others."""

    def figures(seed: int) -> list[EvaluationRow]:
        return [replace(row, **UNTIMED) for row in evaluate(source, replace(PLAN, seed=seed)).rows]

    assert figures(3) == figures(3) != figures(4)


@pytest.mark.parametrize("padded", ["01", "+01", "-01", "0012"])
def test_a_number_with_zeros_before_it_is_another_label(padded: str, tmp_path: Path) -> None:
    """Codes such as 01 and 1 are two labels of text, and do not become one number."""
    cells = ["1", padded, "2"] * 20
    path = tmp_path / "codes.csv"
    path.write_text("a,y\n" + "".join(f"{row % 7},{cell}\n" for row, cell in enumerate(cells)))
    points, labels = load(open_source(path))
    assert labels == tuple(sorted({"1", padded, "2"}))
    assert [labels[code] for code in points.y] == cells
    path.write_text("a,y\n1,+1\n2,-1\n3,1.0\n4,0\n5,0.0\n6,10\n")
    assert load(open_source(path))[1] == (-1, 0, 1, 10), "a sign or a fraction of 0 is a way to write the number"


def test_labels_of_two_types_do_not_merge(tmp_path: Path) -> None:
    """1 and "1" of JSON are two labels; true beside 1, which Python takes for one, is refused."""
    path = tmp_path / "labels.jsonl"
    path.write_text("".join(json.dumps({"x": [float(row)], "y": [1, "1", 2][row % 3]}) + "\n" for row in range(9)))
    assert load(open_source(path))[1] == (1, 2, "1")
    path.write_text("".join(json.dumps({"x": [float(row)], "y": [1, True, 2][row % 3]}) + "\n" for row in range(9)))
    with pytest.raises(ConfigurationError, match="labels mix true or false and numbers, such as True and 1"):
        load(open_source(path))


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("value", [1e301, -2e100])
def test_a_feature_that_no_model_holds_is_named_by_row_and_column(
    arrays: Arrays, ending: str, value: float, tmp_path: Path
) -> None:
    """The row is that of the file, not of the shuffled points, and the file is named."""
    X = arrays[0][:300].copy()
    X[7, 2] = value
    path = write(tmp_path / f"big.{ending}", X, arrays[1][:300])
    with pytest.raises(ConfigurationError, match=rf"big\.{ending}: row 8, column f2: .* is too large"):
        evaluate(open_source(path), PLAN)


@pytest.mark.parametrize(
    ("y", "said"),
    [
        ([7, 7, 7, 7], "has 1 labels \\(7\\)"),
        (list(range(129)), "has 129 labels \\(0, 1, 2, 3, 4, ...\\)"),
    ],
)
def test_labels_that_cannot_be_learned_are_refused(y: list[int], said: str) -> None:
    """One, or more than a point has room for."""
    with pytest.raises(ConfigurationError, match=said):
        evaluate(from_arrays("few", np.arange(2.0 * len(y)).reshape(-1, 2), y), Plan(test_share=0.5, seed=0))


def table_of(report: EvaluationReport) -> str:
    """Return the table as a terminal of 80 columns shows it."""
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(describe(report))
    return console.export_text()


def test_the_table_shows_every_row(report: EvaluationReport) -> None:
    """Figures or dashes; gaps that the optimum is too uncertain for are shown as bounds."""
    assert headline(report) == "pulsars: one pass over 2,400 points, 600 held out; 8 features, C 1"
    text = table_of(report)
    assert all(row.name in text for row in report.rows)
    assert "< 5.0e-01" in table_of(replace(report, uncertainty=0.5))
    assert f"{report.rows[0].objective:.6g}" in table_of(replace(report, uncertainty=None))
    assert any(line.startswith("optimum: trained on all training points, certified to") for line in notes(report))


def test_the_command_prints_json(arrays: Arrays, tmp_path: Path) -> None:
    """The whole command, from a CSV with named columns to figures that a program reads."""
    file = write(tmp_path / "part.csv", arrays[0][:800], arrays[1][:800])
    options = ["--label", "label", "--columns", "f0,f2,f3", "--points", "100"]
    finished = run("evaluate", str(file), *options, "--json")
    assert finished.returncode == 0, finished.stderr
    shown = json.loads(finished.stdout)
    assert (shown["training_points"], shown["test_points"], shown["dimension"]) == (640, 160, 3)
    assert shown["labels"] == [-1, 1]
    assert [row["contender"] for row in shown["rows"]] == ["streamsvm", "balanced", "reservoir", "SGD", "optimum"]
    assert shown["rows"][0]["accuracy"] > 0.9


def test_probabilities_are_judged_where_they_are_asked_for(arrays: Arrays, source: PointSource) -> None:
    """Brier score and log loss of ours and of cross-validation over everything stand in the table; of SGD, none do."""
    plan = replace(PLAN, points=1_500, probability="sigmoid")
    found = evaluate(source, plan)
    (X, y), (held_out, truth) = parts_of(arrays)
    ours = CoresetSVC(points=1_500, C=1.0, probability="sigmoid").fit(X, y).predict_proba(held_out)[:, 1]
    said = named(found, "streamsvm").probabilities
    assert said is not None
    assert said.brier == pytest.approx(brier_score_loss(truth, ours))
    assert said.log_loss == pytest.approx(log_loss(truth, ours))
    whole = CalibratedClassifierCV(make_pipeline(StandardScaler(), SVC(kernel="linear", C=1.0)), method="sigmoid")
    best = named(found, "optimum").probabilities
    assert best is not None
    expected = whole.fit(X, y).predict_proba(held_out)[:, 1]
    assert best.brier == pytest.approx(brier_score_loss(truth, expected), rel=0.02)
    assert named(found, "SGD").probabilities is None
    text = table_of(found)
    assert all(shown in text for shown in ("streamsvm", "reservoir", f"{said.brier:.4f}", "log loss", "balanced"))


@pytest.mark.parametrize("weights", ["balanced", (1.0, 5.0)])
def test_class_weights_count_in_every_method(arrays: Arrays, source: PointSource, weights: Any) -> None:
    """The optimum is SVC's of the same weights; SGD gets them as weights of its rows."""
    (X, y), _ = parts_of(arrays)
    Z = StandardScaler().fit_transform(X)
    given = weights if isinstance(weights, str) else {-1: weights[0], 1: weights[1]}
    exact = SVC(kernel="linear", C=1.0, tol=1e-6, class_weight=given).fit(Z, y)
    found = evaluate(source, replace(PLAN, class_weight=weights))
    factors = np.array([1.0, 1.0])
    factors[:] = len(Z) / (2.0 * np.bincount(y > 0)) if isinstance(weights, str) else weights
    slack = np.maximum(0.0, 1.0 - y * exact.decision_function(Z))
    reached = 0.5 * float(exact.coef_[0] @ exact.coef_[0]) + float((factors[(y > 0) * 1] * slack).sum())
    assert named(found, "optimum").objective == pytest.approx(reached, rel=1e-4)
    sgd, plain = named(found, "SGD"), named(evaluate(source, PLAN), "SGD")
    assert sgd.scores is not None
    assert plain.scores is not None
    assert sgd.scores != plain.scores


@pytest.mark.parametrize(("text", "said"), [("1,2,3", "neither balanced nor two numbers"), ("1,-1", "above 0")])
def test_class_weights_without_a_meaning_are_refused(text: str, said: str) -> None:
    """Two numbers above 0, or balanced; anything else is refused before the file is read."""
    assert said in error_of(run("evaluate", "--dataset", "htru2", "--class-weight", text))


def test_rows_without_skill_are_named() -> None:
    """Labels that have nothing to do with the features, 10 % of one: the table, the notes and the JSON say so."""
    random = np.random.default_rng(4)
    X, y = random.normal(size=(8_000, 4)), np.where(random.random(8_000) < 0.1, 1, -1)
    found = evaluate(from_arrays("noise", X, y), replace(PLAN, test_share=0.5))
    ours = named(found, "streamsvm")
    assert ours.scores is not None
    assert ours.scores.skill is False
    assert "it answers -1 to every held-out row: try --class-weight balanced" in ours.note
    (row,) = (row for row in found.plain()["rows"] if row["contender"] == "streamsvm")
    assert (row["skill"], row["only_answer"], row["balanced_accuracy"]) == (False, -1, 0.5)
    weighed = named(evaluate(from_arrays("noise", X, y), replace(PLAN, test_share=0.5, class_weight="balanced")), "SGD")
    assert weighed.scores is not None
    assert weighed.scores.only_answer is None
    assert "class-weight" not in weighed.note


def test_rows_that_lie_at_one_margin_are_told_of() -> None:
    """Few positives that a weak feature hardly finds: the hinge loss orders the others only if weights are balanced."""
    random = np.random.default_rng(4)
    y = np.where(random.random(6_000) < 0.1, 1, -1)
    X = random.normal(size=(len(y), 4)) + 0.5 * y[:, None]
    X[:, 1:] -= 0.5 * y[:, None]
    source = from_arrays("weak", X, y)
    plain, balanced = (
        evaluate(source, replace(PLAN, find_optimum=False, class_weight=weight)) for weight in (None, "balanced")
    )
    assert "of the held-out rows lie at one margin" in named(plain, "streamsvm").note
    assert "at one margin" not in named(balanced, "streamsvm").note


@pytest.mark.parametrize("twice", [False, True])
def test_a_field_that_is_known_too_late_is_named(*, twice: bool) -> None:
    """Where nearly all held-out rows are right; also if two fields hide one another."""
    random = np.random.default_rng(0)
    y = random.integers(0, 2, 1_500)
    X = random.normal(size=(len(y), 4))
    X[:, 2] = y
    if twice:
        X[:, 3] = y
    found = evaluate(from_arrays("late", X, y), replace(PLAN, find_optimum=False))
    (said,) = (note for note in notes(found) if note.startswith("streamsvm: "))
    assert said.startswith("streamsvm: all rows right: is a field known too late? x[2] decides")
    honest = evaluate(from_arrays("honest", X[:, :2], y), replace(PLAN, find_optimum=False))
    assert not any("known too late" in note for note in notes(honest))
