"""Rules of a time zone as a table, because the rules that a machine knows differ by its age and language.

A table is written once, when the configuration is read, and travels in the recipe. Its first entry holds from the
beginning of time, the last one for ever; `FIRST_YEAR` to `LAST_YEAR` are covered by the rules known at that moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

Transitions = tuple[tuple[int, int], ...]
"""(seconds since the epoch, offset from UTC in seconds from then on), in ascending order."""

UTC_NAME: Final = "UTC"
FIRST_YEAR: Final = 1970
LAST_YEAR: Final = 2070
"""A hundred years take at most some 5 kB of a version."""
MOST_TRANSITIONS: Final = 1_000
LARGEST_OFFSET_S: Final = 86_400
_STEP_S: Final = 86_400
"""No zone changes its offset, and changes it back, within a day."""


def transitions_of(zone: tzinfo) -> Transitions:
    """Write a zone's rules as a table."""
    first, last = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (FIRST_YEAR, LAST_YEAR))
    table = [(first, _offset_at(first, zone))]
    for later in range(first + _STEP_S, last + 1, _STEP_S):
        if (offset := _offset_at(later, zone)) != table[-1][1]:
            table.append((_changed_before(later, zone, offset), offset))
    return tuple(table)


def _offset_at(seconds: int, zone: tzinfo) -> int:
    offset = datetime.fromtimestamp(seconds, zone).utcoffset()
    assert offset is not None
    return int(offset.total_seconds())


def _changed_before(later: int, zone: tzinfo, offset: int) -> int:
    """Return the second since which an offset holds that did not hold a step earlier."""
    low, high = later - _STEP_S, later
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _offset_at(middle, zone) == offset else (middle, high)
    return high


class ZoneTable:
    """Offsets of a zone, looked up for many times at once.

    Parameters
    ----------
    transitions : sequence of (int, int)
    """

    def __init__(self, transitions: Sequence[tuple[int, int]]) -> None:
        self._since = np.array([since for since, _ in transitions], np.int64)
        self._offset = np.array([offset for _, offset in transitions], np.int64)

    def offset_at(self, seconds: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the offset from UTC, in seconds, at times in seconds since the epoch; both of shape (n,)."""
        return self._offset[np.maximum(np.searchsorted(self._since, seconds, "right") - 1, 0)]

    def utc_of_local(self, seconds: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the time at which the zone's clocks show a local time.

        The offset is looked up twice: for the local time as if it were UTC, and for the time which that gives. So a
        local time that the clocks show twice, or skip, means one certain time, in every language the same.
        """
        return seconds - self.offset_at(seconds - self.offset_at(seconds))


UTC_TABLE: Final[Transitions] = ((0, 0),)


def check_transitions(name: str, table: Sequence[tuple[int, int]]) -> None:
    """Refuse what is not a table of transitions.

    Raises
    ------
    ValueError
    """
    if not 1 <= len(table) <= MOST_TRANSITIONS:
        raise ValueError(f"the zone {name} has {len(table)} transitions; 1 to {MOST_TRANSITIONS} are allowed")
    if any(one[0] >= other[0] for one, other in pairwise(table)):
        raise ValueError(f"the transitions of the zone {name} are not in ascending order")
    if any(abs(offset) > LARGEST_OFFSET_S for _, offset in table) or any(abs(since) > 1 << 40 for since, _ in table):
        raise ValueError(f"the zone {name} has a transition that is out of range")
