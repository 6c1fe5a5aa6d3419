"""Metrics of the trainer, without those of its branches: a table."""

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

TRAINING_BUCKETS_S: Final = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
STALENESS_BUCKETS_S: Final = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
REDUCE_BUCKETS_S: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
CHECKPOINT_BUCKETS_S: Final = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


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
        "streamsvm_coreset_points",
        "gauge",
        "Points in buckets, by level; those of open leaves are `leaf`.",
        "Bounded; a level is added each time the stream doubles.",
        ("level",),
        panel="Coreset: points by level",
    ),
    Definition(
        "streamsvm_coreset_bytes",
        "gauge",
        "Bytes of the points held.",
        "Compare with the planned memory.",
        panel="Coreset: bytes, and memory of the process",
    ),
    Definition(
        "streamsvm_coreset_weight",
        "gauge",
        "Total weight of the accepted points.",
        "Growing much faster than streamsvm_input_rows: some points have large weights, and decide the model.",
        panel="Coreset: weight, and points of the newest version",
    ),
    Definition(
        "streamsvm_coreset_reduce_seconds",
        "histogram",
        "Seconds to seal a leaf, with its reduction and merges.",
        "Times the leaves a second it is the main loop's share for coresets. Near 1: raise coreset.leaf_rows or "
        "lower coreset.bucket_points.",
        buckets=REDUCE_BUCKETS_S,
        panel="Training: what holds the main loop up",
    ),
    Definition(
        "streamsvm_coreset_reductions",
        "gauge",
        "Reductions since the start: `calibrated`; `by_weight`, one label only; `crowded`, of an `rbf` machine "
        "with over a third of the weight active; `uncalibrated`, too few points for the features; `strained`, "
        "weights at their bound. Also `shifted`: leaves unlike all that their partition held.",
        "Any but `calibrated`: see StreamsvmCoresetDegraded in the runbook.",
        ("outcome",),
        panel="Coreset: reductions and clipped rows",
    ),
    Definition(
        "streamsvm_memory_short_share",
        "gauge",
        "With coreset.memory = adaptive: share of the training weight of horizons below a tenth of their "
        "partition's rows, where it is greatest; else NaN.",
        "Near 0: old rows still hold. Above 0.5: the stream has changed.",
        panel="Coreset: weight, and points of the newest version",
    ),
    Definition(
        "streamsvm_coreset_clipped_rows",
        "gauge",
        "Rows since the start beyond coreset.max_leverage, by a feature or by their weight; `features` also counts "
        "those that coreset.clip_sd clipped.",
        "A few are normal; outlier_set_aside in the log names the farthest. Rising `features`: the scale of a "
        "feature changed, or clip_sd is too small. `weight` above 0: find out who wrote rows of over a hundredth "
        "of all weight before them.",
        ("what",),
        panel="Coreset: reductions and clipped rows",
    ),
    Definition(
        "streamsvm_points_held",
        "gauge",
        "Points in memory, also those of training sets in flight.",
        "Bounded by the configuration; plan memory by this figure.",
        panel="Coreset: points held",
    ),
    Definition(
        "streamsvm_points_held_peak",
        "gauge",
        "The most of streamsvm_points_held since the start.",
        "Bounded by the configuration; plan memory by this figure.",
        panel="Coreset: points held",
    ),
    Definition(
        "streamsvm_training_points",
        "gauge",
        "Points of the newest training set.",
        "At coreset.train_points: buckets are reduced to that many. Raise it if training is fast.",
        panel="Coreset: points held",
    ),
    Definition(
        "streamsvm_training_seconds",
        "histogram",
        "Seconds of solver (`train`) and choice of C and gamma (`tune`).",
        "Above the time between two cuts: versions are skipped, or the input waits. If `tune` takes most, lower "
        "svm.tune_points, or raise svm.tune_every_leaves.",
        ("step",),
        buckets=TRAINING_BUCKETS_S,
        panel="Training: time",
    ),
    Definition(
        "streamsvm_trainings",
        "counter",
        "Training sets: converged; iteration_limit; or skipped for a newer one (policy `latest`).",
        "iteration_limit: the model is inaccurate. Check C, the scaling of features and svm.max_iterations. "
        "skipped is normal where input is faster than training.",
        ("outcome",),
        panel="Versions: trained, published and judged",
    ),
    Definition(
        "streamsvm_model_version",
        "gauge",
        "Number of the newest published version.",
        "Flat while rows are learned: check the training time and the log.",
        panel="Versions: number and age",
    ),
    Definition(
        "streamsvm_model_published_timestamp_seconds",
        "gauge",
        "When the newest version was published, seconds since the epoch.",
        "Old while rows are learned: see streamsvm_model_version.",
        panel="Versions: number and age",
    ),
    Definition(
        "streamsvm_model_staleness_seconds",
        "histogram",
        "Seconds from sealing the leaf that made a version due to its publication.",
        "Above the time between two cuts: see streamsvm_training_seconds.",
        buckets=STALENESS_BUCKETS_S,
        panel="Versions: from a sealed leaf to its version",
    ),
    Definition(
        "streamsvm_model_rows_behind",
        "gauge",
        "Rows, learned or rejected, that the newest version does not cover.",
        "More than a few times streamsvm_model_rows_between_cuts: no version is published. Check the training time "
        "and the log.",
        panel="Versions: rows that the newest does not cover",
    ),
    Definition(
        "streamsvm_model_rows_between_cuts",
        "gauge",
        "Rows after which a model is due: coreset.leaf_rows times training.every_leaves.",
        "Changes with the configuration only.",
        panel="Versions: rows that the newest does not cover",
    ),
    Definition(
        "streamsvm_model_points_covered",
        "gauge",
        "Valid points that the newest version covers.",
        "The difference to streamsvm_input_rows is not in the model yet.",
        panel="Coreset: weight, and points of the newest version",
    ),
    Definition(
        "streamsvm_model_kkt_gap",
        "gauge",
        "KKT gap of the newest version: by how much it violates optimality.",
        "Above svm.tolerance: the solver stopped early.",
        panel="Training: objective, and the audit of it",
    ),
    Definition(
        "streamsvm_model_objective",
        "gauge",
        "Objective of the newest version on its training set.",
        "Outside the interval of streamsvm_audit_objective: the coreset misjudges the model.",
        panel="Training: objective, and the audit of it",
    ),
    Definition(
        "streamsvm_audit_objective",
        "gauge",
        "Objective of the newest version over the whole stream, estimated from the audit sample, with a 95 % interval.",
        "If streamsvm_model_objective is outside, version after version: raise coreset.memory_points, and see "
        "streamsvm_coreset_reductions. Too wide an interval: raise coreset.audit_points.",
        ("end",),
        panel="Training: objective, and the audit of it",
    ),
    Definition(
        "streamsvm_publishes",
        "counter",
        "Versions published, or refused by the broker.",
        "refused: the log names the version and the limit; the next version takes its number.",
        ("outcome",),
        panel="Versions: trained, published and judged",
    ),
    Definition(
        "streamsvm_gate_verdicts",
        "counter",
        "Verdicts of the quality gate: passed, refused, unscored (too few points), or waits for a challenge.",
        "refused: the current version stays; see StreamsvmGateHolds in the runbook. Only unscored: a label has "
        "hardly any points.",
        ("outcome",),
        panel="Versions: trained, published and judged",
    ),
    Definition(
        "streamsvm_gate_accuracy",
        "gauge",
        "Balanced accuracy on the gate's points of the newest version (`candidate`), the `current` one, and the "
        "`best` of output.gate_versions.",
        "All fall: the stream changes faster than the models. `best` above `current`: versions became worse step "
        "by step, each within the margin.",
        ("of",),
        panel="Versions: balanced accuracy at the gate",
    ),
    Definition(
        "streamsvm_model_certified_gap",
        "gauge",
        "How far the newest version's objective over all rows can be from the best possible, as a share of it; "
        "NaN: nothing is proven.",
        "Wide: see StreamsvmBoundsWiden in the runbook.",
        panel="Quality: certified gap to the best model",
    ),
    Definition(
        "streamsvm_model_skill",
        "gauge",
        "Whether the newest version's answers are better than chance: 1 yes, -1 no, 0 not clear yet. By balanced "
        "accuracy and AUC on the newest scored points, else the audit sample.",
        "-1: see StreamsvmNoSkill in the runbook. 0 for long: a label is rare; raise quality.window or "
        "coreset.audit_points.",
        panel="Quality: what the newest version knows",
    ),
    Definition(
        "streamsvm_model_labels_never_answered",
        "gauge",
        "Labels with enough points to judge that the newest version never answers, or of several labels nearly never.",
        "Above 0: the label is rare (svm.class_weight = balanced), or the features say nothing of it.",
        panel="Quality: what the newest version knows",
    ),
    Definition(
        "streamsvm_model_labels_missing",
        "gauge",
        "Labels of points.labels of which the newest version has no point.",
        "Above 0 for long: see StreamsvmLabelsMissing in the runbook.",
        panel="Quality: what the newest version knows",
    ),
    Definition(
        "streamsvm_class_weighted",
        "gauge",
        "1 if svm.class_weight is configured, else 0.",
        "1: plain accuracy below that of the more frequent label is expected.",
        panel="Quality: what the newest version knows",
    ),
    Definition(
        "streamsvm_model_balanced_accuracy",
        "gauge",
        "Balanced accuracy when the newest version was published: of the newest points, each by the version "
        "current then (`newest`), and of the audit sample by the new one (`audit`). NaN under 20 points of a label.",
        "Near 0.5: chance.",
        ("sample",),
        panel="Quality: decisions and ranking of the newest version",
    ),
    Definition(
        "streamsvm_model_auc",
        "gauge",
        "Area under the ROC curve on the same points.",
        "Near 0.5: chance. High while balanced accuracy is near 0.5: class weights will help.",
        ("sample",),
        panel="Quality: decisions and ranking of the newest version",
    ),
    Definition(
        "streamsvm_prequential_points",
        "counter",
        "Points scored by the current version before they were learned: all, or, with n > 16 support vectors, one "
        "in every n / 16.",
        "Flat while rows are learned: no version is current, the log is being replayed, or quality.enabled is off.",
        panel="Input: rows",
    ),
    Definition(
        "streamsvm_prequential_accuracy",
        "gauge",
        "Accuracy on the newest quality.window scored points: of the current version (`model`), of plain SGD on "
        "every 64th point (`sgd`), of always predicting the more frequent label (`majority`).",
        "model falling: the stream or its labels changed. model below sgd: the stream drifts, or the coreset is "
        "too small. model below majority: see svm.class_weight.",
        ("scorer",),
        panel="Quality: accuracy on new points",
    ),
    Definition(
        "streamsvm_prequential_balanced_accuracy",
        "gauge",
        "Balanced accuracy on the same points; NaN while a label is missing.",
        "More telling where a label is rare.",
        ("scorer",),
        panel="Quality: accuracy on new points",
    ),
    Definition(
        "streamsvm_prequential_positive_share",
        "gauge",
        "Share of the same points answered with the second label, and share that has it (`true`).",
        "answered far above true: false alarms; far below: missed ones. true moving: the stream changes.",
        ("of",),
        panel="Quality: share of new points answered positive, share that is",
    ),
    Definition(
        "streamsvm_prequential_label_recall",
        "gauge",
        "With more than two labels: share of each label, on the same points, that was answered right. `label` is "
        "JSON; at most 128 values.",
        "Low: the label is rare (svm.class_weight = balanced), or others resemble it. NaN: none came lately.",
        ("label",),
        panel="Quality: new points by label (more than two labels)",
    ),
    Definition(
        "streamsvm_prequential_label_share",
        "gauge",
        "With more than two labels: share of the same points that has each label (`true`), and that is answered "
        "with it.",
        "answered far below true: the label is missed.",
        ("label", "of"),
        panel="Quality: new points by label (more than two labels)",
    ),
    Definition(
        "streamsvm_prequential_hinge_loss",
        "gauge",
        "Mean hinge loss on the same points.",
        "Rising while accuracy stays: margins shrink, or a few points are far out (coreset.clip_sd).",
        ("scorer",),
        panel="Quality: accuracy on new points",
    ),
    Definition(
        "streamsvm_producer_renewals",
        "counter",
        "Times that the producer of versions was replaced, after a commit of unknown outcome or an outage.",
        "A few with every outage are normal. Many without one: see the log.",
        panel="Versions: copies and producers",
    ),
    Definition(
        "streamsvm_standby",
        "gauge",
        "1 while this copy stands by for another (training.standby).",
        "Exactly one copy should say 0. All at 1: the broker does not answer, or no copy works.",
        panel="Versions: copies and producers",
    ),
    Definition(
        "streamsvm_loop_longest_turn_seconds",
        "gauge",
        "Longest turn of the main loop within the last half minute to minute; waiting for records takes 0.1 s.",
        "Above a second: see StreamsvmLoopHeldUp in the runbook.",
        panel="Training: what holds the main loop up",
    ),
    Definition(
        "streamsvm_training_running_seconds",
        "gauge",
        "Seconds of the training that runs now, or 0.",
        "Far above streamsvm_training_seconds: the solver hangs, or lacks a processor.",
        panel="Training: time",
    ),
    Definition(
        "streamsvm_input_headroom_records",
        "gauge",
        "Records between the first one that the log still holds and the trainer's position.",
        "Falling to 0: retention is about to remove unread records; see StreamsvmRetentionNear in the runbook.",
        ("partition",),
        panel="Input: records ahead of retention",
    ),
    Definition(
        "streamsvm_checkpoint_timestamp_seconds",
        "gauge",
        "When the newest checkpoint was written, seconds since the epoch.",
        "Old: see streamsvm_checkpoint_failures; a restart reads again from then on.",
        panel="Checkpoint: age and failures",
    ),
    Definition(
        "streamsvm_checkpoint_bytes",
        "gauge",
        "Size of the newest checkpoint.",
        "Bounded by the configuration.",
        panel="Coreset: bytes, and memory of the process",
    ),
    Definition(
        "streamsvm_checkpoint_seconds",
        "histogram",
        "Seconds to write a checkpoint.",
        "Rising: the disk is slow or full.",
        buckets=CHECKPOINT_BUCKETS_S,
        panel="Training: what holds the main loop up",
    ),
    Definition(
        "streamsvm_checkpoint_failures",
        "counter",
        "Checkpoints that could not be written.",
        "Above 0: check the disk; the log names the file and the error.",
        panel="Checkpoint: age and failures",
    ),
)
