"""What a figure of an evaluation is of: which label, of how many held-out rows, of rows that were not learned."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from consumers.evaluate import Plan, evaluate
from consumers.evaluate.copies import copies_of
from streamsvm.ingest import from_arrays
from streamsvm.points import Points

PLAN = Plan(points=500, find_optimum=False)


def rows_of(n: int, rare: int, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.int8]]:
    """Return rows without a pattern, so many of them positive."""
    chance = np.random.default_rng(seed)
    y = np.full(n, -1, np.int8)
    y[chance.permutation(n)[:rare]] = 1
    return chance.standard_normal((n, 3)), y


def test_figures_of_a_label_that_was_not_held_out_are_absent() -> None:
    """With the count that they need."""
    X, y = rows_of(400, 1)
    report = evaluate(from_arrays("few", X, y), PLAN)
    scores = report.rows[0].scores
    assert scores is not None
    assert (scores.balanced_accuracy, scores.auc, scores.average_precision) == (None, None, None)
    assert any("no row of 1 was held out: it has 1" in line for line in report.said)


def test_figures_say_which_label_they_are_of_and_what_mistakes_cost() -> None:
    """The rarer one where no word says it; another one where a person does."""
    X, y = rows_of(400, 100)
    named = ["b" if one > 0 else "z" for one in y]
    report = evaluate(from_arrays("named", X, named), Plan(points=500, find_optimum=False, cost=(50.0, 1.0)))
    assert report.labels == ("z", "b")
    assert report.said[:2] == (
        "'b' is positive (the rarer one, 25.00%): AP, recall, cost, threshold are of it",
        "a missed 'b' costs 50, a false alarm 1",
    )
    assert evaluate(from_arrays("named", X, named), Plan(points=500, find_optimum=False, positive="z")).labels[1] == "z"


def test_copies_are_kept_on_one_side() -> None:
    """Rows that one column alone tells apart are no copies by chance."""
    X, y = rows_of(1_000, 300)
    twice = Points(np.concatenate([X, X[:600]]), np.concatenate([y, y[:600]]), np.ones(1_600))
    copies = copies_of(twice)
    assert copies.rows == 600
    assert copies.groups is not None
    assert (copies.groups[:600] == copies.groups[1_000:]).all()
    report = evaluate(from_arrays("twice", twice.X, twice.y), PLAN)
    assert "600 rows are copies of others: copies were kept on one side of the split" in report.said


def test_rows_of_few_values_are_alike_by_chance() -> None:
    """They are split as ever, and it is said how many of those held out are like a row that was learned."""
    chance = np.random.default_rng(0)
    X, y = chance.integers(0, 3, (1_000, 2)).astype(np.float64), np.where(chance.random(1_000) < 0.5, 1, -1)
    points = Points(X, y.astype(np.int8), np.ones(1_000))
    copies = copies_of(points)
    assert copies.groups is None
    (said,) = copies.said(points.take(slice(200, None)), points.take(slice(200)))
    assert said.startswith("200 of the 200 held-out rows are like a row that was learned")
    unlike = Points(*rows_of(100, 30), np.ones(100))
    assert [*copies_of(unlike).said(unlike.take(slice(20, None)), unlike.take(slice(20)))] == []
