"""Metrics of workers, and of the trainer that adopts what they learn."""

from __future__ import annotations

from typing import Final

from consumers.branches.workers.settings import TrainingByWorkers
from consumers.metrics import TRAINER_ITSELF, BranchMetrics, DaemonMetrics, Definition
from streamsvm.sections import section

CORESETS: Final = (
    Definition(
        "streamsvm_coresets_records",
        "counter",
        "Records written to the coresets topic.",
        "Manifests flat while producers write: see /readyz.",
        ("kind",),
    ),
    Definition(
        "streamsvm_coresets_bytes",
        "counter",
        "Bytes written to the coresets topic.",
        "Compare with the input's bytes.",
    ),
    Definition(
        "streamsvm_coresets_passed_over",
        "counter",
        "Damaged, foreign or incomplete records of the coresets topic.",
        "Above 0: another program writes there, or the topic is not compacted; the log names each.",
    ),
    Definition(
        "streamsvm_coresets_manifest_timestamp_seconds",
        "gauge",
        "When the newest manifest was written, or seen by the trainer.",
        "Old while there is more to read: the worker is gone or stuck.",
        ("partition",),
    ),
    Definition(
        "streamsvm_worker_partitions",
        "gauge",
        "Partitions that this worker learns; 0 of a trainer.",
        "0 of a worker: see /readyz.",
    ),
)
"""Of trainers with training.from_coresets, and of their workers."""
ADOPTED: Final = (
    Definition(
        "streamsvm_coresets_adopted",
        "counter",
        "States of partitions adopted from the coresets topic.",
        "Flat while workers write: a training runs, or the topic cannot be read.",
    ),
)
TRAINER: Final = BranchMetrics(
    definitions=(*CORESETS, *ADOPTED),
    after="",
    wanted=lambda settings: section(settings, TrainingByWorkers).from_coresets,
)
OF_THE_TRAINER: Final = {
    "streamsvm_ready",
    "streamsvm_not_ready",
    "streamsvm_clock_seconds",
    "streamsvm_broker_throttle_seconds",
    "streamsvm_input_records",
    "streamsvm_input_rows",
    "streamsvm_input_lag_records",
    "streamsvm_input_open_transaction_records",
    "streamsvm_input_mostly_rejected",
    "streamsvm_dead_letters",
    "streamsvm_unread_fields",
    "streamsvm_input_rounded_features",
    "streamsvm_absent_fields",
    "streamsvm_passed_over_rows",
    "streamsvm_registry_waiting_seconds",
    "streamsvm_coreset_reduce_seconds",
    "streamsvm_points_held",
}
WORKER: Final = (*(one for one in TRAINER_ITSELF if one.name in OF_THE_TRAINER), *CORESETS)
"""Metrics of a worker of its own."""
DAEMON: Final = DaemonMetrics(title="Worker", definitions=WORKER)
