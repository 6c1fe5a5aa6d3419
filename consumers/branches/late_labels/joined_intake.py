"""What comes in where labels come later: two topics are read side by side, and what is joined waits in the pipeline.

As of `consumers.trainer.intake`: letters are sent before the rows that come after them, and reading stops while the
pipeline cannot learn. What was read and is not joined is not in a checkpoint: the next start reads it again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Final, NoReturn

import structlog

from consumers.branches.late_labels.joined_source import OF_FEATURES, Came, JoinedSource, Log
from consumers.branches.late_labels.settings import LabelsConfig
from consumers.host.runtime import Health
from consumers.host.untrusted_text import moment
from consumers.metrics import Metrics
from consumers.settings import Settings
from consumers.streams.dead_letters import DeadLetters
from consumers.streams.identity import TopicIdentity
from consumers.streams.open_transactions import OpenTransactions
from consumers.streams.rejection_limits import RejectionLimits, limits_apply
from consumers.trainer.intake import FLUSH_TIMEOUT_S, HOLD_BEFORE_PAUSE_S, OneProcess
from consumers.trainer.topic_watch import Surveyor
from streamsvm.branches.late_labels.joining import Joining, with_joining
from streamsvm.checkpoint.snapshot import Snapshot
from streamsvm.crashpoints import crash_point
from streamsvm.delivery.pipeline import Pipeline
from streamsvm.delivery.reading import Ends
from streamsvm.errors import ConfigurationError, LogGap, TopicMissing
from streamsvm.ingest.decoder import RejectedRecord
from streamsvm.ingest.label_records import WATERMARK_HEADER
from streamsvm.joining.joiner import Joiner
from streamsvm.joining.log_time import AHEAD_MS, CONFIRM, ENOUGH, Ahead
from streamsvm.joining.rows import COUNTED, Letter
from streamsvm.kafka import Cluster, Message, Outbox, Reader, Record
from streamsvm.points import Position, Positions
from streamsvm.sections import section

log = structlog.get_logger("streamsvm.trainer")

FETCH_TIMEOUT_S: Final = 10.0
WAITS_BEFORE_TOLD_S: Final = 30.0
"""How long one log may wait for the other before people are told."""
AHEAD_TOLD_S: Final = 60.0
"""Seconds between two log lines about timestamps ahead; the metric counts them all."""


class JoinedIntake(OneProcess):
    """Reads and joins the two topics of one life of a trainer; a `consumers.trainer.source.Source`.

    Parameters
    ----------
    settings : Settings
        With `labels.topic`.
    pipeline : Pipeline
        Where joined rows go.
    source : JoinedSource
    cluster : Cluster
    outbox : Outbox
        Of dead letters.
    letters : mapping of Log to DeadLetters
    joining : Joining
        What the join is at the start.
    identity : TopicIdentity
    surveyor : Surveyor
        Both of the labels' topic.
    metrics : Metrics
    health : Health
    monotonic : callable
        Seconds.
    now : callable
        The time of day, for readiness only: what is joined does not depend on it.
    """

    waits_for_schema = False

    def __init__(
        self,
        settings: Settings,
        pipeline: Pipeline,
        *,
        source: JoinedSource,
        cluster: Cluster,
        outbox: Outbox,
        letters: Mapping[Log, DeadLetters],
        joining: Joining,
        identity: TopicIdentity,
        surveyor: Surveyor,
        metrics: Metrics,
        health: Health,
        monotonic: Callable[[], float],
        now: Callable[[], datetime],
    ) -> None:
        super().__init__(outbox, metrics, letters.values())
        self._pipeline, self._source, self._letters = pipeline, source, letters
        self._cluster, self._joining = cluster, joining
        self._identity, self._surveyor = identity, surveyor
        self._health, self._monotonic, self._now = health, monotonic, now
        self._open = OpenTransactions(metrics)
        self._reader: Reader | None = None
        self._limits = {log: self._limits_of(log, settings) for log in source.topics}
        self._valid = dict.fromkeys(source.topics, False)
        if limits_apply(settings.input, settings.input.proven_after_points):
            for log in source.topics:
                letters[log].wait_for(partial(self._was_valid, log))
        self._active: frozenset[int] = frozenset()
        self._begun = False
        self._held_since: float | None = None
        self._paused = False
        self._counted: Counter[str] = Counter()
        self._waiting_since: dict[int, float] = {}
        self._told: frozenset[int] = frozenset()
        self._ahead: Counter[tuple[Log, int]] = Counter()
        self._ahead_told_at: float | None = None
        self._idle_s = section(settings, LabelsConfig).idle_s
        self._marked_at: dict[int, float] = {}

    def _limits_of(self, log: Log, settings: Settings) -> RejectionLimits:
        topic = settings.input.topic if log == "features" else settings.labels_topic
        letters = settings.input.dead_letters if log == "features" else section(settings, LabelsConfig).dead_letters
        option = "input.topic" if log == "features" else "labels.topic"
        return RejectionLimits(
            settings.input,
            lambda: self._pipeline.points_accepted() >= settings.input.proven_after_points,
            section="input",
            who="trainer",
            hint=f"Or {option} = {topic} may be the wrong topic. The rejected records are in {letters}.",
        )

    def _was_valid(self, log: Log) -> bool:
        return self._valid[log]

    # ----------------------------------------------------------------- standing

    @property
    def newest_rejected(self) -> RejectedRecord | None:
        """What was rejected last of the features; of the labels where none of those was."""
        return self._letters["features"].newest or self._letters["labels"].newest

    @property
    def joiners(self) -> Mapping[int, Joiner]:
        """The join of each partition."""
        return self._source.joiners

    @property
    def ends(self) -> Ends:
        """The end of each partition of the features where everything of both logs is joined that can be; else None."""
        return {partition: self._source.end(partition) for partition in self._source.joiners}

    @property
    def high_watermarks(self) -> Mapping[int, int | None]:
        """The offset after the last record of each partition of the features, as far as known."""
        return self._source.high_watermarks("features")

    @property
    def ahead(self) -> Mapping[int, int]:
        """The offset before which every record of the features is merged."""
        return {partition: joiner.features_next.offset for partition, joiner in self._source.joiners.items()}

    def reading(self, log: Log) -> dict[int, Position]:
        """Return how far each partition of a log was read."""
        return self._source.read_to(log)

    def merged(self, log: Log) -> dict[int, Position]:
        """Return the next row of each partition of a log that is not merged."""
        joiners = self._source.joiners.items()
        return {p: joiner.features_next if log == "features" else joiner.labels_next for p, joiner in joiners}

    def saved(self, snapshot: Snapshot) -> Snapshot:
        """Return a snapshot with the join as it is now."""
        now = replace(self._joining, partitions=self._source.state(), waiting=self._pipeline.waiting_rows())
        return with_joining(snapshot, now)

    # -------------------------------------------------------------- two topics

    def surveyed(self) -> tuple[Positions, Positions]:
        """See `Source.surveyed`."""
        return self.merged("features"), self.reading("features")

    def admit(self, added: Mapping[int, int]) -> None:  # noqa: ARG002
        """Refuse new partitions: keys have moved.

        Raises
        ------
        LogGap
        """
        self._refuse_added("features")

    def look(self) -> None:
        """Look at the labels' topic.

        Raises
        ------
        LogGap
        """
        if self._surveyor.turn(lambda: (self.merged("labels"), self.reading("labels"))):
            self._refuse_added("labels")

    def confirm(self) -> None:
        """See `Source.confirm`."""
        self._identity.confirm({partition: at.offset for partition, at in self.merged("labels").items()})

    def _refuse_added(self, log: Log) -> NoReturn:
        raise LogGap(
            f"partitions were added to the topic of the {log}: keys moved, and rows miss their labels",
            "Add as many partitions to the other topic, and begin anew with the --reset that the next start prints, or "
            "set input.on_gap = reset.",
        )

    # ------------------------------------------------------------------ reading

    def assign(self, offsets: Mapping[int, int]) -> None:
        """Join these partitions, and no others; both logs are read from where their join stands."""
        self.release()
        self._active = frozenset(offsets)
        if not self._begun:
            self._begun = True
            begun: dict[Log, Mapping[int, Position]] = {"features": self._pipeline.base, "labels": self._joining.base}
            self._source.begin(begun["features"], begun["labels"], self._joining.partitions)
            # No checkpoint passes records of which none was valid.
            for log, base in begun.items():
                self._valid[log] = any(at > base.get(p, at) for p, at in self._source.read_to(log).items())
            # What earlier lives counted is no news of this one.
            self._counted = self._counts()

    def read(self, most: int, timeout_s: float) -> int:
        """Join what is at hand; where nothing is, read both logs. Return how many rows or records came.

        Raises
        ------
        LogGap
            If a topic is gone.
        ConfigurationError
            If so much is rejected that this is plainly the wrong stream, or more rows wait than are allowed.
        """
        joined = self._join()
        if joined:
            return max(joined, most)
        came = self._poll(most, timeout_s)
        self._join()
        self._tell_waiting()
        return came

    def hold(self) -> None:
        """Read nothing this time; after a while pause both logs, and only serve their clients."""
        now = self._monotonic()
        if self._held_since is None:
            self._held_since = now
        if self._paused:
            self._poll(1, 0.0)
        elif now - self._held_since > HOLD_BEFORE_PAUSE_S:
            self._source.hold()
            self._paused = True

    def release(self) -> None:
        """Read again from now on."""
        self._held_since = None
        if self._paused:
            self._source.release()
            self._paused = False

    def show_progress(self) -> None:
        """Commit group offsets of both topics, for observers."""
        self._source.commit()
        crash_point("offsets.committed")

    def close(self) -> None:
        """Let go of the broker."""
        self._source.close()
        if self._reader is not None:
            self._reader.close()

    def _poll(self, most: int, timeout_s: float) -> int:
        try:
            came = self._source.read(most, timeout_s)
        except TopicMissing as missing:
            raise LogGap(missing.what, missing.remedy) from missing
        self._health.require("broker", "" if self._source.connected() else "no broker connection is up")
        self._open.show(self._source.in_open_transactions("features"))
        for one in came:
            self._note(one)
        if came:
            self._count_ahead()
        return sum(len(one.records) for one in came)

    def _note(self, came: Came) -> None:
        records = came.records
        self._valid[came.log] |= len(came.rejected) < len(records)
        self._send(came.log, records, came.rejected)
        if came.log == "features":
            self._count_records(records)
        else:
            self._metrics.increase("streamsvm_label_records", len(records))
        limits = self._limits[came.log]
        try:
            limits.count(records, came.rejected)
        except ConfigurationError:
            self.poll_letters()
            self._outbox.flush(FLUSH_TIMEOUT_S)
            raise
        waiting = [letters.why_waiting(self._source.topics[log]) for log, letters in self._letters.items()]
        trouble = " ".join(filter(None, [*(one.trouble for one in self._limits.values()), *waiting]))
        self._health.require("input", trouble)
        self._metrics.put("streamsvm_input_mostly_rejected", bool(trouble))

    def _send(self, log: Log, records: Sequence[Record], rejected: Sequence[RejectedRecord]) -> None:
        for letter in self._letters[log].letters(records, rejected):
            self._outbox.send(letter)
        if rejected:
            crash_point("deadletters.sent")

    def _join(self) -> int:
        """Join a portion of each partition; return how many rows and letters that gave."""
        joined = 0
        for partition, rows, letters in self._source.join(self._active):
            # Letters first: a checkpoint flushes them, so none passes a row whose letter is not stored.
            for letter in letters:
                self._send_back(partition, letter)
            if rows is not None:
                self._pipeline.offer(rows)
            joined += len(letters) + (0 if rows is None else len(rows))
        if joined:
            self._count()
        return joined

    def _send_back(self, partition: int, letter: Letter) -> None:
        """Fetch a record that the join refused from its log, and let it become a dead letter."""
        log: Log = "features" if letter.reason in OF_FEATURES else "labels"
        if self._reader is None:
            self._reader = self._cluster.reader()
        topic = self._source.topics[log]
        record = self._reader.fetch_one(topic, partition, letter.offset, FETCH_TIMEOUT_S)
        if record is None:  # retention removed it: its coordinates are all that is left to send
            record = Record(topic, partition, letter.offset, None, None, (), None, None)
        self._send(log, [record], [self._source.rejected_by(letter, record)])

    # ------------------------------------------------------------------ figures

    def _counts(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for joiner in self._source.joiners.values():
            found.update(dict(zip(COUNTED, joiner.counts.tolist(), strict=True)))
        return found

    def _count(self) -> None:
        counts = self._counts()
        for outcome, count in counts.items():
            if more := count - self._counted[outcome]:
                self._metrics.increase("streamsvm_labels", more, outcome=outcome)
        self._counted = counts

    def _count_ahead(self) -> None:
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
        if self._ahead_told_at is None or now - self._ahead_told_at >= AHEAD_TOLD_S:
            self._ahead_told_at = now
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

    def _tell_waiting(self) -> None:
        """Note since when a partition of one log has waited for the other."""
        now, waits = self._monotonic(), list[tuple[int, str, float]]()
        for partition, joiner in self._source.joiners.items():
            if not joiner.waits_for or partition not in self._active:
                self._waiting_since.pop(partition, None)
                self._marked_at.pop(partition, None)
                continue
            since = self._waiting_since.setdefault(partition, now)
            if joiner.waits_for == "labels" and self._idle_s is not None:
                self._mark(partition, max(since, self._marked_at.get(partition, since)), now, self._idle_s)
            if now - since > WAITS_BEFORE_TOLD_S:
                waits.append((partition, joiner.waits_for, now - since))
        self._say(waits)
        self._health.require("join", self._waits_for_the_future([partition for partition, _, _ in waits]))

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

    def _say(self, waits: Sequence[tuple[int, str, float]]) -> None:
        """Tell once which partitions wait long for a record of the other log, and again where others do."""
        partitions = frozenset(partition for partition, _, _ in waits)
        if partitions - self._told:
            partition, other, seconds = waits[0]
            log.warning(
                "labels_awaited",
                partitions=sorted(partitions),
                what=f"partition {partition} has waited {seconds:.0f} s for a record of the {other} topic",
                remedy="nothing is joined past the newest record of either topic, and a record more than a minute "
                f"after the one before it needs {CONFIRM} more behind it: write records, or {ENOUGH} watermarks "
                "(records with the header streamsvm-watermark), to these partitions of the idle one",
            )
        self._told = partitions

    def measure(self) -> None:
        """Set the gauges of the join."""
        joiners = self._source.joiners.values()
        times = [joiner.time_ms - joiner.oldest_ms for joiner in joiners if joiner.oldest_ms >= 0]
        self._metrics.put("streamsvm_join_open_rows", sum(joiner.rows_open for joiner in joiners))
        self._metrics.put("streamsvm_join_held_rows", sum(joiner.rows_held for joiner in joiners))
        self._metrics.put("streamsvm_join_bytes", sum(joiner.index_bytes + joiner.row_bytes for joiner in joiners))
        self._metrics.put("streamsvm_join_oldest_row_seconds", max(times, default=0) / 1_000)
        now = self._monotonic()
        longest = max((now - since for since in self._waiting_since.values()), default=0.0)
        self._metrics.put("streamsvm_join_waiting_seconds", longest)
