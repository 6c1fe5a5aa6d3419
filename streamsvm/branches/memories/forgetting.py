"""What rows of long ago still count: all of them, those of a window, or the less the older they are.

A rule looks at *stretches*: ranges of the log that follow one another and cover what a partition holds, the oldest
first. It reads no clock. Age is counted in rows, or in time, which is what the rows say: a leaf's time is the median of
its rows' times, and a stretch is as late as the latest leaf in it or before it. So one record of the year 2099 changes
nothing, times that run backwards count as those before them, rows without times have that of the rows before them, and
a stream that is idle forgets nothing.

Invariant: every answer is a pure function of the stretches, and of the latest time where time counts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from streamsvm.config.sizes import GRAIN, MOST_HALF_LIVES


class Stretch(NamedTuple):
    """A range of the log: its rows, and the least and the greatest time of its leaves (-1: none)."""

    rows: int
    times: tuple[int, int]


class ForgettingRule(ABC):
    """A rule; this one forgets nothing.

    Parameters
    ----------
    length : float
        Of the window, or half-life: rows, or milliseconds.
    """

    by_time = False
    """Whether age is counted in time."""

    def __init__(self, length: float) -> None:
        self.length = length

    @abstractmethod
    def factors(self, stretches: Sequence[Stretch], now_ms: int) -> list[float]:
        """Return by what the weights of each stretch count.

        Parameters
        ----------
        stretches : sequence of Stretch
            The last one ends where the log was read to.
        now_ms : int
            The latest time, of all partitions.
        """

    @abstractmethod
    def expired(self, stretches: Sequence[Stretch]) -> int:
        """Return how many stretches, the oldest ones, will never count again."""

    @abstractmethod
    def joinable(self, older: Stretch, newer: Stretch) -> bool:
        """Return whether two stretches may become one."""

    def ageing(self, older: Stretch, newer: Stretch) -> float:  # noqa: ARG002
        """Return by what the older of two stretches that become one is multiplied."""
        return 1.0


def latest(stretches: Sequence[Stretch]) -> list[int]:
    """Return how late each stretch is: the greatest time of it and of those before it; -1 before the first time."""
    return list(accumulate((stretch.times[1] for stretch in stretches), max))


def _rows_after(stretches: Sequence[Stretch]) -> list[int]:
    """Return how many rows come after each stretch."""
    behind = accumulate((stretch.rows for stretch in reversed(stretches[1:])), initial=0)
    return list(behind)[::-1]


def _newest_stays(expired: Sequence[bool]) -> int:
    """Return how many of the first are expired; never all."""
    count = 0
    while count < len(expired) - 1 and expired[count]:
        count += 1
    return count


class Everything(ForgettingRule):
    """Nothing is forgotten here: shares of horizons say what counts."""

    def __init__(self) -> None:
        super().__init__(float("inf"))

    def factors(self, stretches: Sequence[Stretch], now_ms: int) -> list[float]:  # noqa: ARG002
        """See `ForgettingRule`."""
        return [1.0] * len(stretches)

    def expired(self, stretches: Sequence[Stretch]) -> int:  # noqa: ARG002
        """See `ForgettingRule`."""
        return 0

    def joinable(self, older: Stretch, newer: Stretch) -> bool:  # noqa: ARG002
        """See `ForgettingRule`."""
        return True


class Window(ForgettingRule):
    """The newest rows count, the others do not; a stretch that is partly inside counts by its share inside."""

    def factors(self, stretches: Sequence[Stretch], now_ms: int) -> list[float]:  # noqa: ARG002
        """See `ForgettingRule`."""
        inside = (self.length - after for after in _rows_after(stretches))
        pairs = zip(stretches, inside, strict=True)
        return [min(1.0, max(0.0, rest / stretch.rows)) if stretch.rows else 1.0 for stretch, rest in pairs]

    def expired(self, stretches: Sequence[Stretch]) -> int:
        """See `ForgettingRule`."""
        return _newest_stays([after >= self.length for after in _rows_after(stretches)])

    def joinable(self, older: Stretch, newer: Stretch) -> bool:
        """See `ForgettingRule`."""
        return older.rows + newer.rows <= self.length / GRAIN


class TimeWindow(ForgettingRule):
    """The same by time: a stretch that is partly inside counts by its share of time inside, as if rows came evenly."""

    by_time = True

    def factors(self, stretches: Sequence[Stretch], now_ms: int) -> list[float]:
        """See `ForgettingRule`."""
        begin, found, before = now_ms - self.length, list[float](), -1
        for stretch, end in zip(stretches, latest(stretches), strict=True):
            first = max(before, stretch.times[0])
            share = (end - begin) / (end - first) if end > first >= 0 else float(end > begin or end < 0)
            found.append(min(1.0, max(0.0, share)))
            before = end
        return found

    def expired(self, stretches: Sequence[Stretch]) -> int:
        """See `ForgettingRule`."""
        ends = latest(stretches)
        return _newest_stays([0 <= end <= ends[-1] - self.length for end in ends])

    def joinable(self, older: Stretch, newer: Stretch) -> bool:
        """See `ForgettingRule`."""
        times = [time for stretch in (older, newer) for time in stretch.times if time >= 0]
        return not times or max(times) - min(times) <= self.length / GRAIN


class Decay(ForgettingRule):
    """Every row counts half as much after each half-life."""

    def factors(self, stretches: Sequence[Stretch], now_ms: int) -> list[float]:  # noqa: ARG002
        """See `ForgettingRule`."""
        return [_half(after / self.length) for after in _rows_after(stretches)]

    def expired(self, stretches: Sequence[Stretch]) -> int:
        """See `ForgettingRule`."""
        return _newest_stays([after >= MOST_HALF_LIVES * self.length for after in _rows_after(stretches)])

    def joinable(self, older: Stretch, newer: Stretch) -> bool:  # noqa: ARG002
        """See `ForgettingRule`."""
        return True

    def ageing(self, older: Stretch, newer: Stretch) -> float:  # noqa: ARG002
        """See `ForgettingRule`."""
        return _half(newer.rows / self.length)


class TimeDecay(ForgettingRule):
    """The same by time."""

    by_time = True

    def factors(self, stretches: Sequence[Stretch], now_ms: int) -> list[float]:
        """See `ForgettingRule`."""
        return [_half(max(0, now_ms - end) / self.length) if end >= 0 else 1.0 for end in latest(stretches)]

    def expired(self, stretches: Sequence[Stretch]) -> int:
        """See `ForgettingRule`."""
        ends = latest(stretches)
        return _newest_stays([0 <= end <= ends[-1] - MOST_HALF_LIVES * self.length for end in ends])

    def joinable(self, older: Stretch, newer: Stretch) -> bool:  # noqa: ARG002
        """See `ForgettingRule`."""
        return True

    def ageing(self, older: Stretch, newer: Stretch) -> float:
        """See `ForgettingRule`."""
        if min(older.times[1], newer.times[1]) < 0:
            return 1.0
        return _half(max(0, newer.times[1] - older.times[1]) / self.length)


def _half(half_lives: float) -> float:
    # Further back everything is dropped anyhow; a weight must stay positive, and far above the least number there is.
    return float(0.5 ** min(half_lives, 2.0 * MOST_HALF_LIVES))
