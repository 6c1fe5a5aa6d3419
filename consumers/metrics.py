"""Every metric, once: name, meaning, unit, labels, and what to do when it moves.

Labels are bounded: a version, a hash or an offset is never one. Base units: seconds, bytes, points, rows, records.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

Kind = Literal["counter", "gauge", "histogram"]

TRAINING_BUCKETS_S: Final = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
STALENESS_BUCKETS_S: Final = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
REDUCE_BUCKETS_S: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
SCORING_BUCKETS_S: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
SCORE_BUCKETS: Final = (-10.0, -5.0, -3.0, -2.0, -1.5, -1.0, -0.5, -0.1, 0.0, 0.1, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
"""Of decision values: margins are at -1 and 1, and the labels part at 0."""
LATENCY_BUCKETS_S: Final = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0, 86400.0)
CHECKPOINT_BUCKETS_S: Final = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


@dataclass(frozen=True, slots=True)
class Definition:
    """One metric.

    Attributes
    ----------
    name : str
        As Prometheus shows it, without the `_total` of a counter.
    kind : str
    meaning : str
        What it counts, with its unit.
    advice : str
        What to do when it moves.
    labels : tuple of str
    buckets : tuple of float
        Of a histogram.
    bulk : bool
        Whether it is a histogram that takes many observations in one step, `observe_all`.
    """

    name: str
    kind: Kind
    meaning: str
    advice: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    bulk: bool = False


HELD_UP: Final = Definition(
    "streamsvm_output_held_up_seconds",
    "gauge",
    "How long the last stable offset of an output partition has stood still below the partition's end: the longest "
    "of all partitions, or 0.",
    "More than some seconds: a transaction stays open, and readers of committed records receive nothing newer.",
)

INPUT_RECORDS: Final = Definition(
    "streamsvm_input_records",
    "counter",
    "Records read from the input topic, by partition.",
    "Flat while producers write: check the lag and readiness.",
    ("partition",),
)

INPUT_ROWS: Final = Definition(
    "streamsvm_input_rows",
    "counter",
    "Rows learned or scored (accepted), or rejected.",
    "A rising share of rejected rows: read the dead letters.",
    ("outcome",),
)

INPUT_LAG_RECORDS: Final = Definition(
    "streamsvm_input_lag_records",
    "gauge",
    "Records between the last stable offset of the partition and the position of the trainer, or of the scorer's "
    "group; those of open transactions are in streamsvm_input_open_transaction_records. A scorer shows the partitions "
    "assigned to it.",
    "Growing: the daemon is slower than its input. Trainer: check the training time, or use the policy `latest`. "
    "Scorer: start another one in its group.",
    ("partition",),
)

INPUT_OPEN_TRANSACTION_RECORDS: Final = Definition(
    "streamsvm_input_open_transaction_records",
    "gauge",
    "Records between the last stable offset of the partition and its end: those of a producer's open transaction, and "
    "all that were written after its first. A partition that never had any is not shown.",
    "Stays: a producer does not end its transaction, and nobody who reads committed records gets past it. Find it with "
    "`kafka-transactions.sh find-hanging` or `describe-producers`; the broker aborts it after the producer's "
    "transaction.timeout.ms.",
    ("partition",),
)

INPUT_MOSTLY_REJECTED: Final = Definition(
    "streamsvm_input_mostly_rejected",
    "gauge",
    "1 while the newest records exceed max_dead_letter_share or max_consecutive_dead_letters (section input for a "
    "trainer, scoring for a scorer) and the daemon continues because its input is proven (input.proven_after_points, "
    "scoring.proven_after_records); else 0.",
    "1: the daemon is not ready, and learns or scores little. Find out who writes to the input; `streamsvm "
    "dead-letters` shows the records.",
)

DEAD_LETTERS: Final = Definition(
    "streamsvm_dead_letters",
    "counter",
    "Rejected rows, by reason.",
    "`streamsvm dead-letters` shows for each record where it is, why it was rejected, and what to do about it.",
    ("reason",),
)

UNREAD_FIELDS: Final = Definition(
    "streamsvm_unread_fields",
    "counter",
    "Rows with a field that is not read, counted once per such field; at most 16 fields are distinguished.",
    "Rising from some time on: a producer writes a field under another name, such as `weight` for `w`, so that `w` "
    "has its default. The log names each field once.",
)

ABSENT_FIELDS: Final = Definition(
    "streamsvm_absent_fields",
    "gauge",
    "Declared fields of raw events that the newest events, at least 100, all lack.",
    "Above 0: the producer renamed or dropped a field. The log names it, and since when; events that may lack it are "
    "scored as if it were missing, the others are dead letters.",
)

PASSED_OVER_ROWS: Final = Definition(
    "streamsvm_passed_over_rows",
    "counter",
    "Rows that hold no event and are not rejected, by reason: deletions and other operations of a change log, and "
    "tombstones, where events.envelope is connect or debezium; and rows of which a field `__deleted` or `__op` says "
    "that they were deleted. They count neither as accepted nor as rejected.",
    "delete rising: what was learned of deleted rows stays learned. Begin a new incarnation if it must not.",
    ("reason",),
)

REGISTRY_WAITING_SECONDS: Final = Definition(
    "streamsvm_registry_waiting_seconds",
    "gauge",
    "Seconds for which the input has waited for the schema registry; 0 while it does not.",
    "Above 0: the registry does not answer. Nothing is lost or rejected; reading continues when the registry answers.",
)

CORESETS: Final = (
    Definition(
        "streamsvm_coresets_records",
        "counter",
        "Records written to the coresets topic: `part`, `manifest`, `tombstone` or `opening`.",
        "Manifests flat while producers write: the worker owns nothing, or waits; see its readiness.",
        ("kind",),
    ),
    Definition(
        "streamsvm_coresets_bytes",
        "counter",
        "Bytes of keys and values written to the coresets topic.",
        "A large share of streamsvm_input_bytes: raise worker.publish_interval_s.",
    ),
    Definition(
        "streamsvm_coresets_passed_over",
        "counter",
        "Records of the coresets topic that were passed over because they are damaged, foreign or incomplete.",
        "Above 0: the log names each. Another program may write to the topic, or it is not compacted.",
    ),
    Definition(
        "streamsvm_coresets_manifest_timestamp_seconds",
        "gauge",
        "Time of the newest manifest of each partition, seconds since the epoch: a worker's, written; a trainer's, "
        "seen.",
        "Old while the partition has more to read: its worker is gone or stuck.",
        ("partition",),
    ),
    Definition(
        "streamsvm_worker_partitions",
        "gauge",
        "Partitions that this worker (`streamsvm worker`) learns; 0 of a trainer.",
        "0 of a worker: others own them all, or no trainer has opened them yet; see its readiness.",
    ),
)
"""Of trainers with training.from_coresets, and of their workers."""

TRAINER: Final = (
    *CORESETS,
    Definition(
        "streamsvm_coresets_adopted",
        "counter",
        "States of partitions that the trainer adopted from the coresets topic.",
        "Flat while workers write manifests: the trainer waits for a training, or cannot read the topic.",
    ),
    HELD_UP,
    INPUT_RECORDS,
    Definition(
        "streamsvm_input_bytes",
        "counter",
        "Bytes of the values of the records read from the input topic.",
        "Divided by streamsvm_input_records it is the mean size of a record. A growing size means more rows per "
        "record, or other content.",
    ),
    INPUT_ROWS,
    INPUT_LAG_RECORDS,
    INPUT_OPEN_TRANSACTION_RECORDS,
    INPUT_MOSTLY_REJECTED,
    Definition(
        "streamsvm_label_records",
        "counter",
        "Records read from the topic of labels.",
        "Flat while labels are written: check readiness. Nothing is joined past the newest of them.",
    ),
    Definition(
        "streamsvm_labels",
        "counter",
        "Rows and labels that the join decided, by outcome: joined, and of those joined_early, whose label came before "
        "the row; absent, rows without a label at the end of labels.horizon; unmatched_label, labels without a row; "
        "doubled_row, doubled_label and changed_label, of which the first one counts.",
        "Many unmatched labels: labels.horizon is too short, or the topics are not partitioned alike. Many absent rows "
        "with labels.absent = negative: late labels are learned as negative.",
        ("outcome",),
    ),
    Definition(
        "streamsvm_join_open_rows",
        "gauge",
        "Rows that wait for their labels.",
        "Grows towards labels.horizon times the rate of rows. Beyond that labels are missing.",
    ),
    Definition(
        "streamsvm_join_held_rows",
        "gauge",
        "Rows within labels.horizon, whether they wait for a label or have one.",
        "In no partition it may exceed labels.most_rows: then the trainer ends.",
    ),
    Definition(
        "streamsvm_join_bytes",
        "gauge",
        "Memory of the join: rows, their features, early labels and the index.",
        "Shorten labels.horizon where it is too large.",
    ),
    Definition(
        "streamsvm_join_oldest_row_seconds",
        "gauge",
        "Age of the oldest row within labels.horizon, in the time of the logs.",
        "Near labels.horizon in steady state; smaller while the stream is younger than that.",
    ),
    Definition(
        "streamsvm_join_waiting_seconds",
        "gauge",
        "How long a partition of one log has waited for a record of the other.",
        "One of the two topics is idle: nothing is joined there until a record, or a watermark, is written to it.",
    ),
    Definition(
        "streamsvm_join_watermarks",
        "counter",
        "Watermarks that the trainer wrote to partitions of the labels' topic that were idle for labels.idle_s.",
        "Rising: labels come to few partitions, or not at all. Check who writes them.",
    ),
    Definition(
        "streamsvm_join_times_ahead",
        "counter",
        "Records of either log whose timestamp is so far ahead of those around it that it does not count.",
        "Rising: a clock, or its unit, is wrong. The log line time_ahead names a record.",
        ("log",),
    ),
    DEAD_LETTERS,
    UNREAD_FIELDS,
    ABSENT_FIELDS,
    PASSED_OVER_ROWS,
    REGISTRY_WAITING_SECONDS,
    Definition(
        "streamsvm_coreset_points",
        "gauge",
        "Points held in buckets, by level, over all partitions; the level `leaf` is the open leaves.",
        "Bounded by the configuration. One level is added each time the stream doubles.",
        ("level",),
    ),
    Definition(
        "streamsvm_coreset_bytes",
        "gauge",
        "Bytes of the points held.",
        "Compare with the memory that you planned.",
    ),
    Definition(
        "streamsvm_coreset_weight",
        "gauge",
        "Total weight of the accepted points, which the coreset represents.",
        "Grows with the input by the weight of each point. Growing much faster than streamsvm_input_rows: some "
        "points have large weights, and decide the model.",
    ),
    Definition(
        "streamsvm_coreset_reduce_seconds",
        "histogram",
        "Seconds to seal a leaf, including its reduction and the merges that follow; one observation per leaf.",
        "Multiplied by the leaves per second it is the share of the main loop spent on coresets. Near 1: raise "
        "coreset.leaf_rows or lower coreset.bucket_points.",
        buckets=REDUCE_BUCKETS_S,
    ),
    Definition(
        "streamsvm_coreset_reductions",
        "gauge",
        "Reductions of the calibrated reducer since the process started, by outcome: `calibrated`; `by_weight`, one "
        "label only; `crowded`, of an `rbf` machine, more than a third of the weight active, so that points are a "
        "plain sample; `uncalibrated`, too few points for the number of features; `strained`, weights at their bound. "
        "Additionally `shifted`: leaves that differ from everything their partition held before.",
        "Any other than `calibrated`: the stream is sorted or drifts, or buckets are too small for the number of "
        "features; the model may be no better than one from a plain sample. The log says what to do.",
        ("outcome",),
    ),
    Definition(
        "streamsvm_memory_short_share",
        "gauge",
        "With coreset.memory = adaptive: share of the training weight that horizons shorter than a tenth of their "
        "partition's rows have won, in the partition where it is greatest. NaN with another memory.",
        "Near 0: old rows still hold. Above 0.5: the stream has changed, and the model is of the newest rows; find out "
        "what changed.",
    ),
    Definition(
        "streamsvm_coreset_clipped_rows",
        "gauge",
        "Accepted rows in which coreset.max_leverage or coreset.clip_sd clipped a feature, since the process started.",
        "A few are normal; the log line outlier_drawn_in names the farthest. A rising share: the scale of a feature "
        "changed, which is followed over some leaves, or clip_sd is too small for it.",
    ),
    Definition(
        "streamsvm_coreset_bounded_weights",
        "gauge",
        "Accepted rows whose weight coreset.max_leverage clipped, since the process started.",
        "Above 0: single rows have more than a hundredth of all weight before them; the log line outlier_drawn_in "
        "names the heaviest. Find out who wrote these rows.",
    ),
    Definition(
        "streamsvm_points_held",
        "gauge",
        "Points held now: buckets, open leaves, audit samples, decoded rows that are not learned yet, and training "
        "sets in flight with their audit samples.",
        "Bounded by the configuration; plan memory by this figure.",
    ),
    Definition(
        "streamsvm_points_held_peak",
        "gauge",
        "Most points held at once since the process started.",
        "Bounded by the configuration; plan memory by this figure.",
    ),
    Definition(
        "streamsvm_training_points",
        "gauge",
        "Points of the newest training set.",
        "At coreset.train_points: the union of buckets is reduced to this many. Raise coreset.train_points if "
        "training is fast.",
    ),
    Definition(
        "streamsvm_training_seconds",
        "histogram",
        "Seconds of training, one observation per model.",
        "Above the time between two cuts: versions are skipped (`latest`) or the input waits (`every`).",
        buckets=TRAINING_BUCKETS_S,
    ),
    Definition(
        "streamsvm_tuning_seconds",
        "histogram",
        "Seconds to choose C and gamma by cross-validation, one observation per tuning; training comes on top.",
        "Above the time between two cuts: same as streamsvm_training_seconds. Lower svm.tune_points, or raise "
        "svm.tune_every_leaves.",
        buckets=TRAINING_BUCKETS_S,
    ),
    Definition(
        "streamsvm_trainings",
        "counter",
        "Trainings by outcome: converged, or iteration_limit.",
        "iteration_limit: the published model is inaccurate. Check C, the scaling of features and svm.max_iterations.",
        ("outcome",),
    ),
    Definition(
        "streamsvm_training_iterations",
        "gauge",
        "Iterations of the solver for the newest version.",
        "At svm.max_iterations: the model is inaccurate. Rising from version to version: check the scaling of "
        "features and C.",
    ),
    Definition(
        "streamsvm_cuts_skipped",
        "counter",
        "Training sets that a newer one replaced before they were trained (policy `latest`).",
        "Normal when input is faster than training; use the policy `every` if each set must be trained.",
    ),
    Definition(
        "streamsvm_model_version",
        "gauge",
        "Number of the newest published version.",
        "Flat while rows are learned: check the training time and the log.",
    ),
    Definition(
        "streamsvm_model_published_timestamp_seconds",
        "gauge",
        "Time at which the newest version was published, seconds since the epoch; its age is time() minus this.",
        "Old while rows are learned: see streamsvm_model_version.",
    ),
    Definition(
        "streamsvm_model_staleness_seconds",
        "histogram",
        "Seconds from sealing the leaf that made a version due to its publication, one observation per version.",
        "Above the time between two cuts: a version is older than one cut when it is published; see "
        "streamsvm_training_seconds.",
        buckets=STALENESS_BUCKETS_S,
    ),
    Definition(
        "streamsvm_model_rows_behind",
        "gauge",
        "Rows, learned or rejected, that the newest version does not cover.",
        "More than a few times streamsvm_model_rows_between_cuts: rows arrive, but no version is published. Check "
        "the training time and the log.",
    ),
    Definition(
        "streamsvm_model_rows_between_cuts",
        "gauge",
        "Rows after which a model is due: coreset.leaf_rows times training.every_leaves.",
        "Changes with the configuration only.",
    ),
    Definition(
        "streamsvm_model_message_bytes",
        "gauge",
        "Bytes of the newest version's message.",
        "Grows with the number of support vectors of a kernel model. The trainer does not start under a "
        "configuration whose largest model would exceed the broker's limits.",
    ),
    Definition(
        "streamsvm_model_points_covered",
        "gauge",
        "Valid points that the newest version covers.",
        "Compare with streamsvm_input_rows: the difference is not in the model yet.",
    ),
    Definition(
        "streamsvm_model_support_vectors",
        "gauge",
        "Support vectors of the newest version.",
        "A sudden change: the data changed.",
    ),
    Definition(
        "streamsvm_model_kkt_gap",
        "gauge",
        "KKT gap of the newest version on its training set: by how much it violates optimality.",
        "Above svm.tolerance: the solver stopped early.",
    ),
    Definition(
        "streamsvm_model_penalty",
        "gauge",
        "C of the newest version, whether given, derived from svm.alpha, or tuned.",
        "With svm.alpha C falls as the weight of the stream grows. For the value that svm.tune chose see "
        "streamsvm_model_alpha.",
    ),
    Definition(
        "streamsvm_model_alpha",
        "gauge",
        "alpha = 1 / (C U) of the newest version, U being the weight of the stream up to its cut.",
        "Changes only with svm.tune or with a fixed svm.C. At the smallest or largest candidate, tuning after "
        "tuning: give svm.tune_alphas with a wider range.",
    ),
    Definition(
        "streamsvm_model_gamma",
        "gauge",
        "Gamma of the newest version; only with the kernel rbf.",
        "At the smallest or largest candidate, tuning after tuning: give svm.tune_gammas with a wider range.",
    ),
    Definition(
        "streamsvm_model_objective",
        "gauge",
        "Objective of the newest version on its training set, in the objective's own units.",
        "The difference to streamsvm_model_dual_objective bounds the distance to the training set's optimum. Outside "
        "the audit's interval: the coreset misjudges the model.",
    ),
    Definition(
        "streamsvm_model_dual_objective",
        "gauge",
        "Dual objective of the newest version: a lower bound of the optimum on its training set, not on the stream.",
        "Far below streamsvm_model_objective: the solver stopped early; raise svm.max_iterations.",
    ),
    Definition(
        "streamsvm_audit_objective",
        "gauge",
        "Objective of the newest version over the whole stream, estimated from the audit sample, which is "
        "independent of the coreset.",
        "If streamsvm_model_objective is outside the interval, version after version: the coreset misses important "
        "points. Raise coreset.memory_points, and see streamsvm_coreset_reductions.",
    ),
    Definition(
        "streamsvm_audit_objective_low",
        "gauge",
        "Lower end of the 95 % interval of streamsvm_audit_objective.",
        "See streamsvm_audit_objective.",
    ),
    Definition(
        "streamsvm_audit_objective_high",
        "gauge",
        "Upper end of the 95 % interval of streamsvm_audit_objective.",
        "Too far from the lower end to be useful: raise coreset.audit_points.",
    ),
    Definition(
        "streamsvm_audit_points",
        "gauge",
        "Points of the newest version's audit sample.",
        "At most coreset.audit_points per partition; fewer if the sample holds the partition's whole stream.",
    ),
    Definition(
        "streamsvm_publishes",
        "counter",
        "Versions by outcome: published, or refused by the broker.",
        "refused: the log names the version and the limit; the next version takes its number.",
        ("outcome",),
    ),
    Definition(
        "streamsvm_gate_verdicts",
        "counter",
        "Versions by the verdict of the quality gate: passed, refused, or unscored because there were too few points "
        "to judge by. Under output.gate = shadow also waits: for a challenge.",
        "refused: the current version stays; check what changed in the input, and the accuracies, or, if the log "
        "shows gate_waits, why nothing could be compared. Only unscored: there are hardly any points of one of the "
        "labels.",
        ("outcome",),
    ),
    Definition(
        "streamsvm_challenges",
        "counter",
        "Challenges that ended under output.gate = shadow, by outcome: better and passed, where the challenger became "
        "current; worse, undecided, unlabeled and void, where it did not.",
        "unlabeled or passed: no scorer scores the challenger, or no labels come; see output.gate_wait. Only "
        "undecided: versions are as good as the current one.",
        ("outcome",),
    ),
    Definition(
        "streamsvm_challenger_version",
        "gauge",
        "Number of the version that challenges the current one; 0 while there is none.",
        "The same for long, with few streamsvm_challenge_labels: see that a scorer with scoring.shadow runs.",
    ),
    Definition(
        "streamsvm_challenge_labels",
        "gauge",
        "Labels of rows that both the current version and the challenger scored, in the open challenge.",
        "The number does not grow: no scorer scores the challenger, or no labels come.",
    ),
    Definition(
        "streamsvm_challenge_scores_left_out",
        "gauge",
        "What was read of the topic of scores in the open challenge, and does not count: records that cannot be read "
        "(`unreadable`), and scores of records that the input does not have (`nowhere`).",
        "Above 0: another program writes to the topic of the scores; the log names the first such record.",
        ("reason",),
    ),
    Definition(
        "streamsvm_challenge_figure",
        "gauge",
        "The figure of output.gate_figure on these labels at the newest look, of `champion` and of `challenger`.",
        "Compare the two; streamsvm_challenge_difference says what is certain.",
        ("of",),
    ),
    Definition(
        "streamsvm_challenge_difference",
        "gauge",
        "By how much the challenger does better: the mean of all differences (`mean`), and an interval that holds at "
        "all looks together (`low`, `high`).",
        "`low` above 0: the challenger wins. `high` below 0: it loses. Else nothing is certain yet.",
        ("end",),
    ),
    Definition(
        "streamsvm_gate_candidate_accuracy",
        "gauge",
        "Balanced accuracy of the newest version on the points that the quality gate scored.",
        "Compare with streamsvm_gate_present_accuracy. If both fall, the stream changes faster than the models.",
    ),
    Definition(
        "streamsvm_gate_best_accuracy",
        "gauge",
        "Balanced accuracy, on the same points, of the best of the versions that were current most recently "
        "(output.gate_versions).",
        "Above streamsvm_gate_present_accuracy: versions became worse one after another, each within the margin.",
    ),
    Definition(
        "streamsvm_gate_present_accuracy",
        "gauge",
        "Balanced accuracy, on the same points, of the version that was current then.",
        "See streamsvm_gate_candidate_accuracy.",
    ),
    Definition(
        "streamsvm_model_certified_gap",
        "gauge",
        "How far the newest version's objective over all rows can be from that of the best possible model, as a share "
        "of it; NaN where nothing is proven.",
        "Wide or widening: rows change sides, or the stream drifts; give more memory, or read the log with "
        "`streamsvm model refine`. See StreamsvmBoundsWiden in the runbook.",
    ),
    Definition(
        "streamsvm_model_gap_proven",
        "gauge",
        "1 if streamsvm_model_certified_gap is proven; 0 if its upper end is that of the audit's 95 % interval.",
        "0: too many rows may have changed sides since they were condensed; the lower end is proven all the same.",
    ),
    Definition(
        "streamsvm_model_skill",
        "gauge",
        "Whether the answers of the newest version are better than chance: 1 they are, -1 they are not, 0 it is not "
        "clear yet. Judged by balanced accuracy and AUC on the newest scored points, else on the audit sample, beyond "
        "doubt over all versions of the model.",
        "-1: the version knows nothing; see StreamsvmNoSkill in the runbook. 0 for long: one label is rare, so raise "
        "quality.window or coreset.audit_points.",
    ),
    Definition(
        "streamsvm_model_one_answer",
        "gauge",
        "1 if the newest version gives the same answer to every judged point, else 0.",
        "1: one label is rare or the features say little; set svm.class_weight to balanced.",
    ),
    Definition(
        "streamsvm_model_labels_never_answered",
        "gauge",
        "Labels, of more than two, of which there were enough points to judge, and that the newest version never "
        "answers, or nearly never.",
        "Above 0: the label is rare; set svm.class_weight to balanced. Or the features do not tell it from others.",
    ),
    Definition(
        "streamsvm_model_labels_missing",
        "gauge",
        "Labels of points.labels of which the newest version has learned no point.",
        "Above 0 for long: points.labels does not fit the records, or the label is yet to come. The log event "
        "labels_missing, or one_label_only, names them.",
    ),
    Definition(
        "streamsvm_class_weighted",
        "gauge",
        "1 if svm.class_weight is configured, else 0.",
        "With 1, plain accuracy below that of always predicting the more frequent label is expected.",
    ),
    Definition(
        "streamsvm_model_balanced_accuracy",
        "gauge",
        "Balanced accuracy at the newest version's publication, by weight: of the newest points, each answered by the "
        "version that was current then (`newest`), and of the audit sample, answered by the new version (`audit`). NaN "
        "with fewer than 20 points of a label.",
        "Near 0.5: the decisions are those of chance.",
        ("sample",),
    ),
    Definition(
        "streamsvm_model_auc",
        "gauge",
        "Area under the ROC curve on the same points: how often a positive point scores higher than a negative one.",
        "Near 0.5: the scores are those of chance. High while balanced accuracy is near 0.5: class weights will help.",
        ("sample",),
    ),
    Definition(
        "streamsvm_model_average_precision",
        "gauge",
        "Average precision on the same points: the mean precision over all thresholds, by recall.",
        "Compare it with streamsvm_model_positive_share of `true`, which is what chance gives.",
        ("sample",),
    ),
    Definition(
        "streamsvm_model_log_loss",
        "gauge",
        "Mean logarithmic loss of the version's probabilities on the same points; NaN without svm.probability.",
        "Rising: the probabilities no longer fit the stream.",
        ("sample",),
    ),
    Definition(
        "streamsvm_model_positive_share",
        "gauge",
        "Share of the weight of the same points that is answered positive (`answered`), and that is (`true`).",
        "Far apart: the model raises more alarms than there are positives, or fewer.",
        ("sample", "of"),
    ),
    Definition(
        "streamsvm_prequential_points",
        "counter",
        "Points scored by the current version before they were learned. All points; or, for a kernel machine with "
        "more than 16 support vectors, one in every n / 16 points, n being the number of support vectors, which "
        "bounds the time.",
        "Flat while rows are learned: no version is current yet, the log is being replayed, or quality.enabled is off.",
    ),
    Definition(
        "streamsvm_prequential_seconds",
        "counter",
        "Seconds spent on this scoring and its baseline.",
        "Normally a few per cent of the learning time. If that is too much, set quality.enabled to false.",
    ),
    Definition(
        "streamsvm_prequential_accuracy",
        "gauge",
        "Share of the weight of the newest quality.window scored points that is classified correctly: by the current "
        "version (`model`), by plain SGD on every k-th point, k = quality.baseline_every, at the best of several "
        "rates (`sgd`), by always predicting the more frequent label (`majority`).",
        "model falling: the stream changes, or its labels became wrong. model below sgd: the baseline forgets, the "
        "coreset does not, so the stream drifts, or the coreset is too small. model below majority: see "
        "svm.class_weight.",
        ("scorer",),
    ),
    Definition(
        "streamsvm_prequential_balanced_accuracy",
        "gauge",
        "Balanced accuracy on the same points: the mean over the two labels; NaN while the window lacks one label.",
        "See streamsvm_prequential_accuracy; more telling where one label is rare.",
        ("scorer",),
    ),
    Definition(
        "streamsvm_prequential_positive_share",
        "gauge",
        "Share of the weight of the same points that the current version answered with the second label (`answered`), "
        "and share that has it (`true`).",
        "answered far above true: false alarms; far below: missed ones. true moving: the stream changes.",
        ("of",),
    ),
    Definition(
        "streamsvm_prequential_label_recall",
        "gauge",
        "Share of the weight of each label, of the same points, that the current version answered right (recall); of "
        "models of more than two labels only. `label` is spelt as JSON; at most 128 values.",
        "Low for one label: it is rare (svm.class_weight = balanced), or others resemble it. NaN: none came lately.",
        ("label",),
    ),
    Definition(
        "streamsvm_prequential_label_share",
        "gauge",
        "Share of the weight of the same points that has each label (`true`), and that is answered with it "
        "(`answered`); of models of more than two labels only.",
        "answered far below true: the label is missed. A label that appears or goes shows here first.",
        ("label", "of"),
    ),
    Definition(
        "streamsvm_prequential_hinge_loss",
        "gauge",
        "Mean hinge loss on the same points, by weight; `majority` has none.",
        "Rising while accuracy stays: margins shrink, or a few points are far out; see coreset.clip_sd.",
        ("scorer",),
    ),
    Definition(
        "streamsvm_versions_retired",
        "counter",
        "Versions retired because output.keep_versions newer ones exist.",
        "Flat although output.keep_versions is set: look for `retiring_waits` in the log, which says what keeps "
        "versions from being retired.",
    ),
    Definition(
        "streamsvm_producer_renewals",
        "counter",
        "Number of times the producer of versions was replaced, after a commit of unknown outcome or an outage.",
        "A few with every outage of the broker are normal. Many without an outage: see the log for the failure.",
    ),
    Definition(
        "streamsvm_standby",
        "gauge",
        "1 while this copy of the trainer stands by for another one (training.standby), else 0.",
        "Of all copies of a model exactly one should say 0. All at 1: the broker does not answer, or no copy works.",
    ),
    Definition(
        "streamsvm_workers",
        "gauge",
        "Worker processes that read and learn for the trainer (training.workers); 0 where it does so itself.",
        "For reading streamsvm_worker_cpu_seconds.",
    ),
    Definition(
        "streamsvm_worker_cpu_seconds",
        "counter",
        "Processor time of each worker process.",
        "A rate near 1: that worker has no processor left, and its partitions fall behind first. Raise "
        "training.workers if there are more partitions and processors.",
        ("worker",),
    ),
    Definition(
        "streamsvm_loop_longest_turn_seconds",
        "gauge",
        "Longest turn of the trainer's main loop within the last half minute to minute. A turn that waits for records "
        "takes 0.1 s.",
        "Above a second: a publish, a checkpoint or a reduction holds the loop up, and nothing is read meanwhile. See "
        "their times. /healthz answers 503 after http.stuck_after_s.",
    ),
    Definition(
        "streamsvm_training_running_seconds",
        "gauge",
        "How long the current training has been running; 0 while no model trains.",
        "Far above streamsvm_training_seconds: the solver hangs, or the machine lacks processor time.",
    ),
    Definition(
        "streamsvm_input_headroom_records",
        "gauge",
        "Records between the first record that the log still holds and the trainer's position, by partition.",
        "Falling to 0: retention is about to remove unread records; make the trainer faster, or increase the topic's "
        "retention.",
        ("partition",),
    ),
    Definition(
        "streamsvm_checkpoint_timestamp_seconds",
        "gauge",
        "Time at which the newest checkpoint was written, seconds since the epoch.",
        "Old: check for checkpoint failures; a restart reads again from this time on.",
    ),
    Definition(
        "streamsvm_checkpoint_bytes",
        "gauge",
        "Size of the newest checkpoint.",
        "Bounded by the configuration.",
    ),
    Definition(
        "streamsvm_checkpoint_seconds",
        "histogram",
        "Seconds to write a checkpoint.",
        "Rising: the disk is slow or full.",
        buckets=CHECKPOINT_BUCKETS_S,
    ),
    Definition(
        "streamsvm_checkpoint_failures",
        "counter",
        "Checkpoints that could not be written.",
        "Above 0: check the disk; the log names the file and the error.",
    ),
    Definition(
        "streamsvm_archive_bytes",
        "gauge",
        "Bytes of the archive's buckets; 0 without archive.directory.",
        "Grows with the rows learned, by some bytes a row; archive.keep_bytes bounds it.",
    ),
    Definition(
        "streamsvm_archive_failures",
        "counter",
        "Times that the archive could not be written.",
        "Above 0: check its disk; models are learned and published all the same.",
    ),
)
"""Metrics of the trainer."""

WORKER: Final = (
    *(
        one
        for one in TRAINER
        if one.name
        in {
            "streamsvm_input_records",
            "streamsvm_input_rows",
            "streamsvm_input_bytes",
            "streamsvm_input_lag_records",
            "streamsvm_input_open_transaction_records",
            "streamsvm_input_mostly_rejected",
            "streamsvm_dead_letters",
            "streamsvm_unread_fields",
            "streamsvm_absent_fields",
            "streamsvm_passed_over_rows",
            "streamsvm_registry_waiting_seconds",
            "streamsvm_coreset_reduce_seconds",
            "streamsvm_points_held",
        }
    ),
    *CORESETS,
)
"""Metrics of a worker of its own."""

SCORER: Final = (
    HELD_UP,
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
    ),
    Definition(
        "streamsvm_scores",
        "counter",
        "Scores committed, by predicted label: `negative`, the first of the version's labels, or `positive`, the "
        "second; of more than two labels the label itself, spelt as JSON.",
        "The share of `positive` changes: the input changed, or another version serves; see streamsvm_score_drift "
        "and streamsvm_serving_version.",
        ("label",),
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
    ),
    Definition(
        "streamsvm_score_latency_seconds",
        "histogram",
        "Seconds from a record's timestamp to the commit of its scores, one observation per scored record.",
        "Above the time of a batch (streamsvm_scoring_seconds): records waited; see streamsvm_input_lag_records. If "
        "the producer sets timestamps, errors of its clock are included.",
        buckets=LATENCY_BUCKETS_S,
        bulk=True,
    ),
    Definition(
        "streamsvm_score_drift",
        "gauge",
        "Population stability index of the newest scores (scoring.drift_window of them) against the scores of the "
        "audit sample of the serving versions, by tenths of the sample. NaN if the version holds no scores of its "
        "audit sample, or there are too few scores.",
        "Above streamsvm_score_drift_chance: something changed. Above 0.25: much changed: the points differ from "
        "those the model was trained on, or a feature has another unit.",
    ),
    Definition(
        "streamsvm_score_drift_chance",
        "gauge",
        "Value that streamsvm_score_drift exceeds by chance once in a thousand times if nothing changed; it falls as "
        "the window and the audit sample grow.",
        "Near 0.25: raise scoring.drift_window, or coreset.audit_points at the trainer.",
    ),
    Definition(
        "streamsvm_score_drift_scores",
        "gauge",
        "Scores in the window of streamsvm_score_drift.",
        "0 while points are scored: the serving versions hold no scores of an audit sample.",
    ),
    Definition(
        "streamsvm_scored_batches",
        "counter",
        "Batches by outcome: committed with their positions, or put back to be read and scored again.",
        "Many put back: the log says why, for example a group that rebalances all the time, or an unstable broker.",
        ("outcome",),
    ),
    Definition(
        "streamsvm_scoring_seconds",
        "histogram",
        "Seconds from reading a batch to the commit of its scores, one observation per batch.",
        "Rising: the broker is slow to commit, or the model has more support vectors; see scoring.batch_records.",
        buckets=SCORING_BUCKETS_S,
    ),
    Definition(
        "streamsvm_serving_version",
        "gauge",
        "Number of the version that scores now; 0 while no version is loaded.",
        "Behind streamsvm_model_version: readers are pinned to an older version, or the scorer is cut off from the "
        "broker.",
    ),
    Definition(
        "streamsvm_shadow_version",
        "gauge",
        "Number of the version that is scored in the shadow, as scoring.shadow names it; 0 while none can "
        "be scored on the same records.",
        "0 for long: nobody set the alias, or the log says shadow_not_scored.",
    ),
    Definition(
        "streamsvm_serving_loaded_timestamp_seconds",
        "gauge",
        "Time at which the serving version was loaded, seconds since the epoch.",
        "Old: no newer version came.",
    ),
    Definition(
        "streamsvm_model_messages_refused",
        "counter",
        "Model messages that were damaged, foreign or unfit; the previous version stays in use.",
        "Above 0: the log names the record and the fault.",
    ),
)
"""Metrics of the scorer."""

PROCESS: Final = (
    Definition(
        "process_virtual_memory_bytes", "gauge", "Virtual memory size in bytes.", "Look at the resident memory instead."
    ),
    Definition(
        "process_resident_memory_bytes",
        "gauge",
        "Resident memory size in bytes.",
        "Bounded by the configuration. Growing for hours: see streamsvm_points_held, then report it.",
    ),
    Definition(
        "process_start_time_seconds",
        "gauge",
        "Start time of the process since unix epoch in seconds.",
        "Changing often: the process restarts; its last log line says why.",
    ),
    Definition(
        "process_cpu_seconds",
        "counter",
        "Total user and system CPU time spent in seconds.",
        "The rate of this counter is the number of processors in use. At the container's limit, training and "
        "learning wait for each other.",
    ),
    Definition(
        "process_open_fds",
        "gauge",
        "Number of open file descriptors.",
        "Growing without bound: a leak. A restart helps; please report it, too.",
    ),
    Definition(
        "process_max_fds",
        "gauge",
        "Maximum number of open file descriptors.",
        "Close to process_open_fds: raise the limit.",
    ),
    Definition(
        "python_gc_objects_collected",
        "counter",
        "Objects collected during gc",
        "For a report about memory; nothing to do.",
        ("generation",),
    ),
    Definition(
        "python_gc_objects_uncollectable",
        "counter",
        "Uncollectable objects found during GC",
        "Above 0: report it.",
        ("generation",),
    ),
    Definition(
        "python_gc_collections",
        "counter",
        "Number of times this generation was collected",
        "For a report about pauses; nothing to do.",
        ("generation",),
    ),
    Definition(
        "python_info",
        "gauge",
        "Python platform information",
        "Shows the Python version; include it in a report.",
        ("version", "implementation", "major", "minor", "patchlevel"),
    ),
)
"""What prometheus_client tells of any process; meanings in its words."""


Instrument = TypeVar("Instrument", Counter, Gauge, Histogram)


class Bulk(Collector):
    """A histogram without labels that takes many observations in one step; one by one they cost more than scoring.

    Thread-safe.

    Parameters
    ----------
    definition : Definition
    """

    def __init__(self, definition: Definition) -> None:
        self._definition = definition
        self._bounds = np.array(definition.buckets)
        self._lock = threading.Lock()
        self._counts = np.zeros(len(self._bounds) + 1, np.int64)
        self._sum = 0.0

    def add(self, values: NDArray[np.float64]) -> None:
        """Add observations, shape (n,); a value that equals a bucket's upper bound is in that bucket."""
        places = np.searchsorted(self._bounds, values, side="left")
        counted = np.bincount(places, minlength=len(self._counts))
        with self._lock:
            self._counts += counted
            self._sum += float(values.sum())

    def below(self) -> tuple[tuple[float, int], ...]:
        """Return each upper bound, infinity last, with the number of observations up to it."""
        with self._lock:
            counts = self._counts.tolist()
        return tuple(zip((*self._bounds.tolist(), float("inf")), accumulate(counts), strict=True))

    def collect(self) -> Iterable[HistogramMetricFamily]:
        """Return it as Prometheus has it."""
        buckets = [("+Inf" if math.isinf(bound) else str(bound), float(count)) for bound, count in self.below()]
        yield HistogramMetricFamily(
            self._definition.name, self._definition.meaning, buckets=buckets, sum_value=self._sum
        )


class Metrics:
    """The metrics of one process, in a registry of their own.

    Parameters
    ----------
    definitions : iterable of Definition
    """

    def __init__(self, definitions: Iterable[Definition]) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._made = {definition.name: _make(definition, self.registry) for definition in definitions}

    def with_process(self) -> Metrics:
        """Tell of the process, too (`PROCESS`); once."""
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        return self

    def increase(self, name: str, amount: float = 1.0, **labels: str) -> None:
        """Add to a counter."""
        counter = self._of(name, Counter, labels)
        counter.inc(amount)

    def begin(self, name: str, label: str, values: Iterable[str]) -> None:
        """Let a labelled counter stand at 0 for each value, so that a rate sees its first event."""
        for value in values:
            self.increase(name, 0.0, **{label: value})

    def put(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""
        gauge = self._of(name, Gauge, labels)
        gauge.set(value)

    def values(self, name: str) -> dict[tuple[str, ...], float]:
        """Return a counter or a gauge as it stands, by its labels' values in their order; empty if there is none."""
        made = self._made.get(name)
        families = () if made is None else made.collect()
        return {tuple(sample.labels.values()): sample.value for family in families for sample in family.samples}

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Add an observation to a histogram."""
        histogram = self._of(name, Histogram, labels)
        histogram.observe(value)

    def observe_all(self, name: str, values: NDArray[np.float64]) -> None:
        """Add many observations to a histogram without labels, in one step."""
        made = self._made[name]
        assert isinstance(made, Bulk)
        made.add(values)

    def buckets(self, name: str) -> tuple[tuple[float, int], ...]:
        """Return a histogram that `observe_all` fills: upper bounds, and how many observations are up to each."""
        made = self._made.get(name)
        return made.below() if isinstance(made, Bulk) else ()

    def drop(self, name: str, *labels: str) -> None:
        """Take back one series of a labelled gauge, if there is one: what it told of is another's now."""
        made = self._made[name]
        assert isinstance(made, Gauge)
        made.remove(*labels)

    def _of(self, name: str, kind: type[Instrument], labels: dict[str, str]) -> Instrument:
        made = self._made[name]
        assert isinstance(made, kind)
        return made.labels(**labels) if labels else made


def _make(definition: Definition, registry: CollectorRegistry) -> Counter | Gauge | Histogram | Bulk:
    if definition.bulk:
        made = Bulk(definition)
        registry.register(made)
        return made
    if definition.kind == "counter":
        return Counter(definition.name, definition.meaning, definition.labels, registry=registry)
    if definition.kind == "gauge":
        return Gauge(definition.name, definition.meaning, definition.labels, registry=registry)
    return Histogram(
        definition.name, definition.meaning, definition.labels, registry=registry, buckets=definition.buckets
    )
