"""Writes the dashboards: `python deploy/grafana/generate.py` after a change here or in `consumers.metrics`.

The overview answers in ten seconds whether the model is current and good; the deep dive has every metric. A panel names
its metrics; what it says about them is what `consumers.metrics` says. The test suite compares the files with what this
program makes, and checks every query.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from consumers.metrics import PROCESS, SCORER, TRAINER

FOLDER: Final = Path(__file__).parent / "dashboards"
DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
ONE: Final = '{instance=~"$instance"}'
SCORERS: Final = '{instance=~"$scorer"}'
EITHER: Final = '{instance=~"$instance|$scorer"}'
WINDOW: Final = "5m"
"""Trainings may be rarer than the scrapes that a shorter window holds."""
DEFINITIONS: Final = {definition.name: definition for definition in (*SCORER, *PROCESS, *TRAINER)}


@dataclass(frozen=True)
class Panel:
    """A panel.

    Attributes
    ----------
    title, unit : str
        Unit by Grafana's name for it.
    metrics : tuple of str
        Those whose meaning and advice describe it.
    queries : tuple of (str, str)
        Legend and PromQL.
    kind : str
        `timeseries` or `stat`.
    width, height : int
        In columns of 24, and in Grafana's rows.
    stacked : bool
    steps : bool
        The value holds until the next; no line leads from one to the other.
    right : dict
        Unit by legend, for what belongs to the right axis.
    floor : float or None
        Where the axis begins at the latest; None lets it begin at the least value.
    """

    title: str
    unit: str
    metrics: tuple[str, ...]
    queries: tuple[tuple[str, str], ...]
    kind: str = "timeseries"
    width: int = 12
    height: int = 8
    stacked: bool = False
    steps: bool = False
    right: dict[str, str] = field(default_factory=dict)
    floor: float | None = 0


def _age(metric: str, whose: str = ONE) -> str:
    """Return the query for seconds since a time; a gauge that was never set shows nothing."""
    return f"time() - max({metric}{whose} > 0)"


def _quantile(share: float, metric: str, whose: str = ONE) -> str:
    return f"histogram_quantile({share}, sum by (le) (rate({metric}_bucket{whose}[{WINDOW}])))"


def _by_scorer(title: str, unit: str, metric: str) -> Panel:
    """Show the model beside what anybody can have without it."""
    return Panel(title, unit, (metric,), (("{{scorer}}", f"avg by (scorer) ({metric}{ONE})"),), floor=None)


def _stat(title: str, unit: str, metric: str, query: str) -> Panel:
    return Panel(title, unit, (metric,), (("", query),), "stat", width=4, height=4)


Rows = tuple[tuple[str, tuple[Panel, ...]], ...]

MODEL_ACCURACY: Final = 'streamsvm_prequential_balanced_accuracy{instance=~"$instance",scorer="model"}'
WITHOUT_MAJORITY: Final = 'streamsvm_prequential_balanced_accuracy{instance=~"$instance",scorer!="majority"}'
"""Always answering the same is a half for ever, and would only flatten the others."""
BASELINE_ACCURACY: Final = 'streamsvm_prequential_balanced_accuracy{instance=~"$instance",scorer="sgd"}'

OVERVIEW: Final[Rows] = (
    (
        "Is the model current, and is it good?",
        (
            _stat(
                "Age of the model",
                "s",
                "streamsvm_model_published_timestamp_seconds",
                _age("streamsvm_model_published_timestamp_seconds"),
            ),
            _stat("Lag", "short", "streamsvm_input_lag_records", f"sum(streamsvm_input_lag_records{ONE})"),
            _stat(
                "Balanced accuracy", "percentunit", "streamsvm_prequential_balanced_accuracy", f"min({MODEL_ACCURACY})"
            ),
            _stat(
                "Ahead of SGD by",
                "percentunit",
                "streamsvm_prequential_balanced_accuracy",
                f"min({MODEL_ACCURACY} - ignoring (scorer) {BASELINE_ACCURACY})",
            ),
            _stat("Knows (1: yes, -1: nothing)", "short", "streamsvm_model_skill", f"min(streamsvm_model_skill{ONE})"),
            _stat(
                "Dead letters an hour, trainer",
                "short",
                "streamsvm_dead_letters",
                f"sum(increase(streamsvm_dead_letters_total{ONE}[1h]))",
            ),
        ),
    ),
    (
        "Is everything scored, and in time?",
        (
            _stat(
                "Points scored a second",
                "short",
                "streamsvm_scored_points",
                f"sum(rate(streamsvm_scored_points_total{SCORERS}[{WINDOW}]))",
            ),
            _stat(
                "Points waiting", "short", "streamsvm_input_lag_records", f"sum(streamsvm_input_lag_records{SCORERS})"
            ),
            _stat(
                "Record to score, p95",
                "s",
                "streamsvm_score_latency_seconds",
                _quantile(0.95, "streamsvm_score_latency_seconds", SCORERS),
            ),
            _stat(
                "Rows rejected",
                "percentunit",
                "streamsvm_input_rows",
                f'sum(rate(streamsvm_input_rows_total{{instance=~"$scorer",outcome="rejected"}}[{WINDOW}])) '
                f"/ sum(rate(streamsvm_input_rows_total{SCORERS}[{WINDOW}]))",
            ),
            _stat(
                "Scores that are positive",
                "percentunit",
                "streamsvm_scores",
                f'sum(rate(streamsvm_scores_total{{instance=~"$scorer",label="positive"}}[{WINDOW}])) '
                f"/ sum(rate(streamsvm_scores_total{SCORERS}[{WINDOW}]))",
            ),
            _stat(
                "Dead letters an hour, scorer",
                "short",
                "streamsvm_dead_letters",
                f"sum(increase(streamsvm_dead_letters_total{SCORERS}[1h]))",
            ),
        ),
    ),
    (
        "Through time",
        (
            Panel(
                "Balanced accuracy on new points",
                "percentunit",
                ("streamsvm_prequential_balanced_accuracy",),
                (("{{scorer}}", f"avg by (scorer) ({WITHOUT_MAJORITY})"),),
                width=8,
                floor=None,
            ),
            Panel(
                "Share answered positive, share that is",
                "percentunit",
                ("streamsvm_prequential_positive_share",),
                (("{{of}}", f"avg by (of) (streamsvm_prequential_positive_share{ONE})"),),
                width=8,
            ),
            Panel(
                "Dead letters by reason, trainer and scorer",
                "cpm",
                ("streamsvm_dead_letters",),
                (
                    (
                        "{{job}}: {{reason}}",
                        f"topk(8, sum by (job, reason) (rate(streamsvm_dead_letters_total{EITHER}[{WINDOW}]))) * 60",
                    ),
                ),
                width=8,
            ),
            Panel(
                "Lag by partition",
                "short",
                ("streamsvm_input_lag_records",),
                (("partition {{partition}}", f"sum by (partition) (streamsvm_input_lag_records{ONE})"),),
                width=8,
            ),
            Panel(
                "Points scored a second, by scorer",
                "short",
                ("streamsvm_scored_points",),
                (("{{instance}}", f"sum by (instance) (rate(streamsvm_scored_points_total{SCORERS}[{WINDOW}]))"),),
                width=8,
            ),
            Panel(
                "Model age",
                "s",
                ("streamsvm_model_published_timestamp_seconds",),
                (("age", _age("streamsvm_model_published_timestamp_seconds")),),
                width=8,
            ),
        ),
    ),
)

DEEP_DIVE: Final[Rows] = (
    (
        "Now",
        (
            _stat("Model version", "none", "streamsvm_model_version", f"max(streamsvm_model_version{ONE})"),
            _stat(
                "Age of the model",
                "s",
                "streamsvm_model_published_timestamp_seconds",
                _age("streamsvm_model_published_timestamp_seconds"),
            ),
            _stat(
                "Points in the model",
                "short",
                "streamsvm_model_points_covered",
                f"max(streamsvm_model_points_covered{ONE})",
            ),
            _stat("Lag", "short", "streamsvm_input_lag_records", f"sum(streamsvm_input_lag_records{ONE})"),
            _stat("Coreset", "short", "streamsvm_coreset_points", f"sum(streamsvm_coreset_points{ONE})"),
            _stat(
                "Age of the checkpoint",
                "s",
                "streamsvm_checkpoint_timestamp_seconds",
                _age("streamsvm_checkpoint_timestamp_seconds"),
            ),
        ),
    ),
    (
        "Quality on points not learned yet",
        (
            _by_scorer("Balanced accuracy on new points", "percentunit", "streamsvm_prequential_balanced_accuracy"),
            _by_scorer("Accuracy on new points", "percentunit", "streamsvm_prequential_accuracy"),
            _by_scorer("Hinge loss on new points", "short", "streamsvm_prequential_hinge_loss"),
            Panel(
                "Share of new points answered positive, share that is",
                "percentunit",
                ("streamsvm_prequential_positive_share",),
                (("{{of}}", f"avg by (of) (streamsvm_prequential_positive_share{ONE})"),),
            ),
            Panel(
                "Share of each label's new points answered right (more than two labels)",
                "percentunit",
                ("streamsvm_prequential_label_recall",),
                (("{{label}}", f"avg by (label) (streamsvm_prequential_label_recall{ONE})"),),
            ),
            Panel(
                "Share of new points of each label, and answered with it (more than two labels)",
                "percentunit",
                ("streamsvm_prequential_label_share",),
                (("{{label}} {{of}}", f"avg by (label, of) (streamsvm_prequential_label_share{ONE})"),),
            ),
            Panel(
                "Points scored before they are learned, and the time it takes",
                "cps",
                ("streamsvm_prequential_points", "streamsvm_prequential_seconds"),
                (
                    ("points", f"sum(rate(streamsvm_prequential_points_total{ONE}[{WINDOW}]))"),
                    ("share of the time", f"sum(rate(streamsvm_prequential_seconds_total{ONE}[{WINDOW}]))"),
                ),
                right={"share of the time": "percentunit"},
            ),
        ),
    ),
    (
        "What the newest version knows",
        (
            Panel(
                "Certified gap to the best model over all rows",
                "percentunit",
                ("streamsvm_model_certified_gap", "streamsvm_model_gap_proven"),
                (
                    ("gap", f"max(streamsvm_model_certified_gap{ONE})"),
                    ("proven", f"min(streamsvm_model_gap_proven{ONE})"),
                ),
                width=8,
                steps=True,
            ),
            Panel(
                "Skill",
                "short",
                (
                    "streamsvm_model_skill",
                    "streamsvm_model_one_answer",
                    "streamsvm_model_labels_never_answered",
                    "streamsvm_model_labels_missing",
                    "streamsvm_class_weighted",
                ),
                (
                    ("skill", f"min(streamsvm_model_skill{ONE})"),
                    ("one answer", f"max(streamsvm_model_one_answer{ONE})"),
                    ("labels never answered", f"max(streamsvm_model_labels_never_answered{ONE})"),
                    ("labels missing", f"max(streamsvm_model_labels_missing{ONE})"),
                    ("classes weighted", f"max(streamsvm_class_weighted{ONE})"),
                ),
                width=8,
                steps=True,
                floor=-1.0,
            ),
            Panel(
                "Decisions and ranking",
                "percentunit",
                ("streamsvm_model_balanced_accuracy", "streamsvm_model_auc", "streamsvm_model_average_precision"),
                (
                    ("balanced accuracy, {{sample}}", f"avg by (sample) (streamsvm_model_balanced_accuracy{ONE})"),
                    ("AUC, {{sample}}", f"avg by (sample) (streamsvm_model_auc{ONE})"),
                    ("average precision, {{sample}}", f"avg by (sample) (streamsvm_model_average_precision{ONE})"),
                ),
                width=8,
                steps=True,
                floor=None,
            ),
            Panel(
                "Share answered positive, share that is",
                "percentunit",
                ("streamsvm_model_positive_share",),
                (("{{of}}, {{sample}}", f"avg by (of, sample) (streamsvm_model_positive_share{ONE})"),),
                width=8,
                steps=True,
            ),
            Panel(
                "Log loss of probabilities",
                "short",
                ("streamsvm_model_log_loss",),
                (("{{sample}}", f"avg by (sample) (streamsvm_model_log_loss{ONE})"),),
                steps=True,
                floor=None,
            ),
        ),
    ),
    (
        "Coreset",
        (
            Panel(
                "Coreset size by level",
                "short",
                ("streamsvm_coreset_points",),
                (("level {{level}}", f"sum by (level) (streamsvm_coreset_points{ONE})"),),
                width=8,
                stacked=True,
                steps=True,
            ),
            Panel(
                "Points held",
                "short",
                ("streamsvm_points_held", "streamsvm_points_held_peak"),
                (("now", f"sum(streamsvm_points_held{ONE})"), ("peak", f"sum(streamsvm_points_held_peak{ONE})")),
                width=8,
                steps=True,
            ),
            Panel(
                "Coreset and checkpoint size",
                "bytes",
                ("streamsvm_coreset_bytes", "streamsvm_checkpoint_bytes"),
                (
                    ("coreset", f"sum(streamsvm_coreset_bytes{ONE})"),
                    ("checkpoint", f"sum(streamsvm_checkpoint_bytes{ONE})"),
                ),
                width=8,
                steps=True,
            ),
            Panel(
                "Share of short horizons",
                "percentunit",
                ("streamsvm_memory_short_share",),
                (("shorter than a tenth of the stream", f"max(streamsvm_memory_short_share{ONE})"),),
                width=8,
                steps=True,
            ),
            Panel(
                "Reductions by outcome",
                "short",
                (
                    "streamsvm_coreset_reductions",
                    "streamsvm_coreset_clipped_rows",
                    "streamsvm_coreset_bounded_weights",
                ),
                (
                    ("{{outcome}}", f"sum by (outcome) (streamsvm_coreset_reductions{ONE})"),
                    ("clipped rows", f"sum(streamsvm_coreset_clipped_rows{ONE})"),
                    ("bounded weights", f"sum(streamsvm_coreset_bounded_weights{ONE})"),
                ),
                width=8,
                steps=True,
            ),
            Panel(
                "Time to seal a leaf",
                "s",
                ("streamsvm_coreset_reduce_seconds",),
                (
                    ("p50", _quantile(0.5, "streamsvm_coreset_reduce_seconds")),
                    ("p95", _quantile(0.95, "streamsvm_coreset_reduce_seconds")),
                ),
                width=8,
            ),
            Panel(
                "Weight that the coreset represents",
                "short",
                ("streamsvm_coreset_weight",),
                (("weight", f"sum(streamsvm_coreset_weight{ONE})"),),
                width=8,
            ),
        ),
    ),
    (
        "Training",
        (
            Panel(
                "Training time",
                "s",
                ("streamsvm_training_seconds", "streamsvm_tuning_seconds"),
                (
                    ("p50", _quantile(0.5, "streamsvm_training_seconds")),
                    ("p95", _quantile(0.95, "streamsvm_training_seconds")),
                    ("tuning p95", _quantile(0.95, "streamsvm_tuning_seconds")),
                ),
            ),
            Panel(
                "Training set and support vectors",
                "short",
                ("streamsvm_training_points", "streamsvm_model_support_vectors"),
                (
                    ("training points", f"sum(streamsvm_training_points{ONE})"),
                    ("support vectors", f"sum(streamsvm_model_support_vectors{ONE})"),
                ),
                steps=True,
            ),
            Panel(
                "Trainings",
                "short",
                ("streamsvm_trainings", "streamsvm_cuts_skipped"),
                (
                    ("{{outcome}}", f"sum by (outcome) (streamsvm_trainings_total{ONE})"),
                    ("skipped", f"sum(streamsvm_cuts_skipped_total{ONE})"),
                ),
                steps=True,
            ),
            Panel(
                "Model in training for",
                "s",
                ("streamsvm_training_running_seconds",),
                (("seconds", f"max(streamsvm_training_running_seconds{ONE})"),),
            ),
            Panel(
                "Longest turn of the main loop",
                "s",
                ("streamsvm_loop_longest_turn_seconds",),
                (("seconds", f"max(streamsvm_loop_longest_turn_seconds{ONE})"),),
            ),
            Panel(
                "Processors in use, by worker",
                "short",
                ("streamsvm_worker_cpu_seconds", "streamsvm_workers"),
                (
                    (
                        "worker {{worker}}",
                        f"sum by (worker) (rate(streamsvm_worker_cpu_seconds_total{ONE}[{WINDOW}]))",
                    ),
                    ("workers", f"max(streamsvm_workers{ONE})"),
                ),
            ),
            Panel(
                "Coresets topic: records a second",
                "ops",
                ("streamsvm_coresets_records", "streamsvm_coresets_adopted", "streamsvm_coresets_passed_over"),
                (
                    ("{{kind}}", f"sum by (kind) (rate(streamsvm_coresets_records_total{ONE}[{WINDOW}]))"),
                    ("adopted", f"sum(rate(streamsvm_coresets_adopted_total{ONE}[{WINDOW}]))"),
                    ("passed over", f"sum(rate(streamsvm_coresets_passed_over_total{ONE}[{WINDOW}]))"),
                ),
            ),
            Panel(
                "Coresets topic: bytes a second",
                "Bps",
                ("streamsvm_coresets_bytes",),
                (("bytes", f"sum(rate(streamsvm_coresets_bytes_total{ONE}[{WINDOW}]))"),),
            ),
            Panel(
                "Oldest manifest of a partition",
                "s",
                ("streamsvm_coresets_manifest_timestamp_seconds",),
                (
                    (
                        "partition {{partition}}",
                        f"time() - max by (partition) (streamsvm_coresets_manifest_timestamp_seconds{ONE})",
                    ),
                ),
            ),
            Panel(
                "Partitions of a worker",
                "short",
                ("streamsvm_worker_partitions",),
                (("{{instance}}", f"sum by (instance) (streamsvm_worker_partitions{ONE})"),),
                steps=True,
            ),
            Panel(
                "KKT gap",
                "sci",
                ("streamsvm_model_kkt_gap",),
                (("gap", f"max(streamsvm_model_kkt_gap{ONE})"),),
                steps=True,
            ),
            Panel(
                "Iterations of the solver",
                "short",
                ("streamsvm_training_iterations",),
                (("iterations", f"max(streamsvm_training_iterations{ONE})"),),
                steps=True,
            ),
            Panel(
                "Trade-off and kernel width",
                "short",
                ("streamsvm_model_penalty", "streamsvm_model_alpha", "streamsvm_model_gamma"),
                (
                    ("C", f"max(streamsvm_model_penalty{ONE})"),
                    ("alpha", f"max(streamsvm_model_alpha{ONE})"),
                    ("gamma", f"max(streamsvm_model_gamma{ONE})"),
                ),
                steps=True,
            ),
            Panel(
                "Objective: training set and audit",
                "short",
                (
                    "streamsvm_model_objective",
                    "streamsvm_model_dual_objective",
                    "streamsvm_audit_objective",
                    "streamsvm_audit_objective_low",
                    "streamsvm_audit_objective_high",
                ),
                (
                    ("training set", f"max(streamsvm_model_objective{ONE})"),
                    ("its lower bound", f"max(streamsvm_model_dual_objective{ONE})"),
                    ("whole stream", f"max(streamsvm_audit_objective{ONE})"),
                    ("at least", f"max(streamsvm_audit_objective_low{ONE})"),
                    ("at most", f"max(streamsvm_audit_objective_high{ONE})"),
                ),
                steps=True,
            ),
            Panel(
                "Points of the audit sample",
                "short",
                ("streamsvm_audit_points",),
                (("points", f"max(streamsvm_audit_points{ONE})"),),
                steps=True,
            ),
        ),
    ),
    (
        "Model",
        (
            Panel(
                "Model version and age",
                "none",
                ("streamsvm_model_version", "streamsvm_model_published_timestamp_seconds"),
                (
                    ("version", f"max(streamsvm_model_version{ONE})"),
                    ("age", _age("streamsvm_model_published_timestamp_seconds")),
                ),
                right={"age": "s"},
            ),
            Panel(
                "From sealed leaf to published version",
                "s",
                ("streamsvm_model_staleness_seconds",),
                (
                    ("p50", _quantile(0.5, "streamsvm_model_staleness_seconds")),
                    ("p95", _quantile(0.95, "streamsvm_model_staleness_seconds")),
                ),
            ),
            Panel(
                "Rows that the model does not cover",
                "short",
                ("streamsvm_model_rows_behind", "streamsvm_model_rows_between_cuts"),
                (
                    ("rows behind", f"max(streamsvm_model_rows_behind{ONE})"),
                    ("between two cuts", f"max(streamsvm_model_rows_between_cuts{ONE})"),
                ),
            ),
            Panel(
                "Size of the model's message",
                "bytes",
                ("streamsvm_model_message_bytes",),
                (("bytes", f"max(streamsvm_model_message_bytes{ONE})"),),
                steps=True,
            ),
            Panel(
                "Publishes",
                "short",
                ("streamsvm_publishes",),
                (("{{outcome}}", f"sum by (outcome) (streamsvm_publishes_total{ONE})"),),
                steps=True,
            ),
            Panel(
                "Quality gate",
                "short",
                ("streamsvm_gate_verdicts",),
                (("{{outcome}}", f"sum by (outcome) (streamsvm_gate_verdicts_total{ONE})"),),
            ),
            Panel(
                "Challenges that ended",
                "short",
                ("streamsvm_challenges",),
                (("{{outcome}}", f"sum by (outcome) (streamsvm_challenges_total{ONE})"),),
            ),
            Panel(
                "Champion and challenger, on labels of rows that both scored",
                "none",
                (
                    "streamsvm_challenge_figure",
                    "streamsvm_challenge_difference",
                    "streamsvm_challenge_labels",
                    "streamsvm_challenger_version",
                    "streamsvm_challenge_scores_left_out",
                ),
                (
                    ("{{of}}", f"avg by (of) (streamsvm_challenge_figure{ONE})"),
                    ("difference, {{end}}", f"avg by (end) (streamsvm_challenge_difference{ONE})"),
                    ("labels", f"max(streamsvm_challenge_labels{ONE})"),
                    ("challenger", f"max(streamsvm_challenger_version{ONE})"),
                    ("left out", f"sum(streamsvm_challenge_scores_left_out{ONE})"),
                ),
                right={"labels": "short", "challenger": "short", "left out": "short"},
            ),
            Panel(
                "Balanced accuracy at the gate",
                "percentunit",
                (
                    "streamsvm_gate_candidate_accuracy",
                    "streamsvm_gate_present_accuracy",
                    "streamsvm_gate_best_accuracy",
                ),
                (
                    ("newest", f"streamsvm_gate_candidate_accuracy{ONE}"),
                    ("current", f"streamsvm_gate_present_accuracy{ONE}"),
                    ("best of the last", f"streamsvm_gate_best_accuracy{ONE}"),
                ),
            ),
            Panel(
                "Versions retired",
                "short",
                ("streamsvm_versions_retired",),
                (("retired", f"sum(streamsvm_versions_retired_total{ONE})"),),
            ),
            Panel(
                "Producer renewals",
                "short",
                ("streamsvm_producer_renewals",),
                (("renewals", f"sum(streamsvm_producer_renewals_total{ONE})"),),
                steps=True,
            ),
            Panel(
                "Copies that stand by",
                "short",
                ("streamsvm_standby",),
                (("standing by", f"sum(streamsvm_standby{ONE})"),),
                steps=True,
            ),
        ),
    ),
    (
        "Input",
        (
            Panel(
                "Lag by partition",
                "short",
                ("streamsvm_input_lag_records", "streamsvm_input_open_transaction_records"),
                (
                    ("partition {{partition}}", f"sum by (partition) (streamsvm_input_lag_records{ONE})"),
                    (
                        "in open transactions, partition {{partition}}",
                        f"sum by (partition) (streamsvm_input_open_transaction_records{ONE})",
                    ),
                ),
            ),
            Panel(
                "Records ahead of retention, by partition",
                "short",
                ("streamsvm_input_headroom_records",),
                (("partition {{partition}}", f"min by (partition) (streamsvm_input_headroom_records{ONE})"),),
            ),
            Panel(
                "Records by partition",
                "cps",
                ("streamsvm_input_records",),
                (
                    (
                        "partition {{partition}}",
                        f"sum by (partition) (rate(streamsvm_input_records_total{ONE}[{WINDOW}]))",
                    ),
                ),
                stacked=True,
            ),
            Panel(
                "Bytes read",
                "Bps",
                ("streamsvm_input_bytes",),
                (("bytes", f"sum(rate(streamsvm_input_bytes_total{ONE}[{WINDOW}]))"),),
            ),
            Panel(
                "Rows by outcome",
                "cps",
                ("streamsvm_input_rows",),
                (("{{outcome}}", f"sum by (outcome) (rate(streamsvm_input_rows_total{ONE}[{WINDOW}]))"),),
                stacked=True,
            ),
            Panel(
                "Late labels: rows and labels a second, by outcome",
                "cps",
                ("streamsvm_labels", "streamsvm_label_records"),
                (
                    ("{{outcome}}", f"sum by (outcome) (rate(streamsvm_labels_total{ONE}[$__rate_interval]))"),
                    ("labels read", f"sum(rate(streamsvm_label_records_total{ONE}[$__rate_interval]))"),
                ),
            ),
            Panel(
                "Late labels: rows within the horizon, and their memory",
                "short",
                ("streamsvm_join_open_rows", "streamsvm_join_held_rows", "streamsvm_join_bytes"),
                (
                    ("open", f"sum(streamsvm_join_open_rows{ONE})"),
                    ("within the horizon", f"sum(streamsvm_join_held_rows{ONE})"),
                    ("bytes", f"sum(streamsvm_join_bytes{ONE})"),
                ),
                right={"bytes": "bytes"},
            ),
            Panel(
                "Late labels: the oldest row, and how long one log waits for the other",
                "s",
                (
                    "streamsvm_join_oldest_row_seconds",
                    "streamsvm_join_waiting_seconds",
                    "streamsvm_join_watermarks",
                    "streamsvm_join_times_ahead",
                ),
                (
                    ("watermarks written", f"sum(increase(streamsvm_join_watermarks_total{ONE}[1h]))"),
                    ("oldest row", f"max(streamsvm_join_oldest_row_seconds{ONE})"),
                    ("waiting", f"max(streamsvm_join_waiting_seconds{ONE})"),
                    (
                        "times ahead in {{log}}",
                        f"sum by (log) (increase(streamsvm_join_times_ahead_total{ONE}[1h]))",
                    ),
                ),
                right={
                    "watermarks written": "short",
                    "times ahead in features": "short",
                    "times ahead in labels": "short",
                },
            ),
            Panel(
                "Dead letters by reason",
                "short",
                ("streamsvm_dead_letters", "streamsvm_input_mostly_rejected"),
                (
                    ("{{reason}}", f"sum by (reason) (streamsvm_dead_letters_total{ONE})"),
                    ("mostly rejected", f"max(streamsvm_input_mostly_rejected{ONE})"),
                ),
                stacked=True,
                steps=True,
            ),
            Panel(
                "Fields that are not read",
                "short",
                ("streamsvm_unread_fields",),
                (("{{instance}}", f"sum by (instance) (streamsvm_unread_fields_total{EITHER})"),),
                steps=True,
            ),
            Panel(
                "Declared fields that no event has",
                "short",
                ("streamsvm_absent_fields",),
                (("{{instance}}", f"max by (instance) (streamsvm_absent_fields{EITHER})"),),
                steps=True,
            ),
            Panel(
                "Rows passed over, by reason",
                "short",
                ("streamsvm_passed_over_rows",),
                (("{{reason}}", f"sum by (reason) (streamsvm_passed_over_rows_total{EITHER})"),),
                stacked=True,
                steps=True,
            ),
            Panel(
                "Waiting for the schema registry",
                "s",
                ("streamsvm_registry_waiting_seconds",),
                (("waiting", f"max(streamsvm_registry_waiting_seconds{ONE})"),),
            ),
        ),
    ),
    (
        "Checkpoint",
        (
            Panel(
                "Age of the checkpoint, and failures",
                "s",
                ("streamsvm_checkpoint_timestamp_seconds", "streamsvm_checkpoint_failures"),
                (
                    ("age", _age("streamsvm_checkpoint_timestamp_seconds")),
                    ("failures", f"sum(streamsvm_checkpoint_failures_total{ONE})"),
                ),
                right={"failures": "short"},
            ),
            Panel(
                "Time to write a checkpoint",
                "s",
                ("streamsvm_checkpoint_seconds",),
                (
                    ("p50", _quantile(0.5, "streamsvm_checkpoint_seconds")),
                    ("p95", _quantile(0.95, "streamsvm_checkpoint_seconds")),
                ),
            ),
            Panel(
                "Archive, and failures to write it",
                "bytes",
                ("streamsvm_archive_bytes", "streamsvm_archive_failures"),
                (
                    ("bytes", f"sum(streamsvm_archive_bytes{ONE})"),
                    ("failures", f"sum(streamsvm_archive_failures_total{ONE})"),
                ),
                right={"failures": "short"},
            ),
        ),
    ),
    (
        "Scorers",
        (
            Panel(
                "Version that scores, and its age",
                "none",
                ("streamsvm_serving_version", "streamsvm_serving_loaded_timestamp_seconds"),
                (
                    ("version", f"min(streamsvm_serving_version{SCORERS})"),
                    ("age", _age("streamsvm_serving_loaded_timestamp_seconds", SCORERS)),
                ),
                right={"age": "s"},
            ),
            Panel(
                "Version in the shadow",
                "none",
                ("streamsvm_shadow_version",),
                (("version", f"max(streamsvm_shadow_version{SCORERS})"),),
            ),
            Panel(
                "Points scored",
                "cps",
                ("streamsvm_scored_points",),
                (("points", f"sum(rate(streamsvm_scored_points_total{SCORERS}[{WINDOW}]))"),),
            ),
            Panel(
                "Records read, and waiting",
                "short",
                ("streamsvm_input_records", "streamsvm_input_lag_records"),
                (
                    ("waiting", f"sum(streamsvm_input_lag_records{SCORERS})"),
                    ("read a second", f"sum(rate(streamsvm_input_records_total{SCORERS}[{WINDOW}]))"),
                ),
                right={"read a second": "cps"},
            ),
            Panel(
                "Time from a record to its score",
                "s",
                ("streamsvm_score_latency_seconds",),
                (
                    ("p50", _quantile(0.5, "streamsvm_score_latency_seconds", SCORERS)),
                    ("p95", _quantile(0.95, "streamsvm_score_latency_seconds", SCORERS)),
                ),
            ),
            Panel(
                "Share of each label",
                "percentunit",
                ("streamsvm_scores",),
                (
                    (
                        "{{label}}",
                        f"sum by (label) (rate(streamsvm_scores_total{SCORERS}[{WINDOW}])) "
                        f"/ scalar(sum(rate(streamsvm_scores_total{SCORERS}[{WINDOW}])))",
                    ),
                ),
                stacked=True,
            ),
            Panel(
                "Decision values",
                "short",
                ("streamsvm_score_values",),
                tuple(
                    (f"p{round(100 * share)}", _quantile(share, "streamsvm_score_values", SCORERS))
                    for share in (0.05, 0.5, 0.95)
                ),
                floor=None,
            ),
            Panel(
                "Drift of scores, and the limit of chance",
                "short",
                ("streamsvm_score_drift", "streamsvm_score_drift_chance", "streamsvm_score_drift_scores"),
                (
                    ("index", f"max(streamsvm_score_drift{SCORERS})"),
                    ("chance", f"max(streamsvm_score_drift_chance{SCORERS})"),
                    ("scores in the window", f"max(streamsvm_score_drift_scores{SCORERS})"),
                ),
                right={"scores in the window": "short"},
            ),
            Panel(
                "Rows scored and rejected; 1 while most are rejected",
                "cps",
                ("streamsvm_input_rows", "streamsvm_input_mostly_rejected"),
                (
                    ("{{outcome}}", f"sum by (outcome) (rate(streamsvm_input_rows_total{SCORERS}[{WINDOW}]))"),
                    ("mostly rejected", f"max(streamsvm_input_mostly_rejected{SCORERS})"),
                ),
                right={"mostly rejected": "short"},
            ),
            Panel(
                "Readers of outputs held up for",
                "s",
                ("streamsvm_output_held_up_seconds",),
                (("{{instance}}", f"max by (instance) (streamsvm_output_held_up_seconds{EITHER})"),),
            ),
            Panel(
                "Batches by outcome",
                "short",
                ("streamsvm_scored_batches",),
                (("{{outcome}}", f"sum by (outcome) (streamsvm_scored_batches_total{SCORERS})"),),
                steps=True,
            ),
            Panel(
                "Time to score and commit a batch",
                "s",
                ("streamsvm_scoring_seconds",),
                (
                    ("p50", _quantile(0.5, "streamsvm_scoring_seconds", SCORERS)),
                    ("p95", _quantile(0.95, "streamsvm_scoring_seconds", SCORERS)),
                ),
            ),
            Panel(
                "Dead letters of the scorers, by reason",
                "short",
                ("streamsvm_dead_letters",),
                (("{{reason}}", f"sum by (reason) (streamsvm_dead_letters_total{SCORERS})"),),
                stacked=True,
                steps=True,
            ),
            Panel(
                "Model messages refused",
                "short",
                ("streamsvm_model_messages_refused",),
                (("refused", f"sum(streamsvm_model_messages_refused_total{SCORERS})"),),
                steps=True,
            ),
        ),
    ),
    (
        "Processes",
        (
            Panel(
                "Memory",
                "bytes",
                ("process_resident_memory_bytes", "process_virtual_memory_bytes"),
                (
                    ("resident {{instance}}", f"process_resident_memory_bytes{EITHER}"),
                    ("virtual {{instance}}", f"process_virtual_memory_bytes{EITHER}"),
                ),
                width=8,
            ),
            Panel(
                "Processors in use",
                "short",
                ("process_cpu_seconds",),
                (("{{instance}}", f"rate(process_cpu_seconds_total{EITHER}[{WINDOW}])"),),
                width=8,
            ),
            Panel(
                "Up for",
                "s",
                ("process_start_time_seconds",),
                (("{{instance}}", f"time() - process_start_time_seconds{EITHER}"),),
                width=8,
            ),
            Panel(
                "File descriptors",
                "short",
                ("process_open_fds", "process_max_fds"),
                (
                    ("open {{instance}}", f"process_open_fds{EITHER}"),
                    ("limit {{instance}}", f"process_max_fds{EITHER}"),
                ),
                width=8,
            ),
            Panel(
                "Garbage collection",
                "short",
                ("python_gc_collections", "python_gc_objects_collected", "python_gc_objects_uncollectable"),
                (
                    ("collections", f"sum(python_gc_collections_total{EITHER})"),
                    ("collected", f"sum(python_gc_objects_collected_total{EITHER})"),
                    ("uncollectable", f"sum(python_gc_objects_uncollectable_total{EITHER})"),
                ),
                width=8,
            ),
            Panel(
                "Python",
                "none",
                ("python_info",),
                (("{{implementation}} {{version}}", f"count by (implementation, version) (python_info{EITHER})"),),
                "stat",
                width=8,
            ),
        ),
    ),
)
"""Every metric."""


@dataclass(frozen=True)
class Dashboard:
    """A dashboard: its identity, which links go by, and its rows."""

    uid: str
    title: str
    description: str
    rows: Rows

    @property
    def path(self) -> Path:
        """The file that it is provisioned from."""
        return FOLDER / f"{self.uid}.json"


def _lower(rows: Rows) -> Rows:
    """Return rows whose curves are low, so that all of them are on one screen."""
    return tuple(
        (title, tuple(replace(panel, height=3 if panel.kind == "stat" else 6) for panel in panels))
        for title, panels in rows
    )


DASHBOARDS: Final = (
    Dashboard(
        "streamsvm-overview",
        "streamsvm: overview",
        "Whether the model is current and good: age, quality against a baseline, coreset, training time, lag.",
        _lower(OVERVIEW),
    ),
    Dashboard("streamsvm", "streamsvm: deep dive", "Every metric of trainers and scorers.", DEEP_DIVE),
)


def dashboard(of: Dashboard) -> dict[str, Any]:
    """Return a dashboard as Grafana reads it."""
    return {
        "uid": of.uid,
        "title": of.title,
        "description": of.description,
        "tags": ["streamsvm"],
        "links": [
            {"type": "dashboards", "title": "streamsvm", "tags": ["streamsvm"], "includeVars": True, "keepTime": True}
        ],
        "schemaVersion": 39,
        "editable": False,
        "graphTooltip": 1,
        "refresh": "5s",
        "time": {"from": "now-15m", "to": "now"},
        "timezone": "browser",
        "templating": {
            "list": [
                _datasource_variable(),
                _instances("instance", "Trainer", "streamsvm_model_version"),
                _instances("scorer", "Scorer", "streamsvm_serving_version"),
            ]
        },
        "panels": [{"id": number, **panel} for number, panel in enumerate(_panels(of.rows), start=1)],
    }


def _panels(rows: Rows) -> Iterator[dict[str, Any]]:
    """Yield the panels from left to right and down, a heading before each row."""
    y = 0
    for title, panels in rows:
        yield {"type": "row", "title": title, "collapsed": False, "panels": [], "gridPos": _place(0, y, 24, 1)}
        x, y, height = 0, y + 1, 0
        for panel in panels:
            if x + panel.width > 24:
                x, y = 0, y + height
            yield _panel(panel, _place(x, y, panel.width, panel.height))
            x, height = x + panel.width, panel.height
        y += panels[-1].height


def _place(x: int, y: int, width: int, height: int) -> dict[str, int]:
    return {"x": x, "y": y, "w": width, "h": height}


def _panel(panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    common = {
        "type": panel.kind,
        "title": panel.title,
        "description": _description(panel),
        "datasource": DATASOURCE,
        "gridPos": place,
        "targets": [
            {"refId": chr(ord("A") + index), "datasource": DATASOURCE, "expr": query, "legendFormat": legend}
            for index, (legend, query) in enumerate(panel.queries)
        ],
    }
    return common | (_stat_options(panel) if panel.kind == "stat" else _timeseries_options(panel))


def _description(panel: Panel) -> str:
    """Say what the metrics mean and what to do; counters are shown as they are, so say since when they count."""
    parts = []
    for name in panel.metrics:
        definition = DEFINITIONS[name]
        raw = definition.kind == "counter" and not any(f"rate({name}" in query for _, query in panel.queries)
        since = " Since the process started." if raw else ""
        parts.append(f"{definition.meaning}{since}\n\n{definition.advice}")
    return "\n\n".join(parts)


def _stat_options(panel: Panel) -> dict[str, Any]:
    return {
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "options": {
            "colorMode": "none",
            "graphMode": "area",
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        },
    }


def _timeseries_options(panel: Panel) -> dict[str, Any]:
    drawn: dict[str, Any] = {
        "drawStyle": "line",
        "lineInterpolation": "stepAfter" if panel.steps else "linear",
        "showPoints": "never",
        "fillOpacity": 40 if panel.stacked else 0,
        "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
    }
    return {
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "custom": drawn} | ({} if panel.floor is None else {"min": panel.floor}),
            "overrides": [
                {
                    "matcher": {"id": "byName", "options": legend},
                    "properties": [{"id": "custom.axisPlacement", "value": "right"}, {"id": "unit", "value": unit}],
                }
                for legend, unit in panel.right.items()
            ],
        },
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "none"},
        },
    }


def _datasource_variable() -> dict[str, Any]:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "refresh": 1}


def _instances(name: str, label: str, metric: str) -> dict[str, Any]:
    """Return a variable of the processes that tell a metric."""
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": f"label_values({metric}, instance)", "refId": name},
        "definition": f"label_values({metric}, instance)",
        "refresh": 2,
        "sort": 1,
        "multi": False,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def main() -> None:
    """Write the files."""
    for path, text in rendered().items():
        path.write_text(text, encoding="utf-8")


def rendered() -> dict[Path, str]:
    """Return the text of each file."""
    return {of.path: json.dumps(dashboard(of), indent=2) + "\n" for of in DASHBOARDS}


if __name__ == "__main__":
    main()
