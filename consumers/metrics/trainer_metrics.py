"""Metrics of the trainer, without those of its branches: a table."""

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
    ROUNDED_FEATURES,
    UNREAD_FIELDS,
)

TRAINING_BUCKETS_S: Final = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
STALENESS_BUCKETS_S: Final = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
REDUCE_BUCKETS_S: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
CHECKPOINT_BUCKETS_S: Final = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


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
    ROUNDED_FEATURES,
    ABSENT_FIELDS,
    PASSED_OVER_ROWS,
    REGISTRY_WAITING_SECONDS,
    Definition(
        "streamsvm_coreset_points",
        "gauge",
        "Points in `buckets`, and in open leaves (`leaf`).",
        "Bounded.",
        ("level",),
    ),
    Definition(
        "streamsvm_coreset_bytes",
        "gauge",
        "Bytes of the points held.",
        "Compare with the planned memory.",
    ),
    Definition(
        "streamsvm_coreset_weight",
        "gauge",
        "Total weight of the accepted points.",
        "Growing much faster than streamsvm_input_rows: a few heavy points decide the model.",
    ),
    Definition(
        "streamsvm_coreset_reduce_seconds",
        "histogram",
        "Seconds to seal a leaf, with its reduction and merges.",
        "Times the leaves a second near 1: lower coreset.points.",
        buckets=REDUCE_BUCKETS_S,
    ),
    Definition(
        "streamsvm_coreset_reductions",
        "gauge",
        "Reductions since the start: `calibrated`; `by_weight`, one label only; `crowded`, over a third of an `rbf` "
        "machine's weight active; `uncalibrated`, too few points for the features; `strained`, weights at their "
        "bound.",
        "Any but `calibrated`: see StreamsvmCoresetDegraded.",
        ("outcome",),
    ),
    Definition(
        "streamsvm_memory_short_share",
        "gauge",
        "With coreset.memory = adaptive: greatest share of the training weight of horizons below a tenth of their "
        "partition's rows.",
        "Near 0: old rows still hold. Above 0.5: the stream has changed.",
    ),
    Definition(
        "streamsvm_coreset_clipped_rows",
        "gauge",
        "Outliers since the start, which were drawn in: by a feature, or by their weight.",
        "A few are normal; outlier_drawn_in in the log names the farthest. Rising `features`: the scale of a feature "
        "changed. `weight`: a row had over a hundredth of all weight before it.",
        ("what",),
    ),
    Definition(
        "streamsvm_points_held",
        "gauge",
        "Points in memory, also of training sets in flight.",
        "Bounded by the configuration; plan memory by this figure.",
    ),
    Definition(
        "streamsvm_points_held_peak",
        "gauge",
        "The most of streamsvm_points_held since the start.",
        "Bounded by the configuration; plan memory by this figure.",
    ),
    Definition(
        "streamsvm_training_points",
        "gauge",
        "Points of the newest training set.",
        "At coreset.train_points: buckets are reduced to that many. Raise it if training is fast.",
    ),
    Definition(
        "streamsvm_training_seconds",
        "histogram",
        "Seconds of solver (`train`) and choice of C and gamma (`tune`).",
        "Above the time between two cuts: versions are skipped, or the input waits. Mostly `tune`: lower "
        "coreset.points, or leave out svm.tune.",
        ("step",),
        buckets=TRAINING_BUCKETS_S,
    ),
    Definition(
        "streamsvm_trainings",
        "counter",
        "Training sets: converged; iteration_limit; skipped for a newer one.",
        "iteration_limit: see StreamsvmTrainingUnfinished. skipped is normal where input is faster than training.",
        ("outcome",),
    ),
    Definition(
        "streamsvm_model_version",
        "gauge",
        "Number of the newest published version.",
        "Flat while rows are learned: see StreamsvmModelStale.",
    ),
    Definition(
        "streamsvm_model_published_timestamp_seconds",
        "gauge",
        "When the newest version was published.",
        "Old while rows are learned: see streamsvm_model_version.",
    ),
    Definition(
        "streamsvm_model_staleness_seconds",
        "histogram",
        "Seconds from sealing the leaf that made a version due to its publication.",
        "Above the time between two cuts: see streamsvm_training_seconds.",
        buckets=STALENESS_BUCKETS_S,
    ),
    Definition(
        "streamsvm_model_rows_behind",
        "gauge",
        "Rows, learned or rejected, that the newest version does not cover.",
        "More than a few times streamsvm_model_rows_between_cuts: see StreamsvmModelStale.",
    ),
    Definition(
        "streamsvm_model_rows_between_cuts",
        "gauge",
        "Rows after which a model is due: those of a leaf times training.every_leaves.",
        "Changes with the configuration only.",
    ),
    Definition(
        "streamsvm_model_points_covered",
        "gauge",
        "Valid points of the newest version.",
        "Of streamsvm_input_rows the rest is not in the model yet.",
    ),
    Definition(
        "streamsvm_model_kkt_gap",
        "gauge",
        "KKT gap of the newest version: by how much it violates optimality.",
        "Above svm.tolerance: the solver stopped early.",
    ),
    Definition(
        "streamsvm_model_objective",
        "gauge",
        "Objective of the newest version on its training set.",
        "Outside of streamsvm_audit_objective: the coreset misjudges the model.",
    ),
    Definition(
        "streamsvm_audit_objective",
        "gauge",
        "Objective of the newest version over the whole stream, estimated from the audit sample, with a 95 % interval.",
        "streamsvm_model_objective outside: see StreamsvmAuditDisagrees. Too wide: raise coreset.points.",
        ("end",),
    ),
    Definition(
        "streamsvm_publishes",
        "counter",
        "Versions published, or refused by the broker.",
        "refused: see StreamsvmPublishRefused.",
        ("outcome",),
    ),
    Definition(
        "streamsvm_gate_verdicts",
        "counter",
        "Verdicts of the quality gate: passed, refused, or unscored (too few points).",
        "refused: see StreamsvmGateHolds. Only unscored: a label has hardly any points.",
        ("outcome",),
    ),
    Definition(
        "streamsvm_gate_accuracy",
        "gauge",
        "Balanced accuracy on the gate's points of the newest version (`candidate`), the `current` one, and the "
        "`best` of the last five.",
        "All fall: the stream changes faster than the models. `best` above `current`: versions became worse in small "
        "steps.",
        ("of",),
    ),
    Definition(
        "streamsvm_model_skill",
        "gauge",
        "Whether the newest version is better than chance: 1 yes, -1 no, 0 not clear yet. By balanced accuracy and AUC "
        "on the newest scored points, else the audit sample.",
        "-1: see StreamsvmNoSkill. 0 for long: raise coreset.points.",
    ),
    Definition(
        "streamsvm_model_labels_never_answered",
        "gauge",
        "Labels with enough points that the newest version never answers, or of several nearly never.",
        "Above 0: the label is rare (svm.class_weight = balanced), or the features say nothing of it.",
    ),
    Definition(
        "streamsvm_model_labels_missing",
        "gauge",
        "Labels of points.labels of which the newest version has no point.",
        "Above 0 for long: see StreamsvmLabelsMissing.",
    ),
    Definition(
        "streamsvm_class_weighted",
        "gauge",
        "1 if svm.class_weight is configured, else 0.",
        "1: accuracy may be below `majority`.",
    ),
    Definition(
        "streamsvm_model_balanced_accuracy",
        "gauge",
        "Balanced accuracy at the newest publication: of the newest points, each by the version current then "
        "(`newest`), and of the audit sample (`audit`). NaN under 20 points of a label.",
        "Near 0.5: chance.",
        ("sample",),
    ),
    Definition(
        "streamsvm_model_auc",
        "gauge",
        "Area under the ROC curve on the same points.",
        "Near 0.5: chance. High while balanced accuracy is near 0.5: class weights will help.",
        ("sample",),
    ),
    Definition(
        "streamsvm_prequential_points",
        "counter",
        "Points scored by the current version before they were learned: all, or with n > 16 support vectors one in n / "
        "16.",
        "Flat while rows are learned: no version is current, or a replay.",
    ),
    Definition(
        "streamsvm_prequential_accuracy",
        "gauge",
        "Accuracy on the newest 10,000 scored points: of the current version (`model`), of plain SGD on "
        "every 64th point (`sgd`), of always predicting the more frequent label (`majority`).",
        "model falling: the stream or its labels changed. Below sgd: drift, or too small a coreset. Below majority: "
        "see svm.class_weight.",
        ("scorer",),
    ),
    Definition(
        "streamsvm_prequential_balanced_accuracy",
        "gauge",
        "Balanced accuracy on the same points; NaN while a label is missing.",
        "More telling where a label is rare.",
        ("scorer",),
    ),
    Definition(
        "streamsvm_prequential_positive_share",
        "gauge",
        "Share of the same points answered with the second label, and share that has it (`true`).",
        "answered far above true: false alarms; far below: missed ones. true moving: the stream changes.",
        ("of",),
    ),
    Definition(
        "streamsvm_prequential_label_recall",
        "gauge",
        "Of more than two labels: share of each, on the same points, that was answered right. `label` is JSON.",
        "Low: the label is rare (svm.class_weight = balanced), or others resemble it. NaN: none came lately.",
        ("label",),
    ),
    Definition(
        "streamsvm_prequential_label_share",
        "gauge",
        "Of more than two labels: share of the same points that has each (`true`), and that is answered with it.",
        "answered far below true: the label is missed.",
        ("label", "of"),
    ),
    Definition(
        "streamsvm_prequential_hinge_loss",
        "gauge",
        "Mean hinge loss on the same points.",
        "Rising while accuracy stays: margins shrink, or a few points are far out.",
        ("scorer",),
    ),
    Definition(
        "streamsvm_producer_renewals",
        "counter",
        "Times that the producer of versions was replaced.",
        "A few an outage are normal. Else see StreamsvmProducerRenewing.",
    ),
    Definition(
        "streamsvm_loop_longest_turn_seconds",
        "gauge",
        "Longest turn of the main loop of late; waiting for records takes 0.1 s.",
        "Above a second: see StreamsvmLoopHeldUp.",
    ),
    Definition(
        "streamsvm_training_running_seconds",
        "gauge",
        "Seconds of the training that runs now, or 0.",
        "Far above streamsvm_training_seconds: the solver hangs, or lacks a processor.",
    ),
    Definition(
        "streamsvm_input_headroom_records",
        "gauge",
        "Records between the first one that the log still holds and the trainer's position.",
        "Falling to 0: see StreamsvmRetentionNear.",
        ("partition",),
    ),
    Definition(
        "streamsvm_checkpoint_timestamp_seconds",
        "gauge",
        "When the newest checkpoint was written.",
        "Old: a restart reads again from then on; see StreamsvmCheckpointFailing.",
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
        "Above 0: the log names file and error.",
    ),
)
