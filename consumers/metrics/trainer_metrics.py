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
        "Points held in buckets, by level, over all partitions; the level `leaf` is the open leaves.",
        "Bounded by the configuration. One level is added each time the stream doubles.",
        ("level",),
        panel="Coreset: points by level",
    ),
    Definition(
        "streamsvm_coreset_bytes",
        "gauge",
        "Bytes of the points held.",
        "Compare with the memory that you planned.",
        panel="Coreset: bytes, and memory of the process",
    ),
    Definition(
        "streamsvm_coreset_weight",
        "gauge",
        "Total weight of the accepted points, which the coreset represents.",
        "Grows with the input by the weight of each point. Growing much faster than streamsvm_input_rows: some "
        "points have large weights, and decide the model.",
        panel="Coreset: weight, and points of the newest version",
    ),
    Definition(
        "streamsvm_coreset_reduce_seconds",
        "histogram",
        "Seconds to seal a leaf, including its reduction and the merges that follow; one observation per leaf.",
        "Multiplied by the leaves per second it is the share of the main loop spent on coresets. Near 1: raise "
        "coreset.leaf_rows or lower coreset.bucket_points.",
        buckets=REDUCE_BUCKETS_S,
        panel="Training: what holds the main loop up",
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
        panel="Coreset: reductions and clipped rows",
    ),
    Definition(
        "streamsvm_memory_short_share",
        "gauge",
        "With coreset.memory = adaptive: share of the training weight that horizons shorter than a tenth of their "
        "partition's rows have won, in the partition where it is greatest. NaN with another memory.",
        "Near 0: old rows still hold. Above 0.5: the stream has changed, and the model is of the newest rows; find out "
        "what changed.",
        panel="Coreset: weight, and points of the newest version",
    ),
    Definition(
        "streamsvm_coreset_clipped_rows",
        "gauge",
        "Accepted rows since the process started of which coreset.max_leverage or coreset.clip_sd clipped a feature "
        "(`features`), or coreset.max_leverage the weight (`weight`).",
        "A few are normal; the log line outlier_drawn_in names the farthest. A rising share of `features`: the scale "
        "of a feature changed, which is followed over some leaves, or clip_sd is too small for it. `weight` above 0: "
        "single rows have more than a hundredth of all weight before them; find out who wrote these rows.",
        ("what",),
        panel="Coreset: reductions and clipped rows",
    ),
    Definition(
        "streamsvm_points_held",
        "gauge",
        "Points held now: buckets, open leaves, audit samples, decoded rows that are not learned yet, and training "
        "sets in flight with their audit samples.",
        "Bounded by the configuration; plan memory by this figure.",
        panel="Coreset: points held",
    ),
    Definition(
        "streamsvm_points_held_peak",
        "gauge",
        "Most points held at once since the process started.",
        "Bounded by the configuration; plan memory by this figure.",
        panel="Coreset: points held",
    ),
    Definition(
        "streamsvm_training_points",
        "gauge",
        "Points of the newest training set.",
        "At coreset.train_points: the union of buckets is reduced to this many. Raise coreset.train_points if "
        "training is fast.",
        panel="Coreset: points held",
    ),
    Definition(
        "streamsvm_training_seconds",
        "histogram",
        "Seconds of training: of the solver, one observation per model (`train`), and of choosing C and gamma by "
        "cross-validation, one per choice (`tune`).",
        "Above the time between two cuts: versions are skipped (`latest`) or the input waits (`every`). If `tune` "
        "takes most of it, lower svm.tune_points, or raise svm.tune_every_leaves.",
        ("step",),
        buckets=TRAINING_BUCKETS_S,
        panel="Training: time",
    ),
    Definition(
        "streamsvm_trainings",
        "counter",
        "Training sets by outcome: converged; iteration_limit; or skipped, since a newer one came before its training "
        "began (policy `latest`).",
        "iteration_limit: the published model is inaccurate. Check C, the scaling of features and svm.max_iterations. "
        "skipped is normal when input is faster than training; the policy `every` trains each set.",
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
        "Time at which the newest version was published, seconds since the epoch; its age is time() minus this.",
        "Old while rows are learned: see streamsvm_model_version.",
        panel="Versions: number and age",
    ),
    Definition(
        "streamsvm_model_staleness_seconds",
        "histogram",
        "Seconds from sealing the leaf that made a version due to its publication, one observation per version.",
        "Above the time between two cuts: a version is older than one cut when it is published; see "
        "streamsvm_training_seconds.",
        buckets=STALENESS_BUCKETS_S,
        panel="Versions: from a sealed leaf to its version",
    ),
    Definition(
        "streamsvm_model_rows_behind",
        "gauge",
        "Rows, learned or rejected, that the newest version does not cover.",
        "More than a few times streamsvm_model_rows_between_cuts: rows arrive, but no version is published. Check "
        "the training time and the log.",
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
        "Compare with streamsvm_input_rows: the difference is not in the model yet.",
        panel="Coreset: weight, and points of the newest version",
    ),
    Definition(
        "streamsvm_model_kkt_gap",
        "gauge",
        "KKT gap of the newest version on its training set: by how much it violates optimality.",
        "Above svm.tolerance: the solver stopped early.",
        panel="Training: objective, and the audit of it",
    ),
    Definition(
        "streamsvm_model_objective",
        "gauge",
        "Objective of the newest version on its training set, in the objective's own units.",
        "Outside the interval of streamsvm_audit_objective: the coreset misjudges the model.",
        panel="Training: objective, and the audit of it",
    ),
    Definition(
        "streamsvm_audit_objective",
        "gauge",
        "Objective of the newest version over the whole stream, estimated from the audit sample, which is "
        "independent of the coreset (`estimate`), and the ends of its 95 % interval (`low`, `high`).",
        "If streamsvm_model_objective is outside the interval, version after version: the coreset misses important "
        "points. Raise coreset.memory_points, and see streamsvm_coreset_reductions. An interval too wide to be "
        "useful: raise coreset.audit_points.",
        ("end",),
        panel="Training: objective, and the audit of it",
    ),
    Definition(
        "streamsvm_publishes",
        "counter",
        "Versions by outcome: published, or refused by the broker.",
        "refused: the log names the version and the limit; the next version takes its number.",
        ("outcome",),
        panel="Versions: trained, published and judged",
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
        panel="Versions: trained, published and judged",
    ),
    Definition(
        "streamsvm_gate_accuracy",
        "gauge",
        "Balanced accuracy, on the points that the quality gate scored, of the newest version (`candidate`), of the "
        "version that was current then (`current`), and of the best of the versions that were current most recently "
        "(`best`; output.gate_versions).",
        "All fall: the stream changes faster than the models. `best` above `current`: versions became worse one after "
        "another, each within the margin.",
        ("of",),
        panel="Versions: balanced accuracy at the gate",
    ),
    Definition(
        "streamsvm_model_certified_gap",
        "gauge",
        "How far the newest version's objective over all rows can be from that of the best possible model, as a share "
        "of it; NaN where nothing is proven.",
        "Wide or widening: rows change sides, or the stream drifts; give more memory, or read the log with "
        "`streamsvm scale refine`. Whether it is proven, or by the audit, `streamsvm model show` says. See "
        "StreamsvmBoundsWiden in the runbook.",
        panel="Quality: certified gap to the best model",
    ),
    Definition(
        "streamsvm_model_skill",
        "gauge",
        "Whether the answers of the newest version are better than chance: 1 they are, -1 they are not, 0 it is not "
        "clear yet. Judged by balanced accuracy and AUC on the newest scored points, else on the audit sample, beyond "
        "doubt over all versions of the model.",
        "-1: the version knows nothing; see StreamsvmNoSkill in the runbook. 0 for long: one label is rare, so raise "
        "quality.window or coreset.audit_points.",
        panel="Quality: what the newest version knows",
    ),
    Definition(
        "streamsvm_model_labels_never_answered",
        "gauge",
        "Labels of which there were enough points to judge, and that the newest version never answers, or of more "
        "than two labels nearly never.",
        "Above 0: the label is rare; set svm.class_weight to balanced. Or the features say nothing of it.",
        panel="Quality: what the newest version knows",
    ),
    Definition(
        "streamsvm_model_labels_missing",
        "gauge",
        "Labels of points.labels of which the newest version has learned no point.",
        "Above 0 for long: points.labels does not fit the records, or the label is yet to come. The log event "
        "labels_missing, or one_label_only, names them.",
        panel="Quality: what the newest version knows",
    ),
    Definition(
        "streamsvm_class_weighted",
        "gauge",
        "1 if svm.class_weight is configured, else 0.",
        "With 1, plain accuracy below that of always predicting the more frequent label is expected.",
        panel="Quality: what the newest version knows",
    ),
    Definition(
        "streamsvm_model_balanced_accuracy",
        "gauge",
        "Balanced accuracy at the newest version's publication, by weight: of the newest points, each answered by the "
        "version that was current then (`newest`), and of the audit sample, answered by the new version (`audit`). NaN "
        "with fewer than 20 points of a label.",
        "Near 0.5: the decisions are those of chance.",
        ("sample",),
        panel="Quality: decisions and ranking of the newest version",
    ),
    Definition(
        "streamsvm_model_auc",
        "gauge",
        "Area under the ROC curve on the same points: how often a positive point scores higher than a negative one.",
        "Near 0.5: the scores are those of chance. High while balanced accuracy is near 0.5: class weights will help.",
        ("sample",),
        panel="Quality: decisions and ranking of the newest version",
    ),
    Definition(
        "streamsvm_prequential_points",
        "counter",
        "Points scored by the current version before they were learned. All points; or, for a kernel machine with "
        "more than 16 support vectors, one in every n / 16 points, n being the number of support vectors, which "
        "bounds the time.",
        "Flat while rows are learned: no version is current yet, the log is being replayed, or quality.enabled is off.",
        panel="Input: rows",
    ),
    Definition(
        "streamsvm_prequential_accuracy",
        "gauge",
        "Share of the weight of the newest quality.window scored points that is classified correctly: by the current "
        "version (`model`), by plain SGD on every 64th point, at the best of several "
        "rates (`sgd`), by always predicting the more frequent label (`majority`).",
        "model falling: the stream changes, or its labels became wrong. model below sgd: the baseline forgets, the "
        "coreset does not, so the stream drifts, or the coreset is too small. model below majority: see "
        "svm.class_weight.",
        ("scorer",),
        panel="Quality: accuracy on new points",
    ),
    Definition(
        "streamsvm_prequential_balanced_accuracy",
        "gauge",
        "Balanced accuracy on the same points: the mean over the two labels; NaN while the window lacks one label.",
        "See streamsvm_prequential_accuracy; more telling where one label is rare.",
        ("scorer",),
        panel="Quality: accuracy on new points",
    ),
    Definition(
        "streamsvm_prequential_positive_share",
        "gauge",
        "Share of the weight of the same points that the current version answered with the second label (`answered`), "
        "and share that has it (`true`).",
        "answered far above true: false alarms; far below: missed ones. true moving: the stream changes.",
        ("of",),
        panel="Quality: share of new points answered positive, share that is",
    ),
    Definition(
        "streamsvm_prequential_label_recall",
        "gauge",
        "Share of the weight of each label, of the same points, that the current version answered right (recall); of "
        "models of more than two labels only. `label` is spelt as JSON; at most 128 values.",
        "Low for one label: it is rare (svm.class_weight = balanced), or others resemble it. NaN: none came lately.",
        ("label",),
        panel="Quality: new points by label (more than two labels)",
    ),
    Definition(
        "streamsvm_prequential_label_share",
        "gauge",
        "Share of the weight of the same points that has each label (`true`), and that is answered with it "
        "(`answered`); of models of more than two labels only.",
        "answered far below true: the label is missed. A label that appears or goes shows here first.",
        ("label", "of"),
        panel="Quality: new points by label (more than two labels)",
    ),
    Definition(
        "streamsvm_prequential_hinge_loss",
        "gauge",
        "Mean hinge loss on the same points, by weight; `majority` has none.",
        "Rising while accuracy stays: margins shrink, or a few points are far out; see coreset.clip_sd.",
        ("scorer",),
        panel="Quality: accuracy on new points",
    ),
    Definition(
        "streamsvm_producer_renewals",
        "counter",
        "Number of times the producer of versions was replaced, after a commit of unknown outcome or an outage.",
        "A few with every outage of the broker are normal. Many without an outage: see the log for the failure.",
        panel="Versions: copies and producers",
    ),
    Definition(
        "streamsvm_standby",
        "gauge",
        "1 while this copy of the trainer stands by for another one (training.standby), else 0.",
        "Of all copies of a model exactly one should say 0. All at 1: the broker does not answer, or no copy works.",
        panel="Versions: copies and producers",
    ),
    Definition(
        "streamsvm_loop_longest_turn_seconds",
        "gauge",
        "Longest turn of the trainer's main loop within the last half minute to minute. A turn that waits for records "
        "takes 0.1 s.",
        "Above a second: a publish, a checkpoint or a reduction holds the loop up, and nothing is read meanwhile. See "
        "their times. /healthz answers 503 after http.stuck_after_s.",
        panel="Training: what holds the main loop up",
    ),
    Definition(
        "streamsvm_training_running_seconds",
        "gauge",
        "How long the current training has been running; 0 while no model trains.",
        "Far above streamsvm_training_seconds: the solver hangs, or the machine lacks processor time.",
        panel="Training: time",
    ),
    Definition(
        "streamsvm_input_headroom_records",
        "gauge",
        "Records between the first record that the log still holds and the trainer's position, by partition.",
        "Falling to 0: retention is about to remove unread records; make the trainer faster, or increase the topic's "
        "retention.",
        ("partition",),
        panel="Input: records ahead of retention",
    ),
    Definition(
        "streamsvm_checkpoint_timestamp_seconds",
        "gauge",
        "Time at which the newest checkpoint was written, seconds since the epoch.",
        "Old: check for checkpoint failures; a restart reads again from this time on.",
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
