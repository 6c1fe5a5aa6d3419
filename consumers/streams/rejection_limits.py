"""Limits of dead letters: when so many records are rejected that this is plainly the wrong stream.

A daemon that went on would learn or score little and fill a topic of dead letters instead, so it stops. An input that
has given enough valid points is the right one: there bad records come from whoever may write to it, and must not stop
the daemon and every restart of it. It goes on, warns, and is not ready until records are accepted again. How many
points an incarnation has learned stands in its checkpoint, in the moments of each partition; what a scorer has scored
stands in its output topic.

Counted are records, not rows, in the order in which they were read over all partitions; a start begins to count anew.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from typing import Final

import structlog

from consumers import constants
from streamsvm.errors import ConfigurationError
from streamsvm.ingest.decoder import REMEDIES, RejectedRecord
from streamsvm.kafka import Record

WINDOW_RECORDS: Final = 1_000
"""Records over which the share is taken; before there are so many there is no share."""


class RejectionLimits:
    """Counts rejected records against the limits.

    Parameters
    ----------
    topic : str
        Of the records.
    most_share : float
        Largest share of rejected records; 0: no limit of any kind.
    proven : callable
        Tells whether the input has given so many valid points that it is the right one; asked only where a limit is
        passed.
    who : str
        The daemon, for messages: `trainer` or `scorer`.
    hint : str
        What else may be wrong, and where the records are, for the message that ends the daemon.
    remedies : mapping
        What to do about each reason.

    Attributes
    ----------
    trouble : str
        Which limit the newest records pass although the daemon goes on; empty if none.
    """

    def __init__(
        self,
        topic: str,
        most_share: float,
        proven: Callable[[], bool],
        *,
        who: str,
        hint: str,
        remedies: Mapping[str, str] = REMEDIES,
    ) -> None:
        self._topic, self._most_share = topic, most_share
        self._proven = proven
        self._who = who
        self._hint = hint
        self._remedies = remedies
        self._log = structlog.get_logger(f"streamsvm.{who}")
        self.trouble = ""
        self._window: deque[bool] = deque(maxlen=WINDOW_RECORDS)
        self._consecutive = 0
        self._reasons: Counter[str] = Counter()
        self._examples: dict[str, str] = {}

    def count(self, records: Sequence[Record], rejected: Sequence[RejectedRecord]) -> None:
        """Count a batch.

        Raises
        ------
        ConfigurationError
            If a limit is passed before the input is proven, naming the commonest reason, where the newest
            record of that reason is, and what to do about it.
        """
        if not rejected:
            self._window.extend(repeat(False, len(records)))
            self._consecutive = 0
        else:
            self._count(records, rejected)
        self._settle(self._passed_limit())

    def _count(self, records: Sequence[Record], rejected: Sequence[RejectedRecord]) -> None:
        bad = {(one.record.partition, one.record.offset): one for one in rejected}
        most = constants.MOST_REJECTED_IN_A_ROW if self._most_share else 0
        for record in records:
            found = bad.get((record.partition, record.offset))
            self._window.append(found is not None)
            self._consecutive = self._consecutive + 1 if found is not None else 0
            if found is not None:
                self._note(found)
            if most and self._consecutive == most and not self._proven():
                raise self._wrong_stream(self._passed_limit())

    def _passed_limit(self) -> str:
        """Return which limit is passed now; empty if none is."""
        if not self._most_share:
            return ""
        if self._consecutive >= constants.MOST_REJECTED_IN_A_ROW:
            return f"{self._consecutive} records in a row"
        share = sum(self._window) / WINDOW_RECORDS
        if len(self._window) == WINDOW_RECORDS and share > self._most_share:
            return f"{share:.0%} of the last {WINDOW_RECORDS} records"
        return ""

    def _settle(self, how_many: str) -> None:
        """Stop, or warn once, if a limit is passed; say when none is any more."""
        if not how_many:
            if self.trouble:
                self._log.info("input_accepted_again", topic=self._topic)
            self.trouble = ""
            return
        wrong = self._wrong_stream(how_many)
        if not self._proven():
            raise wrong
        if not self.trouble:
            self._log.warning(
                "mostly_rejected",
                what=wrong.what,
                remedy=f"{self._remedies[self._commonest]} The {self._who} continues, but is not ready until "
                f"records are accepted again: find out who writes to {self._topic}",
            )
        self.trouble = f"{how_many} of {self._topic} were rejected"

    def _note(self, found: RejectedRecord) -> None:
        record, first = found.record, found.rejections[0]
        self._reasons[first.reason] += 1
        self._examples[first.reason] = (
            f"{self._topic}[{record.partition}]@{record.offset} row {first.row}: {first.what}"
        )

    @property
    def _commonest(self) -> str:
        ((reason, _),) = self._reasons.most_common(1)
        return reason

    def _wrong_stream(self, how_many: str) -> ConfigurationError:
        reason, count = self._commonest, self._reasons[self._commonest]
        return ConfigurationError(
            f"{how_many} of {self._topic} were rejected, most of them ({count}) because of {reason}, for "
            f"example {self._examples[reason]}",
            f"{self._remedies[reason]} {self._hint}",
        )
