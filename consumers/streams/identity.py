"""Whether a topic is still the one that was read: checked with the records, not by the clock.

A topic that is deleted and created again keeps its name, and its offsets begin at 0 again. A reader in the middle of
the old log reads on in the new one, if that is long enough, without any error. So results of records count only once
the topic's id was read *after* the newest of these records was fetched, and is the id that was known before: then all
of them are of one log. The check costs one request: 0.2 ms of processor time, 1 ms of waiting.

The trainer calls `TopicIdentity.confirm` right before it publishes a version, and before it joins by records of late
labels; the scorer right before it commits a batch.

A broker may answer a little later than it serves records: the id comes from the metadata of the broker that is asked,
and in a cluster these lag behind one another by about the time that the controller's log takes to reach all of them.

Where the broker reports no ids, records are compared instead. Each check reads the newest record before the position,
and then the one that the check before had read, which must still be the same. The new one is read first, so that it is
of the log of the old one. A record that retention removed proves nothing. The embedded broker cannot delete a topic:
there nothing is checked.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Final

import structlog

from streamsvm.errors import LogGap, TopicMissing, TransientError
from streamsvm.kafka import GONE_AFTER_S, Cluster, Record, RecordFetcher, Recreated

log = structlog.get_logger("streamsvm.identity")

FETCH_TIMEOUT_S: Final = 10.0


class Absence:
    """How long brokers have said that a topic does not exist: one that has just started may not know its topics yet."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._since: float | None = None

    def lasts(self) -> bool:
        """Note that it was said once more; return whether the topic is gone."""
        now = self._monotonic()
        self._since = now if self._since is None else self._since
        return now - self._since >= GONE_AFTER_S

    def ended(self) -> None:
        """Note that the topic exists."""
        self._since = None


class TopicIdentity:
    """The topic that was read first under a name.

    Not thread-safe. Blocks at construction only where the broker gives no ids, as `confirm` does.

    Parameters
    ----------
    cluster : Cluster
    topic : str
    topic_id : str
        The id under which it was read first; empty if the broker reports none.
    reached : mapping of partition to int
        The next offset to read in each partition, for brokers that report no ids.
    remedy : str, optional
        What a person can do if the topic was recreated.
    monotonic : callable
        Seconds.
    """

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        topic_id: str,
        reached: Mapping[int, int],
        *,
        remedy: str = "",
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster, self._topic = cluster, topic
        self.topic_id, self.remedy = topic_id, remedy
        self._marks: dict[int, tuple[int, str]] = {}
        self._absence = Absence(monotonic)
        self._compares = not (topic_id or cluster.embedded)
        if self._compares:
            log.warning(
                "topic_without_id",
                topic=topic,
                remedy="no action needed: the broker gives no topic ids, so a topic that is deleted and made again is "
                "found by its records",
            )
            self.confirm(reached)

    def confirm(self, reached: Mapping[int, int]) -> None:
        """Raise unless everything fetched until now is of this topic; blocks at most about the request timeout.

        Without ids, it blocks for two reads of each partition.

        Parameters
        ----------
        reached : mapping of partition to int
            The next offset to read in each partition.

        Raises
        ------
        Recreated
            If the name is another topic's by now.
        LogGap
            If there is no such topic, and brokers have said so for `GONE_AFTER_S`.
        TransientError
            If the broker does not answer: call this again before the records are used.
        ConfigurationError
            If the broker refuses this client.
        """
        try:
            if self.topic_id:
                self._compare_ids()
            elif self._compares:
                self._compare_records(reached)
        except TopicMissing as missing:
            if self._absence.lasts():
                raise LogGap(f"the topic {self._topic} no longer exists", self.remedy) from missing
            raise TransientError(missing.what, "The broker is asked again.") from missing
        self._absence.ended()

    def forget(self) -> None:
        """Forget the records that were read: another topic of the name is read from its beginning."""
        self._marks.clear()

    def _compare_ids(self) -> None:
        found = self._cluster.topic_id(self._topic) or ""
        if found != self.topic_id:
            raise Recreated(
                f"the topic {self._topic} was recreated: its id was {self.topic_id} and is now {found or 'unknown'}",
                self.remedy,
                topic_id=found,
            )

    def _compare_records(self, reached: Mapping[int, int]) -> None:
        with closing(self._cluster.reader()) as reader:
            newer = {
                partition: (offset - 1, _hash(record))
                for partition, offset in reached.items()
                if offset > 0 and (record := self._fetched(reader, partition, offset - 1)) is not None
            }
            for partition, (offset, known) in self._marks.items():
                record = self._fetched(reader, partition, offset)
                # A record that is gone is only then no sign of another log if the log begins after it.
                if record is None and offset < self._cluster.log_range(self._topic, partition)[0]:
                    continue  # retention removed it
                if record is None or _hash(record) != known:
                    raise Recreated(
                        f"the topic {self._topic} was recreated or truncated: the record at offset {offset} of "
                        f"{self._topic}[{partition}] is not the one that was read",
                        self.remedy,
                    )
        self._marks |= newer

    def _fetched(self, reader: RecordFetcher, partition: int, offset: int) -> Record | None:
        return reader.fetch_one(self._topic, partition, offset, FETCH_TIMEOUT_S)


def identity_of(cluster: Cluster, topic: str, *, remedy: str = "") -> TopicIdentity:
    """Return the identity of the topic that has a name now, of which nothing was read yet.

    Raises
    ------
    TopicMissing, BrokerUnavailable, ConfigurationError
        As of `Cluster.topic_id`.
    """
    return TopicIdentity(cluster, topic, cluster.topic_id(topic) or "", {}, remedy=remedy)


def _hash(record: Record) -> str:
    """Return what identifies a record among others at its offset; a replay of the same values has other times."""
    digest = hashlib.sha256(str(record.timestamp_ms).encode())
    for part in (record.key, record.value):
        digest.update(b"-" if part is None else b"%d:" % len(part) + part)
    return digest.hexdigest()
