"""Metrics of labels that come later."""

from __future__ import annotations

from typing import Final

from consumers.branches.late_labels.settings import LabelsConfig
from consumers.metrics import BranchMetrics, Definition
from streamsvm.sections import section

DEFINITIONS: Final = (
    Definition(
        "streamsvm_label_records",
        "counter",
        "Records read from the topic of labels.",
        "Flat while labels are written: check readiness. Nothing is joined past the newest of them.",
        panel="Late labels: rows and labels",
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
        panel="Late labels: rows and labels",
    ),
    Definition(
        "streamsvm_join_open_rows",
        "gauge",
        "Rows that wait for their labels.",
        "Grows towards labels.horizon times the rate of rows. Beyond that labels are missing.",
        panel="Late labels: rows within the horizon",
    ),
    Definition(
        "streamsvm_join_held_rows",
        "gauge",
        "Rows within labels.horizon, whether they wait for a label or have one.",
        "In no partition it may exceed labels.most_rows: then the trainer ends.",
        panel="Late labels: rows within the horizon",
    ),
    Definition(
        "streamsvm_join_bytes",
        "gauge",
        "Memory of the join: rows, their features, early labels and the index.",
        "Shorten labels.horizon where it is too large.",
        panel="Late labels: rows within the horizon",
    ),
    Definition(
        "streamsvm_join_oldest_row_seconds",
        "gauge",
        "Age of the oldest row within labels.horizon, in the time of the logs.",
        "Near labels.horizon in steady state; smaller while the stream is younger than that.",
        panel="Late labels: rows within the horizon",
    ),
    Definition(
        "streamsvm_join_waiting_seconds",
        "gauge",
        "How long a partition of one log has waited for a record of the other.",
        "One of the two topics is idle: nothing is joined there until a record, or a watermark, is written to it.",
        panel="Late labels: rows within the horizon",
    ),
    Definition(
        "streamsvm_join_watermarks",
        "counter",
        "Watermarks that the trainer wrote to partitions of the labels' topic that were idle for labels.idle_s.",
        "Rising: labels come to few partitions, or not at all. Check who writes them.",
        panel="Late labels: rows and labels",
    ),
    Definition(
        "streamsvm_join_times_ahead",
        "counter",
        "Records of either log whose timestamp is so far ahead of those around it that it does not count.",
        "Rising: a clock, or its unit, is wrong. The log line time_ahead names a record.",
        ("log",),
        panel="Late labels: rows and labels",
    ),
)

TRAINER: Final = BranchMetrics(
    definitions=DEFINITIONS,
    after="streamsvm_input_mostly_rejected",
    wanted=lambda settings: bool(section(settings, LabelsConfig).topic),
)
