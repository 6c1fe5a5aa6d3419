"""Stopwatches and intervals: what every benchmark shares.

A figure is a median over rounds with its least and greatest: on a busy machine the interval says more.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

ROUNDS_AT_LEAST = 5
"""Fewer rounds give no interval worth reporting."""


@dataclass(frozen=True, slots=True)
class Lap:
    """Time since a stopwatch began.

    Attributes
    ----------
    wall_s : float
    cpu_s : float
        CPU seconds of every thread of this process: the client's own and the training thread among them.
    loop_s : float
        CPU seconds of the calling thread alone.
    """

    wall_s: float
    cpu_s: float
    loop_s: float


class Stopwatch:
    """Measures from its construction; belongs to the thread that made it."""

    def __init__(self) -> None:
        self._loop, self._cpu, self._wall = time.thread_time(), time.process_time(), time.perf_counter()

    def lap(self) -> Lap:
        """Return the time so far."""
        return Lap(time.perf_counter() - self._wall, time.process_time() - self._cpu, time.thread_time() - self._loop)


@dataclass(frozen=True, slots=True)
class Interval:
    """Median, least and greatest of one figure over the rounds."""

    median: float
    least: float
    greatest: float

    @staticmethod
    def of(figures: Sequence[float]) -> Interval:
        """Summarise at least one figure."""
        return Interval(statistics.median(figures), min(figures), max(figures))
