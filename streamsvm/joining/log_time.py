"""The time of a log: how far the timestamps of its records, which others write, have come.

**The rule.** The time of a record is that of the record before it, or its own timestamp if that is later, but not at
any distance: a timestamp more than a minute (`AHEAD_MS`) beyond the time so far counts only if it is *confirmed*: of
the next `OF` records of the partition, `CONFIRM` at least reach it, or are a minute short of it at most. Else the
record keeps its place under the time so far, and is named; nothing is refused for its time. So one clock that is wrong
moves nothing, and the time of every record is a function of the log, known as soon as enough records follow it:
nothing is remembered but the time so far.

What follows from it:

- *A busy partition*: records less than a minute apart are never waited for.
- *A slow partition*: a record more than a minute after the one before it has its own time, which is known once
  `CONFIRM` more records are there. Where one an hour comes, it is known four hours later.
- *A gap, a night's pause*: the first record after it is such a record; those behind it confirm it. The time leaps at
  its place, and no record after the pause has a time of before.
- *The start*: before the first record the time is -1, so that the first one needs to be confirmed, too. One that is
  not has the time of the first of the next `OF` that is; of none of them, -1.
- *The end*: records behind a timestamp that is neither confirmed nor refuted yet wait for those that will decide it,
  `OF` at most. Where nothing more can come, as in ranges that were read to their end, half of what follows is enough.
- *Its limit*: a wrong clock that writes five of nine records one after another moves the time, and nothing moves it
  back.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamsvm.compiling import njit

AHEAD_MS: Final = 60_000
"""How far beyond the time so far a timestamp may be that counts at once."""
CONFIRM: Final = 4
OF: Final = 8
"""One further ahead counts where so many, of so many records after it, reach it."""
ENOUGH: Final = CONFIRM + 1
"""As many records of one timestamp move the time to it, wherever it was."""
LATEST_MS: Final = 1 << 62
"""Later timestamps count as this one, so that a horizon can be added to it."""

_REFUTED: Final = 0
_CONFIRMED: Final = 1
_OPEN: Final = 2


class Ahead(NamedTuple):
    """A record whose timestamp is too far ahead to count, and the time of its log, in milliseconds since the epoch."""

    offset: int
    timestamp_ms: int
    time_ms: int


class Decided(NamedTuple):
    """Times of rows.

    Attributes
    ----------
    time_ms : ndarray of shape (k,), int64
        Of the first k rows; those behind them need more records.
    ahead : int
        Records among those whose timestamp does not count.
    newest : int
        The first row of the last of these; -1 if there is none.
    """

    time_ms: NDArray[np.int64]
    ahead: int
    newest: int


def decided(
    timestamp_ms: NDArray[np.int64], last: NDArray[np.bool_], begun_ms: int, *, closed: bool = False
) -> Decided:
    """Return the times of rows of a partition, in their order.

    Parameters
    ----------
    timestamp_ms : ndarray of shape (n,), int64
        Of each row's record; -1 where there is none.
    last : ndarray of shape (n,), bool
        Whether a row is its record's last.
    begun_ms : int
        The time before the first row.
    closed : bool
        Nothing more can come: then every time is known.
    """
    times = np.maximum.accumulate(np.maximum(timestamp_ms, begun_ms))
    # As nearly always, no step is long: then the time is the greatest timestamp so far.
    begun = not len(times) or int(times[0]) - AHEAD_MS <= begun_ms
    if begun and not (times[1:] - AHEAD_MS > times[:-1]).any():
        return Decided(times, 0, -1)
    known, ahead, newest = _decide(timestamp_ms, last, begun_ms, closed, times)
    return Decided(times[:known], ahead, newest)


@njit(cache=True, nogil=True)
def _after(last: NDArray[np.bool_], at: int) -> int:
    """Return where the record after that of a row begins."""
    while at < len(last) and not last[at]:
        at += 1
    return min(at + 1, len(last))


@njit(cache=True, nogil=True)
def _verdict(timestamp_ms: NDArray[np.int64], last: NDArray[np.bool_], at: int, time: int, closed: bool) -> int:
    """Return whether the records from a row on confirm the timestamp of the one before them."""
    seen, reached = 0, 0
    while at < len(last) and seen < OF:
        seen += 1
        reached += timestamp_ms[at] >= time - AHEAD_MS
        if reached == CONFIRM:
            return _CONFIRMED
        if seen - reached > OF - CONFIRM:
            return _REFUTED
        at = _after(last, at)
    if not closed:
        return _OPEN
    return _CONFIRMED if 2 * reached >= seen else _REFUTED


@njit(cache=True, nogil=True)
def _start(timestamp_ms: NDArray[np.int64], last: NDArray[np.bool_], at: int, closed: bool) -> tuple[int, int]:
    """Return the first time that counts among the records from a row on, -1 if none does, and whether that is known."""
    for _ in range(OF):
        if at >= len(last):
            return -1, _CONFIRMED if closed else _OPEN
        time, after = min(timestamp_ms[at], LATEST_MS), _after(last, at)
        verdict = _verdict(timestamp_ms, last, after, time, closed) if time >= AHEAD_MS else _CONFIRMED
        if verdict == _OPEN:
            return -1, _OPEN
        if verdict == _CONFIRMED and time >= 0:
            return time, _CONFIRMED
        at = after
    return -1, _CONFIRMED


@njit(cache=True, nogil=True)
def _decide(
    timestamp_ms: NDArray[np.int64],
    last: NDArray[np.bool_],
    now: int,
    closed: bool,
    times: NDArray[np.int64],
) -> tuple[int, int, int]:
    """Put out the times of rows; return of how many, how many records were ahead, and where the last of these is."""
    at, ahead, newest = 0, 0, -1
    while at < len(last):
        time, after = min(timestamp_ms[at], LATEST_MS), _after(last, at)
        if time - AHEAD_MS <= now:
            now = max(now, time)
        else:
            verdict = _verdict(timestamp_ms, last, after, time, closed)
            if verdict == _REFUTED and now < 0:
                begun, known = _start(timestamp_ms, last, after, closed)
                if known == _OPEN:
                    break
                now = begun
            if verdict == _OPEN:
                break
            if verdict == _CONFIRMED:
                now = time
            else:
                ahead += 1
                newest = at
        times[at:after] = now
        at = after
    return at, ahead, newest


def warm_up() -> None:
    """Compile, or load from numba's file cache, what a log with a leap runs."""
    decided(np.array([2 * AHEAD_MS]), np.ones(1, np.bool_), -1)
