"""Limits of dead letters: when so many records are rejected that this is plainly the wrong stream.

A trainer that went on would learn little and fill a topic of dead letters instead, so it stops. An input that has given
enough valid points is the right one: there bad records come from whoever may write to it, and must not stop the trainer
and every restart of it. It goes on, warns, and is not ready until records are accepted again. How many points an
incarnation has learned stands in its checkpoint, in the moments of each partition.

Counted are records, not rows, in the order in which they were read over all partitions; a start begins to count anew.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Final

import structlog

from streamsvm.codec.points import REMEDIES, RejectedRecord
from streamsvm.config import InputConfig
from streamsvm.errors import ConfigurationError
from streamsvm.kafka import Record

log = structlog.get_logger("streamsvm.trainer")

WINDOW_RECORDS: Final = 1_000
"""Records over which the share is taken; before there are so many there is no share."""


class RejectionLimits:
    """Counts rejected records against the limits.

    Parameters
    ----------
    config : InputConfig
    learned : callable
        Returns how many valid points the incarnation has learned, or is about to.

    Attributes
    ----------
    trouble : str
        Which limit the newest records pass although the trainer goes on; empty if none.
    """

    def __init__(self, config: InputConfig, learned: Callable[[], int]) -> None:
        self._config = config
        self._learned = learned
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
            If a limit is passed before `input.proven_after_points`, naming the commonest reason, where the newest
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
        most = self._config.max_consecutive_dead_letters
        for record in records:
            found = bad.get((record.partition, record.offset))
            self._window.append(found is not None)
            self._consecutive = self._consecutive + 1 if found is not None else 0
            if found is not None:
                self._note(found)
            if most and self._consecutive == most and not self._proven:
                raise self._wrong_stream(*self._passed_limit())

    @property
    def _proven(self) -> bool:
        return self._learned() >= self._config.proven_after_points

    def _passed_limit(self) -> tuple[str, str]:
        """Say which limit is passed now, and its option; two empty texts if none is."""
        most, most_share = self._config.max_consecutive_dead_letters, self._config.max_dead_letter_share
        if most and self._consecutive >= most:
            return f"{self._consecutive} records after each other", "max_consecutive_dead_letters"
        share = sum(self._window) / WINDOW_RECORDS
        if most_share and len(self._window) == WINDOW_RECORDS and share > most_share:
            return f"{share:.0%} of the last {WINDOW_RECORDS} records", "max_dead_letter_share"
        return "", ""

    def _settle(self, passed: tuple[str, str]) -> None:
        """Stop, or warn once, if a limit is passed; say when none is any more."""
        how_many, option = passed
        if not how_many:
            if self.trouble:
                log.info("input_accepted_again", topic=self._config.topic)
            self.trouble = ""
            return
        wrong = self._wrong_stream(how_many, option)
        if not self._proven:
            raise wrong
        if not self.trouble:
            log.warning(
                "mostly_rejected",
                what=wrong.what,
                remedy=f"{REMEDIES[self._commonest]} The trainer goes on, and is not ready until records are accepted "
                f"again: see who writes to {self._config.topic}",
            )
        self.trouble = f"{how_many} of {self._config.topic} were rejected"

    def _note(self, found: RejectedRecord) -> None:
        record, first = found.record, found.rejections[0]
        self._reasons[first.reason] += 1
        self._examples[first.reason] = (
            f"{self._config.topic}[{record.partition}]@{record.offset} row {first.row}: {first.what}"
        )

    @property
    def _commonest(self) -> str:
        ((reason, _),) = self._reasons.most_common(1)
        return reason

    def _wrong_stream(self, how_many: str, option: str) -> ConfigurationError:
        reason, count = self._commonest, self._reasons[self._commonest]
        return ConfigurationError(
            f"{how_many} of {self._config.topic} were rejected, most of them ({count}) as {reason}, "
            f"for example {self._examples[reason]}",
            f"{REMEDIES[reason]} Or is input.topic another one? They are in {self._config.dead_letters}; "
            f"input.{option} is the limit, 0 for none.",
        )
