"""What comes in where labels come later: two topics are read side by side, and what is joined waits in the pipeline.

As of `consumers.trainer.intake`: letters are sent before the rows that come after them, and reading stops while the
pipeline cannot learn. What was read and is not joined is not in a checkpoint: the next start reads it again.

Nothing is joined before the labels' topic was confirmed after the newest of its records was fetched. Records of a topic
that was made again under the name of the labels would let log time pass, and rows would be refused as without a label
whose labels were in the topic before. While the broker does not say which topic it is, both logs are paused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Final, NoReturn

import structlog

from consumers import constants
from consumers.branches.late_labels.join_watch import JoinCounts, JoinWaits
from consumers.branches.late_labels.joined_source import OF_FEATURES, Came, JoinedSource, Log
from consumers.branches.late_labels.settings import LabelsConfig
from consumers.host.runtime import Health
from consumers.metrics import Metrics
from consumers.settings import Settings
from consumers.streams.dead_letters import DeadLetters
from consumers.streams.identity import TopicIdentity
from consumers.streams.open_transactions import OpenTransactions
from consumers.streams.rejection_limits import RejectionLimits
from consumers.streams.rounded_watch import RoundedWatch
from consumers.trainer.intake import FLUSH_TIMEOUT_S, OneProcess, Pause
from consumers.trainer.topic_watch import Surveyor
from streamsvm.branches.late_labels.joining import Joining, with_joining
from streamsvm.checkpoint.snapshot import Snapshot
from streamsvm.crashpoints import crash_point
from streamsvm.delivery.pipeline import Pipeline
from streamsvm.delivery.reading import Ends
from streamsvm.errors import ConfigurationError, LogGap, TopicMissing, TransientError
from streamsvm.ingest.decoder import RejectedRecord
from streamsvm.joining.joiner import Joiner
from streamsvm.joining.rows import Letter
from streamsvm.kafka import Cluster, Outbox, Record, RecordFetcher
from streamsvm.points import Position, Positions
from streamsvm.sections import section

log = structlog.get_logger("streamsvm.trainer")

FETCH_TIMEOUT_S: Final = 10.0
CONFIRM_EVERY_S: Final = 0.05
"""Least time between two checks of the labels' topic, in seconds. Records that come meanwhile wait for the next check.
A longer time joins later, and may fill what waits (`MOST_WAITING`)."""
CONFIRM_SHARE: Final = 0.1
"""Most of the time that checks may take. One request takes 1 ms; where the broker reports no ids, two records of every
partition are read."""
CONFIRM_AGAIN_S: Final = 1.0
"""Time between two checks while the broker does not answer, in seconds."""


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
        self._health, self._monotonic = health, monotonic
        self._unconfirmed, self._why_unconfirmed, self._confirm_at = False, "", -math.inf
        self._open = OpenTransactions(metrics)
        self._rounded = RoundedWatch(settings.models().points, source.decoder, metrics)
        self._reader: RecordFetcher | None = None
        self._limits = {log: self._limits_of(log, settings) for log in source.topics}
        self._valid = dict.fromkeys(source.topics, False)
        if settings.input.max_dead_letter_share:
            for log in source.topics:
                letters[log].wait_for(partial(self._valid.__getitem__, log))
        self._active: frozenset[int] = frozenset()
        self._begun = False
        self._pause = Pause(monotonic)
        self._counts = JoinCounts(source, metrics, monotonic)
        self._waits = JoinWaits(
            source,
            outbox=outbox,
            metrics=metrics,
            health=health,
            idle_s=section(settings, LabelsConfig).idle_s,
            monotonic=monotonic,
            now=now,
        )

    def _limits_of(self, log: Log, settings: Settings) -> RejectionLimits:
        topic = settings.input.topic if log == "features" else settings.labels_topic
        letters = settings.input.dead_letters if log == "features" else section(settings, LabelsConfig).dead_letters
        option = "input.topic" if log == "features" else "labels.topic"
        return RejectionLimits(
            topic,
            settings.input.max_dead_letter_share,
            lambda: self._pipeline.points_accepted() >= constants.PROVEN_AFTER_POINTS,
            who="trainer",
            hint=f"Or {option} = {topic} may be the wrong topic. The rejected records are in {letters}. The limit is "
            "input.max_dead_letter_share; 0 switches it off.",
        )

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
        self._identity.confirm({partition: at.offset for partition, at in self.reading("labels").items()})

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
            self._counts.begin()

    def read(self, most: int, timeout_s: float) -> int:
        """Join what is at hand; where nothing is, read both logs. Return how many rows or records came.

        While the labels' topic cannot be confirmed, both logs are paused and their clients served.

        Raises
        ------
        LogGap
            If a topic is gone, or the labels' topic was recreated.
        ConfigurationError
            If so much is rejected that this is plainly the wrong stream, or more rows wait than are allowed.
        """
        if self._labels_confirmed():
            self.release()
            joined = self._join()
            if joined:
                return max(joined, most)
        elif self._why_unconfirmed:
            self._poll(1, timeout_s)
            return 0
        else:
            timeout_s = min(timeout_s, CONFIRM_EVERY_S)
        came = self._poll(most, timeout_s)
        if self._labels_confirmed():
            self._join()
            self._waits.look(self._active)
        return came

    def hold(self) -> None:
        """Read nothing this time; after a while pause both logs, and only serve their clients."""
        if self._pause.paused:
            self._poll(1, 0.0)
        elif self._pause.is_due():
            self._source.hold()
            self._pause.paused = True

    def release(self) -> None:
        """Read again from now on, unless the labels' topic cannot be confirmed."""
        if not self._why_unconfirmed and self._pause.end():
            self._source.release()

    def show_progress(self) -> None:
        """Commit group offsets of both topics, for observers."""
        self._source.commit()
        crash_point("offsets.committed")

    def close(self) -> None:
        """Let go of the broker."""
        self._source.close()
        if self._reader is not None:
            self._reader.close()

    def _labels_confirmed(self) -> bool:
        """Confirm the labels' topic if that is due; return whether all records of it that came are of one topic."""
        begun = self._monotonic()
        is_due = self._unconfirmed and begun >= self._confirm_at
        # Without a connection the question would block for the request timeout, and `broker` says why nothing comes.
        if is_due and self._source.connected():
            try:
                self.confirm()
            except TransientError as error:
                self._why_unconfirmed, pause_s = error.what, CONFIRM_AGAIN_S
                self._source.hold()
                self._pause.paused = True
            else:
                self._unconfirmed, self._why_unconfirmed = False, ""
                pause_s = max(CONFIRM_EVERY_S, (self._monotonic() - begun) / CONFIRM_SHARE)
            self._confirm_at = self._monotonic() + pause_s
            self._health.require("labels", self._why_unconfirmed)
        return not self._unconfirmed

    def _poll(self, most: int, timeout_s: float) -> int:
        try:
            came = self._source.read(most, timeout_s)
        except TopicMissing as missing:
            raise LogGap(missing.what, missing.remedy) from missing
        self._health.require("broker", "" if self._source.connected() else "no broker connection is up")
        self._open.show(self._source.in_open_transactions("features"))
        for one in came:
            self._unconfirmed |= one.log == "labels"
            self._note(one)
        if came:
            self._counts.count_ahead()
        return sum(len(one.records) for one in came)

    def _note(self, came: Came) -> None:
        records = came.records
        self._valid[came.log] |= len(came.rejected) < len(records)
        self._send(came.log, records, came.rejected)
        if came.log == "features":
            self._rounded.note(records)
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
            self._counts.count()
        return joined

    def _send_back(self, partition: int, letter: Letter) -> None:
        """Fetch a record that the join refused from its log, and let it become a dead letter."""
        if self._source.is_left_out(partition, letter):
            return
        log: Log = "features" if letter.reason in OF_FEATURES else "labels"
        if self._reader is None:
            self._reader = self._cluster.reader()
        topic = self._source.topics[log]
        record = self._reader.fetch_one(topic, partition, letter.offset, FETCH_TIMEOUT_S)
        if record is None:  # retention removed it: its coordinates are all that is left to send
            record = Record(topic, partition, letter.offset, None, None, (), None, None)
        self._send(log, [record], [self._source.rejected_by(letter, record)])

    def measure(self) -> None:
        """Set the gauges of the join."""
        self._counts.measure()
        self._waits.measure()
