"""Rejected records on their way to a dead-letter topic: encoded, counted, and logged from time to time.

At least once: a start reads again from its checkpoint and sends those letters again, each with the id that it had.

If no row was ever valid, the configuration is probably wrong, and letters would blame the records for it. So in such a
start a handful of letters is sent, and the rest wait for the first valid row. No checkpoint is written before it: the
next start, with a better configuration, reads those records again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from consumers.metrics import Metrics
from streamsvm.errors import ConfigurationError
from streamsvm.ingest import dead_letter as deadletter
from streamsvm.ingest.decoder import REASONS, RejectedRecord
from streamsvm.kafka import Message, Record, TopicInfo

log = structlog.get_logger("streamsvm.deadletters")

SAID_EVERY_S: Final = 10.0
"""A stream of bad records becomes one log line in so many seconds, with the number of rows since the last one."""


HANDFUL: Final = 5
"""Letters that are sent while nothing was valid yet: enough to see what is wrong."""
MOST_WAITING_BYTES: Final = 64_000_000
"""Most bytes of letters that wait for the first valid row. Beyond it all are sent: they must not fill the memory."""


class DeadLetters:
    """Makes the dead letters of one input topic.

    Parameters
    ----------
    model, topic, dead_letter_topic : str
    metrics : Metrics
        It has `streamsvm_dead_letters`.
    clock : callable
        Monotonic seconds.
    """

    def __init__(
        self,
        model: str,
        topic: str,
        dead_letter_topic: str,
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._model = model
        self._topic = topic
        self._dead_letter_topic = dead_letter_topic
        self._metrics = metrics
        self._clock = clock
        self._unsaid, self._said_at = 0, -SAID_EVERY_S
        self._most_bytes = deadletter.LARGEST_BYTES
        self._valid: Callable[[], bool] | None = None
        self._waiting: list[Message] = []
        self._waiting_bytes, self._let_through = 0, 0
        self.newest: RejectedRecord | None = None
        """The record that was rejected last, for people; None before the first."""
        metrics.begin("streamsvm_dead_letters", "reason", REASONS)

    def fit(self, topic: TopicInfo, client_bytes: int) -> None:
        """Limit the size of letters to what the dead-letter topic and the client accept.

        Raises
        ------
        ConfigurationError
            If that is less than any letter may need.
        """
        limit = min(client_bytes, int(topic.config.get("max.message.bytes", deadletter.LARGEST_BYTES)))
        if limit < deadletter.LEAST_BYTES:
            raise ConfigurationError(
                f"the dead-letter topic {self._dead_letter_topic}, or the client, accepts only {limit} bytes per "
                "message",
                f"Raise max.message.bytes or message.max.bytes to {deadletter.LEAST_BYTES} or more.",
            )
        self._most_bytes = min(limit, deadletter.LARGEST_BYTES)

    def wait_for(self, valid: Callable[[], bool]) -> None:
        """Keep all but a handful of letters until a row was valid; `valid` is called until then."""
        self._valid = valid

    @property
    def waits(self) -> bool:
        """Whether something was rejected, and nothing was valid yet."""
        return self._let_through > 0 and self._valid is not None and not self._valid()

    def why_waiting(self, topic: str) -> str:
        """Return a sentence if rows were rejected and none was valid yet; empty otherwise."""
        if not self.waits:
            return ""
        more = f"; {len(self._waiting):,} more letters wait for the first valid row" if self._waiting else ""
        return f"no row of {topic} was valid yet: see {self._dead_letter_topic}{more}"

    def due(self) -> list[Message]:
        """Return the letters that waited, once a row was valid."""
        if self._valid is None or not self._valid():
            return []
        self._valid = None
        return self.released()

    def released(self) -> list[Message]:
        """Return the letters that waited, even if no row was valid: their positions are about to be saved."""
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        return waiting

    def letters(self, records: Sequence[Record], rejected: Sequence[RejectedRecord]) -> list[Message]:
        """Return the messages to send for the rejected ones of a batch of records, and count their rows."""
        if not rejected:
            return []
        sources = {(record.partition, record.offset): record for record in records}
        messages, self.newest = [], rejected[-1]
        for bad in rejected:
            source = sources[bad.record.partition, bad.record.offset]
            letter = deadletter.encode(
                self._topic, bad, source.key, source.headers, self._most_bytes, model=self._model
            )
            messages.append(Message(self._dead_letter_topic, letter.value, letter.key, letter.headers))
        reasons = Counter(rejection.reason for bad in rejected for rejection in bad.rejections)
        for reason, count in reasons.items():
            self._metrics.increase("streamsvm_dead_letters", count, reason=reason)
        self._unsaid += reasons.total()
        if self._clock() - self._said_at >= SAID_EVERY_S:
            self._say(rejected[0])
        return messages if self._valid is None else self._some_of(messages)

    def _some_of(self, messages: list[Message]) -> list[Message]:
        """Return as many as are still to be sent of a handful; the others wait."""
        room = HANDFUL - self._let_through
        now, later = messages[:room], messages[room:]
        self._let_through += len(now)
        self._waiting += later
        self._waiting_bytes += sum(len(letter.value or b"") for letter in later)
        if self._waiting_bytes <= MOST_WAITING_BYTES:
            return now
        self._valid = None
        return [*now, *self.released()]

    def _say(self, example: RejectedRecord) -> None:
        record, first = example.record, example.rejections[0]
        log.warning(
            "rows_rejected",
            rows=self._unsaid,
            dead_letter_topic=self._dead_letter_topic,
            example=f"{self._topic}[{record.partition}]@{record.offset} row {first.row}",
            reason=first.reason,
            message=first.what,
        )
        self._unsaid, self._said_at = 0, self._clock()
