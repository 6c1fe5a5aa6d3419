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
        "Flat while labels are written: check readiness.",
    ),
    Definition(
        "streamsvm_labels",
        "counter",
        "What the join decided: joined, of these joined_early (the label came first); absent rows; unmatched_label; "
        "doubled_row, doubled_label and changed_label, of which the first counts.",
        "Many unmatched: labels.horizon is too short, or the topics are not partitioned alike. Many absent with "
        "labels.absent = negative: late labels are learned as negative.",
        ("outcome",),
    ),
    Definition(
        "streamsvm_join_open_rows",
        "gauge",
        "Rows that wait for their labels.",
        "Above labels.horizon times the rate of rows: labels are missing.",
    ),
    Definition(
        "streamsvm_join_held_rows",
        "gauge",
        "Rows within labels.horizon.",
        "More than ten million in a partition end the trainer.",
    ),
    Definition(
        "streamsvm_join_bytes",
        "gauge",
        "Bytes of the join's memory.",
        "Too large: shorten labels.horizon.",
    ),
    Definition(
        "streamsvm_join_oldest_row_seconds",
        "gauge",
        "Age of the oldest row within labels.horizon, by the logs' time.",
        "Near labels.horizon once the stream is older.",
    ),
    Definition(
        "streamsvm_join_waiting_seconds",
        "gauge",
        "Seconds for which a partition of one log has waited for a record of the other.",
        "Growing: that topic is idle; it needs a record or a watermark.",
    ),
    Definition(
        "streamsvm_join_watermarks",
        "counter",
        "Watermarks that the trainer wrote to the labels' topic (labels.idle_s).",
        "Rising: labels come to few partitions, or not at all.",
    ),
    Definition(
        "streamsvm_join_times_ahead",
        "counter",
        "Records with timestamps too far ahead to count.",
        "Rising: see StreamsvmTimesAhead.",
        ("log",),
    ),
)

TRAINER: Final = BranchMetrics(
    definitions=DEFINITIONS,
    after="streamsvm_input_mostly_rejected",
    wanted=lambda settings: bool(section(settings, LabelsConfig).topic),
)
