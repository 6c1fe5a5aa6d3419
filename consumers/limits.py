"""Limits of dead letters: when so many records are rejected that this is plainly the wrong stream.

A trainer that went on would learn little and fill a topic of dead letters instead. Counted are records, not rows, in
the order in which they were read over all partitions; a start begins to count anew.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from itertools import repeat
from typing import Final

from streamsvm.codec.points import REMEDIES, RejectedRecord
from streamsvm.config import InputConfig
from streamsvm.errors import ConfigurationError
from streamsvm.kafka import Record

WINDOW_RECORDS: Final = 1_000
"""Records over which the share is taken; before there are so many there is no share."""


class RejectionLimits:
    """Counts rejected records against the limits.

    Parameters
    ----------
    config : InputConfig
    """

    def __init__(self, config: InputConfig) -> None:
        self._config = config
        self._window: deque[bool] = deque(maxlen=WINDOW_RECORDS)
        self._consecutive = 0
        self._reasons: Counter[str] = Counter()
        self._examples: dict[str, str] = {}

    def count(self, records: Sequence[Record], rejected: Sequence[RejectedRecord]) -> None:
        """Count a batch.

        Raises
        ------
        ConfigurationError
            If a limit is passed, naming the commonest reason, where the newest record of that reason is, and what to
            do about it.
        """
        if not rejected:
            self._window.extend(repeat(False, len(records)))
            self._consecutive = 0
            return
        bad = {(one.record.partition, one.record.offset): one for one in rejected}
        for record in records:
            found = bad.get((record.partition, record.offset))
            self._window.append(found is not None)
            self._consecutive = self._consecutive + 1 if found is not None else 0
            if found is not None:
                self._note(found)
            most = self._config.max_consecutive_dead_letters
            if most and self._consecutive >= most:
                raise self._wrong_stream(
                    f"{self._consecutive} records after each other", "max_consecutive_dead_letters"
                )
        share = sum(self._window) / WINDOW_RECORDS
        most_share = self._config.max_dead_letter_share
        if most_share and len(self._window) == WINDOW_RECORDS and share > most_share:
            raise self._wrong_stream(f"{share:.0%} of the last {WINDOW_RECORDS} records", "max_dead_letter_share")

    def _note(self, found: RejectedRecord) -> None:
        record, first = found.record, found.rejections[0]
        self._reasons[first.reason] += 1
        self._examples[first.reason] = (
            f"{self._config.topic}[{record.partition}]@{record.offset} row {first.row}: {first.what}"
        )

    def _wrong_stream(self, how_many: str, option: str) -> ConfigurationError:
        (reason, count), *_ = self._reasons.most_common(1)
        return ConfigurationError(
            f"{how_many} of {self._config.topic} were rejected, most of them ({count}) as {reason}, "
            f"for example {self._examples[reason]}",
            f"{REMEDIES[reason]} Or is input.topic another one? They are in {self._config.dead_letters}; "
            f"input.{option} is the limit, 0 for none.",
        )
