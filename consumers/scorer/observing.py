"""What a scorer shows of itself, and when it is plainly scoring the wrong stream.

Counted is what was committed, once; rejected records are counted against the limits
(`consumers.streams.rejection_limits`) before their batch is committed, so that a batch that ends the scorer is read
again at the next start. A batch that is put back and read again counts once against them.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import numpy as np
import structlog
from numpy.typing import NDArray

from consumers import constants
from consumers.host.runtime import Health
from consumers.host.untrusted_text import printable
from consumers.metrics import Metrics
from consumers.page.board import ScorerBoard
from consumers.page.past import letters_of
from consumers.settings import Settings
from consumers.streams.open_transactions import OpenTransactions
from consumers.streams.rejection_limits import RejectionLimits
from streamsvm.errors import ConfigurationError
from streamsvm.ingest.decoder import REMEDIES, RejectedRecord
from streamsvm.ingest.decoding import passed_over
from streamsvm.ingest.scored import Scored, scores_of, source_of
from streamsvm.kafka import Cluster, Record, Subscription
from streamsvm.model.deciles import Deciles
from streamsvm.model.skill import spelt
from streamsvm.places import SOURCE_HEADER
from streamsvm.quality.drift import ScoreWindow
from streamsvm.registry.aliases import models_there
from streamsvm.registry.loading import Loaded
from streamsvm.registry.subscriber import ModelSubscriber

log = structlog.get_logger("streamsvm.scorer")

LOOK_EVERY_S: Final = 1.0
NAMES_AFTER_S: Final = 5.0
"""How long a model may be missing before the models that there are, are named: its trainer may be about to publish."""
LATEST_RECORDS: Final = 1_000
"""Offsets of each partition of the output topic among which a proof is looked for; more if more records are wanted."""
READ_TIMEOUT_S: Final = 5.0
NO_REFERENCE: Final = "the version holds no scores of its audit sample"

Float = NDArray[np.float64]


class DriftGauges:
    """Compares the newest scores with those of the version's audit sample.

    Parameters
    ----------
    scores : int
        How many of the newest are compared; 0: none.
    metrics : Metrics
    """

    def __init__(self, scores: int, metrics: Metrics) -> None:
        self._window = ScoreWindow(scores) if scores else None
        self._reference: Deciles | None = None
        self._metrics = metrics
        self.show()

    def compare_with(self, loaded: Loaded) -> None:
        """Note the version that scores from now on; scores in other bins than its own are dropped."""
        before, self._reference = self._reference, loaded.audit_scores
        if self._window is not None and before is not None and _bins(before) != _bins(self._reference):
            self._window.forget()
        if self._reference is None:
            log.info("no_drift_shown", version=loaded.version.key, why=NO_REFERENCE)
        self.show()

    def add(self, values: Float) -> None:
        """Add scores that were committed."""
        if self._window is not None and self._reference is not None:
            self._window.add(values, self._reference)

    def show(self) -> float | None:
        """Set the gauges; return the index, None where nothing is compared."""
        window, reference = self._window, self._reference
        drift = None if window is None or reference is None else window.drift(reference)
        self._metrics.put("streamsvm_score_drift", math.nan if drift is None else drift.index)
        self._metrics.put("streamsvm_score_drift_chance", math.nan if drift is None else drift.chance)
        self._metrics.put("streamsvm_score_drift_scores", 0 if window is None or reference is None else len(window))
        return None if drift is None else drift.index


class MissingModel:
    """Explains why there is no model yet.

    Parameters
    ----------
    name, aliases_topic : str
    monotonic : callable
        Seconds.
    """

    def __init__(self, name: str, aliases_topic: str, monotonic: Callable[[], float]) -> None:
        self._name, self._aliases_topic, self._monotonic = name, aliases_topic, monotonic
        self._since: float | None = None
        self._named: tuple[str, ...] | None = None

    def reason(self, subscriber: ModelSubscriber) -> str:
        """Return why there is no model yet; after some seconds with the models that there are, logged once."""
        now = self._monotonic()
        self._since = now if self._since is None else self._since
        why, names = subscriber.missing, subscriber.names
        if now - self._since < NAMES_AFTER_S or self._name in names or not subscriber.connected:
            return why
        remedy = printable(models_there(self._name, names))
        if names != self._named:
            self._named = names
            log.warning("no_such_model", what=f"{self._aliases_topic} has no model {self._name}", remedy=remedy)
        return f"{why}. {remedy}"


class ScorerWatch:
    """Watches one scorer. Its methods are the main loop's.

    Parameters
    ----------
    settings : Settings
    cluster : Cluster
        Asked for earlier scores, and only where a limit of rejected records is passed.
    metrics : Metrics
    health : Health
    board : ScorerBoard
        Where moments are left, for people.
    monotonic, clock : callable
        Seconds; the second since the epoch.
    """

    def __init__(
        self,
        settings: Settings,
        cluster: Cluster,
        metrics: Metrics,
        health: Health,
        board: ScorerBoard,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._name = settings.name
        self._scoring = scoring = settings.scoring
        self._cluster = cluster
        self._metrics = metrics
        self._health = health
        self._board = board
        self._monotonic = monotonic
        self._clock = clock
        self._limits = RejectionLimits(
            scoring.topic,
            constants.MOST_REJECTED_SHARE,
            self._is_proven,
            who="scorer",
            hint=f"Or {scoring.topic} may hold points of another model than {settings.name}. The batch was not "
            "committed: it is read again at the next start.",
            remedies={**REMEDIES, "wrong_dimension": "Fix the producer, or use a model trained on such points."},
        )
        self._scored_records = 0
        self._valid = self._waits = False
        self._open = OpenTransactions(metrics)
        self._counted: dict[int, int] = {}
        self._drift = DriftGauges(constants.DRIFT_WINDOW, metrics)
        self._missing_model = MissingModel(settings.name, settings.output.aliases_topic, monotonic)
        self._look_at = -math.inf
        self._shown: set[int] = set()
        metrics.begin("streamsvm_input_rows", "outcome", ("accepted", "rejected"))
        metrics.begin("streamsvm_passed_over_rows", "reason", passed_over())
        metrics.begin("streamsvm_scores", "label", ("negative", "positive"))
        metrics.put("streamsvm_input_mostly_rejected", 0)

    # ------------------------------------------------------------- the model

    def waiting(self, subscriber: ModelSubscriber) -> str:
        """Return why there is no model yet."""
        return self._missing_model.reason(subscriber)

    def serving(self, loaded: Loaded) -> None:
        """Note the version that scores from now on, and what its scores are compared with."""
        self._drift.compare_with(loaded)

    def started(self) -> None:
        """Show what the dead-letter topic holds from before."""
        self._board.found(letters_of(self._cluster, self._name, self._scoring.dead_letters, self._health.beat))

    # ------------------------------------------------------------- a batch

    def check(self, records: Sequence[Record], rejected: Sequence[RejectedRecord]) -> None:
        """Count a scored batch against the limits of rejected records, before it is committed.

        Raises
        ------
        ConfigurationError
            If it passes a limit, and the input is not proven.
        TransientError
            If that could not be looked up: read the batch again.
        """
        known = self._counted
        fresh = [record for record in records if record.offset >= known.get(record.partition, 0)]
        if fresh:
            new = [one for one in rejected if one.record.offset >= known.get(one.record.partition, 0)]
            self._limits.count(fresh, new)
        for record in fresh:
            known[record.partition] = record.offset + 1
        self._health.require("input", self._limits.trouble)
        self._metrics.put("streamsvm_input_mostly_rejected", bool(self._limits.trouble))

    def waits(self, scored: Scored) -> bool:
        """Return whether a batch is not to be committed: all of it was rejected, as all that this model ever saw.

        The configuration is likely the wrong one then, and a better one is to score these records.

        Raises
        ------
        TransientError
            If earlier scores could not be looked up: read the batch again.
        """
        if self._valid:
            return False
        if len(scored.values):
            self._valid = True
        elif scored.rejected and not self._waits:
            self._valid = self._scored_before(1) > 0
            self._waits = not self._valid
        if self._waits and not self._limits.trouble:
            why = f"no record of {self._scoring.topic} could be scored yet: what was rejected is not committed"
            self._health.require("input", "" if self._valid else why)
        return self._waits and not self._valid

    def wait_is_over(self) -> bool:
        """Return once whether batches were not committed that are to be, now that one was valid: read them again."""
        waited, self._waits = self._waits, False
        return waited

    def committed(self, records: Sequence[Record], scored: Scored) -> None:
        """Count a batch whose scores and positions were committed."""
        metrics, now = self._metrics, self._clock()
        for partition, count in Counter(record.partition for record in records).items():
            metrics.increase("streamsvm_input_records", count, partition=str(partition))
        values = np.array(scored.values)
        positive = _positive(scored, values)
        rejected = sum(len(one.rejections) for one in scored.rejected)
        metrics.increase("streamsvm_input_rows", len(values), outcome="accepted")
        metrics.increase("streamsvm_input_rows", rejected, outcome="rejected")
        for reason, count in scored.passed_over.items():
            metrics.increase("streamsvm_passed_over_rows", count, reason=reason)
        if positive is not None:
            metrics.increase("streamsvm_scores", len(values) - positive, label="negative")
            metrics.increase("streamsvm_scores", positive, label="positive")
        else:
            for label, count in zip(scored.labels, scored.answers, strict=True):
                metrics.increase("streamsvm_scores", count, label=spelt(label))
        metrics.observe_all("streamsvm_score_values", values)
        latency_s = _latencies(records, scored, now)
        metrics.observe_all("streamsvm_score_latency_seconds", latency_s)
        self._drift.add(values)
        if scored.rejected:
            own = self._scoring
            self._board.rejected(own.topic, own.dead_letters, scored.rejected[-1], datetime.fromtimestamp(now, UTC))
        self._scored_records += len(scored.records)
        self._board.scored(len(records), len(values), positive, float(latency_s.max()) if len(latency_s) else None)

    # ------------------------------------------------------------- a turn

    def look(self, subscription: Subscription) -> None:
        """Show lag and drift, unless that was done within the last second; call it before records are polled."""
        monotonic = self._monotonic()
        if monotonic < self._look_at:
            return
        self._look_at = monotonic + LOOK_EVERY_S
        backlog = subscription.backlog()
        self._open.show(subscription.in_open_transactions())
        self._show_lag(backlog)
        index = self._drift.show()
        self._board.look(
            sum(backlog.values()) if backlog else None, index, datetime.fromtimestamp(self._clock(), UTC), monotonic
        )

    def _show_lag(self, backlog: Mapping[int, int]) -> None:
        for partition in self._shown - backlog.keys():
            self._metrics.drop("streamsvm_input_lag_records", str(partition))
        for partition, records in backlog.items():
            self._metrics.put("streamsvm_input_lag_records", records, partition=str(partition))
        self._shown = set(backlog)

    # ------------------------------------------------------------- proof

    def _is_proven(self) -> bool:
        """Return whether this model has scored enough records of the input, now or before this start."""
        wanted = constants.PROVEN_AFTER_RECORDS
        if self._scored_records < wanted:
            self._scored_records = max(self._scored_records, self._scored_before(wanted))
        return self._scored_records >= wanted

    def _scored_before(self, wanted: int) -> int:
        """Count records of scores of this input by this model among the newest of the output topic, up to `wanted`.

        Where retention has removed all of them, or they may not be read, nobody can tell: that counts as proven, so
        that no stream of bad records can stop a scorer that has worked for long. A topic that was never written to
        proves that nothing was scored.
        """
        found, output = 0, self._scoring.output_topic
        unknown = False
        for partition in self._cluster.describe(output).partitions:
            low, high = self._cluster.log_range(output, partition)
            unknown |= low == high > 0
            try:
                found += self._scored_in(partition, max(low, high - max(LATEST_RECORDS, 2 * wanted)), wanted - found)
            except ConfigurationError:  # it takes the right to read what this scorer itself may only write
                unknown |= high > 0
            if found >= wanted:
                return found
        return wanted if unknown and not found else found

    def _scored_in(self, partition: int, start: int, wanted: int) -> int:
        found, output = 0, self._scoring.output_topic
        for record in self._cluster.read_to_end(output, partition, start=start, timeout_s=READ_TIMEOUT_S):
            self._health.beat()
            found += bool(scores_of(record.value or b"", record.headers, self._scoring.topic, self._name))
            if found >= wanted:
                break
        return found


def _positive(scored: Scored, values: Float) -> int | None:
    """Return how many scores mean the second label; None of more than two labels, none of which is the positive one."""
    return None if len(scored.labels) > 2 else int(np.count_nonzero(values > scored.border))


def _bins(reference: Deciles | None) -> int:
    return 0 if reference is None else len(reference.shares)


def _latencies(records: Sequence[Record], scored: Scored, now: float) -> Float:
    """Return the seconds since the timestamp of each record that has a score; not below 0, where clocks differ."""
    answered = {dict(one.headers)[SOURCE_HEADER] for one in scored.records}
    times_ms = [
        record.timestamp_ms for record in records if record.timestamp_ms is not None and source_of(record) in answered
    ]
    return np.maximum(0.0, now - np.array(times_ms, np.float64) / 1_000.0)
