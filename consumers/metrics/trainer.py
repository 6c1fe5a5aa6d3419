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
        "`streamsvm scale refine`. See StreamsvmBoundsWiden in the runbook.",
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
        "version (`model`), by plain SGD on every 64th point, at the best of several "
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
)
