"""What a trainer shows of its join: outcomes, timestamps ahead, and which log waits for the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Final

import structlog

from consumers.branches.late_labels.joined_source import JoinedSource, Log
from consumers.host.runtime import Health
from consumers.host.untrusted_text import moment
from consumers.metrics import Metrics
from streamsvm.ingest.label_records import WATERMARK_HEADER
from streamsvm.joining.log_time import AHEAD_MS, CONFIRM, ENOUGH, Ahead
from streamsvm.joining.rows import COUNTED
from streamsvm.kafka import Message, Outbox

log = structlog.get_logger("streamsvm.trainer")

WAITS_BEFORE_WARNING_S: Final = 30.0
"""How long one log may wait for the other before that is logged."""
WARN_AHEAD_EVERY_S: Final = 60.0
"""Seconds between two log lines about timestamps ahead; the metric counts them all."""


class JoinCounts:
    """Counts what the join came to.

    Parameters
    ----------
    source : JoinedSource
    metrics : Metrics
    monotonic : callable
        Seconds.
    """

    def __init__(self, source: JoinedSource, metrics: Metrics, monotonic: Callable[[], float]) -> None:
        self._source, self._metrics, self._monotonic = source, metrics, monotonic
        self._counted: Counter[str] = Counter()
        self._ahead: Counter[tuple[Log, int]] = Counter()
        self._warned_at: float | None = None

    def begin(self) -> None:
        """Leave out what earlier lives counted."""
        self._counted = self._counts()

    def count(self) -> None:
        """Count the outcomes since the last call."""
        counts = self._counts()
        for outcome, count in counts.items():
            if more := count - self._counted[outcome]:
                self._metrics.increase("streamsvm_labels", more, outcome=outcome)
        self._counted = counts

    def _counts(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for joiner in self._source.joiners.values():
            found.update(dict(zip(COUNTED, joiner.counts.tolist(), strict=True)))
        return found

    def count_ahead(self) -> None:
        """Count records whose timestamp is too far ahead to count, and name one of them now and then."""
        newest: tuple[str, int, Ahead] | None = None
        for partition, joiner in self._source.joiners.items():
            for log_, topic in self._source.topics.items():
                count, found = joiner.ahead(log_)
                if more := count - self._ahead[log_, partition]:
                    self._ahead[log_, partition] = count
                    self._metrics.increase("streamsvm_join_times_ahead", more, log=log_)
                    assert found is not None
                    newest = topic, partition, found
        if newest is None:
            return
        now, (topic, partition, record) = self._monotonic(), newest
        if self._warned_at is None or now - self._warned_at >= WARN_AHEAD_EVERY_S:
            self._warned_at = now
            log.warning(
                "time_ahead",
                topic=topic,
                partition=partition,
                offset=record.offset,
                record_time=moment(record.timestamp_ms),
                log_time=moment(record.time_ms),
                remedy="check the clock, and the unit, of whoever wrote the record: too few of the records after it "
                "reach its timestamp, so it is joined at the time of the record before it",
            )

    def measure(self) -> None:
        """Set the gauges of what the join keeps."""
        joiners = self._source.joiners.values()
        times = [joiner.time_ms - joiner.oldest_ms for joiner in joiners if joiner.oldest_ms >= 0]
        self._metrics.put("streamsvm_join_open_rows", sum(joiner.rows_open for joiner in joiners))
        self._metrics.put("streamsvm_join_held_rows", sum(joiner.rows_kept for joiner in joiners))
        self._metrics.put("streamsvm_join_bytes", sum(joiner.index_bytes + joiner.row_bytes for joiner in joiners))
        self._metrics.put("streamsvm_join_oldest_row_seconds", max(times, default=0) / 1_000)


class JoinWaits:
    """Watches which partitions of one log wait for the other, and writes watermarks to those of the labels.

    Parameters
    ----------
    source : JoinedSource
    outbox : Outbox
    metrics : Metrics
    health : Health
    idle_s : float or None
        After which an idle partition of the labels gets watermarks; None: never.
    monotonic : callable
        Seconds.
    now : callable
        The time of day, for readiness only.
    """

    def __init__(
        self,
        source: JoinedSource,
        *,
        outbox: Outbox,
        metrics: Metrics,
        health: Health,
        idle_s: float | None,
        monotonic: Callable[[], float],
        now: Callable[[], datetime],
    ) -> None:
        self._source, self._outbox, self._metrics, self._health = source, outbox, metrics, health
        self._idle_s, self._monotonic, self._now = idle_s, monotonic, now
        self._since: dict[int, float] = {}
        self._marked_at: dict[int, float] = {}
        self._warned: frozenset[int] = frozenset()

    def look(self, active: Collection[int]) -> None:
        """Note since when a partition of one log has waited for the other; only `active` ones are joined."""
        now, waits = self._monotonic(), list[tuple[int, str, float]]()
        for partition, joiner in self._source.joiners.items():
            if not joiner.waits_for or partition not in active:
                self._since.pop(partition, None)
                self._marked_at.pop(partition, None)
                continue
            since = self._since.setdefault(partition, now)
            if joiner.waits_for == "labels" and self._idle_s is not None:
                self._mark(partition, max(since, self._marked_at.get(partition, since)), now, self._idle_s)
            if now - since > WAITS_BEFORE_WARNING_S:
                waits.append((partition, joiner.waits_for, now - since))
        self._warn(waits)
        self._health.require("join", self._waits_for_the_future([partition for partition, _, _ in waits]))

    def measure(self) -> None:
        """Set the gauge of the longest wait."""
        now = self._monotonic()
        longest = max((now - since for since in self._since.values()), default=0.0)
        self._metrics.put("streamsvm_join_waiting_seconds", longest)

    def _waits_for_the_future(self, partitions: Sequence[int]) -> str:
        """Say which of these partitions waits for a time that no log can have reached; empty if none does."""
        now_ms = round(self._now().timestamp() * 1_000)
        for partition in partitions:
            joiner = self._source.joiners[partition]
            if joiner.waits_at_ms > now_ms + AHEAD_MS:
                ahead, behind = self._source.topics["features"], self._source.topics["labels"]
                if joiner.waits_for == "features":
                    ahead, behind = behind, ahead
                return (
                    f"partition {partition} of {ahead} has reached {moment(joiner.waits_at_ms)}, while it is "
                    f"{moment(now_ms)} here: nothing of it is joined before {behind} has reached that time, too"
                )
        return ""

    def _mark(self, partition: int, since: float, now: float, idle_s: float) -> None:
        """Write watermarks to an idle partition of the labels: from then on they decide what is in time."""
        if now - since < idle_s:
            return
        self._marked_at[partition] = now
        headers = ((WATERMARK_HEADER, b""),)
        # One alone would have to wait for others that confirm it.
        for _ in range(ENOUGH):
            self._outbox.send(Message(self._source.topics["labels"], b"", None, headers, partition))
        self._metrics.increase("streamsvm_join_watermarks", ENOUGH)

    def _warn(self, waits: Sequence[tuple[int, str, float]]) -> None:
        """Log once which partitions wait long for a record of the other log, and again where others do."""
        partitions = frozenset(partition for partition, _, _ in waits)
        if partitions - self._warned:
            partition, other, seconds = waits[0]
            log.warning(
                "labels_awaited",
                partitions=sorted(partitions),
                what=f"partition {partition} has waited {seconds:.0f} s for a record of the {other} topic",
                remedy="nothing is joined past the newest record of either topic, and a record more than a minute "
                f"after the one before it needs {CONFIRM} more behind it: write records, or {ENOUGH} watermarks "
                "(records with the header streamsvm-watermark), to these partitions of the idle one",
            )
        self._warned = partitions
