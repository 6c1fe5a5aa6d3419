"""Looks at the input topic while the trainer runs: another thread sends the requests, the loop takes the answers."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import structlog

from consumers import constants
from consumers.settings import InputConfig
from consumers.streams.identity import Absence
from streamsvm.delivery.input_survey import Look, survey
from streamsvm.errors import LogGap, TopicMissing, TransientError
from streamsvm.kafka import Cluster
from streamsvm.points import Positions

log = structlog.get_logger("streamsvm.trainer")


ASK_AGAIN_S: Final = 1.0
"""When brokers are asked again whether there is no such topic."""


class Watch(Protocol):
    """Asks what the broker says about a topic, one question at a time."""

    def ask(self, reached: Mapping[int, int]) -> None:
        """Put the question, unless one is still being answered; `reached` goes into the answer."""

    def take(self) -> Look | None:
        """Return the answer if there is one; raise an error that asking again cannot resolve."""

    def close(self) -> None:
        """Ask no more; does not wait."""


class ThreadedWatch:
    """Answers on a thread of its own for each question, so that a broker that is slow to answer holds nothing up.

    Parameters
    ----------
    cluster : Cluster
    topic : str
    also : callable, optional
        Called on that thread after the question was answered.
    """

    def __init__(self, cluster: Cluster, topic: str, also: Callable[[], None] | None = None) -> None:
        self._cluster = cluster
        self._topic = topic
        self._also = also
        self._asking: threading.Thread | None = None
        self._answer: Look | BaseException | None = None

    def ask(self, reached: Mapping[int, int]) -> None:
        """See `Watch.ask`."""
        # One question at a time: while the broker is away, threads would pile up.
        if self._asking is not None:
            return
        self._asking = threading.Thread(target=self._run, args=(dict(reached),), name="watch", daemon=True)
        self._asking.start()

    def take(self) -> Look | None:
        """See `Watch.take`."""
        if self._asking is None or self._asking.is_alive():
            return None
        self._asking, answer, self._answer = None, self._answer, None
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def close(self) -> None:
        """See `Watch.close`."""

    def _run(self, reached: Mapping[int, int]) -> None:
        try:
            self._answer = look(self._cluster, self._topic, reached)
            if self._also is not None:
                self._also()
        except BaseException as error:  # noqa: BLE001 - handed to the loop, which raises it
            self._answer = error


MakeWatch = Callable[[Cluster, str, Callable[[], None] | None], Watch]


def look(cluster: Cluster, topic: str, reached: Mapping[int, int]) -> Look | None:
    """Return what the broker says about a topic now, None if it does not answer.

    The topic's id is asked for before and after its ranges: they are those of one topic, or there is no answer.
    """
    try:
        before = cluster.describe(topic)
        log_ranges = {partition: cluster.log_range(topic, partition) for partition in before.partitions}
        after = cluster.describe(topic)
    except TopicMissing:
        return Look("", {}, reached, f"the topic {topic} no longer exists")
    except TransientError as error:
        log.debug("watch_unanswered", what=error.what)
        return None
    # Recreated in between: the ranges may be of either topic.
    if after.topic_id != before.topic_id:
        return None
    return Look(before.topic_id or "", log_ranges, reached)


class Surveyor:
    """Asks at an interval, and says what the answers mean.

    Parameters
    ----------
    config : InputConfig
    topic_id : str
        Of the topic that is read.
    watch : Watch
    monotonic : callable
        Seconds.
    remedy : str
        What a person can do about a gap.
    at_once : bool
        Whether to ask at the first turn already: partitions are known to wait.
    """

    def __init__(
        self,
        config: InputConfig,
        topic_id: str,
        watch: Watch,
        monotonic: Callable[[], float],
        *,
        remedy: str,
        at_once: bool = False,
    ) -> None:
        self._config = config
        self._topic_id = topic_id
        self._watch = watch
        self._monotonic = monotonic
        self._remedy = remedy
        self._requested_at = -math.inf if at_once else monotonic()
        self._before: Look | None = None
        self._absence = Absence(monotonic)

    @property
    def log(self) -> Mapping[int, tuple[int, int]]:
        """First offset and end of each partition at the last look; empty before it."""
        return self._before.log if self._before else {}

    def turn(self, surveyed: Callable[[], tuple[Positions, Positions]]) -> Mapping[int, int]:
        """Ask if it is time to, take an answer if there is one; return new partitions and where they begin.

        Parameters
        ----------
        surveyed : callable
            Returns where learning stands, and where reading does: what is read is safe from retention.

        Raises
        ------
        LogGap
            If the log no longer holds what was read, or what is to be read next.
        """
        now = self._monotonic()
        if now - self._requested_at >= constants.WATCH_INTERVAL_S:
            self._requested_at = now
            learned, _ = surveyed()
            self._watch.ask({partition: at.offset for partition, at in learned.items()})
        look = self._watch.take()
        if look is None:
            return {}
        if look.missing and not self._absence.lasts():
            self._requested_at += ASK_AGAIN_S - constants.WATCH_INTERVAL_S
            return {}
        if not look.missing:
            self._absence.ended()
        _, reading = surveyed()
        found = survey(self._config.topic, self._topic_id, reading, look, self._before)
        self._before = look
        if found.gap:
            raise LogGap(found.gap, self._remedy)
        for partition, behind in found.overtaking.items():
            log.warning(
                "retention_close",
                partition=partition,
                records=behind,
                remedy="retention is about to delete unread records: increase the topic's retention, or make the "
                "trainer faster",
            )
        return found.added
