"""Metrics of the scorer, without those of its branches: a table."""

from __future__ import annotations

from typing import Final

from consumers.metrics.definition import Definition
from consumers.metrics.shared import (
    ABSENT_FIELDS,
    DEAD_LETTERS,
    INPUT_LAG_RECORDS,
    INPUT_MOSTLY_REJECTED,
    INPUT_OPEN_TRANSACTION_RECORDS,
    INPUT_RECORDS,
    INPUT_ROWS,
    OUTPUT_BLOCKED,
    PASSED_OVER_ROWS,
    REGISTRY_WAITING_SECONDS,
    UNREAD_FIELDS,
)

SCORING_BUCKETS_S: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
SCORE_BUCKETS: Final = (-10.0, -5.0, -3.0, -2.0, -1.5, -1.0, -0.5, -0.1, 0.0, 0.1, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
"""Of decision values: margins are at -1 and 1, and the labels part at 0."""
LATENCY_BUCKETS_S: Final = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0, 86400.0)


OWN: Final = (
    OUTPUT_BLOCKED,
    INPUT_RECORDS,
    INPUT_ROWS,
    INPUT_LAG_RECORDS,
    INPUT_OPEN_TRANSACTION_RECORDS,
    INPUT_MOSTLY_REJECTED,
    DEAD_LETTERS,
    UNREAD_FIELDS,
    ABSENT_FIELDS,
    PASSED_OVER_ROWS,
    REGISTRY_WAITING_SECONDS,
    Definition(
        "streamsvm_scored_points",
        "counter",
        "Points scored.",
        "Flat while producers write: check readiness; without a model nothing is scored.",
        panel="Scorer: points, labels and batches",
    ),
    Definition(
        "streamsvm_scores",
        "counter",
        "Scores committed, by predicted label: `negative`, the first of the version's labels, or `positive`, the "
        "second; of more than two labels the label itself, spelt as JSON.",
        "The share of `positive` changes: the input changed, or another version serves; see streamsvm_score_drift "
        "and streamsvm_serving_version.",
        ("label",),
        panel="Scorer: points, labels and batches",
    ),
    Definition(
        "streamsvm_score_values",
        "histogram",
        "Decision values committed, one observation per score; 0 is the decision boundary, -1 and 1 are the margins. "
        "The histogram has buckets only, because values may be negative.",
        "A different shape than yesterday, under the same version: the input changed. All values between -0.1 and "
        "0.1: the model separates nothing; check its quality at the trainer.",
        buckets=SCORE_BUCKETS,
        bulk=True,
        panel="Scorer: decision values",
    ),
    Definition(
        "streamsvm_score_latency_seconds",
        "histogram",
        "Seconds from a record's timestamp to the commit of its scores, one observation per scored record.",
        "Above the time of a batch (streamsvm_scoring_seconds): records waited; see streamsvm_input_lag_records. If "
        "the producer sets timestamps, errors of its clock are included.",
        buckets=LATENCY_BUCKETS_S,
        bulk=True,
        panel="Scorer: time from a record to its score, and of a batch",
    ),
    Definition(
        "streamsvm_score_drift",
        "gauge",
        "Population stability index of the newest scores (scoring.drift_window of them) against the scores of the "
        "audit sample of the serving versions, by tenths of the sample. NaN if the version holds no scores of its "
        "audit sample, or there are too few scores.",
        "Above streamsvm_score_drift_chance: something changed. Above 0.25: much changed: the points differ from "
        "those the model was trained on, or a feature has another unit.",
        panel="Scorer: drift of scores, and the limit of chance",
    ),
    Definition(
        "streamsvm_score_drift_chance",
        "gauge",
        "Value that streamsvm_score_drift exceeds by chance once in a thousand times if nothing changed; it falls as "
        "the window and the audit sample grow.",
        "Near 0.25: raise scoring.drift_window, or coreset.audit_points at the trainer.",
        panel="Scorer: drift of scores, and the limit of chance",
    ),
    Definition(
        "streamsvm_score_drift_scores",
        "gauge",
        "Scores in the window of streamsvm_score_drift.",
        "0 while points are scored: the serving versions hold no scores of an audit sample.",
        panel="Scorer: drift of scores, and the limit of chance",
    ),
    Definition(
        "streamsvm_scored_batches",
        "counter",
        "Batches by outcome: committed with their positions, or put back to be read and scored again.",
        "Many put back: the log says why, for example a group that rebalances all the time, or an unstable broker.",
        ("outcome",),
        panel="Scorer: points, labels and batches",
    ),
    Definition(
        "streamsvm_scoring_seconds",
        "histogram",
        "Seconds from reading a batch to the commit of its scores, one observation per batch.",
        "Rising: the broker is slow to commit, or the model has more support vectors; see scoring.batch_records.",
        buckets=SCORING_BUCKETS_S,
        panel="Scorer: time from a record to its score, and of a batch",
    ),
    Definition(
        "streamsvm_serving_version",
        "gauge",
        "Number of the version that scores now; 0 while no version is loaded.",
        "Behind streamsvm_model_version: readers are pinned to an older version, or the scorer is cut off from the "
        "broker.",
        panel="Scorer: version and its age",
    ),
    Definition(
        "streamsvm_serving_loaded_timestamp_seconds",
        "gauge",
        "Time at which the serving version was loaded, seconds since the epoch.",
        "Old: no newer version came.",
        panel="Scorer: version and its age",
    ),
    Definition(
        "streamsvm_model_messages_refused",
        "counter",
        "Model messages that were damaged, foreign or unfit; the previous version stays in use.",
        "Above 0: the log names the record and the fault.",
        panel="Scorer: points, labels and batches",
    ),
)
