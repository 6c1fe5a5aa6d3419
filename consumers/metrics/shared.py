"""Metrics of the trainer and of the scorer."""

from __future__ import annotations

from typing import Final

from consumers.metrics.definition import Definition

HEALTH: Final = (
    Definition(
        "streamsvm_ready",
        "gauge",
        "1 while /readyz answers 200, else 0.",
        "0: streamsvm_not_ready names the reasons; see StreamsvmNotReady.",
    ),
    Definition(
        "streamsvm_not_ready",
        "gauge",
        "1 for each part of /readyz that waits, else 0.",
        "1: /readyz says what the part waits for.",
        ("reason",),
    ),
    Definition(
        "streamsvm_clock_seconds",
        "gauge",
        "The host's time of day.",
        "Far from the time of the scrape: see StreamsvmClockOff.",
    ),
)
"""In this order: whoever asks for the first sets the second."""

OUTPUT_BLOCKED: Final = Definition(
    "streamsvm_output_held_up_seconds",
    "gauge",
    "Seconds for which an output partition's last stable offset has stood still below its end, at most.",
    "More than a few: see StreamsvmReadersHeldUp.",
)

BROKER_THROTTLE: Final = Definition(
    "streamsvm_broker_throttle_seconds",
    "gauge",
    "Seconds by which a broker's quota delayed the newest answer; 0 if it has delayed none for half a minute.",
    "Stays above 0.1: see StreamsvmThrottled.",
)

INPUT_RECORDS: Final = Definition(
    "streamsvm_input_records",
    "counter",
    "Records read from the input.",
    "Flat while producers write: see lag and readiness.",
    ("partition",),
)

INPUT_ROWS: Final = Definition(
    "streamsvm_input_rows",
    "counter",
    "Rows learned or scored (`accepted`), or `rejected`.",
    "More rejected: read the dead letters.",
    ("outcome",),
)

INPUT_LAG_RECORDS: Final = Definition(
    "streamsvm_input_lag_records",
    "gauge",
    "Committed records not read; a scorer shows its own partitions.",
    "Growing: too slow. Trainer: see the training time, or take the policy `latest`. Scorer: start another.",
    ("partition",),
)

INPUT_OPEN_TRANSACTION_RECORDS: Final = Definition(
    "streamsvm_input_open_transaction_records",
    "gauge",
    "Records behind the beginning of a producer's open transaction.",
    "Stays: see StreamsvmOpenTransaction.",
    ("partition",),
)

INPUT_MOSTLY_REJECTED: Final = Definition(
    "streamsvm_input_mostly_rejected",
    "gauge",
    "1 while more of the newest records of a proven input are rejected than its options allow.",
    "1: not ready; see StreamsvmMostlyRejected.",
)

DEAD_LETTERS: Final = Definition(
    "streamsvm_dead_letters",
    "counter",
    "Rejected rows.",
    "`streamsvm dead-letters` shows each record, why, and what to do.",
    ("reason",),
)

UNREAD_FIELDS: Final = Definition(
    "streamsvm_unread_fields",
    "counter",
    "Rows with a field that is not read, once a field; of 16 fields at most.",
    "Rising: a producer writes a field under another name, such as `weight` for `w`; the log names each once.",
)

ROUNDED_FEATURES: Final = Definition(
    "streamsvm_input_rounded_features",
    "gauge",
    "Features of which float32 makes different values the same, among the first 4,096 rows read.",
    'Above 0: the log names them; set `points.dtype = "float64"`, or an `offset`.',
)

ABSENT_FIELDS: Final = Definition(
    "streamsvm_absent_fields",
    "gauge",
    "Declared fields that the newest events, at least 100, all lack.",
    "Above 0: a producer renamed or dropped a field, which the log names.",
)

PASSED_OVER_ROWS: Final = Definition(
    "streamsvm_passed_over_rows",
    "counter",
    "Deletions and other rows of a change log without an event: neither accepted nor rejected.",
    "`delete` rising: what was learned of these rows stays learned.",
    ("reason",),
)

REGISTRY_WAITING_SECONDS: Final = Definition(
    "streamsvm_registry_waiting_seconds",
    "gauge",
    "Seconds for which the input has waited for the schema registry.",
    "Above 0: the registry does not answer; nothing is lost.",
)
