"""Looks now and then whether readers of committed records are blocked in the partitions that a daemon writes.

Writers do not notice an open transaction: they go on writing after it, but readers of committed records receive nothing
from there on. So the daemons check. A thread asks the broker; the main loop only collects the answers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import structlog

from consumers.metrics import Metrics
from streamsvm.errors import StreamsvmError
from streamsvm.kafka import Place, Watermarks

log = structlog.get_logger("streamsvm.delivery")

INTERVAL_S: Final = 5.0


class Standstill:
    """Watches the stable offsets of partitions.

    Parameters
    ----------
    ask : callable
        Given partitions, returns how far they go; may block, and is called on a thread of its own.
    places : iterable of (str, int)
    patience_s : float
        How long a stable offset may stand still below the end: longer than any living transaction.
    monotonic : callable
        Seconds.
    metrics : Metrics
        `streamsvm_output_held_up_seconds` is put there.
    """

    def __init__(
        self,
        ask: Callable[[Iterable[Place]], Mapping[Place, Watermarks]],
        places: Iterable[Place],
        patience_s: float,
        monotonic: Callable[[], float],
        metrics: Metrics,
    ) -> None:
        self._ask = ask
        self._places = tuple(places)
        self._patience_s = patience_s
        self._monotonic = monotonic
        self._metrics = metrics
        # Not at once: a start settles the same partitions itself.
        self._requested_at = monotonic()
        self._asking: threading.Thread | None = None
        self._answer: Mapping[Place, Watermarks] | None = None
        self._since: dict[Place, tuple[int, float]] = {}
        metrics.put("streamsvm_output_held_up_seconds", 0.0)

    def turn(self) -> str:
        """Ask if it is time to, and take an answer if there is one; return what holds readers up for too long.

        Returns
        -------
        str
            For people; empty if nothing does, as far as is known.
        """
        now = self._monotonic()
        # The answer is taken only after its thread has ended, so that no lock is needed.
        if self._asking is not None and not self._asking.is_alive():
            self._asking = None
            if self._answer is not None:
                self._note(self._answer, now)
        elif self._asking is None and now - self._requested_at >= INTERVAL_S:
            # An old answer must not be taken for one that failed to come.
            self._requested_at, self._answer = now, None
            self._asking = self._begin()
        blocked = {place: now - since for place, (_, since) in self._since.items()}
        longest_s = max(blocked.values(), default=0.0)
        self._metrics.put("streamsvm_output_held_up_seconds", longest_s)
        if longest_s <= self._patience_s:
            return ""
        (topic, partition), _ = max(blocked.items(), key=lambda one: one[1])
        offset = self._since[topic, partition][0]
        return (
            f"readers have been held up at {topic}[{partition}]@{offset} for {longest_s:.0f} s by an open transaction"
        )

    def _begin(self) -> threading.Thread:
        thread = threading.Thread(target=self._run, name="standstill", daemon=True)
        thread.start()
        return thread

    def _note(self, marks: Mapping[Place, Watermarks], now: float) -> None:
        """Remember since when each stable offset stands still below the end."""
        for place, mark in marks.items():
            known = self._since.get(place)
            # Nothing is open below the end: readers get everything.
            if mark.stable >= mark.end:
                self._since.pop(place, None)
            # A stable offset that moved belongs to another transaction, whose time begins now.
            elif known is None or known[0] != mark.stable:
                self._since[place] = mark.stable, now

    def _run(self) -> None:
        try:
            self._answer = self._ask(self._places)
        except StreamsvmError as error:
            log.debug("standstill_unanswered", what=error.what)


AskMarks = Callable[[Iterable[Place]], Mapping[Place, Watermarks]]
MakeStandstill = Callable[[AskMarks, Iterable[Place], float, Callable[[], float], Metrics], Standstill]
