"""Metrics of the trainer and of the scorer."""

from __future__ import annotations

from typing import Final

from consumers.metrics.definition import Definition

OUTPUT_BLOCKED: Final = Definition(
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
