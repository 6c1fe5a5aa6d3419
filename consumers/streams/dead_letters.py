"""Rejected records on their way to a dead-letter topic: encoded, counted, and said in the log now and then.

At least once: a start reads again from its checkpoint and sends those letters again, each with the id that it had.
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
"""A stream of bad records is one log line in so many seconds, with how many rows it stands for."""


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
        self.newest: RejectedRecord | None = None
        """What was rejected last, for people; None before that."""
        metrics.begin("streamsvm_dead_letters", "reason", REASONS)

    def fit(self, topic: TopicInfo, client_bytes: int) -> None:
        """Let no letter be larger than what the dead-letter topic and the client take.

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
        return messages

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
