"""Metrics of the trainer and of the scorer."""

from __future__ import annotations

from typing import Final

from consumers.metrics.definition import Definition

OUTPUT_BLOCKED: Final = Definition(
    "streamsvm_output_held_up_seconds",
    "gauge",
    "Seconds for which an output partition's last stable offset has stood still below its end; of several, the "
    "longest.",
    "More than a few: a transaction stays open, and readers of committed records receive nothing newer.",
    panel="Input: waiting for others",
)

INPUT_RECORDS: Final = Definition(
    "streamsvm_input_records",
    "counter",
    "Records read from the input.",
    "Flat while producers write: check lag and readiness.",
    ("partition",),
    panel="Input: records read by partition",
)

INPUT_ROWS: Final = Definition(
    "streamsvm_input_rows",
    "counter",
    "Rows learned or scored (`accepted`), or `rejected`.",
    "A rising share of rejected rows: read the dead letters.",
    ("outcome",),
    panel="Input: rows",
)

INPUT_LAG_RECORDS: Final = Definition(
    "streamsvm_input_lag_records",
    "gauge",
    "Committed records that the trainer, or the scorer's group, has not read. A scorer shows its own partitions.",
    "Growing: the daemon is too slow. Trainer: check the training time, or use the policy `latest`. Scorer: start "
    "another in its group.",
    ("partition",),
    panel="Input: lag by partition",
)

INPUT_OPEN_TRANSACTION_RECORDS: Final = Definition(
    "streamsvm_input_open_transaction_records",
    "gauge",
    "Records behind the beginning of a producer's open transaction. A partition that never had any is not shown.",
    "Stays: nobody who reads committed records gets past the transaction; see StreamsvmOpenTransaction in the runbook.",
    ("partition",),
    panel="Input: lag by partition",
)

INPUT_MOSTLY_REJECTED: Final = Definition(
    "streamsvm_input_mostly_rejected",
    "gauge",
    "1 while more of the newest records are rejected than max_dead_letter_share or max_consecutive_dead_letters "
    "allow, and the daemon goes on because its input is proven.",
    "1: the daemon is not ready. Find out who writes to the input; `streamsvm dead-letters` shows the records.",
    panel="Input: rows",
)

DEAD_LETTERS: Final = Definition(
    "streamsvm_dead_letters",
    "counter",
    "Rejected rows.",
    "`streamsvm dead-letters` shows each record, why it was rejected, and what to do.",
    ("reason",),
    panel="Input: dead letters by reason",
)

UNREAD_FIELDS: Final = Definition(
    "streamsvm_unread_fields",
    "counter",
    "Rows with a field that is not read, once per field; of at most 16 fields.",
    "Rising: a producer writes a field under another name, such as `weight` for `w`, which then has its default. "
    "The log names each field once.",
    panel="Input: fields and rows that are not used",
)

ABSENT_FIELDS: Final = Definition(
    "streamsvm_absent_fields",
    "gauge",
    "Declared fields that the newest events, at least 100, all lack.",
    "Above 0: a producer renamed or dropped a field, which the log names. Events that may lack it are scored as if "
    "it were missing, others are dead letters.",
    panel="Input: fields and rows that are not used",
)

PASSED_OVER_ROWS: Final = Definition(
    "streamsvm_passed_over_rows",
    "counter",
    "Deletions and other rows of a change log that hold no event; they count neither as accepted nor as rejected.",
    "`delete` rising: what was learned of deleted rows stays learned, unless you begin a new incarnation.",
    ("reason",),
    panel="Input: fields and rows that are not used",
)

REGISTRY_WAITING_SECONDS: Final = Definition(
    "streamsvm_registry_waiting_seconds",
    "gauge",
    "Seconds for which the input has waited for the schema registry.",
    "Above 0: the registry does not answer. Nothing is lost or rejected.",
    panel="Input: waiting for others",
)
