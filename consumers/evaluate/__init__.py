"""Evaluate: one pass over a file's points with a chosen memory, beside what else could be done with them.

Nothing here needs a broker. Times are of this machine and this moment: compare them within one table.
"""

from consumers.evaluate.peers import resolve
from consumers.evaluate.picture import check_plot, plot
from consumers.evaluate.plan import EvaluationReport, EvaluationRow, Plan
from consumers.evaluate.reading import load
from consumers.evaluate.run import evaluate
from consumers.evaluate.table import describe, describe_thresholds, headline, notes, progress_bar

__all__ = [
    "EvaluationReport",
    "EvaluationRow",
    "Plan",
    "check_plot",
    "describe",
    "describe_thresholds",
    "evaluate",
    "headline",
    "load",
    "notes",
    "plot",
    "progress_bar",
    "resolve",
]
