"""Evaluate: one pass over a file's points with a chosen memory, beside what else could be done with them.

Nothing here needs a broker. Times are of this machine and this moment: compare them within one table.
"""

from consumers.evaluate import predict_then_train
from consumers.evaluate.configured import check_followable, not_followed, of_points, partitions_of, settings_of
from consumers.evaluate.plan import FLAGS, EvaluationReport, EvaluationRow, Plan
from consumers.evaluate.predict_then_train import (
    PrequentialPlan,
    PrequentialRow,
    Stream,
    evaluate_prequentially,
    judged_row,
    memories,
)
from consumers.evaluate.prequential_contenders import Answers, CoresetContender, SgdContender
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
    "Answers",
    "CoresetContender",
    "EvaluationReport",
    "EvaluationRow",
    "Plan",
    "PrequentialPlan",
    "PrequentialRow",
    "SgdContender",
    "Stream",
    "check_followable",
    "describe",
    "describe_prequential",
    "describe_thresholds",
    "evaluate",
    "evaluate_prequentially",
    "headline",
    "judged_row",
    "load",
    "memories",
    "not_followed",
    "notes",
    "of_points",
    "partitions_of",
    "predict_then_train",
    "prequential_notes",
    "progress_bar",
    "settings_of",
]
