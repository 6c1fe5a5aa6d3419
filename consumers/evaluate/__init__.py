"""Evaluate: one pass over a file's points with a chosen memory, beside what else could be done with them.

Nothing here needs a broker. Times are of this machine and this moment: compare them within one table.
"""

from consumers.evaluate.configured import not_followed, of_points, partitions_of, settings_of
from consumers.evaluate.plan import FLAGS, EvaluationReport, EvaluationRow, Plan
from consumers.evaluate.predict_then_train import PrequentialPlan, evaluate_prequentially
from consumers.evaluate.reading import load
from consumers.evaluate.results_table import (
    describe,
    describe_prequential,
    describe_thresholds,
    headline,
    notes,
    prequential_notes,
    progress_bar,
)
from consumers.evaluate.run import evaluate

__all__ = [
    "FLAGS",
    "EvaluationReport",
    "EvaluationRow",
    "Plan",
    "PrequentialPlan",
    "describe",
    "describe_prequential",
    "describe_thresholds",
    "evaluate",
    "evaluate_prequentially",
    "headline",
    "load",
    "not_followed",
    "notes",
    "of_points",
    "partitions_of",
    "prequential_notes",
    "progress_bar",
    "settings_of",
]
