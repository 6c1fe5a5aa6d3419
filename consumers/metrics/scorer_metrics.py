"""Metrics of the scorer, without those of its branches: a table."""

from __future__ import annotations

from typing import Final

from consumers.metrics.definition import Definition
from consumers.metrics.shared import (
    ABSENT_FIELDS,
    BROKER_THROTTLE,
    DEAD_LETTERS,
    HEALTH,
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
    *HEALTH,
    OUTPUT_BLOCKED,
    BROKER_THROTTLE,
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
        "Flat while producers write: check readiness.",
    ),
    Definition(
        "streamsvm_scores",
        "counter",
        "Scores committed, by predicted label: `negative`, `positive`, or of more than two labels the label as JSON.",
        "The share changes: another input or version; see streamsvm_score_drift.",
        ("label",),
    ),
    Definition(
        "streamsvm_score_values",
        "histogram",
        "Decision values committed; 0 is the boundary, -1 and 1 are the margins. Buckets only.",
        "Another shape under one version: the input changed. All between -0.1 and 0.1: nothing is separated.",
        buckets=SCORE_BUCKETS,
        bulk=True,
    ),
    Definition(
        "streamsvm_score_latency_seconds",
        "histogram",
        "Seconds from a record's timestamp to the commit of its scores.",
        "Above streamsvm_scoring_seconds: records waited, or the producer's clock is wrong.",
        buckets=LATENCY_BUCKETS_S,
        bulk=True,
    ),
    Definition(
        "streamsvm_score_drift",
        "gauge",
        "Population stability index of the newest 10,000 scores against the versions' audit samples; NaN: too few.",
        "Above streamsvm_score_drift_chance: something changed. Above 0.25: see StreamsvmScoresDrifted.",
    ),
    Definition(
        "streamsvm_score_drift_chance",
        "gauge",
        "What streamsvm_score_drift exceeds by chance once in a thousand times.",
        "Near 0.25: raise coreset.points at the trainer.",
    ),
    Definition(
        "streamsvm_score_drift_scores",
        "gauge",
        "Scores in the window of streamsvm_score_drift.",
        "0 while points are scored: the versions hold no scores of an audit sample.",
    ),
    Definition(
        "streamsvm_scored_batches",
        "counter",
        "Batches committed, or put back to be scored again.",
        "Many put back: the log says why.",
        ("outcome",),
    ),
    Definition(
        "streamsvm_scoring_seconds",
        "histogram",
        "Seconds from reading a batch to the commit of its scores.",
        "Rising: a slow broker, or more support vectors.",
        buckets=SCORING_BUCKETS_S,
    ),
    Definition(
        "streamsvm_serving_version",
        "gauge",
        "Number of the version that scores; 0: none.",
        "Behind streamsvm_model_version: readers are pinned, or the scorer is cut off.",
    ),
    Definition(
        "streamsvm_serving_loaded_timestamp_seconds",
        "gauge",
        "When the serving version was loaded.",
        "Old: no newer version came.",
    ),
    Definition(
        "streamsvm_model_messages_refused",
        "counter",
        "Model messages refused as damaged, foreign or unfit.",
        "Above 0: see StreamsvmModelMessageRefused.",
    ),
)
