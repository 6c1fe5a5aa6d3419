"""Figures of the daemons that have one right value, each with its reason; they are looked up when they are used."""

from __future__ import annotations

BATCH_RECORDS = 4_000
"""Most records that a trainer or a worker takes at once, four times as many while more wait: some 10 ms of work."""

SCORED_AT_ONCE = 2_000
"""Most records of a scorer's transaction. Larger ones cost less a record, but a fault costs all of them again."""

WATCH_INTERVAL_S = 30.0
"""Seconds between two checks for gaps and new partitions, each of which asks every broker of the topic."""

MOST_REJECTED_IN_A_ROW = 1_000
"""Rejected records in a row after which the stream is plainly the wrong one."""

MOST_REJECTED_SHARE = 0.5
"""Share of rejected records, among the last 1,000 of a scorer's input, with the same consequence."""

PROVEN_AFTER_POINTS = 1_000
"""Valid points after which an incarnation's input is proven: from then on bad records no longer stop the trainer."""

PROVEN_AFTER_RECORDS = 1
"""Records that a model must have scored, ever, before the scorer's input is proven."""

SCORED_RECORD_BYTES = 1_000_000
"""Most bytes of a record to be scored: Kafka's own default for a record."""

TRAINING_SHARE = 0.05
"""Largest share of the time for training while the input has more: reading is slowed by a twentieth at most."""

STUCK_AFTER_S = 120.0
"""Seconds without a turn of the main loop after which /healthz answers 503; a slow publish may take 80."""

TRAINING_STUCK_AFTER_S = 3_600.0
"""Seconds of one training with the same consequence; the largest kernel machine that was measured took ten minutes."""

GATE_VERSIONS = 5
"""Versions that were current last, with the best of which the gate compares; each is in memory."""

CHECKPOINTS = 3
"""Checkpoint files that are kept: a damaged one, and one that was being written, leave one."""

MOST_CHECKPOINT_AGE_S = 600.0
"""Seconds without a good checkpoint after which /readyz answers 503: twenty times the default interval."""

QUALITY_WINDOW = 10_000
"""Newest points, scored before they were learned, that figures of quality cover: 0.9 is told to 0.006."""

DRIFT_WINDOW = 10_000
"""Newest scores that are compared with the version's audit sample."""

LABEL_EARLY_S = 60.0
"""Seconds that a label may come before its row: as far apart as the clocks of two producers may be."""

MOST_WAITING_ROWS = 10_000_000
"""Most rows in one partition that wait for labels, 37 bytes and features each; with more the trainer ends."""
