"""What comes in: records are read and decoded, bad rows become dead letters, good ones wait in the pipeline.

`Intake` is the trunk's `consumers.trainer.source.Source`; a branch may put another one in its place. The main loop
calls `read` while the pipeline has room, and `hold` while it has none. Decoding is the business of
`streamsvm.ingest.decoder`, and learning that of the pipeline: here are the order and the waiting between them.

The order. The dead letters of a record are sent before its rows are offered to the pipeline, and a checkpoint waits
until all letters are acknowledged. So no checkpoint passes a rejected row whose letter could be lost.

Three reasons to wait:

- The pipeline has rows to learn. Nothing is read; after a second the input is paused, so that its client keeps its
  connections alive without fetching more.
- A record needs a schema, and the registry does not answer. Nothing is decided about the record. It waits, undecoded,
  and so do all records after it.
- Records were rejected and no valid one was ever seen. Most likely the configuration is wrong, so their letters wait,
  and no position is saved (`NothingValid`). Past some limits the process ends (`consumers.streams.rejection_limits`).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Final

from consumers import constants
from consumers.host.runtime import Health
from consumers.metrics import Metrics
from consumers.settings import Settings
from consumers.streams.absent_fields import AbsentWatch
from consumers.streams.dead_letters import DeadLetters
from consumers.streams.open_transactions import OpenTransactions
from consumers.streams.registry_outage import SchemaWait
from consumers.streams.rejection_limits import RejectionLimits
from consumers.streams.rounded_watch import RoundedWatch
from consumers.streams.unread_watch import UnreadWatch
from consumers.trainer.source import InputOnly
from streamsvm.crashpoints import crash_point
from streamsvm.delivery.reading import Ends, Reading
from streamsvm.errors import ConfigurationError, LogGap, TopicMissing, TransientError
from streamsvm.ingest.decoder import Decoded, PointDecoder, RejectedRecord
from streamsvm.kafka import Batch, Input, Outbox, Record
from streamsvm.model.left_out import Places, masked
from streamsvm.points import Positions

FLUSH_TIMEOUT_S: Final = 30.0
HOLD_BEFORE_PAUSE_S: Final = 1.0
BACKLOG_BATCHES: Final = 4
"""How many batches are read at once while the input has more to read. With many partitions a batch has few records of
each, and some work is done once per batch and partition: it costs less per record in a large batch. A still larger one
would make the turns of the loop too long."""


class NothingValid(Exception):
    """Records were rejected, and none was ever valid: no position may be saved."""


class Pause:
    """Decides when an input that is not read is paused: not at once, because pausing discards what was fetched.

    Parameters
    ----------
    monotonic : callable
        Seconds.

    Attributes
    ----------
    paused : bool
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self.paused = False
        self._monotonic = monotonic
        self._since: float | None = None

    def is_due(self) -> bool:
        """Note that the input is not read now; return whether that has lasted for `HOLD_BEFORE_PAUSE_S`."""
        now = self._monotonic()
        if self._since is None:
            self._since = now
        return now - self._since > HOLD_BEFORE_PAUSE_S

    def end(self) -> bool:
        """Note that the input is read again; return whether it was paused."""
        self._since, paused, self.paused = None, self.paused, False
        return paused


class OneProcess(InputOnly):
    """What all intakes that decode in the trainer's own process have in common.

    Parameters
    ----------
    outbox : Outbox
        Of dead letters.
    metrics : Metrics
    letters : iterable of DeadLetters
        Of each topic that is read.
    """

    def __init__(self, outbox: Outbox, metrics: Metrics, letters: Iterable[DeadLetters]) -> None:
        self._outbox, self._metrics, self._each_letters = outbox, metrics, tuple(letters)

    @property
    def nothing_valid(self) -> bool:
        """Whether records of a topic were rejected and none was ever valid: no position may be kept then."""
        return any(letters.waits for letters in self._each_letters)

    def poll_letters(self) -> None:
        """Send letters that waited for a valid row, and serve their client; raises the first failed delivery."""
        for letters in self._each_letters:
            for letter in letters.due():
                self._outbox.send(letter)
        self._outbox.poll()

    def flush(self, timeout_s: float) -> None:
        """Wait until every dead letter is acknowledged, those that waited, too; raises if that takes too long."""
        for letters in self._each_letters:
            for letter in letters.released():
                self._outbox.send(letter)
        self._outbox.flush(timeout_s)

    def _count_records(self, records: Sequence[Record]) -> None:
        counts = records.counts() if isinstance(records, Batch) else Counter(r.partition for r in records)
        for partition, count in counts.items():
            self._metrics.increase("streamsvm_input_records", count, partition=str(partition))


class Intake(OneProcess):
    """Reads the input of one life of a trainer.

    Parameters
    ----------
    settings : Settings
    pipeline : Reading
        Where rows go.
    reader : Input
    outbox : Outbox
        Of dead letters.
    dead_letters : DeadLetters
    decoder : PointDecoder
    metrics : Metrics
    health : Health
    monotonic, clock : callable
        Seconds; the time of day.
    left_out : mapping of partition to positions
        Rows that count as rejected ones, without dead letters.
    """

    def __init__(
        self,
        settings: Settings,
        pipeline: Reading,
        *,
        reader: Input,
        outbox: Outbox,
        dead_letters: DeadLetters,
        decoder: PointDecoder,
        metrics: Metrics,
        health: Health,
        monotonic: Callable[[], float],
        clock: Callable[[], datetime],
        left_out: Places = MappingProxyType({}),
    ) -> None:
        super().__init__(outbox, metrics, (dead_letters,))
        self._pipeline = pipeline
        self._reader = reader
        self._dead_letters = dead_letters
        self._decoder = decoder
        self._health = health
        self._left_out = left_out
        self._limits = RejectionLimits(
            settings.input.topic,
            settings.input.max_dead_letter_share,
            lambda: pipeline.points_accepted() >= constants.PROVEN_AFTER_POINTS,
            who="trainer",
            hint=f"Or input.topic may be the wrong topic. The rejected records are in {settings.input.dead_letters}. "
            "The limit is input.max_dead_letter_share; 0 switches it off.",
        )
        if settings.input.max_dead_letter_share:
            dead_letters.wait_for(lambda: pipeline.points_accepted() > 0)
        self._topic = settings.input.topic
        self._unread = UnreadWatch(settings.input.topic, metrics)
        self._rounded = RoundedWatch(settings.models().points, decoder, metrics)
        self._absent = AbsentWatch(settings.input.topic, metrics, clock)
        self._schema_wait = SchemaWait(metrics, health, monotonic)
        self._open = OpenTransactions(metrics)
        self._undecoded: deque[Sequence[Record]] = deque()
        self._behind = False
        self._pause = Pause(monotonic)

    @property
    def waits_for_schema(self) -> bool:
        """Whether records were read that cannot be decoded yet."""
        return bool(self._undecoded)

    @property
    def newest_rejected(self) -> RejectedRecord | None:
        """The record that was rejected last; None before the first."""
        return self._dead_letters.newest

    @property
    def ends(self) -> Ends:
        """Where each partition's end was last met."""
        return {partition: self._reader.seen_end(partition) for partition in self._pipeline.learner.positions}

    @property
    def high_watermarks(self) -> Mapping[int, int | None]:
        """The offset after each partition's last record that can be read, as far as known."""
        return {partition: self._reader.stable_end(partition) for partition in self._pipeline.learner.positions}

    @property
    def ahead(self) -> Mapping[int, int]:
        """The offset of each partition before which nothing is left to learn."""
        return self._pipeline.ahead

    def surveyed(self) -> tuple[Positions, Positions]:
        """See `Source.surveyed`."""
        return self._pipeline.learner.positions, self._pipeline.reading(self.ends)

    def assign(self, offsets: Mapping[int, int]) -> None:
        """Read on from these offsets, and nothing else; what was read and not decoded is dropped."""
        # The client begins a new assignment unpaused, whatever the old one was.
        self.release()
        self._behind = False
        self._undecoded.clear()
        self._reader.assign(offsets)

    def read(self, most: int, timeout_s: float) -> int:
        """Take records from the client, and decode them; return how many came.

        After a read that was full it takes what the client has fetched meanwhile, up to `BACKLOG_BATCHES` times `most`.

        Raises
        ------
        LogGap
            If the topic is gone.
        ConfigurationError
            If so much is rejected that this is plainly the wrong stream.
        """
        try:
            records = self._reader.poll(BACKLOG_BATCHES * most, 0.0) if self._behind else ()
            records = records or self._reader.poll(most, timeout_s)
        except TopicMissing as missing:
            # A deleted input is a gap: `input.on_gap` says whether to end or to begin anew.
            raise LogGap(missing.what, missing.remedy) from missing
        self._behind = len(records) >= most
        self._health.require("broker", "" if self._reader.connected() else "no broker connection is up")
        self._open.show(self._reader.in_open_transactions())
        if records:
            self._note(records)
            # Kept as they came: while the registry does not answer they wait here, and are not read twice.
            self._undecoded.append(records)
        self._decode()
        return len(records)

    def hold(self) -> None:
        """Do not read in this turn; after a while pause the input, and only serve its client."""
        if self._pause.paused:
            # Polled although paused: only in a poll does the client report a lost broker, or a deleted topic.
            self.read(1, 0.0)
        elif self._pause.is_due():
            self._reader.pause()
            self._pause.paused = True
        self._decode()

    def release(self) -> None:
        """Read again from now on."""
        if self._pause.end():
            self._reader.resume()

    def show_progress(self) -> None:
        """Commit group offsets, for observers."""
        self._reader.commit({partition: at.offset for partition, at in self._pipeline.learner.positions.items()})
        crash_point("offsets.committed")

    def _note(self, records: Sequence[Record]) -> None:
        ends = records.ends() if isinstance(records, Batch) else {r.partition: r.offset + 1 for r in records}
        self._pipeline.note_read(ends)
        self._count_records(records)

    def _decode(self) -> None:
        while self._undecoded and self._schema_wait.over:
            try:
                decoded = self._decoder.decode(self._undecoded[0])
                self._rounded.note(self._undecoded[0])
            except TransientError as error:
                self._schema_wait.failed(error)
                return
            self._schema_wait.end()
            self._take_in(self._undecoded.popleft(), decoded)

    def _take_in(self, records: Sequence[Record], decoded: Decoded) -> None:
        # Letters first. A checkpoint flushes all letters that were sent, and saves the position of the rows that were
        # offered: in the other order it could pass a row whose letter was not sent yet.
        for letter in self._dead_letters.letters(records, decoded.rejected):
            self._outbox.send(letter)
        if decoded.rejected:
            crash_point("deadletters.sent")
        self._unread.note(decoded.unread)
        self._absent.note(decoded.absences)
        for reason, count in decoded.passed_over.items():
            self._metrics.increase("streamsvm_passed_over_rows", count, reason=reason)
        for rows in decoded.rows:
            self._pipeline.offer(masked(rows, self._left_out) if self._left_out else rows)
        self._count_rejected(records, decoded.rejected)

    def _count_rejected(self, records: Sequence[Record], rejected: Sequence[RejectedRecord]) -> None:
        """Raise if this is plainly the wrong stream; after enough valid points only make the process not ready."""
        try:
            self._limits.count(records, rejected)
        except ConfigurationError:
            # The process ends now. People will look for the reason in these letters, so they are delivered first.
            self.poll_letters()
            self._outbox.flush(FLUSH_TIMEOUT_S)
            raise
        self._health.require("input", self._limits.trouble or self._dead_letters.why_waiting(self._topic))
        self._metrics.put("streamsvm_input_mostly_rejected", bool(self._limits.trouble))
